//! Lost data was sent again after a timer.

use hairpin_model::Cause;
use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;

use super::super::peer::Peer;
use super::super::rule::{Judged, MIN_SHARE, Rule};
use super::with_acks::end_of;

pub(super) const RULE: Rule = Rule { code: Cause::RetransmissionTimeOut, judge, explains: &[] };

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    judge_losses(peer, &[ExchangeState::RetransmissionTimeout, ExchangeState::ProbeOrTimeout])
}

pub(super) fn judge_losses<'p>(peer: &'p Peer, states: &[ExchangeState]) -> Option<Judged<'p>> {
    let mut judged = Judged::of(&peer.waits_in(states), MIN_SHARE)?;
    let (again, all) = count_losses(peer);
    judged.evidence.extend(end_of(judged.worst.and_then(|(_, exchange)| exchange.actor_in(states))));
    Some(judged.with(evidence::SENT_AGAIN, Some(again as f64)).with(evidence::SENT, Some(all as f64)))
}

/// Returns how many packets with payload were lost, and how many were sent. One that only arrives late was not lost, although
/// its bytes then seem to be sent again.
pub(super) fn count_losses(peer: &Peer) -> (u64, u64) {
    let packets = peer.connections.iter().flat_map(|connection| connection.packets());
    let with_payload = packets.filter(|packet| packet.end_byte > packet.first_byte);
    with_payload.fold((0, 0), |(lost, all), packet| (lost + u64::from(packet.arrived_ns.is_none()), all + 1))
}
