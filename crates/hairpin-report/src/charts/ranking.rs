//! The ranking: one lane per case on a logarithmic axis. A dot is the p50, or for one-way loads the messages per
//! second or the goodput. A box is the interval. For latencies a thick line ends at the p99, a thin line at the
//! maximum.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::{CaseSummary, Figure, Group, Run};

use super::axis::{Axis, Tick};
use super::quantity::Quantity;
use super::series::SeriesStyle;
use super::svg::{escape, lane_row, percent, text, upright};
use crate::one_way::Shared;

/// Returns the chart of all groups that this quantity ranks; `None` if no case has a figure for this quantity.
pub(crate) fn chart(run: &Run, looks: &BTreeMap<String, SeriesStyle>, quantity: Quantity) -> Option<String> {
    let groups = ladder::groups(&run.cases);
    // Latencies at different offered rates are not ranked: the load curve shows them.
    let is_ranked = |kind: CaseKind| Quantity::of(kind) == quantity && kind != CaseKind::Offered;
    let groups = || groups.iter().filter(|group| is_ranked(group.kind));
    let rows = groups().flat_map(|group| &group.rows).filter(|row| value_of(quantity, row).is_some());
    let axis = Axis::log(rows.flat_map(|row| marks(quantity, row)))?;
    let ticks = axis.ticks(quantity.most_ticks(), |value| quantity.tick(value));
    let shared = Shared::of(run.cases.iter());
    let lanes = Lanes { quantity, axis, grid: grid(&ticks), looks, shared };
    let mut html = String::from("<div class=\"ranking\" role=\"list\">");
    html.push_str(&scale(&ticks, "top", quantity.name()));
    groups().for_each(|group| lanes.group(&mut html, group));
    html.push_str(&scale(&ticks, "bottom", quantity.name()));
    html.push_str("</div>");
    Some(html)
}

fn value_of(quantity: Quantity, row: &CaseSummary) -> Option<f64> {
    quantity.figure(row).and_then(Figure::finite)
}

fn marks(quantity: Quantity, row: &CaseSummary) -> Vec<f64> {
    let figure = quantity.figure(row);
    let tail = quantity.tail(row).into_iter().filter_map(|(_, figure)| figure.finite());
    let bounds = figure.and_then(Figure::interval).into_iter().flat_map(|(low, high)| [low, high]);
    figure.and_then(Figure::finite).into_iter().chain(tail).chain(bounds).collect()
}

struct Lanes<'l> {
    quantity: Quantity,
    axis: Axis,
    grid: String,
    looks: &'l BTreeMap<String, SeriesStyle>,
    shared: Shared,
}

impl Lanes<'_> {
    fn group(&self, html: &mut String, group: &Group<'_>) {
        let _ = write!(html, "<h3 class=\"lane-group\">{}</h3>", escape(&group.name));
        for row in &group.rows {
            let name = ladder::row_name(row);
            let Some(value) = value_of(self.quantity, row) else {
                let _ = write!(
                    html,
                    "<p class=\"lane-empty\" role=\"listitem\">{}: no figures</p>",
                    escape(&self.shared.row_words(row).join(" "))
                );
                continue;
            };
            let classes = self.looks.get(&name).map(|looks| looks.classes()).unwrap_or_default();
            let words = self.shared.row_words(row);
            let (head, details) = (escape(&words[0]), escape(&words[1..].join(" ")));
            let details = if details.is_empty() { String::new() } else { format!(" <small>{details}</small>") };
            let (name, class) = (format!("{head}{details}"), format!("lane {classes}"));
            let (told, value_told) = (self.in_words(row), self.quantity.text(value));
            *html += &lane_row(row.valid, &name, &class, &told, &self.lane(row, value), &value_told);
        }
    }

    /// Draws the grid, as high as the row, and the marks, in an inner SVG whose origin is in the middle of the row.
    fn lane(&self, row: &CaseSummary, value: f64) -> String {
        let at = |value: f64| percent(self.axis.place(value));
        let mut svg = format!("{}<svg class=\"lane-marks\" y=\"50%\" width=\"100%\" height=\"1\">", self.grid);
        let tail = self.quantity.tail(row);
        for (name, half) in [("max", 4), ("p99", 6)] {
            let figure = tail.iter().find(|(known, _)| *known == name);
            let Some(end) = figure.and_then(|(_, figure)| figure.finite()) else { continue };
            let (from, to) = (at(value), at(end));
            let _ = write!(
                svg,
                "<line class=\"to-{name}\" x1=\"{from}\" x2=\"{to}\"/>\
                 <line class=\"{name}\" x1=\"{to}\" x2=\"{to}\" y1=\"-{half}\" y2=\"{half}\"/>"
            );
        }
        if let Some((low, high)) = self.quantity.figure(row).and_then(Figure::interval) {
            let width = percent((self.axis.place(high) - self.axis.place(low)).max(0.0));
            let _ =
                write!(svg, "<rect class=\"interval\" x=\"{}\" width=\"{width}\" y=\"-8\" height=\"16\"/>", at(low));
        }
        let _ = write!(svg, "<circle class=\"p50\" cx=\"{}\" r=\"4.5\"/></svg>", at(value));
        svg
    }

    /// Returns `tcp block same-cpu: p50 13.4 µs (95 % interval 13.2-13.6), p99 15.0 µs, max 124 µs`.
    fn in_words(&self, row: &CaseSummary) -> String {
        let figure = self.quantity.figure(row).map(|figure| self.quantity.with_bounds(figure)).unwrap_or_default();
        let mut words = format!("{}: {} {figure}", row.label, self.quantity.name());
        for (name, figure) in self.quantity.tail(row) {
            if let Some(value) = figure.finite() {
                let _ = write!(words, ", {name} {}", self.quantity.text(value));
            }
        }
        words
    }
}

fn grid(ticks: &[Tick]) -> String {
    let line = |tick: &Tick| upright(if tick.major { "grid" } else { "grid minor" }, &percent(tick.place), "100%");
    ticks.iter().map(line).collect()
}

fn scale(ticks: &[Tick], side: &str, figure: &str) -> String {
    let label = |tick: &Tick| {
        let class = if tick.major { "tick" } else { "tick minor" };
        text(class, percent(tick.place), 14, &tick.label)
    };
    let labels: String = ticks.iter().map(label).collect();
    format!(
        "<div class=\"lane-row scale at-{side}\" aria-hidden=\"true\"><span class=\"lane-name\"></span>\
         <span class=\"lane-cell\"><svg width=\"100%\" height=\"20\">{labels}</svg></span><span class=\"lane-value\">{figure}</span></div>"
    )
}
