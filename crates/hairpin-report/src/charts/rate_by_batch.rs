//! Messages received per second by messages per call, with a line per series and a plot per panel. All plots have the
//! same scales.

use std::collections::BTreeMap;

use hairpin_model::{CaseSummary, quantities};

use super::plot::{Frame, Place, Point, legend, log_scale, measured_scale, side_by_side};
use super::quantity::Quantity;
use super::series::SeriesStyle;
use crate::one_way::{Blocks, Series, varied};

/// Returns the plots; `None` if no series has two batch sizes.
pub(crate) fn chart(blocks: &Blocks<'_>, looks: &BTreeMap<String, SeriesStyle>) -> Option<String> {
    let places = blocks.rows().filter_map(place).flat_map(Place::values);
    let y = log_scale(places, "messages received per second (log scale)", 8, |value| Quantity::Rate.tick(value))?;
    let x = measured_scale(&blocks.varied(), "messages per call (log scale)", |batch| batch.to_string())?;
    let frame = Frame { blocks, looks, x: &x, y: &y };
    let point = |series: &Series<'_>, row: &CaseSummary| {
        let words = format!(
            "{}, {} per call: {}",
            series.words.join(" "),
            quantities::counted(row.case.primary().load.batch(), "message"),
            Quantity::Rate.with_bounds(row.one_way()?.received_per_s?)
        );
        Some(Point { x: Place::bare(varied(row)), y: place(row)?, words, label: String::new(), ring: false })
    };
    let plots = frame.plots("Messages received per second by messages per call", &[], |_, series| {
        vec![frame.curve(series, |row| point(series, row))]
    });
    (!plots.is_empty()).then(|| side_by_side(&plots, &legend(blocks, looks, &[])))
}

fn place(row: &CaseSummary) -> Option<Place> {
    if row.valid { Place::of(row.one_way()?.received_per_s) } else { None }
}
