//! Exchanges that follow each other on a long path, and whether they are bursts that a protocol limits.

use hairpin_model::Cause;
use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, Rule};

/// Each request follows the answer of the one before.
pub(super) const ONE_REQUEST_PER_ROUND_TRIP: Rule = Rule {
    code: Cause::OneRequestPerRoundTrip,
    judge: |peer| judge_sequence(peer).filter(|_| !is_windowed(peer)),
    explains: &[],
};

/// The protocol above TCP limits how much is sent without an answer: bursts of equal size, each after a short message of the
/// receiver, with TCP's windows free.
pub(super) const APPLICATION_WINDOW: Rule = Rule {
    code: Cause::ApplicationWindow,
    judge: judge_bursts,
    explains: &[Cause::OneRequestPerRoundTrip, Cause::CongestionWindow],
};

/// Exchanges of this number form a sequence.
const MIN_SEQUENCE: usize = 5;
/// The client sends its next request within this share of the round trip.
const MAX_PAUSE_SHARE: f64 = 0.5;
const MIN_PATH_SHARE: f64 = 0.5;

const PATH: [ExchangeState; 2] = [ExchangeState::Propagation, ExchangeState::Path];

/// Messages that only give permission to send have packets of at most this number of bytes, for instance WINDOW_UPDATE (RFC 9113,
/// section 6.9) with TLS.
const MAX_PERMISSION_BYTES: f64 = 64.0;
const MIN_BURST_SEGMENTS: f64 = 4.0;
/// Bursts have equal sizes if the middle half of them differs by at most this share.
const MAX_SPREAD: f64 = 0.1;

fn judge_bursts(peer: &Peer) -> Option<Judged<'_>> {
    let judged = judge_sequence(peer).filter(|_| is_windowed(peer))?;
    let bursts = peer.complete().map(|(_, one)| one.request_bytes().max(one.reply_bytes()) as f64);
    let burst_bytes = quantile(bursts.collect(), 0.5)?;
    let per_s = peer.round_trip_ns().map(|ns| burst_bytes * 1e9 / ns.max(1) as f64);
    let mut judged = judged.with(evidence::WINDOW_BYTES, Some(burst_bytes));
    judged.evidence.retain(|fact| fact.name != evidence::MESSAGE_BYTES);
    Some(judged.with(evidence::RATE_BYTES_PER_S, per_s))
}

fn judge_sequence(peer: &Peer) -> Option<Judged<'_>> {
    let round_trip_ns = peer.round_trip_ns().filter(|_| peer.is_path_long())?;
    let follows = |connection: &Connection, exchange: &Exchange| {
        let pause_ns = MAX_PAUSE_SHARE * connection.vantage.round_trip_ns().unwrap_or(round_trip_ns) as f64;
        exchange.is_complete() && exchange.place > 0 && (exchange.idle_before_ns as f64) <= pause_ns
    };
    let waits =
        peer.waits(|connection, exchange| if follows(connection, exchange) { exchange.ns_in(&PATH) } else { 0 });
    if waits.affected.len() < MIN_SEQUENCE {
        return None;
    }
    let judged = Judged::of(&waits, MIN_PATH_SHARE)?;
    let sizes = waits.affected.iter().map(|(_, one)| (one.request_bytes() + one.reply_bytes()) as f64);
    Some(
        judged
            .with(evidence::ROUND_TRIP_NS, Some(round_trip_ns as f64))
            .with(evidence::MESSAGE_BYTES, quantile(sizes.collect(), 0.5)),
    )
}

/// Whether the exchanges are bursts of equal size, each with a short message in the other direction.
fn is_windowed(peer: &Peer) -> bool {
    let mss_bytes = peer.connections.first().map_or(0, |connection| connection.mss_bytes()) as f64;
    let bytes = |of: fn(&Exchange) -> u64| -> Vec<f64> { peer.complete().map(|(_, one)| of(one) as f64).collect() };
    let packets = |from: End| -> Vec<f64> {
        peer.complete().map(|(connection, one)| connection.largest_packet(one, from) as f64).collect()
    };
    let is_burst = |bursts: Vec<f64>, permissions: Vec<f64>| {
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| quantile(bursts.clone(), share));
        let permission = quantile(permissions, 0.75);
        let Some((((low, middle), high), permission)) = low.zip(middle).zip(high).zip(permission) else {
            return false;
        };
        let is_equal = high - low <= MAX_SPREAD * middle;
        is_equal && middle >= MIN_BURST_SEGMENTS * mss_bytes && permission <= MAX_PERMISSION_BYTES
    };
    is_burst(bytes(Exchange::reply_bytes), packets(End::Client))
        || is_burst(bytes(Exchange::request_bytes), packets(End::Server))
}
