//! Goodput over the size of a write: a line per series, a plot per stand, all with the same scales.

use std::collections::BTreeMap;

use hairpin_model::{CaseSummary, quantities};

use super::plot::{Curve, Place, Plot, Point, Scale, legend, log_scale, looks_in, measured_scale, side_by_side};
use super::quantity::Quantity;
use super::series::Looks;
use crate::one_way::{Blocks, Stand, varied};
use crate::page_text::tied;

/// `None` if no series has two sizes.
pub(crate) fn chart(blocks: &Blocks<'_>, looks: &BTreeMap<String, Looks>) -> Option<String> {
    let places = blocks.rows().filter_map(place).flat_map(Place::values);
    let y = log_scale(places, "goodput (log scale)", 8, |value| Quantity::Goodput.tick(value))?;
    let label = |bytes: f64| tied(&quantities::bytes(bytes));
    let x = measured_scale(&blocks.varied(), "bytes per write (log scale)", label)?;
    let plots: Vec<(String, String)> = blocks.all.iter().filter_map(|stand| plot(stand, &x, &y, looks)).collect();
    (!plots.is_empty()).then(|| side_by_side(&plots, &legend(blocks, looks, &[])))
}

fn place(row: &CaseSummary) -> Option<Place> {
    if row.valid { Place::of(row.goodput()) } else { None }
}

fn plot(stand: &Stand<'_>, x: &Scale, y: &Scale, looks: &BTreeMap<String, Looks>) -> Option<(String, String)> {
    let curves = stand.series.iter().map(|series| {
        let point = |row: &&CaseSummary| {
            let words = format!(
                "{}, writes of {}: goodput {}",
                series.words.join(" "),
                quantities::exact_bytes(row.case.primary().load.size_bytes()),
                Quantity::Goodput.with_bounds(row.goodput()?)
            );
            Some(Point { x: Place::bare(varied(row)), y: place(row)?, words, label: String::new(), ring: false })
        };
        Curve { looks: looks_in(looks, series), points: series.rows.iter().filter_map(point).collect() }
    });
    let curves: Vec<Curve> = curves.collect();
    let described = format!("Goodput by bytes per write, {}", stand.title);
    let plot = Plot { described, x, y, curves, behind: Vec::new() };
    plot.has_lines().then(|| (stand.title.clone(), plot.finish()))
}
