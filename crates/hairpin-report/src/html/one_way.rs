//! Charts of one-way loads and of probes under load. A chart needs at least two points.

use minijinja::{Value, context};

use hairpin_model::ladder::CaseKind;
use hairpin_model::{FlowSummary, Group, Run};

use crate::charts::{full_rate, goodput_over_time, latency_by_rate, load_curve, losses, plot, under_load};
use crate::one_way::{Blocks, Panel};
use crate::page_text::nbsp;

const INTERVALS: &str = "Bars: 95\u{a0}% intervals over rounds, if available. Invalid cases are not drawn.";

pub(super) fn pictures(run: &Run, groups: &[Group<'_>]) -> Value {
    [CaseKind::Messages, CaseKind::Streams, CaseKind::Offered]
        .into_iter()
        .flat_map(|kind| of_kind(run, kind, groups))
        .collect()
}

/// Returns the charts of latency, goodput and queue over the time of a round, for each probe and path.
pub(super) fn under_load(run: &Run, groups: &[Group<'_>]) -> Option<Value> {
    let blocks = Blocks::of(CaseKind::UnderLoad, groups, false);
    let looks = plot::looks_of(run, &blocks);
    let chart_of = |panel: &Panel<'_>| {
        let chart_html = under_load::chart(panel, &looks)?;
        Some(context! { title => nbsp(&panel.title), chart_html })
    };
    let charts: Vec<Value> = blocks.all.iter().filter_map(chart_of).collect();
    let legend_html = format!("{}{}", plot::legend(&blocks, &looks, &[]), under_load::key());
    let shared = nbsp(&blocks.shared.in_words());
    (!charts.is_empty()).then(|| context! { charts, legend_html, shared })
}

fn of_kind(run: &Run, kind: CaseKind, groups: &[Group<'_>]) -> Vec<Value> {
    let blocks = Blocks::of(kind, groups, false);
    if blocks.all.is_empty() {
        return Vec::new();
    }
    let looks = plot::looks_of(run, &blocks);
    let causes = "Shares of the messages sent, over all rounds. Causes are read from counters; none is computed by subtraction.";
    let batch = format!("A batch is the number of messages that one call sends. {INTERVALS}");
    let rate = format!(
        "What a larger batch gains in rate and costs in latency. Points to the right and down are better. \
         Numbers: messages per call. {INTERVALS}"
    );
    let missing = format!("The share of the offered messages that was not delivered in time. {INTERVALS}");
    let mut pictures = match kind {
        CaseKind::Messages => vec![
            ("Message rate by batch", batch.as_str(), full_rate::chart(&blocks, &looks)),
            ("Latency against message rate", &rate, latency_by_rate::chart(&blocks, &looks)),
        ],
        CaseKind::Streams => vec![("Goodput by write size", INTERVALS, full_rate::chart(&blocks, &looks))],
        CaseKind::Offered => {
            let (above, below) = load_curve::charts(&run.answer.knees, &blocks, &looks).unzip();
            vec![
                ("Losses against offered load", missing.as_str(), above),
                ("Latency against offered load", INTERVALS, below.flatten()),
            ]
        }
        CaseKind::RoundTrips | CaseKind::Exchanges | CaseKind::Periods | CaseKind::UnderLoad => Vec::new(),
    };
    pictures.push(("Losses by cause", causes, losses::chart(&blocks)));
    let picture = |(title, caption, chart_html): (&str, &str, Option<String>)| {
        chart_html.map(|chart_html| context! { title, caption, chart_html })
    };
    pictures.into_iter().filter_map(picture).collect()
}

/// Returns the charts of goodput and CPU time over the time of a round, in one panel per group.
pub(super) fn over_time(groups: &[Group<'_>]) -> Value {
    let panel = |group: &Group<'_>| {
        let blocks = Blocks::of(group.kind, groups, false);
        let chart = |(name, flow): (String, &FlowSummary)| {
            let html = goodput_over_time::chart(flow, &name)?;
            Some(format!("<div class=\"of-case\">{html}</div>"))
        };
        // The charts of a probe's latency include the goodput of the load.
        let rows = group.rows.iter().filter(|row| row.case.replicate == 0 && group.kind != CaseKind::UnderLoad);
        let charts: String = rows.flat_map(|row| blocks.shared.flows(row)).filter_map(chart).collect();
        let chart_html = format!("{}<div class=\"link-charts\">{charts}</div>", goodput_over_time::key());
        (!charts.is_empty()).then(|| context! { group => &group.name, chart_html })
    };
    groups.iter().filter_map(panel).collect()
}
