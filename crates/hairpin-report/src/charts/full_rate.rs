//! The figure that ranks one-way loads at full rate: messages per second by messages per call, or goodput by bytes per
//! write. There is a line per series and a plot per panel. All plots have the same scales.

use std::collections::BTreeMap;

use hairpin_model::{CaseSummary, quantities};

use super::plot::{Frame, Place, Point, log_scale, measured_scale};
use super::quantity::Quantity;
use super::series::SeriesStyle;
use crate::one_way::{Blocks, Series, varied};
use crate::page_text::nbsp;

/// Returns the plots; `None` if no series has two batch or write sizes.
pub(crate) fn chart(blocks: &Blocks<'_>, looks: &BTreeMap<String, SeriesStyle>) -> Option<String> {
    let quantity = Quantity::of(blocks.kind);
    let is_rate = quantity == Quantity::Rate;
    let place = |row: &CaseSummary| Place::of(quantity.figure(row)).filter(|_| row.valid);
    let [described, x_title, y_title] = if is_rate {
        [
            "Messages received per second by messages per call",
            "messages per call (log scale)",
            "messages received per second (log scale)",
        ]
    } else {
        ["Goodput by bytes per write", "bytes per write (log scale)", "goodput (log scale)"]
    };
    let places = blocks.rows().filter_map(place).flat_map(Place::values);
    let y = log_scale(places, y_title, 8, |value| quantity.tick(value))?;
    let label = |value: f64| if is_rate { value.to_string() } else { nbsp(&quantities::bytes(value)) };
    let x = measured_scale(&blocks.varied(), x_title, label)?;
    let point = |series: &Series<'_>, row: &CaseSummary| {
        let (load, name) = (&row.case.primary().load, series.words.join(" "));
        let figure = quantity.with_bounds(quantity.figure(row)?);
        let words = if is_rate {
            format!("{name}, {} per call: {figure}", quantities::counted(load.batch(), "message"))
        } else {
            format!("{name}, writes of {}: goodput {figure}", quantities::exact_bytes(load.size_bytes()))
        };
        Some(Point { x: Place::bare(varied(row)), y: place(row)?, words, label: String::new(), ring: false })
    };
    let frame = Frame { blocks, looks, x: &x, y: &y };
    frame.plots(described, &[], |_, series| vec![frame.curve(series, |row| point(series, row))])
}
