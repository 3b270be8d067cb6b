//! Draws the time sequence of an exchange. The two vertical lines are the ends. Time runs down, and long pauses are
//! shortened. Arrows between the lines are packets. Shaded bars next to a line are waits at that end.
//!
//! The vertical axis is not to scale: each kind of event has a fixed height. Horizontal positions are percentages,
//! and labels are between the two lines, so that the chart fits phones and wide screens.

use std::fmt::Write as _;

use hairpin_model::names::distinct;
use hairpin_model::time_sequence::EventKind;
use hairpin_model::trace::End;
use hairpin_model::{TimeSequence, Wait};

use super::over_time;
use super::svg::{escape, trimmed};
use crate::exchange_states;
use crate::page_text::{nbsp, wrap_words};
use crate::time_sequence::lines::{self, Events, SequenceGap, SequenceLine, is_packet};
use crate::time_sequence::words::{self, Clock};

const TOP_MARGIN: f64 = 30.0;
/// Heights of a call, a packet and a line of text, and margin around the text of a gap, in pixels.
const CALL_HEIGHT: f64 = 24.0;
const PACKET_HEIGHT: f64 = 34.0;
const LINE_HEIGHT: f64 = 17.0;
const GAP_MARGIN: f64 = 20.0;
/// Vertical distance from the start of a packet's arrow to its end, in pixels.
const SLOPE: f64 = 7.0;
/// Distance between the two strokes of an arrow for several packets, in pixels.
const STROKE_DISTANCE: f64 = 5.0;
/// Width of a bar, and distance between the starts of neighbouring bars, in pixels.
const BAR_WIDTH: f64 = 9.0;
const TRACK_WIDTH: f64 = 13.0;
/// Maximum characters in a line of text next to a bar, to fit a phone.
const MAX_LETTERS: usize = 38;

pub(crate) fn chart(label: &str, sequence: &TimeSequence) -> String {
    let lines = lines::of(sequence);
    let clock = Clock::of(sequence).on_page();
    let mut drawing = Drawing::new(&lines.lines, sequence, clock);
    for line in &lines.lines {
        match line {
            SequenceLine::Events(events) if is_packet(events.kind) => drawing.packet(events),
            SequenceLine::Events(events) => drawing.call(events),
            SequenceLine::Gap(gap) => drawing.gap(gap),
        }
    }
    let title = escape(&format!("Time sequence of an exchange, {label}"));
    let described = escape(&description(&lines.lines, sequence, &clock));
    format!(
        "<div class=\"plot sequence\"><svg class=\"chart time-sequence\" width=\"100%\" height=\"{}\" role=\"img\" \
         aria-label=\"{title}\"><title>{title}</title><desc>{described}</desc>{}</svg></div>{}",
        trimmed(drawing.y + 10.0),
        drawing.finish(),
        legend(&lines.lines)
    )
}

fn description(lines: &[SequenceLine], sequence: &TimeSequence, clock: &Clock) -> String {
    let mut said = Vec::with_capacity(lines.len());
    for line in lines {
        match line {
            SequenceLine::Events(events) => said.push(format!(
                "{} {} {}: {}",
                clock.time(events.at_ns),
                clock.unit.name,
                events.end,
                words::events(events, clock)
            )),
            SequenceLine::Gap(gap) => {
                said.extend(words::left_out(gap).map(|text| nbsp(&text)));
                let waits = gap.waits.iter();
                said.extend(waits.map(|wait| format!("{}: {}", wait.end, nbsp(&words::wait(wait, sequence)))));
            }
        }
    }
    said.join("; ")
}

fn waits(lines: &[SequenceLine]) -> impl Iterator<Item = &Wait> {
    lines.iter().flat_map(|line| match line {
        SequenceLine::Gap(gap) => gap.waits.as_slice(),
        SequenceLine::Events(_) => &[],
    })
}

fn legend(lines: &[SequenceLine]) -> String {
    let keys = [
        ("key-call", "system call"),
        ("key-segment", "segment with payload; two strokes: several"),
        ("key-bare", "packet without payload"),
    ];
    let causes = distinct(waits(lines).map(|wait| wait.cause)).into_iter();
    let causes = causes.map(|cause| (format!("key-wait {cause}"), exchange_states::name(cause)));
    over_time::legend(keys.map(|(class, text)| (class.to_owned(), text.to_owned())).into_iter().chain(causes))
}

struct Drawing<'s> {
    sequence: &'s TimeSequence,
    clock: Clock,
    y: f64,
    /// Markup behind the bars, and markup in front of them.
    below: String,
    above: String,
    /// Pairs of a time in ns and its vertical position, ascending.
    places: Vec<(f64, f64)>,
    /// The drawn waits, each with its track.
    bars: Vec<(Wait, usize)>,
    /// Distance of text from the line of each end, in pixels.
    margins: [f64; 2],
}

impl<'s> Drawing<'s> {
    fn new(lines: &[SequenceLine], sequence: &'s TimeSequence, clock: Clock) -> Self {
        let mut bars: Vec<(Wait, usize)> = Vec::new();
        for wait in waits(lines) {
            let track = bars.iter().filter(|(known, _)| known.end == wait.end).count();
            bars.push((wait.clone(), track));
        }
        let margin = |end: End| {
            let tracks = bars.iter().filter(|(wait, _)| wait.end == end).count();
            (0..tracks).map(|_| TRACK_WIDTH).sum::<f64>().max(4.0) + 8.0
        };
        let mut drawing = Self {
            margins: [margin(End::Client), margin(End::Server)],
            sequence,
            clock,
            y: TOP_MARGIN,
            below: String::new(),
            above: String::new(),
            places: Vec::new(),
            bars,
        };
        for (x, anchor, end) in [("0", "start", End::Client), ("100%", "end", End::Server)] {
            drawing.text("end-name", &format!("x=\"{x}\" text-anchor=\"{anchor}\""), end.word(), 12.0);
        }
        drawing.time(clock.unit.name, 8.0);
        drawing
    }

    fn margin(&self, end: End) -> f64 {
        self.margins[usize::from(end == End::Server)]
    }

    fn record(&mut self, ns: i64, y: f64) {
        let ns = ns as f64;
        if self.places.last().is_none_or(|last| last.0 < ns) {
            self.places.push((ns, y));
        }
    }

    fn time(&mut self, text: &str, y: f64) {
        self.text("tick y", "x=\"-10\"", text, y);
    }

    fn text(&mut self, class: &str, place: &str, text: &str, y: f64) {
        let (y, text) = (trimmed(y), escape(text));
        let _ = write!(self.above, "<text class=\"{class}\" {place} y=\"{y}\">{text}</text>");
    }

    fn ends(&mut self, height: f64, class: &str) {
        for x in ["0", "100%"] {
            let _ = write!(
                self.below,
                "<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{}\"/>",
                trimmed(self.y),
                trimmed(self.y + height)
            );
        }
    }

    fn beside(&mut self, end: End, class: &str, text: &str, y: f64) {
        let (x, anchor, away) = match end {
            End::Client => ("0", "start", self.margin(end)),
            End::Server => ("100%", "end", -self.margin(end)),
        };
        self.text(class, &format!("x=\"{x}\" dx=\"{}\" text-anchor=\"{anchor}\"", trimmed(away)), text, y);
    }

    fn call(&mut self, events: &Events) {
        let y = self.y + CALL_HEIGHT / 2.0;
        self.ends(CALL_HEIGHT, "life");
        self.record(events.at_ns, y);
        self.time(&self.clock.time(events.at_ns), y);
        let x = if events.end == End::Client { "0" } else { "100%" };
        let _ = write!(self.above, "<circle class=\"call\" cx=\"{x}\" cy=\"{}\" r=\"4\"/>", trimmed(y));
        self.beside(events.end, "call-name", &words::events(events, &self.clock), y);
        self.y += CALL_HEIGHT;
    }

    fn packet(&mut self, events: &Events) {
        let left = self.y + PACKET_HEIGHT - SLOPE - 8.0;
        self.ends(PACKET_HEIGHT, "life");
        self.record(events.at_ns, left);
        self.time(&self.clock.time(events.at_ns), left);
        let (from, to, head) = match events.end {
            End::Client => ("0", "100%", "right"),
            End::Server => ("100%", "0", "left"),
        };
        let class = if events.kind == EventKind::Segment { "packet" } else { "packet bare" };
        let _ = write!(self.above, "<g class=\"{class}\">");
        let strokes: &[f64] = if events.times > 1 { &[0.0, STROKE_DISTANCE] } else { &[0.0] };
        for away in strokes {
            let (y1, y2) = (trimmed(left + away), trimmed(left + away + SLOPE));
            let _ = write!(
                self.above,
                "<line x1=\"{from}\" y1=\"{y1}\" x2=\"{to}\" y2=\"{y2}\"/>\
                 <use href=\"#m-{head}\" x=\"{to}\" y=\"{y2}\"/>"
            );
        }
        self.text("packet-name", "x=\"50%\"", &words::events(events, &self.clock), left - 6.0);
        self.above.push_str("</g>");
        self.y += PACKET_HEIGHT;
    }

    fn gap(&mut self, gap: &SequenceGap) {
        let left_out = words::left_out(gap).map(|text| nbsp(&text));
        let texts: Vec<(End, Vec<String>)> = gap
            .waits
            .iter()
            .map(|wait| (wait.end, wrap_words(nbsp(&words::wait(wait, self.sequence)).split(' '), MAX_LETTERS)))
            .collect();
        let words: usize =
            texts.iter().map(|(_, lines)| lines.len()).sum::<usize>() + usize::from(left_out.is_some());
        let height = words as f64 * LINE_HEIGHT + GAP_MARGIN;
        if gap.pause {
            self.record(gap.from_ns, self.y);
            let band = format!(
                "<rect class=\"pause\" x=\"0\" width=\"100%\" y=\"{}\" height=\"{}\"/>",
                trimmed(self.y),
                trimmed(height)
            );
            self.below.push_str(&band);
            let length = self.clock.time(gap.until_ns.saturating_sub(gap.from_ns));
            self.time(&format!("+{length}"), self.y + height / 2.0);
        }
        self.ends(height, if gap.pause { "life broken" } else { "life" });
        let mut y = self.y + (GAP_MARGIN + LINE_HEIGHT) / 2.0;
        if let Some(left_out) = left_out {
            self.text("left-out", "x=\"50%\"", &left_out, y);
            y += LINE_HEIGHT;
        }
        for (end, lines) in texts {
            for line in lines {
                self.beside(end, "wait-name", &line, y);
                y += LINE_HEIGHT;
            }
        }
        self.y += height;
        if gap.pause {
            self.record(gap.until_ns, self.y);
        }
    }

    /// Returns the vertical position of a time, interpolated between the recorded times before and after it.
    fn y_of(&self, ns: i64) -> f64 {
        let ns = ns as f64;
        let after = self.places.partition_point(|place| place.0 < ns);
        match (after.checked_sub(1).map(|before| self.places[before]), self.places.get(after)) {
            (Some(before), Some(after)) => before.1 + (ns - before.0) / (after.0 - before.0) * (after.1 - before.1),
            (Some(edge), None) => edge.1,
            (None, Some(edge)) => edge.1,
            (None, None) => TOP_MARGIN,
        }
    }

    fn finish(self) -> String {
        let mut html = self.below.clone();
        for (wait, track) in &self.bars {
            let (from, until) = (self.y_of(wait.from_ns), self.y_of(wait.until_ns));
            let away: f64 = (0..*track).map(|_| TRACK_WIDTH).sum();
            let (x, shift) = match wait.end {
                End::Client => ("0", 1.0 + away),
                End::Server => ("100%", -1.0 - away - BAR_WIDTH),
            };
            let _ = write!(
                html,
                "<rect class=\"wait {}\" x=\"{x}\" transform=\"translate({} 0)\" width=\"{BAR_WIDTH}\" y=\"{}\" height=\"{}\">\
                 <title>{}</title></rect>",
                wait.cause,
                trimmed(shift),
                trimmed(from),
                trimmed((until - from).max(4.0)),
                escape(&nbsp(&words::wait(wait, self.sequence)))
            );
        }
        html + &self.above
    }
}
