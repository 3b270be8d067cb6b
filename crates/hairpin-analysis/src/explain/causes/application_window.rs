//! The protocol above TCP limits how much is sent without an answer: bursts of equal size, each after a short message of the
//! receiver, with TCP's windows free.

use hairpin_model::Cause;
use hairpin_model::explanation::evidence;

use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, Rule};
use super::sequences::{is_windowed, judge_sequence};

pub(super) const RULE: Rule = Rule {
    code: Cause::ApplicationWindow,
    judge,
    explains: &[Cause::OneRequestPerRoundTrip, Cause::CongestionWindow],
};

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let judged = judge_sequence(peer).filter(|_| is_windowed(peer))?;
    let bursts = peer.complete().map(|(_, one)| one.request_bytes().max(one.reply_bytes()) as f64);
    let burst_bytes = quantile(bursts.collect(), 0.5)?;
    let per_s = peer.round_trip_ns().map(|ns| burst_bytes * 1e9 / ns.max(1) as f64);
    let mut judged = judged.with(evidence::WINDOW_BYTES, Some(burst_bytes));
    judged.evidence.retain(|fact| fact.name != evidence::MESSAGE_BYTES);
    Some(judged.with(evidence::RATE_BYTES_PER_S, per_s))
}
