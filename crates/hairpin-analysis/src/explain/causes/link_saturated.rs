//! The congestion window is full because packets wait in a queue of the path.

use hairpin_model::Cause;
use hairpin_model::explanation::evidence;

use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};
use super::congestion_window::{is_path_full, judge_window, loaded_round_trip_ns};

pub(super) const RULE: Rule =
    Rule { code: Cause::LinkSaturated, judge, explains: &[Cause::CongestionWindow, Cause::SlowStartAfterIdle] };

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let judged = judge_window(peer).filter(|_| is_path_full(peer))?;
    let bytes: u64 = peer.exchanges().map(|(_, one)| one.request_bytes() + one.reply_bytes()).sum();
    let rate_bytes_per_s = bytes as f64 * 1e9 / peer.elapsed_ns().max(1) as f64;
    Some(
        judged
            .with(evidence::LOADED_ROUND_TRIP_NS, loaded_round_trip_ns(peer))
            .with(evidence::RATE_BYTES_PER_S, Some(rate_bytes_per_s)),
    )
}
