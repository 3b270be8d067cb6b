//! The messages of each stream over the rounds of a case.

use std::collections::BTreeMap;

use hairpin_model::one_way::{BlockedByOthers, MAX_STREAMS_SHOWN, StreamLatency, StreamLedger, StreamSummary};
use hairpin_model::{Flow, FlowRecord, Measured, Received, StreamReceived};

pub(crate) fn by_stream(flow: &Flow, rounds: &[&Measured]) -> Vec<StreamSummary> {
    let records: Vec<&FlowRecord> = rounds.iter().filter_map(|measured| measured.flow(&flow.id)).collect();
    let received = || records.iter().filter_map(|record| record.received.as_ref());
    // A saved run may list any number of streams.
    let count = received().map(|received| received.streams.len()).max().unwrap_or(0).min(MAX_STREAMS_SHOWN);
    let of_stream = |stream: usize| {
        let arrived: Vec<&StreamReceived> = received().filter_map(|received| received.streams.get(stream)).collect();
        let sent = records.iter().filter_map(|record| record.sent.as_ref()?.stream_messages.get(stream));
        let sent = sent.fold(0_u64, |sum, count| sum.saturating_add(*count));
        summary(stream, sent, &arrived)
    };
    (0..count).map(of_stream).collect()
}

fn summary(stream: usize, sent: u64, rounds: &[&StreamReceived]) -> StreamSummary {
    let mut counts = BTreeMap::<u64, u64>::new();
    for (value, count) in rounds.iter().flat_map(|round| &round.latency_counts) {
        let so_far = counts.entry(*value).or_default();
        *so_far = so_far.saturating_add(*count);
    }
    let timed = counts.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let quantile = |share: f64| {
        let mut below = 0_u64;
        let place = (timed as f64 * share).ceil() as u64;
        counts.iter().find_map(|(value, count)| {
            below = below.saturating_add(*count);
            (below >= place).then_some(*value)
        })
    };
    let sum = |of: fn(&StreamReceived) -> u64| rounds.iter().fold(0_u64, |sum, round| sum.saturating_add(of(round)));
    let (received, blocked) = (sum(|round| round.received), sum(|round| round.blocked));
    StreamSummary {
        stream: u32::try_from(stream).unwrap_or(u32::MAX),
        latency_ns: StreamLatency { p50: quantile(0.5), p90: quantile(0.9), max: counts.keys().next_back().copied() },
        ledger: StreamLedger { sent, received, missing: sent.saturating_sub(received) },
        blocked_by_others: BlockedByOthers {
            messages: blocked,
            share: if timed == 0 { 0.0 } else { blocked as f64 / timed as f64 },
            longest_ns: rounds.iter().map(|round| round.longest_blocked_ns).max().unwrap_or(0),
        },
        late: sum(|round| round.late),
    }
}

/// Messages of a round's streams whose times were kept, those that waited for another stream's data, and the sum of these waits
/// in ns; `None` if messages were not counted by stream.
pub(crate) fn blocked(received: &Received) -> Option<[u64; 3]> {
    let sum = |of: &dyn Fn(&StreamReceived) -> u64| {
        received.streams.iter().fold(0_u64, |sum, stream| sum.saturating_add(of(stream)))
    };
    let timed = sum(&|stream| stream.latency_counts.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count)));
    (timed > 0).then(|| [timed, sum(&|stream| stream.blocked), sum(&|stream| stream.blocked_ns)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_added_and_quantiles_are_of_all() {
        let round = |blocked, longest_blocked_ns| StreamReceived {
            received: 4,
            latency_counts: vec![(20, 3), (60, 1)],
            blocked,
            blocked_ns: 2 * longest_blocked_ns,
            longest_blocked_ns,
            late: 2,
        };
        let [one, other] = [round(1, 40), round(0, 0)];
        let summary = summary(2, 9, &[&one, &other]);
        assert_eq!(summary.latency_ns, StreamLatency { p50: Some(20), p90: Some(60), max: Some(60) });
        assert_eq!(summary.ledger, StreamLedger { sent: 9, received: 8, missing: 1 });
        let blocked = BlockedByOthers { messages: 1, share: 1.0 / 8.0, longest_ns: 40 };
        assert_eq!((summary.blocked_by_others, summary.late), (blocked, 4));
        let streams = vec![one, other];
        assert_eq!(super::blocked(&Received { streams, ..Received::default() }), Some([8, 1, 80]));
        assert_eq!(super::blocked(&Received::default()), None);
    }

    #[test]
    fn a_stream_without_messages_has_no_quantiles() {
        assert_eq!(summary(0, 0, &[]).latency_ns, StreamLatency::default());
    }
}
