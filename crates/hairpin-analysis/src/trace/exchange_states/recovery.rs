//! Retransmissions: when lost data was first sent, when it was sent again, and what led to that.

use std::collections::BTreeMap;
use std::ops::Range;

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::{EndTrace, Packet, fact, fact_names};

use crate::trace::direction::Direction;
use crate::trace::reading::MAX_EFFECT_DELAY_NS;

/// Minimum retransmission time-out (include/net/tcp.h, `TCP_RTO_MIN`).
const MIN_TIMEOUT_NS: u64 = 200_000_000;

/// A segment that was sent again although its bytes had been sent before.
#[derive(Clone, Debug)]
pub(super) struct Retransmission {
    pub(super) bytes: Range<u64>,
    /// When the lost segment left.
    pub(super) lost_ns: u64,
    pub(super) left_ns: u64,
    pub(super) state: ExchangeState,
}

/// Returns the retransmissions of a direction in order of departure. With packets captured at both ends, without those whose
/// original arrived.
pub(super) fn retransmissions(
    direction: &Direction<'_>,
    packets: &[Packet],
    sender: &EndTrace,
) -> Vec<Retransmission> {
    let mut acks: Vec<u64> = packets
        .iter()
        .filter(|packet| packet.from != direction.from && packet.ack_byte.is_some())
        .map(|packet| packet.arrived_ns.unwrap_or(packet.at_ns))
        .collect();
    acks.sort_unstable();
    let mut all = Vec::new();
    // The last departure of the bytes before each end, whether they arrived, and whether it was a retransmission.
    let mut sent: BTreeMap<u64, (u64, bool, bool)> = BTreeMap::new();
    let (mut highest, mut first_timers) = (0, 0.0);
    for segment in &direction.segments {
        let is_arrived = segment.seen_ns.is_some();
        let mut is_again = false;
        if segment.first_byte < highest
            && let Some((_, (lost_ns, false, was_again))) = sent.range(segment.first_byte.saturating_add(1)..).next()
        {
            let follows_ack =
                acks[..acks.partition_point(|at_ns| *at_ns <= segment.left_ns)].last().is_some_and(|at_ns| {
                    *at_ns > *lost_ns && segment.left_ns - at_ns <= MAX_EFFECT_DELAY_NS.max(direction.travel_ns)
                });
            let is_tail = segment.end_byte >= highest;
            let waited_ns = segment.left_ns.saturating_sub(*lost_ns);
            let state = match (follows_ack, is_tail, was_again) {
                (true, false, _) => ExchangeState::FastRecovery,
                // A flight is probed once.
                (_, false, _) | (_, _, true) => ExchangeState::RetransmissionTimeout,
                _ if waited_ns < MIN_TIMEOUT_NS => ExchangeState::TailLossProbe,
                _ => ExchangeState::ProbeOrTimeout,
            };
            first_timers += if is_tail && !*was_again { 1.0 } else { 0.0 };
            let (bytes, left_ns) = (segment.first_byte..segment.end_byte, segment.left_ns);
            all.push(Retransmission { bytes, lost_ns: *lost_ns, left_ns, state });
            is_again = true;
        }
        highest = highest.max(segment.end_byte);
        sent.insert(segment.end_byte, (segment.left_ns, is_arrived, is_again));
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
        (_, Some(timeouts)) if timeouts <= 0.0 => ExchangeState::TailLossProbe,
        (Some(probes), _) if probes >= first_timers => ExchangeState::TailLossProbe,
        _ => ExchangeState::ProbeOrTimeout,
    }
}
