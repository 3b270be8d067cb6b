//! Segments that waited for an acknowledgment: which they were, and who held them.

use hairpin_model::exchange_state::{ExchangeState, StateSpan};
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;
use hairpin_model::{Cause, SocketSample};

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, MIN_SHARE, Rule};

/// A small segment waits for an acknowledgment that the receiver delays.
pub(super) const NAGLE_MEETS_DELAYED_ACK: Rule =
    Rule { code: Cause::NagleMeetsDelayedAck, judge: |peer| judge(peer, true, true), explains: &[Cause::NagleWaits] };

/// A small segment waits one round trip for the acknowledgment of earlier ones.
pub(super) const NAGLE_WAITS: Rule =
    Rule { code: Cause::NagleWaits, judge: |peer| judge(peer, true, false), explains: &[] };

/// A full segment waits for an acknowledgment that the receiver delays.
pub(super) const DELAYED_ACK: Rule =
    Rule { code: Cause::DelayedAck, judge: |peer| judge(peer, false, true), explains: &[] };

/// Maximum time from the end of a hold until the segment leaves, in ns.
const MAX_RELEASE_NS: u64 = 2_000_000;

const STATES: [ExchangeState; 3] =
    [ExchangeState::Nagle, ExchangeState::DelayedAck, ExchangeState::NagleOrDelayedAck];

/// Without packets, an acknowledgment was delayed if it took longer than a round trip by this, in ns (`TCP_DELACK_MIN` is 40 ms).
const MIN_DELAY_NS: u64 = 10_000_000;

/// Shorter holds are named only on long paths, in ns.
const MIN_WAIT_NS: f64 = 5e6;

/// Maximum number of a segment in its message.
const MAX_NUMBER: usize = 1_000;

/// A held segment of an exchange.
struct Held {
    from: End,
    bytes: u64,
    /// Which of its message's segments it is, from 1; `None` without packets.
    number: Option<usize>,
    waited_ns: u64,
    was_ack_delayed: bool,
    /// Whether samples show that the congestion window was full meanwhile: Nagle's algorithm then holds nothing.
    is_window_full: bool,
}

fn held(connection: &Connection, exchange: &Exchange) -> Vec<Held> {
    if connection.packets().is_empty() {
        return exchange.spans_in(&STATES).filter_map(|span| held_by_samples(connection, exchange, span)).collect();
    }
    let mut runs: Vec<StateSpan> = Vec::new();
    let mut delayed_ns: Vec<u64> = Vec::new();
    for span in exchange.spans_in(&STATES) {
        let delayed = if span.state == ExchangeState::DelayedAck { span.until_ns - span.from_ns } else { 0 };
        match runs.last_mut().zip(delayed_ns.last_mut()).filter(|(run, _)| run.until_ns == span.from_ns) {
            Some((run, sum)) => (run.until_ns, *sum) = (span.until_ns, *sum + delayed),
            None => {
                runs.push(*span);
                delayed_ns.push(delayed);
            }
        }
    }
    let find = |(run, delayed_ns): (StateSpan, u64)| {
        let until_ns = exchange.extent.began_ns + run.until_ns;
        let [released_ns, latest_ns] = [until_ns.saturating_sub(1_000), until_ns.saturating_add(MAX_RELEASE_NS)];
        let of = |from: End| connection.sent_within(from, released_ns, latest_ns).next();
        let packet = match (of(End::Client), of(End::Server)) {
            (Some(client), Some(server)) => Some(if client.at_ns <= server.at_ns { client } else { server }),
            (client, server) => client.or(server),
        }?;
        let before =
            connection.sent_within(packet.from, exchange.extent.began_ns, packet.at_ns).take(MAX_NUMBER).count();
        let waited_ns = run.until_ns - run.from_ns;
        Some(Held {
            from: packet.from,
            bytes: packet.end_byte - packet.first_byte,
            number: Some(before.max(1)),
            waited_ns,
            was_ack_delayed: 2 * delayed_ns >= waited_ns,
            is_window_full: is_window_full(during(connection, exchange, packet.from, &run)),
        })
    };
    runs.into_iter().zip(delayed_ns).filter_map(find).collect()
}

fn held_by_samples(connection: &Connection, exchange: &Exchange, span: &StateSpan) -> Option<Held> {
    // The holder is the end with unsent bytes.
    let unsent = |from: End| {
        let bytes = during(connection, exchange, from, span).iter().map(|sample| sample.not_sent_bytes).max();
        bytes.filter(|bytes| *bytes > 0).map(|bytes| (bytes, from))
    };
    let (bytes, from) = unsent(End::Client).max(unsent(End::Server))?;
    let round_trip_ns = connection.vantage.round_trip_ns().unwrap_or(0);
    let waited_ns = span.until_ns - span.from_ns;
    let was_ack_delayed = waited_ns >= round_trip_ns.saturating_add(MIN_DELAY_NS);
    let is_window_full = is_window_full(during(connection, exchange, from, span));
    Some(Held { from, bytes, number: None, waited_ns, was_ack_delayed, is_window_full })
}

fn during<'c>(connection: &'c Connection, exchange: &Exchange, end: End, span: &StateSpan) -> &'c [SocketSample] {
    let samples = connection.samples(end);
    let [from, until] = [span.from_ns, span.until_ns]
        .map(|ns| samples.partition_point(|sample| sample.at_ns < exchange.extent.began_ns + ns));
    &samples[from..until]
}

fn is_window_full(samples: &[SocketSample]) -> bool {
    let full = samples.iter().filter(|sample| sample.unacked_segments >= sample.cwnd_segments.max(1)).count();
    2 * full > samples.len()
}

/// Judges the waits of segments for acknowledgments. `is_small` asks for segments that are not full, `was_delayed` for
/// acknowledgments that the receiver delayed.
fn judge(peer: &Peer, is_small: bool, was_delayed: bool) -> Option<Judged<'_>> {
    let of_it = |connection: &Connection, one: &Held| {
        // Without packets the size of a full segment is unknown.
        let is_full = one.is_window_full || (one.number.is_some() && one.bytes >= connection.mss_bytes());
        is_full != is_small && one.was_ack_delayed == was_delayed
    };
    let waits = peer.waits(|connection, exchange| {
        let held = held(connection, exchange);
        held.iter().filter(|one| of_it(connection, one)).map(|one| one.waited_ns).sum()
    });
    // On a short path, a hold of a round trip is nothing.
    let is_long = peer.is_path_long();
    let judged = Judged::of(&waits, MIN_SHARE).filter(|_| is_long || waits.median_ns >= MIN_WAIT_NS)?;
    let (mut bytes, mut numbers, mut by_server) = (Vec::new(), Vec::new(), 0);
    for (connection, exchange) in &waits.affected {
        let longest = held(connection, exchange).into_iter().filter(|one| of_it(connection, one));
        if let Some(one) = longest.max_by_key(|one| one.waited_ns) {
            bytes.push(one.bytes as f64);
            numbers.extend(one.number.map(|number| number as f64));
            by_server += usize::from(one.from == End::Server);
        }
    }
    let end = if 2 * by_server >= bytes.len() { End::Server } else { End::Client };
    Some(
        judged
            .with(evidence::HELD_BYTES, quantile(bytes, 0.5))
            .with(evidence::HELD_SEGMENT, quantile(numbers, 0.5))
            .with(evidence::ROUND_TRIP_NS, peer.round_trip_ns().map(|ns| ns as f64))
            .with_end(Some(end)),
    )
}
