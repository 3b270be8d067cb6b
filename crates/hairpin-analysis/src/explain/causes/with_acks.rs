//! Segments that waited for an acknowledgment: which they were, and who held them.

use hairpin_model::exchange_state::{Actor, ExchangeState, StateSpan};
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;
use hairpin_model::{Fact, Packet};

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::{Judged, MIN_SHARE};

/// A segment leaves at most so long after what held it has ended, in ns.
const MAX_RELEASE_NS: u64 = 2_000_000;

const STATES: [ExchangeState; 3] =
    [ExchangeState::Nagle, ExchangeState::DelayedAck, ExchangeState::NagleOrDelayedAck];

/// A held segment of an exchange.
struct Held<'p> {
    packet: &'p Packet,
    /// Which of its message's segments it is, from 1.
    number: usize,
    waited_ns: u64,
    was_ack_delayed: bool,
}

/// Returns the held segments of an exchange, in the order in which they left.
fn held<'p>(connection: &'p Connection, exchange: &Exchange) -> Vec<Held<'p>> {
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
        let before = connection.sent_within(packet.from, exchange.extent.began_ns, packet.at_ns).count();
        let waited_ns = run.until_ns - run.from_ns;
        Some(Held { packet, number: before.max(1), waited_ns, was_ack_delayed: 2 * delayed_ns >= waited_ns })
    };
    runs.into_iter().zip(delayed_ns).filter_map(find).collect()
}

/// Judges the waits of segments for acknowledgments. `is_small` asks for segments that are not full, `was_delayed` for
/// acknowledgments that the receiver delayed.
pub(super) fn judge(peer: &Peer, is_small: bool, was_delayed: bool) -> Option<Judged<'_>> {
    let of_it = |connection: &Connection, one: &Held<'_>| {
        let bytes = one.packet.end_byte - one.packet.first_byte;
        (bytes < connection.mss_bytes()) == is_small && one.was_ack_delayed == was_delayed
    };
    let waits = peer.waits(|connection, exchange| {
        let held = held(connection, exchange);
        held.iter().filter(|one| of_it(connection, one)).map(|one| one.waited_ns).sum()
    });
    let judged = Judged::of(&waits, MIN_SHARE)?;
    let (mut bytes, mut numbers, mut by_server) = (Vec::new(), Vec::new(), 0);
    for (connection, exchange) in &waits.affected {
        let longest = held(connection, exchange).into_iter().filter(|one| of_it(connection, one));
        if let Some(one) = longest.max_by_key(|one| one.waited_ns) {
            bytes.push((one.packet.end_byte - one.packet.first_byte) as f64);
            numbers.push(one.number as f64);
            by_server += usize::from(one.packet.from == End::Server);
        }
    }
    let end = if 2 * by_server >= bytes.len() { End::Server } else { End::Client };
    let mut judged = judged
        .with(evidence::HELD_BYTES, quantile(bytes, 0.5))
        .with(evidence::HELD_SEGMENT, quantile(numbers, 0.5))
        .with(evidence::ROUND_TRIP_NS, peer.round_trip_ns().map(|ns| ns as f64));
    judged.evidence.push(Fact::word(evidence::END, end.word()));
    Some(judged)
}

/// The end whose kernel or program must act.
pub(super) fn end_of(who: Option<Actor>) -> Option<Fact> {
    Some(Fact::word(evidence::END, who?.end()?.word()))
}
