//! The time sequence of an exchange: two vertical lines are the ends, time runs down and is broken at long pauses,
//! packets go across, and waits are shaded bars at their end.
//!
//! Vertically it is not to scale: each line has its own height, and bars reach from line to line. Horizontally,
//! positions are percentages, so that it fits a phone and a desk; all labels are between the ends.

use std::fmt::Write as _;

use hairpin_model::names::distinct;
use hairpin_model::time_sequence::EventKind;
use hairpin_model::trace::End;
use hairpin_model::{CaseSummary, TimeSequence, Wait};

use super::svg::{escape, trimmed};
use crate::page_text::{filled, tied};
use crate::time_sequence::lines::{self, Events, SequenceGap, SequenceLine, is_packet};
use crate::time_sequence::words::{self, Clock};

const TOP: f64 = 30.0;
/// Heights of a call, a packet, a line of words, and the margin of words in a gap, in pixels.
const CALL: f64 = 24.0;
const PACKET: f64 = 34.0;
const WORDS: f64 = 17.0;
const AROUND: f64 = 20.0;
/// How much lower a packet arrives than it left.
const SLOPE: f64 = 7.0;
/// Two strokes mean several packets.
const BESIDE: f64 = 5.0;
/// Width of a bar, and distance between the starts of two.
const BAR: f64 = 9.0;
const TRACK: f64 = 13.0;
/// Characters in a line of words next to a bar: as many as fit a phone.
const LETTERS: usize = 38;

/// The chart with its description in words.
pub(crate) fn chart(row: &CaseSummary, sequence: &TimeSequence) -> String {
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
    let title = escape(&format!("Time sequence of an exchange, {}", row.label));
    let described = escape(&described(&lines.lines, sequence, &clock));
    format!(
        "<div class=\"plot sequence\"><svg class=\"chart time-sequence\" width=\"100%\" height=\"{}\" role=\"img\" \
         aria-label=\"{title}\"><title>{title}</title><desc>{described}</desc>{}</svg></div>{}",
        trimmed(drawing.y + 10.0),
        drawing.finish(),
        legend(&lines.lines)
    )
}

fn described(lines: &[SequenceLine], sequence: &TimeSequence, clock: &Clock) -> String {
    let mut said = Vec::with_capacity(lines.len());
    for line in lines {
        match line {
            SequenceLine::Events(events) => said.push(format!(
                "{} {} {}: {}",
                clock.time(events.at_ns),
                clock.unit.name,
                words::end(events.end),
                words::events(events, clock)
            )),
            SequenceLine::Gap(gap) => {
                said.extend(words::left_out(gap).map(|text| tied(&text)));
                let waits = gap.waits.iter();
                said.extend(
                    waits.map(|wait| format!("{}: {}", words::end(wait.end), tied(&words::wait(wait, sequence)))),
                );
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

/// Explains shades and strokes.
fn legend(lines: &[SequenceLine]) -> String {
    let mut html = String::from("<ul class=\"sequence-legend\">");
    let item = |html: &mut String, class: &str, text: &str| {
        let _ = write!(html, "<li><i class=\"{class}\" aria-hidden=\"true\"></i>{text}</li>");
    };
    item(&mut html, "key-call", "system call");
    item(&mut html, "key-segment", "segment with payload; two strokes: several");
    item(&mut html, "key-bare", "packet without payload");
    for cause in distinct(waits(lines).map(|wait| wait.cause)) {
        item(&mut html, &format!("key-wait {cause}"), words::cause(cause));
    }
    html.push_str("</ul>");
    html
}

struct Drawing<'s> {
    sequence: &'s TimeSequence,
    clock: Clock,
    /// The top of the next line.
    y: f64,
    /// Bands below everything, marks above everything else.
    below: String,
    above: String,
    /// Instants in ns and their positions, both ascending.
    places: Vec<(f64, f64)>,
    /// The drawn waits, each with its track.
    bars: Vec<(Wait, usize)>,
    /// Start of words, from each end.
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
            (0..tracks).map(|_| TRACK).sum::<f64>().max(4.0) + 8.0
        };
        let mut drawing = Self {
            margins: [margin(End::Client), margin(End::Server)],
            sequence,
            clock,
            y: TOP,
            below: String::new(),
            above: String::new(),
            places: Vec::new(),
            bars,
        };
        let ends = [("0", "start", End::Client), ("100%", "end", End::Server)];
        for (x, anchor, end) in ends {
            let name = words::end(end);
            let _ = write!(
                drawing.above,
                "<text class=\"end-name\" x=\"{x}\" y=\"12\" text-anchor=\"{anchor}\">{name}</text>"
            );
        }
        let _ = write!(drawing.above, "<text class=\"tick y\" x=\"-10\" y=\"8\">{}</text>", clock.unit.name);
        drawing
    }

    fn margin(&self, end: End) -> f64 {
        self.margins[usize::from(end == End::Server)]
    }

    /// Records the position of an instant.
    fn note(&mut self, ns: i64, y: f64) {
        let ns = ns as f64;
        if self.places.last().is_none_or(|last| last.0 < ns) {
            self.places.push((ns, y));
        }
    }

    fn time(&mut self, text: &str, y: f64) {
        let _ = write!(self.above, "<text class=\"tick y\" x=\"-10\" y=\"{}\">{}</text>", trimmed(y), escape(text));
    }

    /// Draws the lines of both ends over this height.
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

    /// Words next to the line of an end.
    fn beside(&mut self, end: End, class: &str, text: &str, y: f64) {
        let (x, anchor, away) = match end {
            End::Client => ("0", "start", self.margin(end)),
            End::Server => ("100%", "end", -self.margin(end)),
        };
        let _ = write!(
            self.above,
            "<text class=\"{class}\" x=\"{x}\" dx=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            trimmed(away),
            trimmed(y),
            escape(text)
        );
    }

    fn call(&mut self, events: &Events) {
        let y = self.y + CALL / 2.0;
        self.ends(CALL, "life");
        self.note(events.at_ns, y);
        self.time(&self.clock.time(events.at_ns), y);
        let x = if events.end == End::Client { "0" } else { "100%" };
        let _ = write!(self.above, "<circle class=\"call\" cx=\"{x}\" cy=\"{}\" r=\"4\"/>", trimmed(y));
        self.beside(events.end, "call-name", &words::events(events, &self.clock), y);
        self.y += CALL;
    }

    fn packet(&mut self, events: &Events) {
        let left = self.y + PACKET - SLOPE - 8.0;
        self.ends(PACKET, "life");
        self.note(events.at_ns, left);
        self.time(&self.clock.time(events.at_ns), left);
        let (from, to, head) = match events.end {
            End::Client => ("0", "100%", "right"),
            End::Server => ("100%", "0", "left"),
        };
        let class = if events.kind == EventKind::Segment { "packet" } else { "packet bare" };
        let _ = write!(self.above, "<g class=\"{class}\">");
        let strokes: &[f64] = if events.times > 1 { &[0.0, BESIDE] } else { &[0.0] };
        for away in strokes {
            let (y1, y2) = (trimmed(left + away), trimmed(left + away + SLOPE));
            let _ = write!(
                self.above,
                "<line x1=\"{from}\" y1=\"{y1}\" x2=\"{to}\" y2=\"{y2}\"/>\
                 <use href=\"#m-{head}\" x=\"{to}\" y=\"{y2}\"/>"
            );
        }
        let _ = write!(
            self.above,
            "<text class=\"packet-name\" x=\"50%\" y=\"{}\">{}</text></g>",
            trimmed(left - 6.0),
            escape(&words::events(events, &self.clock))
        );
        self.y += PACKET;
    }

    fn gap(&mut self, gap: &SequenceGap) {
        let left_out = words::left_out(gap).map(|text| tied(&text));
        let texts: Vec<(End, Vec<String>)> = gap
            .waits
            .iter()
            .map(|wait| (wait.end, filled(tied(&words::wait(wait, self.sequence)).split(' '), LETTERS)))
            .collect();
        let words: usize =
            texts.iter().map(|(_, lines)| lines.len()).sum::<usize>() + usize::from(left_out.is_some());
        let height = words as f64 * WORDS + AROUND;
        if gap.pause {
            self.note(gap.from_ns, self.y);
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
        let mut y = self.y + (AROUND + WORDS) / 2.0;
        if let Some(left_out) = left_out {
            let _ = write!(
                self.above,
                "<text class=\"left-out\" x=\"50%\" y=\"{}\">{}</text>",
                trimmed(y),
                escape(&left_out)
            );
            y += WORDS;
        }
        for (end, lines) in texts {
            for line in lines {
                self.beside(end, "wait-name", &line, y);
                y += WORDS;
            }
        }
        self.y += height;
        if gap.pause {
            self.note(gap.until_ns, self.y);
        }
    }

    /// The position of an instant, interpolated between the lines before and after it.
    fn place(&self, ns: i64) -> f64 {
        let ns = ns as f64;
        let after = self.places.partition_point(|place| place.0 < ns);
        match (after.checked_sub(1).map(|before| self.places[before]), self.places.get(after)) {
            (Some(before), Some(after)) => before.1 + (ns - before.0) / (after.0 - before.0) * (after.1 - before.1),
            (Some(edge), None) => edge.1,
            (None, Some(edge)) => edge.1,
            (None, None) => TOP,
        }
    }

    /// Bands, then bars, then everything else.
    fn finish(self) -> String {
        let mut html = self.below.clone();
        for (wait, track) in &self.bars {
            let (from, until) = (self.place(wait.from_ns), self.place(wait.until_ns));
            let away: f64 = (0..*track).map(|_| TRACK).sum();
            let (x, shift) = match wait.end {
                End::Client => ("0", 1.0 + away),
                End::Server => ("100%", -1.0 - away - BAR),
            };
            let _ = write!(
                html,
                "<rect class=\"wait {}\" x=\"{x}\" transform=\"translate({} 0)\" width=\"{BAR}\" y=\"{}\" height=\"{}\">\
                 <title>{}</title></rect>",
                wait.cause,
                trimmed(shift),
                trimmed(from),
                trimmed((until - from).max(4.0)),
                escape(&tied(&words::wait(wait, self.sequence)))
            );
        }
        html + &self.above
    }
}
