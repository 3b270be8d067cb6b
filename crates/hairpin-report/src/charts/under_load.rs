//! Probes under load over the time of a round. Three charts on a common time axis show the latency of the probe, the
//! goodput of the load, and the depth of the queue, if known. Each case has a line with medians over rounds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hairpin_model::phases::Phase;
use hairpin_model::{CaseSummary, Figure, LoadedMoment, LoadedOverTime, quantities};

use super::axis::Axis;
use super::over_time::{Frame, Span, legend};
use super::plot::looks_in;
use super::quantity::Quantity;
use super::queue_depth;
use super::series::SeriesStyle;
use super::svg::{invalid_not_drawn, percent, text, upright};
use crate::one_way::Panel;
use crate::page_text::nbsp;

/// Heights of the latency plot and of the other plots, in pixels.
const HEIGHTS: [f64; 2] = [170.0, 84.0];
/// Approximate number of labels on the time axis, which is as wide as the page.
const TIME_LABELS: usize = 7;

/// Returns the charts of all cases with the same probe and path; `None` if no case has a time line.
pub(crate) fn chart(panel: &Panel<'_>, looks: &BTreeMap<String, SeriesStyle>) -> Option<String> {
    let all = panel.series.iter().flat_map(|series| {
        let looks = looks_in(looks, series);
        series.rows.iter().filter_map(move |row| Some((series.words.join(" "), looks, moments(row)?)))
    });
    let all: Vec<(String, SeriesStyle, &LoadedOverTime)> = all.collect();
    let (.., longest) = all.iter().max_by_key(|(.., over_time)| over_time.until_ns)?;
    let lines = all.iter().filter_map(|(name, looks, over_time)| {
        let span = Span::until(over_time.moments[0].at_ns, longest.until_ns)?;
        Some(Curve { name: name.clone(), classes: looks.classes(), colour: looks.colour, span, over_time })
    });
    let lines: Vec<Curve<'_>> = lines.collect();
    let charts = Charts { lines: &lines, longest, of: &panel.title };
    let drawn: String = [charts.latency(), charts.goodput(), charts.queue()].into_iter().flatten().collect();
    let rows = panel.series.iter().flat_map(|series| series.rows.iter().map(move |row| (series, row)));
    let invalid = rows.filter(|(_, row)| !row.valid).map(|(series, _)| series.words.join(" "));
    let left_out = invalid_not_drawn(invalid);
    (!drawn.is_empty()).then(|| format!("<div class=\"under-load\">{drawn}{left_out}</div>"))
}

/// Returns the time line of a valid case; `None` for fewer than two moments.
fn moments(row: &CaseSummary) -> Option<&LoadedOverTime> {
    let over_time = row.under_load.as_ref().filter(|_| row.valid)?.over_time.as_ref()?;
    (over_time.moments.len() > 1).then_some(over_time)
}

pub(crate) fn key() -> String {
    let entries =
        [("key-surface key-range", "lowest to highest of the rounds"), ("key-warm-up", "ramp: in no figure")];
    legend(entries)
}

struct Curve<'r> {
    name: String,
    classes: String,
    colour: usize,
    span: Span,
    over_time: &'r LoadedOverTime,
}

impl Curve<'_> {
    fn values(&self, of: impl Fn(&LoadedMoment) -> Option<f64>) -> Vec<Option<f64>> {
        self.over_time.moments.iter().map(|moment| of(moment).filter(|value| value.is_finite())).collect()
    }
}

struct Charts<'c> {
    lines: &'c [Curve<'c>],
    longest: &'c LoadedOverTime,
    of: &'c str,
}

impl Charts<'_> {
    fn latency(&self) -> Option<String> {
        let latency = |moment: &LoadedMoment| moment.latency_ns.and_then(Figure::finite);
        let bounds = |moment: &LoadedMoment| moment.latency_ns.and_then(Figure::interval);
        let highest = |moment: &LoadedMoment| bounds(moment).map(|(_, high)| high).or(latency(moment));
        let axis = self.axis(highest)?;
        let mean = self.lines.first().map(|line| line.span.interval()).unwrap_or_default();
        let mut frame = self.frame(&format!("Latency of the probe, mean in each {mean}"), HEIGHTS[0]);
        frame.ticks(axis.time_ticks(5));
        for line in self.lines {
            let bounds: Vec<Option<(f64, f64)>> = line.over_time.moments.iter().map(bounds).collect();
            for corners in line.span.bands(&bounds, &axis) {
                let _ = write!(frame.stretched, "<polygon class=\"surface {}\" points=\"{corners}\"/>", line.classes);
            }
        }
        self.lines(&mut frame, &axis, &latency, &|ns| nbsp(&quantities::duration(ns)));
        self.label_phases(&mut frame);
        Some(frame.finish())
    }

    fn goodput(&self) -> Option<String> {
        let goodput = |moment: &LoadedMoment| moment.goodput_bytes_per_s;
        let axis = self.axis(goodput)?;
        let mut frame = self.frame("Goodput of the load", HEIGHTS[1]);
        frame.ticks(axis.ticks(3, |value| if value == 0.0 { "0".to_owned() } else { Quantity::Goodput.tick(value) }));
        self.lines(&mut frame, &axis, &goodput, &|value| Quantity::Goodput.text(value));
        Some(frame.finish())
    }

    fn queue(&self) -> Option<String> {
        let depth = |moment: &LoadedMoment| moment.queue_bytes;
        let most = self.lines.iter().flat_map(|line| line.values(depth)).flatten().fold(0.0, f64::max);
        // A depth is never negative, so the cast is safe.
        let (size, unit) = queue_depth::unit(most as u64);
        let shown = |moment: &LoadedMoment| depth(moment).map(|bytes| bytes / size);
        let axis = self.axis(shown)?;
        let mut frame = self.frame("Queue that the load fills, median of the intervals", HEIGHTS[1]);
        let tick = |value: f64| {
            if value == 0.0 { "0".to_owned() } else { format!("{}\u{a0}{unit}", quantities::number(value)) }
        };
        frame.ticks(axis.ticks(3, tick));
        self.lines(&mut frame, &axis, &shown, &|value| nbsp(&quantities::bytes(value * size)));
        Some(frame.finish())
    }

    /// Returns an axis from zero to the highest value of any case, with a margin; `None` if no value is above zero.
    fn axis(&self, of: impl Fn(&LoadedMoment) -> Option<f64>) -> Option<Axis> {
        Axis::from_zero(self.lines.iter().flat_map(|line| line.values(&of)).flatten().map(|value| value * 1.06))
    }

    /// Returns a chart with its phases marked and the ramp shaded.
    fn frame(&self, title: &str, height: f64) -> Frame<'_> {
        let span = &self.lines[0].span;
        let mut frame = span.frame(title.to_owned(), format!("{title} over the time of a round, {}", self.of));
        (frame.height, frame.times) = (height, TIME_LABELS);
        let [_, ramp, loaded, recovering] = self.begins();
        let (from, until) = (span.place(ramp) * 1000.0, span.place(loaded) * 1000.0);
        let width = (until - from).max(0.0);
        let _ = write!(
            frame.stretched,
            "<rect class=\"warm-up\" x=\"{from:.1}\" y=\"0\" width=\"{width:.1}\" height=\"1000\"/>"
        );
        for begin in [ramp, loaded, recovering] {
            frame.marks += &upright("phase", &percent(span.place(begin)), height);
        }
        frame
    }

    fn begins(&self) -> [u64; 4] {
        let LoadedOverTime { load_from_ns, loaded_from_ns, recovering_from_ns, .. } = self.longest;
        [0, *load_from_ns, *loaded_from_ns, *recovering_from_ns]
    }

    fn label_phases(&self, frame: &mut Frame<'_>) {
        let span = &self.lines[0].span;
        let begins = self.begins();
        let ends = begins[1..].iter().chain([&self.longest.until_ns]);
        for ((phase, begin), end) in Phase::ALL.iter().zip(begins).zip(ends) {
            let middle = percent(f64::midpoint(span.place(begin), span.place(*end)));
            frame.marks += &text("tick phase", &middle, "-6", phase.word());
        }
    }

    /// Draws a line per case, with a mark at its highest value.
    fn lines(
        &self,
        frame: &mut Frame<'_>,
        axis: &Axis,
        of: &dyn Fn(&LoadedMoment) -> Option<f64>,
        text: &dyn Fn(f64) -> String,
    ) {
        for line in self.lines {
            let values = line.values(of);
            for corners in line.span.pieces(&values, axis) {
                let _ = write!(frame.stretched, "<polyline class=\"line {}\" points=\"{corners}\"/>", line.classes);
            }
            let known = values.iter().enumerate().filter_map(|(place, value)| Some((place, (*value)?)));
            let highest = known.reduce(|most, next| if next.1 > most.1 { next } else { most });
            if let Some((place, most)) = highest.filter(|(_, most)| *most > 0.0) {
                let words = format!("{}: highest at {}, {}", line.name, line.span.begins(place), text(most));
                frame.mark((line.colour, &line.classes), line.span.middle(place), axis.place(most), &words);
            }
        }
    }
}
