//! The p50 of each round over the run: a small panel a case, so that drift and blocks show and nothing overlaps.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hairpin_model::figure::Figure;
use hairpin_model::ladder::{self, Group};
use hairpin_model::quantities;
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, RoundPoint};

use super::axis::Axis;
use super::percentiles::swatch;
use super::series::Looks;
use super::svg::{down, escape, percent, trimmed};
use crate::page_text::tied;

/// Height of a panel's plot, in pixels.
const HEIGHT: f64 = 84.0;
/// Curves are drawn on a grid of so many steps in both directions and then stretched to the plot.
const STEPS: f64 = 1000.0;
/// A panel reaches at least so far to both sides of the median: a wobble of one percent must not look like an event.
const AT_LEAST: f64 = 0.1;

/// What all panels of a run share: the time axis, and where the blocks begin and end.
pub(crate) struct Course {
    time: Axis,
    bands: String,
}

impl Course {
    /// Null where no round was measured.
    pub(crate) fn of(run: &Run) -> Option<Self> {
        let all = || run.cases.iter().flat_map(|row| &row.round_points);
        let time = Axis::from_zero(all().map(|point| point.started_ns as f64 + 1.0))?;
        let mut begins: BTreeMap<u32, u64> = BTreeMap::new();
        for point in all() {
            let begin = begins.entry(point.block).or_insert(point.started_ns);
            *begin = (*begin).min(point.started_ns);
        }
        Some(Self { bands: bands(&begins, &time), time })
    }

    /// The panels of one group, or null where no case of it has a round.
    pub(crate) fn panels(&self, group: &Group<'_>, looks: &BTreeMap<String, Looks>) -> Option<String> {
        let rows: Vec<&CaseSummary> = group.rows.iter().copied().filter(|row| points(row).next().is_some()).collect();
        if rows.is_empty() {
            return None;
        }
        let mut html = String::from("<div class=\"panels\">");
        for row in rows {
            let looks = looks.get(&ladder::row_name(row)).copied().unwrap_or(Looks { colour: 0, dash: 0 });
            html.push_str(&self.panel(row, looks).unwrap_or_default());
        }
        html.push_str("</div>");
        Some(html)
    }

    fn panel(&self, row: &CaseSummary, looks: Looks) -> Option<String> {
        let centre = row.p50_ns().or_else(|| points(row).next().map(|point| point.p50_ns))?;
        let axis = Axis::log_around(centre, AT_LEAST, points(row).map(|point| point.p50_ns))?;
        let name = escape(&ladder::row_name(row));
        let label = escape(&format!("p50 of each round of {} over the run", row.label));
        let bang = if row.valid { "" } else { "<i class=\"bang\" title=\"invalid: do not use\">!</i> " };
        let mut html = format!(
            "<figure class=\"panel-small {}\"><figcaption>{}<b>{bang}{name}</b> <span>{}</span></figcaption>\
             <div class=\"plot small\"><svg class=\"chart rounds\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" \
             aria-label=\"{label}\">{}",
            looks.classes(),
            swatch(looks),
            tied(&quantities::duration(centre)),
            self.bands
        );
        html.push_str(&self.scales(&axis));
        html.push_str(&reference(row, &axis));
        html.push_str(&self.line(row, &axis));
        for point in points(row) {
            let is_other = row.state.is_some_and(|state| state.index != point.state);
            html.push_str(&self.mark(point, is_other, &axis, looks));
        }
        html.push_str("</svg></div></figure>");
        Some(html)
    }

    fn place(&self, point: &RoundPoint) -> f64 {
        self.time.place(point.started_ns as f64)
    }

    fn line(&self, row: &CaseSummary, axis: &Axis) -> String {
        let place = |point: &RoundPoint| {
            let (x, y) = (self.place(point) * STEPS, (1.0 - axis.place(point.p50_ns)) * STEPS);
            format!("{},{}", trimmed(x), trimmed(y))
        };
        let mut sorted: Vec<&RoundPoint> = points(row).collect();
        sorted.sort_by_key(|point| (point.started_ns, point.number));
        let places: Vec<String> = sorted.into_iter().map(place).collect();
        format!(
            "<svg class=\"curves\" width=\"100%\" height=\"{HEIGHT}\" viewBox=\"0 0 {STEPS} {STEPS}\" \
             preserveAspectRatio=\"none\"><polyline class=\"body\" points=\"{}\"/></svg>",
            places.join(" ")
        )
    }

    fn mark(&self, point: &RoundPoint, is_other: bool, axis: &Axis, looks: Looks) -> String {
        let time = |ns: f64| tied(&quantities::duration(ns));
        let at = time(point.started_ns as f64);
        let words = format!(
            "round {}, block {}, at {at}: p50 {}, p99 {}, max {}",
            point.number,
            point.block,
            time(point.p50_ns),
            time(point.p99_ns),
            time(point.max_ns)
        );
        let [class, state] = if is_other { ["mark other", ", machine in its other state"] } else { ["mark", ""] };
        format!(
            "<g class=\"{class}\"><title>{}{state}</title><use href=\"#m{}\" x=\"{}\" y=\"{}\"/></g>",
            escape(&words),
            looks.colour,
            percent(self.place(point)),
            down(axis.place(point.p50_ns), HEIGHT)
        )
    }

    /// The ends of both axes.
    fn scales(&self, axis: &Axis) -> String {
        let time = |ns: f64| escape(&tied(&quantities::duration(ns)));
        let below = HEIGHT + 15.0;
        let ticks = self.time.time_ticks(3);
        let label = |place: f64, text: &str| {
            format!("<text class=\"tick\" x=\"{}\" y=\"{below}\">{}</text>", percent(place), escape(text))
        };
        let along: String = ticks.iter().map(|tick| label(tick.place, &tick.label)).collect();
        format!(
            "<text class=\"tick y\" x=\"-6\" y=\"5\">{}</text><text class=\"tick y\" x=\"-6\" y=\"{}\">{}</text>{along}",
            time(axis.high()),
            HEIGHT - 4.0,
            time(axis.low())
        )
    }
}

fn points(row: &CaseSummary) -> impl Iterator<Item = &RoundPoint> {
    row.round_points.iter().filter(|point| point.p50_ns.is_finite() && point.p50_ns > 0.0)
}

/// The case's p50 over all rounds, and its interval.
fn reference(row: &CaseSummary, axis: &Axis) -> String {
    let mut html = String::new();
    if let Some((low, high)) = row.flow().latency_ns.p50.and_then(Figure::interval) {
        let (above, below) = (1.0 - axis.place(high), 1.0 - axis.place(low));
        let _ = write!(
            html,
            "<rect class=\"interval\" x=\"0\" width=\"100%\" y=\"{}\" height=\"{}\"/>",
            trimmed(above * HEIGHT),
            trimmed((below - above).max(0.0) * HEIGHT)
        );
    }
    if let Some(p50) = row.p50_ns() {
        let y = down(axis.place(p50), HEIGHT);
        let _ = write!(html, "<line class=\"median\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>");
    }
    html
}

/// Every second block is shaded.
fn bands(begins: &BTreeMap<u32, u64>, time: &Axis) -> String {
    let mut starts: Vec<u64> = begins.values().copied().collect();
    starts.sort_unstable();
    let mut html = format!("<rect class=\"ground\" x=\"0\" y=\"0\" width=\"100%\" height=\"{HEIGHT}\"/>");
    for (number, start) in starts.iter().enumerate().skip(1).step_by(2) {
        let end = starts.get(number + 1).map_or(1.0, |next| time.place(*next as f64));
        let from = time.place(*start as f64);
        let _ = write!(
            html,
            "<rect class=\"block\" x=\"{}\" y=\"0\" width=\"{}\" height=\"{HEIGHT}\"/>",
            percent(from),
            percent((end - from).max(0.0))
        );
    }
    html
}
