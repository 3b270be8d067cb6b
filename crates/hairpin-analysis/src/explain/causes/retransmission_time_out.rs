//! Lost data was sent again after a timer.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;
use hairpin_model::{Cause, Packet};

use super::super::peer::Peer;
use super::super::rule::{Judged, MIN_SHARE, Rule};
use super::with_acks::end_of;

pub(super) const RULE: Rule = Rule { code: Cause::RetransmissionTimeOut, judge, explains: &[] };

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    judge_losses(peer, &[ExchangeState::RetransmissionTimeout, ExchangeState::ProbeOrTimeout])
}

/// Judges the time that exchanges spend in these states of recovery.
pub(super) fn judge_losses<'p>(peer: &'p Peer, states: &[ExchangeState]) -> Option<Judged<'p>> {
    let mut judged = Judged::of(&peer.waits_in(states), MIN_SHARE)?;
    let (again, all) = count_losses(peer);
    judged.evidence.extend(end_of(judged.worst.and_then(|(_, exchange)| exchange.actor_in(states))));
    Some(judged.with(evidence::SENT_AGAIN, Some(again as f64)).with(evidence::SENT, Some(all as f64)))
}

/// Returns how many packets with payload were sent again, and how many were sent.
pub(super) fn count_losses(peer: &Peer) -> (u64, u64) {
    let (mut again, mut all) = (0_u64, 0_u64);
    for connection in &peer.connections {
        for from in [End::Client, End::Server] {
            let mut highest = 0;
            let carries = |packet: &&Packet| packet.from == from && packet.end_byte > packet.first_byte;
            for packet in connection.packets().iter().filter(carries) {
                all += 1;
                again += u64::from(packet.first_byte < highest);
                highest = highest.max(packet.end_byte);
            }
        }
    }
    (again, all)
}
