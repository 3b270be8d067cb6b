//! One-way latency by message rate, to show what a larger batch gains and costs.

use std::collections::BTreeMap;

use hairpin_model::CaseSummary;

use super::plot::{Frame, Place, Point, log_scale};
use super::quantity::Quantity;
use super::series::SeriesStyle;
use crate::one_way::{Blocks, Panel, Series};

const MAX_LABELS: usize = 12;

/// Returns the plots; `None` if no series has two batches with a latency.
pub(crate) fn chart(blocks: &Blocks<'_>, looks: &BTreeMap<String, SeriesStyle>) -> Option<String> {
    let both: Vec<(Place, Place)> = blocks.rows().filter_map(places).collect();
    let rate_title = "messages received per second (log scale)";
    let rates = both.iter().flat_map(|(x, _)| x.values());
    let x = log_scale(rates, rate_title, 6, |value| Quantity::Rate.tick(value))?;
    let latencies = both.iter().flat_map(|(_, y)| y.values());
    let y = log_scale(latencies, "one-way latency, p50 (log scale)", 8, |value| Quantity::Latency.tick(value))?;
    let frame = Frame { blocks, looks, x: &x, y: &y };
    let point = |panel: &Panel<'_>, series: &Series<'_>, row: &CaseSummary| {
        let (x, y) = places(row)?;
        let batch = row.case.primary().load.batch();
        let words = format!(
            "{}, batch {batch}: {}, one-way p50 {}",
            series.words.join(" "),
            Quantity::Rate.with_bounds(row.one_way()?.received_per_s?),
            Quantity::Latency.with_bounds(row.primary().latency_ns.p50?)
        );
        let has_labels = panel.series.iter().map(|series| series.rows.len()).sum::<usize>() <= MAX_LABELS;
        let label = if has_labels { batch.to_string() } else { String::new() };
        Some(Point { x, y, words, label, ring: false })
    };
    frame.plots("One-way latency by messages received per second", &[], |panel, series| {
        vec![frame.curve(series, |row| point(panel, series, row))]
    })
}

fn places(row: &CaseSummary) -> Option<(Place, Place)> {
    let rate = Place::of(row.one_way()?.received_per_s).filter(|_| row.valid)?;
    Some((rate, Place::of(row.primary().latency_ns.p50)?))
}
