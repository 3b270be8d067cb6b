//! The congestion window is full: because of a queue of the path, or not.

use std::collections::BTreeMap;

use hairpin_model::Cause;
use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;

use super::super::connection::Connection;
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, Rule};

/// No queue of the path is full.
pub(super) const CONGESTION_WINDOW: Rule = Rule {
    code: Cause::CongestionWindow,
    judge: |peer| judge_window(peer).filter(|_| peer.is_path_long() && !is_path_full(peer)),
    explains: &[],
};

/// The window is full because packets wait in a queue of the path.
pub(super) const LINK_SATURATED: Rule = Rule {
    code: Cause::LinkSaturated,
    judge: judge_link,
    explains: &[Cause::CongestionWindow, Cause::SlowStartAfterIdle],
};

/// The window is named if the exchanges wait for it for this share of their time.
const MIN_WINDOW_SHARE: f64 = 0.3;
/// A queue of the path is full if it multiplies the round trip by this, and adds this many ns.
const MIN_QUEUE_RATIO: f64 = 2.0;
const MIN_QUEUE_NS: f64 = 3e6;

const STATES: [ExchangeState; 1] = [ExchangeState::CongestionWindow];

fn judge_link(peer: &Peer) -> Option<Judged<'_>> {
    let judged = judge_window(peer).filter(|_| is_path_full(peer))?;
    let bytes: u64 = peer.exchanges().map(|(_, one)| one.request_bytes() + one.reply_bytes()).sum();
    let rate_bytes_per_s = bytes as f64 * 1e9 / peer.elapsed_ns().max(1) as f64;
    Some(
        judged
            .with(evidence::LOADED_ROUND_TRIP_NS, loaded_round_trip_ns(peer))
            .with(evidence::RATE_BYTES_PER_S, Some(rate_bytes_per_s)),
    )
}

fn judge_window(peer: &Peer) -> Option<Judged<'_>> {
    let judged = Judged::of(&peer.waits_in(&STATES), MIN_WINDOW_SHARE)?;
    Some(judged.with_actor_in(&STATES).with(evidence::ROUND_TRIP_NS, peer.round_trip_ns().map(|ns| ns as f64)))
}

pub(super) fn is_path_full(peer: &Peer) -> bool {
    let [loaded_ns, shortest_ns] = [loaded_round_trip_ns(peer), peer.round_trip_ns().map(|ns| ns as f64)];
    let Some((loaded_ns, shortest_ns)) = loaded_ns.zip(shortest_ns) else { return false };
    loaded_ns >= MIN_QUEUE_RATIO * shortest_ns && loaded_ns >= shortest_ns + MIN_QUEUE_NS
}

/// The median time until a full segment is acknowledged, in ns.
fn loaded_round_trip_ns(peer: &Peer) -> Option<f64> {
    let all = peer.connections.iter().flat_map(|connection| {
        [End::Client, End::Server].into_iter().flat_map(|from| acknowledged_after_ns(connection, from))
    });
    quantile(all.collect(), 0.5)
}

fn acknowledged_after_ns(connection: &Connection, from: End) -> Vec<f64> {
    let (mss_bytes, mut open, mut all) = (connection.mss_bytes(), BTreeMap::new(), Vec::new());
    let mut highest = 0;
    for packet in connection.packets() {
        if packet.from == from {
            let is_full = packet.end_byte - packet.first_byte >= mss_bytes.max(1);
            if is_full && packet.first_byte >= highest {
                open.insert(packet.end_byte, packet.at_ns);
            }
            highest = highest.max(packet.end_byte);
        } else if let (Some(ack_byte), Some(arrived_ns)) = (packet.ack_byte, packet.arrived_ns) {
            let rest = open.split_off(&ack_byte.saturating_add(1));
            let newest = std::mem::replace(&mut open, rest).last_key_value().map(|(_, left_ns)| *left_ns);
            all.extend(newest.map(|left_ns| arrived_ns.saturating_sub(left_ns) as f64));
        }
    }
    all
}
