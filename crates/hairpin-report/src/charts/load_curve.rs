//! The load curve: messages delivered over messages offered, and below it one-way latency; a ring marks the knee.

use std::collections::BTreeMap;

use hairpin_model::{CaseSummary, Figure, Knee};

use super::plot::{Curve, Place, Plot, Point, Scale, legend, log_scale, looks_in, side_by_side};
use super::quantity::Quantity;
use super::series::Looks;
use crate::one_way::{Blocks, Series, Stand, varied};

/// The two charts; `None` if no series has two rates.
pub(crate) fn charts(
    knees: &[Knee],
    blocks: &Blocks<'_>,
    looks: &BTreeMap<String, Looks>,
) -> Option<(String, Option<String>)> {
    let rate = |value: f64| Quantity::Rate.tick(value);
    let valid = || blocks.rows().filter(|row| row.valid);
    let offered: Vec<f64> = valid().map(varied).collect();
    let x = log_scale(offered.iter().copied(), "messages offered per second (log scale)", 6, rate)?;
    let delivered = valid().filter_map(|row| Place::of(delivered(row))).flat_map(Place::values);
    let y =
        log_scale(delivered.chain(offered.iter().copied()), "messages delivered per second (log scale)", 8, rate)?;
    let plots = |of: &dyn Fn(&Stand<'_>) -> Option<(String, String)>| -> Vec<(String, String)> {
        blocks.all.iter().filter_map(of).collect()
    };
    let above = plots(&|stand| delivered_plot(knees, stand, &x, &y, looks));
    if above.is_empty() {
        return None;
    }
    let whole = ("<i class=\"key-behind\" aria-hidden=\"true\"></i>".to_owned(), "all delivered".to_owned());
    let ring = "<svg class=\"swatch\" width=\"20\" height=\"20\" aria-hidden=\"true\"><circle class=\"knee\" cx=\"10\" \
                cy=\"10\" r=\"9\"/></svg>";
    let marked = valid().any(|row| is_knee(knees, row));
    let knee = marked.then(|| (ring.to_owned(), "knee: the highest rate delivered whole (99 %)".to_owned()));
    let more: Vec<(String, String)> = [whole].into_iter().chain(knee).collect();
    let above = side_by_side(&above, &legend(blocks, looks, &more));

    let latencies = valid().flat_map(|row| [row.primary().latency_ns.p50, row.primary().latency_ns.p99]);
    let places = latencies.filter_map(Place::of).flat_map(Place::values);
    let below = log_scale(places, "one-way latency, due to received (log scale)", 8, |ns| Quantity::Latency.tick(ns));
    let below = below.map(|y| plots(&|stand| latency_plot(stand, &x, &y, looks)));
    let below = below.filter(|plots| !plots.is_empty()).map(|plots| {
        let line = |class: &str| format!("<i class=\"{class}\" aria-hidden=\"true\"></i>");
        let more = [(line("key-plain"), "p50".to_owned()), (line("key-plain broken"), "p99".to_owned())];
        side_by_side(&plots, &legend(blocks, looks, &more))
    });
    Some((above, below))
}

fn delivered(row: &CaseSummary) -> Option<Figure> {
    row.one_way()?.delivered_per_s
}

/// Whether a case has the highest delivered rate of its sweep; never if the maximum of all rates was delivered.
fn is_knee(knees: &[Knee], row: &CaseSummary) -> bool {
    let rate = row.case.primary().load.rate_per_s();
    knees.iter().any(|knee| {
        knee.not_delivered_per_s.is_some() && knee.delivered_per_s == rate && knee.cases.contains(&row.id)
    })
}

fn delivered_plot(
    knees: &[Knee],
    stand: &Stand<'_>,
    x: &Scale,
    y: &Scale,
    looks: &BTreeMap<String, Looks>,
) -> Option<(String, String)> {
    let curves = stand.series.iter().map(|series| {
        let point = |row: &&CaseSummary| {
            let y = Place::of(delivered(row)).filter(|_| row.valid)?;
            let ring = is_knee(knees, row);
            let delivered = Quantity::Rate.with_bounds(delivered(row)?);
            let knee = if ring { "; the knee" } else { "" };
            let words = format!("{}: delivered {delivered}{knee}", offered_words(series, row));
            Some(Point { x: Place::bare(varied(row)), y, words, label: String::new(), ring })
        };
        Curve { looks: looks_in(looks, series), points: series.rows.iter().filter_map(point).collect() }
    });
    let curves: Vec<Curve> = curves.collect();
    let low = x.axis.low.max(y.axis.low);
    let high = x.axis.high.min(y.axis.high);
    let described = format!("Messages delivered per second by messages offered, {}", stand.title);
    let plot = Plot { described, x, y, curves, behind: vec![(low, low), (high, high)] };
    plot.has_lines().then(|| (stand.title.clone(), plot.finish()))
}

fn latency_plot(
    stand: &Stand<'_>,
    x: &Scale,
    y: &Scale,
    looks: &BTreeMap<String, Looks>,
) -> Option<(String, String)> {
    let figures = [
        ("p50", 0, (|row| row.primary().latency_ns.p50) as fn(&CaseSummary) -> Option<Figure>),
        ("p99", 1, |row| row.primary().latency_ns.p99),
    ];
    let all = stand.series.iter().flat_map(|series| figures.iter().map(move |figure| (series, figure)));
    let curves = all.map(|(series, (name, dash, of))| {
        let point = |row: &&CaseSummary| {
            let y = Place::of(of(row)).filter(|_| row.valid)?;
            let figure = Quantity::Latency.with_bounds(of(row)?);
            let words = format!("{}: one-way {name} {figure}", offered_words(series, row));
            Some(Point { x: Place::bare(varied(row)), y, words, label: String::new(), ring: false })
        };
        let looks = Looks { dash: *dash, ..looks_in(looks, series) };
        Curve { looks, points: series.rows.iter().filter_map(point).collect() }
    });
    let curves: Vec<Curve> = curves.collect();
    let described = format!("One-way latency, p50 and p99, by messages offered per second, {}", stand.title);
    let plot = Plot { described, x, y, curves, behind: Vec::new() };
    plot.has_lines().then(|| (stand.title.clone(), plot.finish()))
}

fn offered_words(series: &Series<'_>, row: &CaseSummary) -> String {
    format!("{}, offered {}", series.words.join(" "), Quantity::Rate.text(varied(row)))
}
