//! Lost data was sent again.

use hairpin_model::Cause;
use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;

use super::super::peer::Peer;
use super::super::rule::{Judged, MIN_SHARE, Rule};
use super::congestion_window::is_path_full;

/// Lost data was sent again after a timer.
pub(super) const RETRANSMISSION_TIME_OUT: Rule =
    Rule { code: Cause::RetransmissionTimeOut, judge: judge_time_outs, explains: &[] };

/// Lost data was sent again after acknowledgments or a probe showed its loss; each loss also halves the congestion window.
pub(super) const RETRANSMISSION: Rule =
    Rule { code: Cause::Retransmission, judge, explains: &[Cause::CongestionWindow] };

/// From this share of lost packets, and this number of them, losses keep the congestion window small.
const MIN_LOST_SHARE: f64 = 0.003;
const MIN_LOST: u64 = 3;

const RECOVERY: [ExchangeState; 2] = [ExchangeState::FastRecovery, ExchangeState::TailLossProbe];
const WITH_WINDOW: [ExchangeState; 3] =
    [ExchangeState::FastRecovery, ExchangeState::TailLossProbe, ExchangeState::CongestionWindow];

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let (again, all) = count_losses(peer);
    let is_lossy = again >= MIN_LOST && again as f64 >= MIN_LOST_SHARE * all as f64;
    // A full queue loses packets too: then the path is the cause.
    let keeps_window_small = is_lossy && !is_path_full(peer);
    judge_losses(peer, if keeps_window_small { &WITH_WINDOW } else { &RECOVERY }).filter(|_| again > 0)
}

fn judge_time_outs(peer: &Peer) -> Option<Judged<'_>> {
    judge_losses(peer, &[ExchangeState::RetransmissionTimeout, ExchangeState::ProbeOrTimeout])
}

fn judge_losses<'p>(peer: &'p Peer, states: &[ExchangeState]) -> Option<Judged<'p>> {
    let judged = Judged::of(&peer.waits_in(states), MIN_SHARE)?;
    let (again, all) = count_losses(peer);
    Some(
        judged
            .with_actor_in(states)
            .with(evidence::SENT_AGAIN, Some(again as f64))
            .with(evidence::SENT, Some(all as f64)),
    )
}

/// Returns how many packets with payload were lost, and how many were sent. One that only arrives late was not lost, although
/// its bytes then seem to be sent again.
fn count_losses(peer: &Peer) -> (u64, u64) {
    let packets = peer.connections.iter().flat_map(|connection| connection.packets());
    let with_payload = packets.filter(|packet| packet.end_byte > packet.first_byte);
    with_payload.fold((0, 0), |(lost, all), packet| (lost + u64::from(packet.arrived_ns.is_none()), all + 1))
}
