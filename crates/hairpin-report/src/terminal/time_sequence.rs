//! Draws the time sequence of an exchange as text. The two vertical lines are the ends, and time runs down.

use hairpin_model::time_sequence::EventKind;
use hairpin_model::trace::End;
use hairpin_model::{CaseSummary, Run, TimeSequence, UnknownName};

use anstyle::Style;

use super::look::Look;
use super::page::{CODE, DIM, PLAIN, Page, WARN, clean, wrap};
use crate::time_sequence::lines::{self, Events, SequenceGap, SequenceLine, is_packet};
use crate::time_sequence::words::{self, Clock};
use crate::time_sequence::{chosen, traced};

/// Renders the time sequences of the cases that `which` names (see [`crate::time_sequence::chosen`]). An untraced
/// case has a note with a hint instead of a drawing.
pub fn render_time_sequences(run: &Run, which: &str, look: &Look) -> Result<String, UnknownName> {
    let mut page = Page::new(*look);
    let rows = chosen(run, which)?;
    for row in &rows {
        page.heading("Time sequence", &clean(&row.label));
        match row.trace.as_ref().and_then(|trace| trace.sequence.as_ref()) {
            Some(sequence) if !sequence.events.is_empty() => draw(&mut page, row, sequence),
            _ => page.paragraph(0, PLAIN, &untraced(run, row)),
        }
    }
    if rows.is_empty() {
        page.heading("Time sequence", "");
        page.paragraph(0, PLAIN, NOTHING);
    }
    Ok(page.finish())
}

const NOTHING: &str = "No exchange of this run was traced, so there is no time sequence (hint: `hairpin \
                       small-writes --ladder` traces one exchange of each TCP case and draws it).";

fn untraced(run: &Run, row: &CaseSummary) -> String {
    let labels: Vec<&str> = traced(run).iter().map(|(row, _)| row.label.as_str()).collect();
    match labels.as_slice() {
        [] => NOTHING.to_owned(),
        labels => format!("No exchange of {} was traced (hint: traced cases: {}).", row.label, labels.join(", ")),
    }
}

const MAX_WIDTH: usize = 100;
/// Minimum distance from the text of a wait to the other end's line, in columns.
const MIN_GAP: usize = 3;

struct Canvas<'p> {
    page: &'p mut Page,
    sequence: &'p TimeSequence,
    clock: Clock,
    times: usize,
    between: usize,
}

fn draw(page: &mut Page, row: &CaseSummary, sequence: &TimeSequence) {
    page.paragraph(0, DIM, &words::about(sequence));
    draw_exchange(page, sequence);
    page.paragraph(0, DIM, &words::drawn_from(row, sequence));
}

pub(super) fn draw_exchange(page: &mut Page, sequence: &TimeSequence) {
    let lines = lines::of(sequence);
    let clock = Clock::of(sequence);
    page.paragraph(0, DIM, &words::how_to_read(sequence, &clock));
    page.gap();
    let time_width = |line: &SequenceLine| match line {
        SequenceLine::Events(events) => clock.time(events.at_ns).len(),
        SequenceLine::Gap(gap) => clock.time(gap.until_ns.saturating_sub(gap.from_ns)).len() + 1,
    };
    let times = lines.lines.iter().map(time_width).max().unwrap_or(0).max(6);
    let between = page.look.width.min(MAX_WIDTH).saturating_sub(times + 3).max(24);
    let mut canvas = Canvas { page, sequence, clock, times, between };
    canvas.ends();
    for line in &lines.lines {
        match line {
            SequenceLine::Events(events) if is_packet(events.kind) => canvas.arrow(events),
            SequenceLine::Events(events) => canvas.call(events),
            SequenceLine::Gap(gap) => canvas.gap(gap),
        }
    }
    canvas.line("", '|', &blanks(between), '|', PLAIN);
    page.gap();
    if lines.waits_left_out > 0 {
        page.paragraph(0, DIM, &format!("{} shorter waits are not named.", lines.waits_left_out));
    }
}

fn blanks(columns: usize) -> String {
    " ".repeat(columns)
}

impl Canvas<'_> {
    fn line(&mut self, time: &str, client: char, text: &str, server: char, style: Style) {
        let line = format!("{time:>times$} {client}{text}{server}", times = self.times);
        self.page.line(style, &line);
    }

    fn ends(&mut self) {
        let (client, server) = (End::Client.word(), End::Server.word());
        let room = self.between + 2 - client.len();
        let line = format!("{:>times$} {client}{server:>room$}", self.clock.unit.name, times = self.times);
        self.page.line(DIM, &line);
    }

    /// Writes a call next to the line of its end, with a star on the line.
    fn call(&mut self, events: &Events) {
        let time = self.clock.time(events.at_ns);
        let text = truncate(&words::events(events, &self.clock), self.between - 2);
        let room = self.between - 1;
        match events.end {
            End::Client => self.line(&time, '*', &format!(" {text:<room$}"), '|', PLAIN),
            End::Server => self.line(&time, '|', &format!("{text:>room$} "), '*', PLAIN),
        }
    }

    fn arrow(&mut self, events: &Events) {
        let time = self.clock.time(events.at_ns);
        let text = truncate(&words::events(events, &self.clock), self.between - 6);
        let dashes = self.between - text.chars().count() - 3;
        let (before, after) = ("-".repeat(dashes / 2), "-".repeat(dashes - dashes / 2));
        let style = if events.kind == EventKind::Segment { CODE } else { PLAIN };
        match events.end {
            End::Client => self.line(&time, '|', &format!("{before} {text} {after}>"), '|', style),
            End::Server => self.line(&time, '|', &format!("<{before} {text} {after}"), '|', style),
        }
    }

    /// Writes a gap with its waits next to their ends. A pause interrupts both lines and shows its length.
    fn gap(&mut self, gap: &SequenceGap) {
        let side = if gap.pause { ':' } else { '|' };
        let length = self.clock.time(gap.until_ns.saturating_sub(gap.from_ns));
        let mut time = if gap.pause { format!("+{length}") } else { String::new() };
        if let Some(left_out) = words::left_out(gap).map(|text| truncate(&text, self.between)) {
            self.line(&time, side, &format!("{left_out:^width$}", width = self.between), side, DIM);
            time.clear();
        }
        let of = |end: End| gap.waits.iter().filter(move |wait| wait.end == end);
        let both = of(End::Client).next().is_some() && of(End::Server).next().is_some();
        let room = if both { (self.between - MIN_GAP) / 2 } else { self.between - MIN_GAP } - 1;
        let texts = |end: End| -> Vec<String> {
            let lines = of(end).flat_map(|wait| (0..).zip(wrap(&words::wait(wait, self.sequence), room - 2)));
            lines.map(|(place, line)| format!("{}{line}", if place == 0 { "~ " } else { "  " })).collect()
        };
        let (client, server) = (texts(End::Client), texts(End::Server));
        let width = self.between - 1;
        for place in 0..client.len().max(server.len()) {
            let none = String::new();
            let (left, right) = (client.get(place).unwrap_or(&none), server.get(place).unwrap_or(&none));
            let text = format!(" {left}{right:>room$} ", room = width - 1 - left.chars().count());
            self.line(&time, side, &text, side, WARN);
            time.clear();
        }
        if !time.is_empty() {
            self.line(&time, side, &blanks(self.between), side, DIM);
        }
    }
}

fn truncate(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(2)).collect();
    format!("{kept}..")
}
