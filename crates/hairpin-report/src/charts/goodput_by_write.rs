//! Goodput by write size, with a line per series and a plot per panel. All plots have the same scales.

use std::collections::BTreeMap;

use hairpin_model::{CaseSummary, quantities};

use super::plot::{Frame, Place, Point, legend, log_scale, measured_scale, side_by_side};
use super::quantity::Quantity;
use super::series::SeriesStyle;
use crate::one_way::{Blocks, Series, varied};
use crate::page_text::nbsp;

/// Returns the plots; `None` if no series has two write sizes.
pub(crate) fn chart(blocks: &Blocks<'_>, looks: &BTreeMap<String, SeriesStyle>) -> Option<String> {
    let places = blocks.rows().filter_map(place).flat_map(Place::values);
    let y = log_scale(places, "goodput (log scale)", 8, |value| Quantity::Goodput.tick(value))?;
    let label = |bytes: f64| nbsp(&quantities::bytes(bytes));
    let x = measured_scale(&blocks.varied(), "bytes per write (log scale)", label)?;
    let frame = Frame { blocks, looks, x: &x, y: &y };
    let point = |series: &Series<'_>, row: &CaseSummary| {
        let words = format!(
            "{}, writes of {}: goodput {}",
            series.words.join(" "),
            quantities::exact_bytes(row.case.primary().load.size_bytes()),
            Quantity::Goodput.with_bounds(row.goodput()?)
        );
        Some(Point { x: Place::bare(varied(row)), y: place(row)?, words, label: String::new(), ring: false })
    };
    let plots = frame
        .plots("Goodput by bytes per write", &[], |_, series| vec![frame.curve(series, |row| point(series, row))]);
    (!plots.is_empty()).then(|| side_by_side(&plots, &legend(blocks, looks, &[])))
}

fn place(row: &CaseSummary) -> Option<Place> {
    if row.valid { Place::of(row.goodput()) } else { None }
}
