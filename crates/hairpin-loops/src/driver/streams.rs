//! What the streams of a load did to each other, from the times at which their messages were due and arrived.
//!
//! Where streams share one ordered channel, a lost packet delays the messages behind it until it was sent again; then they arrive
//! together. The first of them, by its due time, is the one whose data were lost; the others waited for it. Messages of other
//! streams among them waited for another stream's data (head-of-line blocking).

use std::collections::BTreeMap;

use hairpin_model::StreamReceived;
use hairpin_model::one_way::MAX_STREAMS_SHOWN;

use super::Transfer;
use super::times::TimesOfMessages;

/// A message is late if it took this much longer than the fastest one, in ns, and half as long again.
const MIN_LATE_NS: u64 = 2_000_000;
/// Messages that arrive within this time of each other arrive together, in ns.
const MAX_APART_NS: u64 = 1_000_000;

/// Whether the messages of each wire are counted separately.
pub(super) fn are_shown(wires: &[Transfer]) -> bool {
    (2..=MAX_STREAMS_SHOWN).contains(&wires.len())
}

/// Returns the messages of each wire; empty if they are not counted separately.
pub(super) fn received(wires: &[Transfer], times: &TimesOfMessages) -> Vec<StreamReceived> {
    if !are_shown(wires) {
        return Vec::new();
    }
    let rows: Vec<Row> = times.by_wire().map(|(wire, due_ns, at_ns)| Row { wire, due_ns, at_ns }).collect();
    let mut streams = of_rows(&rows, wires.len());
    streams.iter_mut().zip(wires).for_each(|(stream, wire)| stream.received = wire.measured.messages_received);
    streams
}

#[derive(Clone, Copy, Debug)]
struct Row {
    wire: usize,
    due_ns: u64,
    at_ns: u64,
}

impl Row {
    fn latency_ns(&self) -> u64 {
        self.at_ns.saturating_sub(self.due_ns)
    }
}

/// Counts the rows of each wire, which are in the order of their arrival.
fn of_rows(rows: &[Row], wires: usize) -> Vec<StreamReceived> {
    let mut streams = vec![StreamReceived::default(); wires];
    let mut counts = vec![BTreeMap::<u64, u64>::new(); wires];
    let Some(fastest_ns) = rows.iter().map(Row::latency_ns).min() else { return streams };
    let late_ns = fastest_ns + (fastest_ns / 2).max(MIN_LATE_NS);
    let due = |of: fn(u64, u64) -> u64| rows.iter().map(|row| row.due_ns).reduce(of).unwrap_or(0);
    let apart_ns = (due(u64::max) - due(u64::min)) / rows.len() as u64 / 4;
    let apart_ns = apart_ns.min(MAX_APART_NS);
    for together in rows.chunk_by(|one, next| next.at_ns.saturating_sub(one.at_ns) <= apart_ns) {
        let late = || together.iter().filter(|row| row.latency_ns() > late_ns);
        let lost = late().min_by_key(|row| row.due_ns);
        for row in late() {
            let stream = &mut streams[row.wire];
            match lost {
                Some(lost) if lost.wire != row.wire => {
                    stream.blocked += 1;
                    stream.blocked_ns = stream.blocked_ns.saturating_add(row.latency_ns() - fastest_ns);
                    stream.longest_blocked_ns = stream.longest_blocked_ns.max(row.latency_ns() - fastest_ns);
                }
                _ => stream.late += 1,
            }
        }
    }
    for row in rows {
        *counts[row.wire].entry(rounded(row.latency_ns())).or_default() += 1;
    }
    streams.iter_mut().zip(counts).for_each(|(stream, counts)| stream.latency_counts = counts.into_iter().collect());
    streams
}

/// Rounds to about three significant digits, so that a stream has few different values.
fn rounded(ns: u64) -> u64 {
    let bits = u64::BITS - ns.leading_zeros();
    let shift = bits.saturating_sub(10);
    (ns >> shift) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Messages due every 5 ms on four streams in turn, each 20 ms under way, but for those that `late` delays.
    fn blocked(late: impl Fn(usize) -> Option<u64>) -> Vec<[u64; 2]> {
        let mut rows: Vec<Row> = (0..40)
            .map(|number| {
                let due_ns = number as u64 * 5 * MS;
                Row { wire: number % 4, due_ns, at_ns: late(number).unwrap_or(due_ns + 20 * MS) }
            })
            .collect();
        rows.sort_by_key(|row| row.at_ns);
        of_rows(&rows, 4).into_iter().map(|stream| [stream.blocked, stream.late]).collect()
    }

    #[test]
    fn without_a_loss_no_message_waits() {
        assert_eq!(blocked(|_| None), [[0; 2]; 4]);
    }

    #[test]
    fn on_one_ordered_channel_all_streams_wait_for_the_lost_message() {
        // Message 8 is sent again and arrives at 110 ms, when 9 to 17 have waited for it, those from 16 on less than 10 ms.
        let arrives = |number: usize| (8..18).contains(&number).then_some(110 * MS);
        assert_eq!(blocked(arrives), [[0, 2], [2, 0], [2, 0], [2, 0]]);
    }

    #[test]
    fn on_separate_channels_only_the_stream_of_the_lost_message_waits() {
        let arrives =
            |number: usize| (8..18).contains(&number).then_some(110 * MS).filter(|_| number.is_multiple_of(4));
        assert_eq!(blocked(arrives), [[0, 2], [0; 2], [0; 2], [0; 2]]);
    }

    #[test]
    fn a_delay_that_all_share_is_not_a_wait_for_another_stream() {
        // Each message arrives on its own, 15 ms later than usual.
        let arrives = |number: usize| (8..18).contains(&number).then_some(number as u64 * 5 * MS + 35 * MS);
        assert!(blocked(arrives).iter().all(|[blocked, _]| *blocked == 0));
        assert_eq!(blocked(arrives).iter().map(|[_, late]| late).sum::<u64>(), 10);
    }

    #[test]
    fn values_are_rounded_to_three_digits() {
        assert_eq!([0, 1, 1023, 1025, 20_000_001].map(rounded), [0, 1, 1023, 1024, 19_988_480]);
    }
}
