//! Lost data was sent again after acknowledgments or a probe showed its loss; each loss also halves the congestion window.

use hairpin_model::Cause;
use hairpin_model::exchange_state::ExchangeState;

use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};
use super::congestion_window::is_path_full;
use super::retransmission_time_out::{count_losses, judge_losses};

pub(super) const RULE: Rule = Rule { code: Cause::Retransmission, judge, explains: &[Cause::CongestionWindow] };

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
