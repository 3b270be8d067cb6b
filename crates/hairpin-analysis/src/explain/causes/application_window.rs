//! The protocol above TCP limits how much is sent without an answer: bursts of equal size, each after a short message of the
//! receiver, with TCP's windows free.

use hairpin_model::Cause;
use hairpin_model::explanation::evidence;

use super::super::connection::Exchange;
use super::super::peer::{Peer, quantile};
use super::one_request_per_round_trip::judge_sequence;
use super::{Judged, Rule};

pub(super) const RULE: Rule = Rule {
    code: Cause::ApplicationWindow,
    judge,
    explains: &[Cause::OneRequestPerRoundTrip, Cause::CongestionWindow],
};

/// Messages that only give permission to send are at most this long, for instance WINDOW_UPDATE (RFC 9113, section 6.9) with
/// TLS.
const MAX_PERMISSION_BYTES: f64 = 64.0;
/// Bursts have at least this many full segments.
const MIN_BURST_SEGMENTS: f64 = 4.0;
/// Bursts have equal sizes if the middle half of them differs by at most this share.
const MAX_SPREAD: f64 = 0.1;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let judged = judge_sequence(peer).filter(|_| is_windowed(peer))?;
    let bursts = peer.complete().map(|(_, one)| one.request_bytes().max(one.reply_bytes()) as f64);
    let burst_bytes = quantile(bursts.collect(), 0.5)?;
    let per_s = peer.round_trip_ns().map(|ns| burst_bytes * 1e9 / ns.max(1) as f64);
    let mut judged = judged.with(evidence::WINDOW_BYTES, Some(burst_bytes));
    judged.evidence.retain(|fact| fact.name != evidence::MESSAGE_BYTES);
    Some(judged.with(evidence::RATE_BYTES_PER_S, per_s))
}

/// Whether the exchanges are bursts of equal size, each with a short message in the other direction.
pub(super) fn is_windowed(peer: &Peer) -> bool {
    let mss_bytes = peer.connections.first().map_or(0, |connection| connection.mss_bytes()) as f64;
    let sizes = |of: fn(&Exchange) -> u64| -> Vec<f64> { peer.complete().map(|(_, one)| of(one) as f64).collect() };
    let is_burst = |bursts: Vec<f64>, permissions: Vec<f64>| {
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| quantile(bursts.clone(), share));
        let permission = quantile(permissions, 0.75);
        let Some((((low, middle), high), permission)) = low.zip(middle).zip(high).zip(permission) else {
            return false;
        };
        let is_equal = high - low <= MAX_SPREAD * middle;
        is_equal && middle >= MIN_BURST_SEGMENTS * mss_bytes && permission <= MAX_PERMISSION_BYTES
    };
    is_burst(sizes(Exchange::reply_bytes), sizes(Exchange::request_bytes))
        || is_burst(sizes(Exchange::request_bytes), sizes(Exchange::reply_bytes))
}
