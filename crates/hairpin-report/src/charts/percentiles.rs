//! Percentile curves of a group, as in HdrHistogram's plots, in which the tail is as wide as the body. A probe under
//! load has a solid curve for the loaded phase and a dashed curve for the idle phase.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hairpin_model::ladder::{self};
use hairpin_model::{CaseSummary, CurvePoint, Group, Run, quantities};

use super::axis::{Axis, Nines, Tick};
use super::series::SeriesStyle;
use super::svg::{down, escape, invalid_not_drawn, level, mark, percent, text, trimmed, upright};
use crate::one_way::Shared;
use crate::page_text::nbsp;

const HEIGHT: f64 = 360.0;
/// Maximum curves shown at first, so that readers can distinguish them.
const MAX_SHOWN: usize = 4;
/// Width and height of the coordinate system of curves, which is stretched to the plot.
const GRID: f64 = 2000.0;

/// Returns the chart of one group; `None` if no valid case has a curve. Invalid cases are listed but not drawn,
/// because their values would determine the scale.
///
/// At first only a few curves are visible (see [`shown_at_first`]); clicking the legend shows the others.
pub(crate) fn chart(group: &Group<'_>, looks: &BTreeMap<String, SeriesStyle>, run: &Run) -> Option<String> {
    let (rows, invalid): (Vec<&CaseSummary>, Vec<&CaseSummary>) = group
        .rows
        .iter()
        .copied()
        .filter(|row| points(&row.primary().curve).next().is_some())
        .partition(|row| row.valid);
    let shared = Shared::of(run.cases.iter());
    let name = |row: &CaseSummary| shared.row_words(row).join(" ");
    let shown = shown_at_first(&rows, run);
    let lines = rows.iter().zip(&shown).flat_map(|(row, shown)| {
        let looks = looks.get(&ladder::row_name(row)).copied().unwrap_or(SeriesStyle { colour: 0, dash: 0 });
        lines(row, &name(row), looks, *shown)
    });
    let lines: Vec<Curve<'_>> = lines.collect();
    let axis = Axis::log(lines.iter().flat_map(|line| points(line.points).map(|point| point.latency_ns)))?;
    let nines = Nines::of(lines.iter().map(|line| line.samples).max()?);
    let title = escape(&format!("Percentile curves, {}: latency by percentile, both axes logarithmic", group.name));
    let one_way = if group.rows.iter().any(|row| row.case.primary().load.is_one_way()) { "one-way " } else { "" };
    let thing = group.kind.words()[1];
    let mut html = format!(
        "<div class=\"plot\"><span class=\"axis-title y\">{one_way}latency of {thing} (log scale)</span>\
         <svg class=\"chart percentiles\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{title}\">"
    );
    html.push_str(&grid(&axis, &nines));
    let curves: String = lines.iter().map(|line| line.curve(&axis, &nines)).collect();
    let marks: String = lines.iter().map(|line| line.labelled_points(&axis, &nines)).collect();
    let _ = write!(
        html,
        "<svg class=\"curves\" width=\"100%\" height=\"{HEIGHT}\" viewBox=\"0 0 {GRID} {GRID}\" \
         preserveAspectRatio=\"none\">{curves}</svg>{marks}</svg>\
         <span class=\"axis-title x\">percentile (log scale of what lies beyond)</span></div>"
    );
    html.push_str(&legend(&rows, &shown, looks, &shared));
    if lines.iter().any(|line| !line.phase.is_empty()) {
        html.push_str("<p class=\"caption left-out\">Solid: the loaded phase. Dashed: the idle phase.</p>");
    }
    html.push_str(&invalid_not_drawn(invalid.iter().map(|row| name(row))));
    Some(html)
}

struct Curve<'r> {
    name: String,
    /// Comma and name of the phase; empty for a case without load.
    phase: &'static str,
    points: &'r [CurvePoint],
    samples: u64,
    looks: SeriesStyle,
    shown: bool,
}

/// Returns the curve of a case; for a case under load, also the curve of the idle phase.
fn lines<'r>(row: &'r CaseSummary, name: &str, looks: SeriesStyle, shown: bool) -> Vec<Curve<'r>> {
    let flow = row.primary();
    let line = |phase, points, samples, looks| Curve { name: name.to_owned(), phase, points, samples, looks, shown };
    let Some(under_load) = &row.under_load else { return vec![line("", &flow.curve, flow.samples, looks)] };
    let idle = &under_load.phases.idle.probe;
    let all = [
        line(", loaded", &flow.curve, flow.samples, looks),
        line(", idle", &idle.curve, idle.samples, SeriesStyle { dash: IDLE_DASH, ..looks }),
    ];
    all.into_iter().filter(|line| points(line.points).next().is_some()).collect()
}

const IDLE_DASH: usize = 1;

/// Returns whether each row is visible at first. If there are too many, only the fastest, the slowest, the reference
/// transport and the first row that the top finding names are visible.
fn shown_at_first(rows: &[&CaseSummary], run: &Run) -> Vec<bool> {
    if rows.len() <= MAX_SHOWN {
        return vec![true; rows.len()];
    }
    let mut by_p50: Vec<usize> = (0..rows.len()).filter(|place| rows[*place].p50_ns().is_some()).collect();
    by_p50.sort_by(|a, b| rows[*a].p50_ns().unwrap_or(0.0).total_cmp(&rows[*b].p50_ns().unwrap_or(0.0)));
    let found = rows.iter().position(|row| run.findings.first().is_some_and(|top| top.cases.contains(&row.id)));
    let is_reference =
        |row: &CaseSummary| run.cards.get(&row.case.primary().transport).is_some_and(|card| card.is_reference);
    let reference = rows.iter().position(|row| is_reference(row));
    let shown = [by_p50.first().copied(), by_p50.last().copied(), reference, found];
    (0..rows.len()).map(|place| shown.contains(&Some(place))).collect()
}

fn points(curve: &[CurvePoint]) -> impl Iterator<Item = &CurvePoint> {
    curve.iter().filter(|point| point.latency_ns.is_finite() && point.latency_ns > 0.0 && point.quantile >= 0.0)
}

fn grid(axis: &Axis, nines: &Nines) -> String {
    let across = |tick: Tick| {
        let (y, class) = (down(tick.place, HEIGHT), if tick.major { "" } else { " minor" });
        level(&format!("grid{class}"), &y) + &text(&format!("tick y{class}"), "-8", &y, &tick.label)
    };
    // On a narrow plot, style.css moves every second label down.
    let upward = |(number, (_, place, label)): (usize, (f64, f64, String))| {
        let (x, class) = (percent(place), if number % 2 == 1 { "tick second" } else { "tick" });
        upright("grid", &x, HEIGHT) + &text(class, &x, HEIGHT + 18.0, &label)
    };
    let lines: String = axis.time_ticks(10).into_iter().map(across).collect();
    lines + &nines.ticks().into_iter().enumerate().map(upward).collect::<String>()
}

impl Curve<'_> {
    fn hidden_class(&self) -> &'static str {
        if self.shown { "" } else { " gone" }
    }

    /// Draws the curve in two parts: beyond the point with ten samples above it, the curve is uncertain and so faint.
    fn curve(&self, axis: &Axis, nines: &Nines) -> String {
        let certain_to = 1.0 - 10.0 / self.samples.max(10) as f64;
        let (mut body, mut tail) = (Vec::new(), Vec::new());
        let mut last: Option<(f64, f64)> = None;
        let mut left = points(self.points).count();
        for point in points(self.points) {
            left -= 1;
            let x = (nines.place(point.quantile, self.samples) * GRID).round();
            let y = ((1.0 - axis.place(point.latency_ns)) * GRID).round();
            // Skip points within about a pixel of the last drawn point, except the end, so that the page stays small.
            if left > 0 && last.is_some_and(|last| (x - last.0).abs() < 3.0 && (y - last.1).abs() < 3.0) {
                continue;
            }
            last = Some((x, y));
            let text = format!("{},{}", trimmed(x), trimmed(y));
            if point.quantile <= certain_to || body.is_empty() {
                body.push(text);
            } else {
                if tail.is_empty() {
                    tail.extend(body.last().cloned());
                }
                tail.push(text);
            }
        }
        let series = self.looks.classes();
        let line = |class: &str, points: &[String]| match points.len() {
            0 | 1 => String::new(),
            _ => format!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" ")),
        };
        let (name, gone) = (escape(&self.name), self.hidden_class());
        format!(
            "<g class=\"curve {series}{gone}\" data-series=\"{name}\">{}{}</g>",
            line("body", &body),
            line("tail", &tail)
        )
    }

    fn labelled_points(&self, axis: &Axis, nines: &Nines) -> String {
        let mut html = format!(
            "<g class=\"marks {}{}\" data-series=\"{}\">",
            self.looks.classes(),
            self.hidden_class(),
            escape(&self.name)
        );
        let place = |quantile: f64| nines.place(quantile, self.samples);
        let mut wanted: Vec<(f64, String)> =
            nines.ticks().into_iter().skip(1).map(|(quantile, _, label)| (quantile, label)).collect();
        wanted.push((1.0, "maximum".to_owned()));
        let mut last = None;
        for (quantile, label) in wanted {
            // Without a point within half a percent of the axis, draw no mark: its figure would not be in the run.
            let distance = |point: &&CurvePoint| (place(point.quantile) - place(quantile)).abs();
            // If several points have the same position, the last point is the maximum.
            let nearest =
                points(self.points).reduce(|best, next| if distance(&next) <= distance(&best) { next } else { best });
            let Some(point) = nearest.filter(|point| distance(point) < 0.005 && point.quantile <= quantile + 1e-9)
            else {
                continue;
            };
            let here = (percent(place(point.quantile)), down(axis.place(point.latency_ns), HEIGHT));
            if last.as_ref() == Some(&here) {
                continue;
            }
            let words =
                format!("{}{}: {label} {}", self.name, self.phase, nbsp(&quantities::duration(point.latency_ns)));
            html.push_str(&mark("mark", self.looks.colour, [&here.0, &here.1], &words));
            last = Some(here);
        }
        html.push_str("</g>");
        html
    }
}

/// Returns the legend, in the order of the ranking. Clicking an entry hides or shows its curve.
pub(crate) fn legend(
    rows: &[&CaseSummary],
    shown: &[bool],
    looks: &BTreeMap<String, SeriesStyle>,
    names: &Shared,
) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    for (row, pressed) in rows.iter().zip(shown) {
        let name = ladder::row_name(row);
        let looks = looks.get(&name).copied().unwrap_or(SeriesStyle { colour: 0, dash: 0 });
        let shown = escape(&names.row_words(row).join(" "));
        let _ = write!(
            html,
            "<li><button type=\"button\" aria-pressed=\"{pressed}\" data-series=\"{shown}\" class=\"{}\">{}{shown}\
             </button></li>",
            looks.classes(),
            swatch(looks)
        );
    }
    html.push_str("</ul>");
    html
}

pub(crate) fn swatch(looks: SeriesStyle) -> String {
    format!(
        "<svg class=\"swatch\" width=\"26\" height=\"12\" aria-hidden=\"true\"><line x1=\"0\" x2=\"26\" y1=\"6\" \
         y2=\"6\"/><use href=\"#m{}\" x=\"13\" y=\"6\"/></svg>",
        looks.colour
    )
}
