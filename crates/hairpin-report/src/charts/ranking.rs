//! The ranking: a lane a case on one logarithmic axis. A dot is the p50, the box behind it its interval, the thick line
//! runs to the p99, the thin one to the maximum.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hairpin_model::figure::Figure;
use hairpin_model::ladder::{self, Group};
use hairpin_model::quantities;
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::axis::{Axis, Tick};
use super::series::Looks;
use super::svg::{escape, percent};
use crate::page_text::tied;

/// The chart of all groups, or null where no case has a p50.
pub(crate) fn chart(run: &Run, looks: &BTreeMap<String, Looks>) -> Option<String> {
    let shown = run.cases.iter().filter(|row| row.p50_ns().is_some());
    let axis = Axis::log(shown.flat_map(marks_ns))?;
    let ticks = axis.time_ticks(9);
    let grid = grid(&ticks);
    let mut html = String::from("<div class=\"ranking\" role=\"list\">");
    html.push_str(&scale(&ticks, "top"));
    for group in ladder::groups(&run.cases) {
        group_lanes(&mut html, &group, &axis, &grid, looks);
    }
    html.push_str(&scale(&ticks, "bottom"));
    html.push_str("</div>");
    Some(html)
}

/// Everything of a case that is drawn, in ns.
fn marks_ns(row: &CaseSummary) -> Vec<f64> {
    let latency = &row.flow().latency_ns;
    let mut marks: Vec<f64> = [latency.p50, latency.p99, latency.max]
        .into_iter()
        .filter_map(|figure| figure.and_then(Figure::finite))
        .collect();
    if let Some((low, high)) = latency.p50.and_then(Figure::interval) {
        marks.extend([low, high]);
    }
    marks
}

fn group_lanes(html: &mut String, group: &Group<'_>, axis: &Axis, grid: &str, looks: &BTreeMap<String, Looks>) {
    let _ = write!(html, "<h3 class=\"lane-group\">{}</h3>", escape(&group.name));
    for row in &group.rows {
        let name = ladder::row_name(row);
        let Some(p50) = row.p50_ns() else {
            let _ = write!(html, "<p class=\"lane-empty\">{}: no figures</p>", escape(&name));
            continue;
        };
        let classes = looks.get(&name).map(|looks| looks.classes()).unwrap_or_default();
        let invalid = if row.valid { "" } else { " invalid" };
        let words = ladder::row_words(row);
        let (head, details) = (escape(&words[0]), escape(&words[1..].join(" ")));
        let details = if details.is_empty() { String::new() } else { format!(" <small>{details}</small>") };
        let warning = if row.valid { "" } else { "<b class=\"bang\" title=\"invalid: do not use\">!</b> " };
        let _ = write!(
            html,
            "<div class=\"lane-row{invalid}\" role=\"listitem\"><span class=\"lane-name\">{warning}{head}{details}\
             </span>{}<span class=\"lane-value\">{}</span></div>",
            lane(row, p50, axis, grid, &classes),
            tied(&quantities::duration(p50))
        );
    }
}

/// The lane itself: marks over the grid, and a title that says them in words.
///
/// The grid is as high as the row, and the marks stand in an inner picture whose origin is the middle of it.
fn lane(row: &CaseSummary, p50: f64, axis: &Axis, grid: &str, classes: &str) -> String {
    let at = |ns: f64| percent(axis.place(ns));
    let words = escape(&in_words(row, p50));
    let mut svg = format!(
        "<span class=\"lane-cell\"><svg class=\"lane {classes}\" width=\"100%\" height=\"100%\" role=\"img\" aria-label=\"{words}\">\
         <title>{words}</title>{grid}<svg class=\"lane-marks\" y=\"50%\" width=\"100%\" height=\"1\">"
    );
    let line =
        |from: f64, to: f64, class: &str| format!("<line class=\"{class}\" x1=\"{}\" x2=\"{}\"/>", at(from), at(to));
    let tick = |ns: f64, class: &str, half: u8| {
        let x = at(ns);
        format!("<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"-{half}\" y2=\"{half}\"/>")
    };
    if let Some(max) = row.flow().latency_ns.max.and_then(Figure::finite) {
        svg.push_str(&line(p50, max, "to-max"));
        svg.push_str(&tick(max, "max", 4));
    }
    if let Some(p99) = row.flow().latency_ns.p99.and_then(Figure::finite) {
        svg.push_str(&line(p50, p99, "to-p99"));
        svg.push_str(&tick(p99, "p99", 6));
    }
    if let Some((low, high)) = row.flow().latency_ns.p50.and_then(Figure::interval) {
        let width = percent((axis.place(high) - axis.place(low)).max(0.0));
        let _ = write!(svg, "<rect class=\"interval\" x=\"{}\" width=\"{width}\" y=\"-8\" height=\"16\"/>", at(low));
    }
    let _ = write!(svg, "<circle class=\"p50\" cx=\"{}\" r=\"4.5\"/></svg></svg></span>", at(p50));
    svg
}

/// `tcp block same-cpu: p50 13.4 µs (95 % interval 13.2-13.6), p99 15.0 µs, max 124 µs`.
fn in_words(row: &CaseSummary, p50: f64) -> String {
    let mut words = format!("{}: p50 {}", row.label, tied(&quantities::duration(p50)));
    if let Some((low, high)) = row.flow().latency_ns.p50.and_then(Figure::interval) {
        let _ = write!(words, " (95 % interval {})", quantities::bounds(p50, low, high).replace('-', "\u{2013}"));
    }
    for (name, figure) in [
        ("p99", row.flow().latency_ns.p99),
        ("p99.9", row.flow().latency_ns.p999),
        ("max", row.flow().latency_ns.max),
    ] {
        if let Some(value) = figure.and_then(Figure::finite) {
            let _ = write!(words, ", {name} {}", tied(&quantities::duration(value)));
        }
    }
    words
}

fn grid(ticks: &[Tick]) -> String {
    let line = |tick: &Tick| {
        let (class, x) = (if tick.major { "grid" } else { "grid minor" }, percent(tick.place));
        format!("<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"100%\"/>")
    };
    ticks.iter().map(line).collect()
}

/// The axis above or below the lanes.
fn scale(ticks: &[Tick], side: &str) -> String {
    let label = |tick: &Tick| {
        let class = if tick.major { "tick" } else { "tick minor" };
        format!("<text class=\"{class}\" x=\"{}\" y=\"14\">{}</text>", percent(tick.place), escape(&tick.label))
    };
    let labels: String = ticks.iter().map(label).collect();
    format!(
        "<div class=\"lane-row scale at-{side}\" aria-hidden=\"true\"><span class=\"lane-name\"></span>\
         <span class=\"lane-cell\"><svg width=\"100%\" height=\"20\">{labels}</svg></span><span class=\"lane-value\">p50</span></div>"
    )
}
