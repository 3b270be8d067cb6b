//! Code shared by charts over time. The time axis starts with the link or the round; values are drawn as steps.

use std::fmt::Write as _;

use hairpin_model::{DirectionRecord, Moment, quantities};

use super::axis::{Axis, Tick};
use super::svg::{down, escape, level, mark, percent, sample, text, trimmed};
use crate::page_text::nbsp;

pub(super) const HEIGHT: f64 = 110.0;
/// Width and height of the coordinate system of steps, which is stretched to the plot.
const GRID: f64 = 1000.0;

/// The time range of a chart, and the length of its intervals.
pub(crate) struct Span {
    time: Axis,
    interval_ns: f64,
}

pub(super) struct Frame<'s> {
    span: &'s Span,
    pub(super) described: String,
    pub(super) title: String,
    pub(super) across: Vec<(f64, String)>,
    pub(super) height: f64,
    pub(super) times: usize,
    /// Shapes that are stretched to the plot.
    pub(super) stretched: String,
    /// Shapes that keep their size.
    pub(super) marks: String,
    pub(super) legend: String,
}

impl Span {
    /// Spans the first to the last interval with any event; `None` without events.
    pub(crate) fn of(direction: &DirectionRecord) -> Option<Self> {
        let timeline = direction.timeline.as_ref()?;
        let interval_ns = timeline.interval_ns as f64;
        let all = [&timeline.entered, &timeline.out, &timeline.queue_bytes_max];
        let busy = |counts: &Vec<u64>| {
            let first = counts.iter().position(|count| *count > 0)?;
            Some((first, counts.iter().rposition(|count| *count > 0)?))
        };
        let busy = all.into_iter().chain(timeline.dropped.values()).filter_map(busy);
        let (first, last) = busy.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let time = Axis::between(first as f64 * interval_ns, (last + 1) as f64 * interval_ns)?;
        Some(Self { time, interval_ns })
    }

    /// Spans the moments of a one-way load; `None` for fewer than two moments.
    pub(crate) fn of_moments(moments: &[Moment]) -> Option<Self> {
        let [first, .., last] = moments else { return None };
        Self::until(first.at_ns, last.at_ns)
    }

    /// Spans intervals of length `interval_ns` from 0 to `end_ns`; `None` if either argument is zero.
    pub(super) fn until(interval_ns: u64, end_ns: u64) -> Option<Self> {
        let time = Axis::between(0.0, end_ns as f64)?;
        (interval_ns > 0).then_some(Self { time, interval_ns: interval_ns as f64 })
    }

    pub(super) fn place(&self, ns: u64) -> f64 {
        self.time.place(ns as f64)
    }

    pub(super) fn begins(&self, place: usize) -> String {
        nbsp(&quantities::round_duration(place as f64 * self.interval_ns))
    }

    pub(super) fn middle(&self, place: usize) -> f64 {
        self.time.place((place as f64 + 0.5) * self.interval_ns)
    }

    pub(super) fn per_s(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.interval_ns
    }

    pub(super) fn interval(&self) -> String {
        nbsp(&quantities::round_duration(self.interval_ns))
    }

    /// Returns the corners of a stepped line, in which each step is as wide as an interval.
    pub(super) fn steps(&self, values: &[f64], axis: &Axis) -> String {
        self.steps_from(0, values, axis)
    }

    /// Like [`Self::steps`], for values that start with interval number `first`.
    fn steps_from(&self, first: usize, values: &[f64], axis: &Axis) -> String {
        let mut corners = String::new();
        let x = |place: usize| trimmed(self.time.place((first + place) as f64 * self.interval_ns) * GRID);
        let y = |value: f64| trimmed((1.0 - axis.place(value)) * GRID);
        for (place, value) in values.iter().enumerate() {
            let same = |other: Option<&f64>| other == Some(value);
            if place == 0 || !same(values.get(place - 1)) {
                let _ = write!(corners, "{},{} ", x(place), y(*value));
            }
            if !same(values.get(place + 1)) {
                let _ = write!(corners, "{},{} ", x(place + 1), y(*value));
            }
        }
        corners.trim_end().to_owned()
    }

    pub(super) fn surface(&self, values: &[f64], axis: &Axis) -> String {
        let end = trimmed(self.time.place(values.len() as f64 * self.interval_ns) * GRID);
        format!("0,{GRID} {} {end},{GRID}", self.steps(values, axis))
    }

    pub(super) fn band(&self, low: &[f64], high: &[f64], axis: &Axis) -> String {
        between(&self.steps(low, axis), &self.steps(high, axis))
    }

    /// Returns the polygons between two stepped lines, one per run of consecutive known values.
    pub(super) fn bands(&self, bounds: &[Option<(f64, f64)>], axis: &Axis) -> Vec<String> {
        let of = |bound: fn((f64, f64)) -> f64| {
            self.pieces(&bounds.iter().map(|bounds| bounds.map(bound)).collect::<Vec<_>>(), axis)
        };
        of(|(low, _)| low).iter().zip(of(|(_, high)| high)).map(|(low, high)| between(low, &high)).collect()
    }

    /// Returns the corners of a stepped line per run of consecutive known values.
    pub(super) fn pieces(&self, values: &[Option<f64>], axis: &Axis) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut place = 0;
        for stretch in values.chunk_by(|one, other| one.is_some() == other.is_some()) {
            let known: Vec<f64> = stretch.iter().flatten().copied().collect();
            if !known.is_empty() {
                pieces.push(self.steps_from(place, &known, axis));
            }
            place += stretch.len();
        }
        pieces
    }

    pub(super) fn frame(&self, title: String, described: String) -> Frame<'_> {
        Frame {
            span: self,
            described,
            title,
            across: Vec::new(),
            height: HEIGHT,
            times: 4,
            stretched: String::new(),
            marks: String::new(),
            legend: String::new(),
        }
    }
}

fn between(low: &str, high: &str) -> String {
    let back: Vec<&str> = low.split(' ').rev().collect();
    format!("{high} {}", back.join(" "))
}

impl Frame<'_> {
    pub(super) fn ticks(&mut self, ticks: Vec<Tick>) {
        self.across = ticks.into_iter().map(|tick| (tick.place, tick.label)).collect();
    }

    /// Adds a mark with a title at the position `place` and `height`, each from 0 to 1.
    pub(super) fn mark(&mut self, (shape, classes): (usize, &str), place: f64, height: f64, words: &str) {
        let at = [percent(place), down(height, self.height)];
        self.marks.push_str(&mark(&format!("mark {classes}"), shape, at.each_ref().map(String::as_str), words));
    }

    pub(super) fn finish(self) -> String {
        let height = trimmed(self.height);
        let mut lines = format!("<rect class=\"ground\" x=\"0\" y=\"0\" width=\"100%\" height=\"{height}\"/>");
        for (place, label) in &self.across {
            let y = down(*place, self.height);
            lines += &(level("grid minor", &y) + &text("tick y", "-6", &y, label));
        }
        let below = trimmed(self.height + 15.0);
        for tick in self.span.time.time_ticks(self.times) {
            lines += &text("tick", percent(tick.place), &below, &tick.label);
        }
        let (title, described) = (escape(&self.title), escape(&self.described));
        let stretched = match self.stretched.as_str() {
            "" => String::new(),
            shapes => format!(
                "<svg class=\"steps\" width=\"100%\" height=\"{height}\" viewBox=\"0 0 {GRID} {GRID}\" \
                 preserveAspectRatio=\"none\">{shapes}</svg>"
            ),
        };
        format!(
            "<figure class=\"over-time\"><figcaption>{title}</figcaption><div class=\"plot small\"><svg class=\"chart \
             over-time\" width=\"100%\" height=\"{height}\" role=\"img\" aria-label=\"{described}\">{lines}{stretched}{}\
             </svg></div>{}</figure>",
            self.marks, self.legend
        )
    }
}

pub(super) fn legend(entries: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> String {
    let items = entries
        .into_iter()
        .map(|(class, text)| format!("<li>{}{}</li>", sample(class.as_ref()), escape(text.as_ref())));
    format!("<ul class=\"sequence-legend\">{}</ul>", items.collect::<String>())
}

/// Returns the number of the colour and mark for drops by a stage, which all charts use.
pub(super) fn look_of_stage(stage: &str) -> usize {
    /// Number for all other stages.
    const OTHER_LOOK: usize = 2;
    const LOOKS: [(&str, usize); 5] = [("queue", 1), ("loss", 4), ("outage", 3), ("mtu", 5), ("release", 6)];
    LOOKS.iter().find(|(known, _)| *known == stage).map_or(OTHER_LOOK, |(_, look)| *look)
}
