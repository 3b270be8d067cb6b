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
pub(super) fn retransmissions(direction: &Direction<'_>, packets: &[Packet], sender: &EndTrace) -> Vec<Retransmission> {
    let mut acks: Vec<u64> = packets
        .iter()
        .filter(|packet| packet.from != direction.from && packet.ack_byte.is_some())
        .map(|packet| packet.arrived_ns.unwrap_or(packet.at_ns))
        .collect();
    acks.sort_unstable();
    let mut all = Vec::new();
    // The last departure of the bytes before each end, and whether they arrived.
    let mut sent: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    let mut highest = 0;
    for segment in &direction.segments {
        if segment.first_byte < highest
            && let Some((_, (lost_ns, false))) = sent.range(segment.first_byte.saturating_add(1)..).next()
        {
            let follows_ack = acks[..acks.partition_point(|at_ns| *at_ns <= segment.left_ns)].last().is_some_and(
                |at_ns| *at_ns > *lost_ns && segment.left_ns - at_ns <= MAX_EFFECT_DELAY_NS.max(direction.travel_ns),
            );
            let is_tail = segment.end_byte >= highest;
            let waited_ns = segment.left_ns.saturating_sub(*lost_ns);
            all.push(Retransmission {
                bytes: segment.first_byte..segment.end_byte,
                lost_ns: *lost_ns,
                left_ns: segment.left_ns,
                state: if follows_ack && !is_tail { ExchangeState::FastRecovery } else { timer(sender, is_tail, waited_ns) },
            });
        }
        highest = highest.max(segment.end_byte);
        sent.insert(segment.end_byte, (segment.left_ns, segment.seen_ns.is_some()));
    }
    all
}

/// Returns the timer that led to a retransmission. A probe sends the last segment again, before the time-out if more than
/// one segment is in flight. Without that, only the kernel's counters tell them apart.
fn timer(sender: &EndTrace, is_tail: bool, waited_ns: u64) -> ExchangeState {
    let grown = |name| Some(fact::number(&sender.after, name)? - fact::number(&sender.before, name)?);
    let is_none = |name| grown(name).is_some_and(|grown: f64| grown <= 0.0);
    match (is_none(fact_names::LOSS_PROBES), is_none(fact_names::RETRANSMISSION_TIMEOUTS)) {
        (true, false) => ExchangeState::RetransmissionTimeout,
        (false, true) => ExchangeState::TailLossProbe,
        _ if !is_tail => ExchangeState::RetransmissionTimeout,
        _ if waited_ns < MIN_TIMEOUT_NS => ExchangeState::TailLossProbe,
        _ => ExchangeState::ProbeOrTimeout,
    }
}
