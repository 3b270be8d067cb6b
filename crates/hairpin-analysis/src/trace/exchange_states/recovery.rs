//! Retransmissions: when lost data was first sent, when it was sent again, and what led to that.

use std::collections::BTreeMap;
use std::ops::Range;

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::{EndTrace, Packet, fact, fact_names};

use crate::trace::direction::Direction;
use crate::trace::reading::MAX_EFFECT_DELAY_NS;

/// Minimum retransmission time-out (include/net/tcp.h, `TCP_RTO_MIN`).
const MIN_TIMEOUT_NS: u64 = 200_000_000;

/// Retransmissions are of what was sent lately: that many segments are remembered.
const MAX_REMEMBERED: usize = 100_000;

/// A segment that was sent again although its bytes had been sent before.
#[derive(Clone, Debug)]
pub(super) struct Retransmission {
    pub(super) bytes: Range<u64>,
    /// When the lost segment left, until it left again.
    pub(super) during: Range<u64>,
    pub(super) state: ExchangeState,
}

/// Returns the retransmissions of a direction in order of departure. With packets captured at both ends, without those whose
/// original arrived.
pub(super) fn retransmissions(
    direction: &Direction<'_>,
    packets: &[Packet],
    sender: &EndTrace,
) -> Vec<Retransmission> {
    let acks = packets.iter().filter(|packet| packet.from != direction.from && packet.ack_byte.is_some());
    let mut acks: Vec<u64> = acks.map(|packet| packet.arrived_ns.unwrap_or(packet.at_ns)).collect();
    acks.sort_unstable();
    let at_once_ns = MAX_EFFECT_DELAY_NS.max(direction.travel_ns);
    let mut all = Vec::new();
    // The last departure of the bytes before each end, whether they arrived, and whether it was a retransmission.
    let mut sent: BTreeMap<u64, (u64, bool, bool)> = BTreeMap::new();
    let (mut highest, mut first_timers) = (0, 0.0);
    for segment in direction.segments() {
        let before = sent.range(segment.first_byte.saturating_add(1)..).next().map(|(_, departure)| *departure);
        let lost = before.filter(|(_, is_arrived, _)| segment.first_byte < highest && !is_arrived);
        if let Some((lost_ns, _, was_again)) = lost {
            let ack = acks[..acks.partition_point(|at_ns| *at_ns <= segment.left_ns)].last();
            let follows_ack = ack.is_some_and(|ack| *ack > lost_ns && segment.left_ns - ack <= at_once_ns);
            let state = match (segment.end_byte >= highest, follows_ack) {
                (false, true) => ExchangeState::FastRecovery,
                // A flight is probed once, with its last segment.
                (is_tail, _) if !is_tail || was_again => ExchangeState::RetransmissionTimeout,
                _ if segment.left_ns.saturating_sub(lost_ns) < MIN_TIMEOUT_NS => ExchangeState::TailLossProbe,
                _ => ExchangeState::ProbeOrTimeout,
            };
            first_timers += if segment.end_byte >= highest && !was_again { 1.0 } else { 0.0 };
            let bytes = segment.first_byte..segment.end_byte;
            all.push(Retransmission { bytes, during: lost_ns..segment.left_ns, state });
        }
        highest = highest.max(segment.end_byte);
        sent.insert(segment.end_byte, (segment.left_ns, segment.seen_ns.is_some(), lost.is_some()));
        if sent.len() > MAX_REMEMBERED {
            sent.pop_first();
        }
    }
    let timer = counted_timer(sender, first_timers);
    all.iter_mut().filter(|one| one.state == ExchangeState::ProbeOrTimeout).for_each(|one| one.state = timer);
    all
}

/// Returns which timer sent the last segments of flights again, by the kernel's counters: all were probes, or none.
fn counted_timer(sender: &EndTrace, first_timers: f64) -> ExchangeState {
    let grown = |name| Some(fact::number(&sender.after, name)? - fact::number(&sender.before, name)?);
    match (grown(fact_names::LOSS_PROBES), grown(fact_names::RETRANSMISSION_TIMEOUTS)) {
        (Some(probes), _) if probes <= 0.0 => ExchangeState::RetransmissionTimeout,
        (Some(probes), timeouts) if probes >= first_timers || timeouts == Some(0.0) => ExchangeState::TailLossProbe,
        _ => ExchangeState::ProbeOrTimeout,
    }
}
