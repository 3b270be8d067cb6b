//! Messages received per second over messages per call: a line per series, a plot per stand, all with the same scales.

use std::collections::BTreeMap;

use hairpin_model::{CaseSummary, quantities};

use super::plot::{Curve, Place, Plot, Point, Scale, legend, log_scale, looks_in, measured_scale, side_by_side};
use super::quantity::Quantity;
use super::series::Looks;
use crate::one_way::{Blocks, Stand, varied};

/// `None` if no series has two batches.
pub(crate) fn chart(blocks: &Blocks<'_>, looks: &BTreeMap<String, Looks>) -> Option<String> {
    let places = blocks.rows().filter_map(place).flat_map(Place::values);
    let y = log_scale(places, "messages received per second (log scale)", 8, |value| Quantity::Rate.tick(value))?;
    let x = measured_scale(&blocks.varied(), "messages per call (log scale)", |batch| batch.to_string())?;
    let plots = blocks.all.iter().filter_map(|stand| plot(stand, &x, &y, looks));
    let plots: Vec<(String, String)> = plots.collect();
    (!plots.is_empty()).then(|| side_by_side(&plots, &legend(blocks, looks, &[])))
}

fn place(row: &CaseSummary) -> Option<Place> {
    if row.valid { Place::of(row.one_way()?.received_per_s) } else { None }
}

fn plot(stand: &Stand<'_>, x: &Scale, y: &Scale, looks: &BTreeMap<String, Looks>) -> Option<(String, String)> {
    let curves = stand.series.iter().map(|series| {
        let point = |row: &&CaseSummary| {
            let y = place(row)?;
            let words = format!(
                "{}, {} per call: {}",
                series.words.join(" "),
                quantities::counted(row.case.primary().load.batch(), "message"),
                Quantity::Rate.with_bounds(row.one_way()?.received_per_s?)
            );
            Some(Point { x: Place::bare(varied(row)), y, words, label: String::new(), ring: false })
        };
        Curve { looks: looks_in(looks, series), points: series.rows.iter().filter_map(point).collect() }
    });
    let curves: Vec<Curve> = curves.collect();
    let described = format!("Messages received per second by messages per call, {}", stand.title);
    let plot = Plot { described, x, y, curves, behind: Vec::new() };
    plot.has_lines().then(|| (stand.title.clone(), plot.finish()))
}
