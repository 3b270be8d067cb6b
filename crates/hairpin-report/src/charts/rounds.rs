//! The figure of each round over the time of the run: p50, or messages per second or goodput for one-way loads. Each
//! case has a small panel, which shows drift without overlap. Rounds with losses, failed rounds and rounds on a
//! slowed machine have separate marks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hairpin_model::ladder::{self};
use hairpin_model::quantities::{self, counted};
use hairpin_model::{CaseSummary, Figure, Group, RoundPoint};

use super::axis::Axis;
use super::percentiles::swatch;
use super::quantity::Quantity;
use super::series::SeriesStyle;
use super::svg::{down, escape, level, mark, percent, text, trimmed};
use crate::one_way::Shared;
use crate::page_text::nbsp;

const HEIGHT: f64 = 84.0;
/// Width and height of the coordinate system of curves, which is stretched to the plot.
const GRID: f64 = 1000.0;
/// Minimum relative range of a panel around the median, so that noise of one percent looks small.
const MIN_REACH: f64 = 0.1;
/// Distance in pixels of loss marks from the top edge, and of marks of failed rounds from the bottom edge.
const MARK_INSET: f64 = 7.0;
/// Index of the slowed machine state; the faster state is 0.
const SLOWED: usize = 1;

struct PanelAxes {
    quantity: Quantity,
    time: Axis,
    bands: String,
}

/// Returns the panels of one group and their legend; `None` if no case has a round.
pub(crate) fn chart(group: &Group<'_>, looks: &BTreeMap<String, SeriesStyle>, shared: &Shared) -> Option<String> {
    let course = PanelAxes::of(group)?;
    let mut html = String::from("<div class=\"panels\">");
    for row in &group.rows {
        let looks = looks.get(&ladder::row_name(row)).copied().unwrap_or(SeriesStyle { colour: 0, dash: 0 });
        html.push_str(&course.panel(row, &shared.row_words(row).join(" "), looks).unwrap_or_default());
    }
    html.push_str("</div>");
    html.push_str(&course.legend(group));
    Some(html)
}

impl PanelAxes {
    /// The time axis extends from the first round of the group to the last.
    fn of(group: &Group<'_>) -> Option<Self> {
        let quantity = Quantity::of(group.kind);
        let all = || group.rows.iter().flat_map(|row| points(row, quantity));
        all().next()?;
        let failed = group.rows.iter().flat_map(|row| &row.failed_rounds_started_ns);
        let time = Axis::around(all().map(|point| point.started_ns).chain(failed.copied()).map(|ns| ns as f64))?;
        let mut begins: BTreeMap<u32, u64> = BTreeMap::new();
        for point in all() {
            let begin = begins.entry(point.block).or_insert(point.started_ns);
            *begin = (*begin).min(point.started_ns);
        }
        Some(Self { quantity, bands: bands(&begins, &time), time })
    }

    fn panel(&self, row: &CaseSummary, name: &str, looks: SeriesStyle) -> Option<String> {
        let value = |point: &RoundPoint| self.quantity.of_round(point);
        let centre = self
            .quantity
            .figure(row)
            .and_then(Figure::finite)
            .or_else(|| points(row, self.quantity).next().and_then(value))?;
        let axis = Axis::log_around(centre, MIN_REACH, points(row, self.quantity).filter_map(value))?;
        let name = escape(name);
        let label = escape(&self.in_words(row));
        let bang = if row.valid { "" } else { "<i class=\"bang\" title=\"invalid: do not use\">!</i> " };
        let mut html = format!(
            "<figure class=\"panel-small {}\"><figcaption>{}<b>{bang}{name}</b> <span>{}</span></figcaption>\
             <div class=\"plot small\"><svg class=\"chart rounds\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" \
             aria-label=\"{label}\">{}",
            looks.classes(),
            swatch(looks),
            self.quantity.text(centre),
            self.bands
        );
        html.push_str(&self.scales(&axis));
        html.push_str(&self.reference(row, &axis));
        html.push_str(&self.line(row, &axis));
        for point in points(row, self.quantity) {
            html.push_str(&self.mark(point, &axis, looks));
        }
        html.push_str(&self.failures(row));
        html.push_str("</svg></div></figure>");
        Some(html)
    }

    fn in_words(&self, row: &CaseSummary) -> String {
        let mut words = format!("{} of each round of {} over the run", self.quantity.name(), row.label);
        let rounds = |count: usize| counted(count as u64, "round");
        let with_losses = points(row, self.quantity).filter(|point| point.lost > 0).count();
        let slowed = points(row, self.quantity).filter(|point| point.state == SLOWED).count();
        for (count, what) in [
            (with_losses, "with losses"),
            (row.failed_rounds_started_ns.len(), "failed"),
            (slowed, "while the machine was slowed"),
        ] {
            if count > 0 {
                let _ = write!(words, "; {} {what}", rounds(count));
            }
        }
        words
    }

    fn place(&self, started_ns: u64) -> String {
        percent(self.time.place(started_ns as f64))
    }

    fn line(&self, row: &CaseSummary, axis: &Axis) -> String {
        let place = |point: &RoundPoint| {
            let value = self.quantity.of_round(point)?;
            let (x, y) = (self.time.place(point.started_ns as f64) * GRID, (1.0 - axis.place(value)) * GRID);
            Some(format!("{},{}", trimmed(x), trimmed(y)))
        };
        let mut sorted: Vec<&RoundPoint> = points(row, self.quantity).collect();
        sorted.sort_by_key(|point| (point.started_ns, point.number));
        let places: Vec<String> = sorted.into_iter().filter_map(place).collect();
        format!(
            "<svg class=\"curves\" width=\"100%\" height=\"{HEIGHT}\" viewBox=\"0 0 {GRID} {GRID}\" \
             preserveAspectRatio=\"none\"><polyline class=\"body\" points=\"{}\"/></svg>",
            places.join(" ")
        )
    }

    /// Draws the mark of a round, with a ring if the machine was slowed, and a cross at the top if messages were
    /// lost.
    fn mark(&self, point: &RoundPoint, axis: &Axis, looks: SeriesStyle) -> String {
        let Some(value) = self.quantity.of_round(point) else { return String::new() };
        let at = nbsp(&quantities::duration(point.started_ns as f64));
        let mut words = format!("round {}, block {}, at {at}: ", point.number, point.block);
        words.push_str(&self.quantity.round_in_words(point));
        let (x, y) = (self.place(point.started_ns), down(axis.place(value), HEIGHT));
        let mut also = String::new();
        if point.state == SLOWED {
            words.push_str(", machine slowed");
            let _ = write!(also, "<circle class=\"slowed\" cx=\"{x}\" cy=\"{y}\" r=\"8\"/>");
        }
        if point.lost > 0 {
            let _ = write!(words, ", {} lost", counted(point.lost, "message"));
            let _ = write!(also, "<use class=\"lost\" href=\"#m-lost\" x=\"{x}\" y=\"{MARK_INSET}\"/>");
        }
        mark("mark", looks.colour, [&x, &y], &words) + &also
    }

    fn failures(&self, row: &CaseSummary) -> String {
        let failed = row.failed_rounds_started_ns.iter().zip(&row.failed_rounds);
        failed.fold(String::new(), |mut html, (started_ns, cause)| {
            let _ = write!(
                html,
                "<g class=\"mark\"><title>failed: {}</title><use class=\"failed\" href=\"#m-failed\" x=\"{}\" y=\"{}\"/></g>",
                escape(cause),
                self.place(*started_ns),
                HEIGHT - MARK_INSET
            );
            html
        })
    }

    fn scales(&self, axis: &Axis) -> String {
        let value = |value: f64, y: f64| text("tick y", "-6", y, &self.quantity.text(value));
        let mut ticks = self.time.time_ticks(3);
        ticks.dedup_by(|tick, before| tick.label == before.label);
        let along = ticks.iter().map(|tick| text("tick", percent(tick.place), HEIGHT + 15.0, &tick.label));
        value(axis.high, 5.0) + &value(axis.low, HEIGHT - 4.0) + &along.collect::<String>()
    }

    fn reference(&self, row: &CaseSummary, axis: &Axis) -> String {
        let mut html = String::new();
        let figure = self.quantity.figure(row);
        if let Some((low, high)) = figure.and_then(Figure::interval) {
            let (above, below) = (1.0 - axis.place(high), 1.0 - axis.place(low));
            let _ = write!(
                html,
                "<rect class=\"interval\" x=\"0\" width=\"100%\" y=\"{}\" height=\"{}\"/>",
                trimmed(above * HEIGHT),
                trimmed((below - above).max(0.0) * HEIGHT)
            );
        }
        if let Some(value) = figure.and_then(Figure::finite) {
            html += &level("median", &down(axis.place(value), HEIGHT));
        }
        html
    }

    fn legend(&self, group: &Group<'_>) -> String {
        let any = |is_so: fn(&RoundPoint) -> bool| group.rows.iter().any(|row| points(row, self.quantity).any(is_so));
        let with_failures = group.rows.iter().any(|row| !row.failed_rounds_started_ns.is_empty());
        let keys = [
            (
                any(|point| point.lost > 0),
                "<use class=\"lost\" href=\"#m-lost\" x=\"9\" y=\"9\"/>",
                "messages lost in the round",
            ),
            (with_failures, "<use class=\"failed\" href=\"#m-failed\" x=\"9\" y=\"9\"/>", "round failed: no figure"),
            (
                any(|point| point.state == SLOWED),
                "<circle class=\"slowed\" cx=\"9\" cy=\"9\" r=\"8\"/>",
                "machine slowed",
            ),
        ];
        let items: String = keys
            .iter()
            .filter(|(shown, ..)| *shown)
            .map(|(_, mark, text)| {
                format!("<li><svg class=\"chart-key\" width=\"18\" height=\"18\" aria-hidden=\"true\">{mark}</svg>{text}</li>")
            })
            .collect();
        if items.is_empty() { items } else { format!("<ul class=\"sequence-legend of-rounds\">{items}</ul>") }
    }
}

fn points(row: &CaseSummary, quantity: Quantity) -> impl Iterator<Item = &RoundPoint> {
    row.round_points.iter().filter(move |point| quantity.of_round(point).is_some())
}

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
