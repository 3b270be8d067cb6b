//! Groups events into lines: merges similar events and marks long pauses.

use std::collections::BTreeMap;

use hairpin_model::time_sequence::{Event, EventKind};
use hairpin_model::trace::End;
use hairpin_model::{TimeSequence, Wait};

use super::waited_ns;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SequenceLine {
    Events(Events),
    /// The time to the next line, if it is long or has waits.
    Gap(SequenceGap),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) kind: EventKind,
    pub(crate) end: End,
    pub(crate) times: usize,
    pub(crate) at_ns: i64,
    pub(crate) until_ns: i64,
    pub(crate) first_byte: i64,
    pub(crate) end_byte: i64,
    /// Size of each event, if all are equal.
    pub(crate) each_bytes: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SequenceGap {
    pub(crate) from_ns: i64,
    pub(crate) until_ns: i64,
    pub(crate) pause: bool,
    /// Number of the drawn exchange, if earlier exchanges of the connection are in the gap.
    pub(crate) before_exchange: Option<u64>,
    /// The waits during the gap, longest first.
    pub(crate) waits: Vec<Wait>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lines {
    pub(crate) lines: Vec<SequenceLine>,
    pub(crate) waits_left_out: usize,
}

/// Maximum lines between two pauses. With more lines, recurring events are merged.
const MAX_STRETCH_LINES: usize = 12;
/// When they are merged, a kind of event with at most this many lines stays separate.
const MAX_SEPARATE: usize = 3;
/// Maximum lines of events in total. With more lines, each kind of event is merged into one line.
const MAX_LINES: usize = 24;
const MAX_WAITS: usize = 5;
/// A gap is a pause if it is at least 1 / `PAUSE_SHARE` of the exchange, and at least `PAUSE_TIMES` times the median
/// gap or `PAUSE_TIMES_MIN` times the shortest gap. A pause shows its length, because lines have equal distances.
const PAUSE_SHARE: i64 = 10;
const PAUSE_TIMES: i64 = 10;
const PAUSE_TIMES_MIN: i64 = 1000;
/// Shorter gaps count as this long in the comparison with the shortest gap.
const MIN_GAP_NS: i64 = 1000;

pub(crate) fn of(sequence: &TimeSequence) -> Lines {
    let mut events: Vec<Events> = sequence.events.iter().map(single).collect();
    events.sort_by_key(|event| event.at_ns);
    let pauses = pauses(&events, sequence.duration_ns);
    let folded: Vec<Vec<Events>> = stretches(&events, &pauses).into_iter().map(merge_similar).collect();
    let count: usize = folded.iter().map(Vec::len).sum();
    let stretches = if count > MAX_LINES { merge_all(&events) } else { folded };
    let mut lines = join_stretches(stretches, sequence.exchange);
    let mut waits: Vec<&Wait> = sequence.waits.iter().collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(waited_ns(wait)));
    let waits_left_out = waits.len().saturating_sub(MAX_WAITS);
    for wait in waits.into_iter().take(MAX_WAITS) {
        insert_wait(&mut lines, wait);
    }
    Lines { lines, waits_left_out }
}

pub(crate) fn single(event: &Event) -> Events {
    // A blocking read is drawn at its return.
    let at_ns = event.until_ns.filter(|_| event.kind == EventKind::Read).unwrap_or(event.at_ns);
    Events {
        kind: event.kind,
        end: event.end,
        times: 1,
        at_ns,
        until_ns: event.until_ns.unwrap_or(at_ns).max(at_ns),
        first_byte: event.first_byte,
        end_byte: event.end_byte,
        each_bytes: Some(event.end_byte.saturating_sub(event.first_byte)),
    }
}

pub(crate) fn is_packet(kind: EventKind) -> bool {
    use EventKind::{Fin, PureAck, Reset, Segment, Syn, SynAck};
    matches!(kind, Syn | SynAck | Segment | PureAck | Fin | Reset)
}

/// Returns the indices of the events that are followed by a pause.
fn pauses(events: &[Events], duration_ns: i64) -> Vec<usize> {
    let mut over_ns = i64::MIN;
    let mut gaps: Vec<i64> = Vec::with_capacity(events.len());
    for pair in events.windows(2) {
        over_ns = over_ns.max(pair[0].until_ns);
        gaps.push(pair[1].at_ns.saturating_sub(over_ns).max(0));
    }
    let mut sorted = gaps.clone();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let shortest = sorted.first().copied().unwrap_or(0).max(MIN_GAP_NS);
    let unlike = median.saturating_mul(PAUSE_TIMES).min(shortest.saturating_mul(PAUSE_TIMES_MIN));
    let least = (duration_ns / PAUSE_SHARE).max(unlike).max(1);
    let begins = |place: usize| events[place].at_ns < 0 && events[place + 1].at_ns >= 0 && gaps[place] > 0;
    (0..gaps.len()).filter(|place| gaps[*place] >= least || begins(*place)).collect()
}

fn stretches<'e>(events: &'e [Events], pauses: &[usize]) -> Vec<&'e [Events]> {
    let mut stretches = Vec::with_capacity(pauses.len() + 1);
    let mut from = 0;
    for pause in pauses {
        stretches.push(&events[from..=*pause]);
        from = pause + 1;
    }
    stretches.push(&events[from..]);
    stretches.retain(|stretch| !stretch.is_empty());
    stretches
}

/// Merges similar neighbouring events. If too many lines remain, also merges recurring kinds of events.
fn merge_similar(stretch: &[Events]) -> Vec<Events> {
    let mut lines: Vec<Events> = Vec::new();
    for event in stretch {
        match lines.last_mut().filter(|last| is_similar(last, event)) {
            Some(last) => last.add(event),
            None => lines.push(*event),
        }
    }
    if lines.len() > MAX_STRETCH_LINES { merge_kinds(&lines, MAX_SEPARATE) } else { lines }
}

fn is_similar(one: &Events, other: &Events) -> bool {
    (one.kind, one.end) == (other.kind, other.end)
}

/// Merges each kind with more than `few` lines into its first line.
fn merge_kinds(lines: &[Events], few: usize) -> Vec<Events> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let sort = |line: &Events| (line.kind.word(), line.end.word());
    for line in lines {
        *counts.entry(sort(line)).or_default() += 1;
    }
    let mut left: Vec<Events> = Vec::new();
    for line in lines {
        let many = counts[&sort(line)] > few;
        match left.iter_mut().find(|known| many && is_similar(known, line)) {
            Some(known) => known.add(line),
            None => left.push(*line),
        }
    }
    left
}

/// Returns the handshake and the exchange, each with one line per kind of event.
fn merge_all(events: &[Events]) -> Vec<Vec<Events>> {
    let first = events.partition_point(|event| event.at_ns < 0);
    let (handshake, exchange) = events.split_at(first);
    [merge_kinds(handshake, 1), merge_kinds(exchange, 1)].into_iter().filter(|part| !part.is_empty()).collect()
}

impl Events {
    fn add(&mut self, other: &Self) {
        self.times += other.times;
        self.at_ns = self.at_ns.min(other.at_ns);
        self.until_ns = self.until_ns.max(other.until_ns);
        self.first_byte = self.first_byte.min(other.first_byte);
        self.end_byte = self.end_byte.max(other.end_byte);
        self.each_bytes = self.each_bytes.filter(|each| other.each_bytes == Some(*each));
    }
}

fn join_stretches(stretches: Vec<Vec<Events>>, exchange: u64) -> Vec<SequenceLine> {
    let mut lines: Vec<SequenceLine> = Vec::new();
    let mut over_ns = i64::MIN;
    for stretch in stretches {
        let Some(from) = stretch.iter().map(|events| events.at_ns).min() else { continue };
        if !lines.is_empty() {
            let earlier = over_ns < 0 && from >= 0 && exchange > 1;
            lines.push(SequenceLine::Gap(SequenceGap {
                from_ns: over_ns,
                until_ns: from,
                pause: true,
                before_exchange: earlier.then_some(exchange),
                ..SequenceGap::default()
            }));
        }
        over_ns = stretch.iter().map(|events| events.until_ns).max().unwrap_or(from).max(over_ns);
        lines.extend(stretch.into_iter().map(SequenceLine::Events));
    }
    lines
}

/// Inserts a wait between the two lines of events with which it overlaps most.
fn insert_wait(lines: &mut Vec<SequenceLine>, wait: &Wait) {
    let begins: Vec<(usize, i64)> = lines
        .iter()
        .enumerate()
        .filter_map(|(place, line)| match line {
            SequenceLine::Events(events) => Some((place, events.at_ns)),
            SequenceLine::Gap(_) => None,
        })
        .collect();
    let overlap = |pair: &[(usize, i64)]| wait.until_ns.min(pair[1].1).saturating_sub(wait.from_ns.max(pair[0].1));
    let widest = begins.windows(2).max_by_key(|pair| overlap(pair));
    let after = widest.or_else(|| begins.windows(1).last()).map_or(0, |pair| pair[0].0 + 1);
    match lines.get_mut(after) {
        Some(SequenceLine::Gap(gap)) => gap.waits.push(wait.clone()),
        _ => {
            let (from_ns, until_ns, waits) = (wait.from_ns, wait.until_ns, vec![wait.clone()]);
            let gap = SequenceGap { from_ns, until_ns, waits, ..SequenceGap::default() };
            lines.insert(after, SequenceLine::Gap(gap));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_model::ExchangeState;
    use hairpin_model::time_sequence::Source;

    fn event(end: End, kind: EventKind, at_ns: i64, bytes: (i64, i64)) -> Event {
        Event { at_ns, until_ns: Some(at_ns + 10), end, kind, first_byte: bytes.0, end_byte: bytes.1 }
    }

    fn sequence(events: Vec<Event>, waits: Vec<Wait>) -> TimeSequence {
        let duration_ns = events.iter().filter_map(|event| event.until_ns).max().unwrap_or(0);
        TimeSequence {
            exchange: 1,
            source: Source::Capture,
            clock_error_ns: 0,
            of_client_alone: false,
            duration_ns,
            events,
            waits,
            states: Vec::new(),
        }
    }

    fn events(lines: &Lines) -> Vec<(EventKind, usize, i64, i64)> {
        let shown = |line: &SequenceLine| match line {
            SequenceLine::Events(events) => Some((events.kind, events.times, events.first_byte, events.end_byte)),
            SequenceLine::Gap(_) => None,
        };
        lines.lines.iter().filter_map(shown).collect()
    }

    #[test]
    fn similar_neighbours_are_one_line() {
        let writes =
            (0..100).map(|number| event(End::Client, EventKind::Write, 100 * number, (2 * number, 2 * number + 2)));
        let mut all: Vec<Event> = writes.collect();
        all.push(event(End::Client, EventKind::Segment, 50, (0, 2)));
        let lines = of(&sequence(all, Vec::new()));
        let expected = [(EventKind::Write, 1, 0, 2), (EventKind::Segment, 1, 0, 2), (EventKind::Write, 99, 2, 200)];
        assert_eq!(events(&lines), expected);
    }

    #[test]
    fn alternating_events_are_merged_by_kind_and_rare_events_are_kept() {
        let mut all = Vec::new();
        for number in 0..50 {
            all.push(event(End::Client, EventKind::Write, 100 * number, (2 * number, 2 * number + 2)));
            all.push(event(End::Client, EventKind::Segment, 100 * number + 50, (2 * number, 2 * number + 2)));
        }
        all.push(event(End::Server, EventKind::Read, 2000, (0, 30)));
        all.push(event(End::Server, EventKind::Read, 5100, (30, 100)));
        let lines = of(&sequence(all, Vec::new()));
        let expected = [
            (EventKind::Write, 50, 0, 100),
            (EventKind::Segment, 50, 0, 100),
            (EventKind::Read, 1, 0, 30),
            (EventKind::Read, 1, 30, 100),
        ];
        assert_eq!(events(&lines), expected);
    }

    #[test]
    fn a_gap_much_longer_than_the_shortest_gap_is_a_pause_even_if_most_gaps_are_long() {
        let at = [0, 20_000_000, 20_001_000, 45_000_000, 70_000_000];
        let all = at.map(|at_ns| event(End::Client, EventKind::Write, at_ns, (0, 2)));
        let lines = of(&sequence(all.to_vec(), Vec::new()));
        let pauses = lines.lines.iter().filter(|line| matches!(line, SequenceLine::Gap(gap) if gap.pause)).count();
        assert_eq!(pauses, 3);
    }

    #[test]
    fn a_long_gap_is_a_pause_and_events_are_not_merged_across_it() {
        let write = |at_ns, bytes| event(End::Client, EventKind::Write, at_ns, bytes);
        let all = vec![write(0, (0, 2)), write(100, (2, 4)), write(200, (4, 6)), write(1_000_000, (6, 8))];
        let lines = of(&sequence(all, Vec::new()));
        assert_eq!(events(&lines), [(EventKind::Write, 3, 0, 6), (EventKind::Write, 1, 6, 8)]);
        let SequenceLine::Gap(gap) = &lines.lines[1] else { panic!("{lines:?}") };
        assert_eq!((gap.from_ns, gap.until_ns, gap.pause), (210, 1_000_000, true));
    }

    #[test]
    fn a_read_is_drawn_at_the_time_of_its_return() {
        let read = Event { until_ns: Some(900), ..event(End::Server, EventKind::Read, 10, (0, 2)) };
        let lines = of(&sequence(vec![read, event(End::Client, EventKind::Write, 0, (0, 2))], Vec::new()));
        assert_eq!(events(&lines)[1].0, EventKind::Read);
        let Some(SequenceLine::Events(last)) = lines.lines.last() else { panic!("{lines:?}") };
        assert_eq!(last.at_ns, 900);
    }

    #[test]
    fn a_wait_is_drawn_between_the_lines_with_which_it_overlaps_most() {
        let all = vec![
            event(End::Client, EventKind::Write, 0, (0, 2)),
            event(End::Client, EventKind::Write, 400, (2, 4)),
            event(End::Server, EventKind::PureAck, 9000, (2, 2)),
        ];
        let wait = |from_ns, until_ns| Wait {
            came_ns: None,
            cause: ExchangeState::Nagle,
            end: End::Client,
            from_ns,
            until_ns,
            first_byte: 2,
            end_byte: 4,
        };
        let lines = of(&sequence(all, vec![wait(300, 9000), wait(-50, -20)]));
        let places: Vec<usize> = (0..lines.lines.len())
            .filter(|place| matches!(&lines.lines[*place], SequenceLine::Gap(gap) if gap.waits.contains(&wait(300, 9000))))
            .collect();
        assert_eq!(places, [lines.lines.len() - 2], "before the acknowledgment: {lines:?}");
        let waits = vec![wait(300, 9000); 9];
        assert_eq!(of(&sequence(vec![event(End::Client, EventKind::Write, 0, (0, 2))], waits)).waits_left_out, 4);
    }

    #[test]
    fn the_number_of_lines_is_bounded() {
        let kinds = [EventKind::Write, EventKind::Segment, EventKind::PureAck, EventKind::Read];
        let mut all = Vec::new();
        for number in 0..4000_i64 {
            let kind = kinds[usize::try_from(number * number % 7).unwrap_or(0) % 4];
            let end = if number % 3 == 0 { End::Server } else { End::Client };
            all.push(event(end, kind, number * number * 1000 - 5000, (number, number + 1)));
        }
        let lines = of(&sequence(all, Vec::new()));
        assert!(lines.lines.len() <= MAX_LINES + 1, "{}", lines.lines.len());
        let counted: usize = events(&lines).iter().map(|line| line.1).sum();
        assert_eq!(counted, 4000, "no event is lost");
        assert_eq!(of(&sequence(Vec::new(), Vec::new())), Lines::default());
    }
}
