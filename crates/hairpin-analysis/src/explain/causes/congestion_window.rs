//! The congestion window is full, and no queue of the path is.

use std::collections::BTreeMap;

use hairpin_model::Cause;
use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;

use super::super::connection::Connection;
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, Rule};
use super::with_acks::end_of;

pub(super) const RULE: Rule = Rule { code: Cause::CongestionWindow, judge, explains: &[] };

/// The window is named if the exchanges wait for it for this share of their time.
const MIN_WINDOW_SHARE: f64 = 0.3;
/// A queue of the path is full if it multiplies the round trip by this, and adds this many ns.
const MIN_QUEUE_RATIO: f64 = 2.0;
const MIN_QUEUE_NS: f64 = 3e6;

const STATES: [ExchangeState; 1] = [ExchangeState::CongestionWindow];

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    judge_window(peer).filter(|_| peer.is_path_long() && !is_path_full(peer))
}

pub(super) fn judge_window(peer: &Peer) -> Option<Judged<'_>> {
    let mut judged = Judged::of(&peer.waits_in(&STATES), MIN_WINDOW_SHARE)?;
    judged.evidence.extend(end_of(judged.worst.and_then(|(_, exchange)| exchange.actor_in(&STATES))));
    Some(judged.with(evidence::ROUND_TRIP_NS, peer.round_trip_ns().map(|ns| ns as f64)))
}

/// Whether the queues of the path make its round trips much longer than the shortest.
pub(super) fn is_path_full(peer: &Peer) -> bool {
    let [loaded_ns, shortest_ns] = [loaded_round_trip_ns(peer), peer.round_trip_ns().map(|ns| ns as f64)];
    let Some((loaded_ns, shortest_ns)) = loaded_ns.zip(shortest_ns) else { return false };
    loaded_ns >= MIN_QUEUE_RATIO * shortest_ns && loaded_ns >= shortest_ns + MIN_QUEUE_NS
}

/// The median time until a full segment is acknowledged, in ns.
pub(super) fn loaded_round_trip_ns(peer: &Peer) -> Option<f64> {
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
