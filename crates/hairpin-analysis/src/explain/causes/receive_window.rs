//! The window of the receiver is full although its program reads: its buffer is small.

use hairpin_model::Cause;
use hairpin_model::trace::End;

use super::super::connection::Connection;
use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};
use super::slow_reader::judge_windows;

pub(super) const RULE: Rule = Rule { code: Cause::ReceiveWindow, judge, explains: &[Cause::CongestionWindow] };

/// A window that grows by this factor is no fixed buffer: Linux raises it while a program reads.
const GROWING: u64 = 2;
/// A window that grows limits only the beginning of a connection, so it is named from this share.
const MIN_SHARE_IF_GROWING: f64 = 0.5;

/// Shorter waits are named only on long paths, in ns.
const MIN_WAIT_NS: f64 = 5e6;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let judged = judge_windows(peer, false)?;
    let is_enough = judged.share.is_some_and(|share| share >= MIN_SHARE_IF_GROWING);
    let grows = judged.worst.is_some_and(|(connection, _)| grows(connection));
    // On a short path a full window opens at once.
    let is_long = peer.is_path_long();
    let waits = judged.saved.is_some_and(|saved| saved.high >= MIN_WAIT_NS);
    ((is_enough || !grows) && (is_long || waits)).then_some(judged)
}

fn grows(connection: &Connection) -> bool {
    [End::Client, End::Server].into_iter().any(|from| {
        let of_end = connection.packets().iter().filter(|packet| packet.from == from && !packet.syn);
        let windows: Vec<u64> = of_end.filter_map(|packet| packet.window_bytes).collect();
        let largest = windows.iter().max().copied().unwrap_or(0);
        windows.first().is_some_and(|first| largest >= first.saturating_mul(GROWING))
    })
}
