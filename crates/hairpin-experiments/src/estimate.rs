//! How long rounds will take, roughly: enough to announce a run and to choose how many rounds fit its time, and used for
//! nothing else.

use hairpin_model::case::{Case, CpuIdle, Pattern, Placement, Waiting};
use hairpin_model::ground::Ground;
use hairpin_model::round::{Extent, RoundOrder};

use crate::exchange_time;
use crate::links;
use crate::quantity::SECOND_NS;
use crate::sequence::Planned;

/// What a round costs beyond its messages: two processes, a connection, their end, and saving it.
pub const OVERHEAD_NS: u64 = 6_000_000;

/// Round trips of bare loops, 4 B, p50 in ns, by transport: blocking on one CPU, and spinning. From hand-written C loops on a
/// 2-CPU KVM guest with Linux 6.18; for `memory`, `fifo`, `unix-seqpacket` and IPv6 their nearest relative stands in.
pub const FLOORS: &[(&str, [u64; 2])] = &[
    ("memory", [4_500, 140]),
    ("shm", [4_500, 140]),
    ("pipe", [PIPE_NS, 4_000]),
    ("fifo", [PIPE_NS, 4_000]),
    ("unix-stream", [9_400, 3_300]),
    ("unix-seqpacket", [7_800, 3_400]),
    ("unix-datagram", [7_800, 3_400]),
    ("udp", [10_200, 6_100]),
    ("udp6", [10_200, 6_100]),
    ("tcp", [13_400, 8_100]),
    ("tcp6", [13_400, 8_100]),
    ("icmp", [4_000, 4_000]),
];
/// A pipe, which the ground measures between two CPUs.
const PIPE_NS: u64 = 5_000;

/// What a transport without a line in [`FLOORS`] is taken to cost: a little more than TCP.
pub const UNKNOWN_FLOOR: [u64; 2] = [15_000, 9_000];

/// A byte is copied in about so long, there and back.
const BYTE_NS: u64 = 1;

/// How long a block of these cases takes, in ns.
#[must_use]
pub fn block_ns(planned: &[Planned], ground: &Ground) -> u64 {
    let each = planned.iter().map(|planned| round_ns(&planned.case, [planned.warm_up, planned.extent], ground));
    each.fold(0, u64::saturating_add)
}

/// How long these rounds take, one after the other, in ns.
#[must_use]
pub fn orders_ns(orders: &[RoundOrder], ground: &Ground) -> u64 {
    let each = orders.iter().map(|order| round_ns(&order.case, [order.warm_up, order.extent], ground));
    each.fold(0, u64::saturating_add)
}

/// How long one round of this case takes, in ns, with its warm-up and what it measures.
#[must_use]
pub fn round_ns(case: &Case, extents: [Extent; 2], ground: &Ground) -> u64 {
    let travel_ns = links::travel_ns(case, ground);
    if let (Some(exchange), Some(candidate)) = (&case.exchange, ground.candidate(&case.transport)) {
        return exchange_time::round_ns(case, extents, exchange, &candidate.card, travel_ns);
    }
    let bytes = case.size_bytes.saturating_add(case.reply_size_bytes);
    let round_trip_ns =
        floor_ns(case, ground).saturating_add(travel_ns).saturating_add(bytes.saturating_mul(BYTE_NS));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and an estimate needs no more"
    )]
    let each_ns = match case.pattern {
        Pattern::Paced { rate_per_s } => (SECOND_NS as f64 / rate_per_s) as u64,
        Pattern::PingPong | Pattern::SmallWrites => round_trip_ns,
    };
    let takes_ns = |extent: Extent| match extent {
        Extent::Count(count) => count.saturating_mul(each_ns),
        Extent::DurationNs(duration_ns) => duration_ns,
    };
    // The connection takes a way there and back too, and so does its end.
    let link_ns = if case.is_emulated() { links::START_NS.saturating_add(travel_ns.saturating_mul(2)) } else { 0 };
    let messages_ns = extents.map(takes_ns).into_iter().fold(0, u64::saturating_add);
    OVERHEAD_NS.saturating_add(link_ns).saturating_add(messages_ns)
}

/// How long a round may take, in ns: a minute, ten times what it should take, and ten time-outs. A round that takes longer waits
/// for something that does not come.
#[must_use]
pub fn deadline_ns(case: &Case, extents: [Extent; 2], timeout_ns: u64, ground: &Ground) -> u64 {
    const LEAST_NS: u64 = 60 * SECOND_NS;
    let waits_ns = round_ns(case, extents, ground).saturating_add(timeout_ns).saturating_mul(10);
    LEAST_NS.saturating_add(waits_ns)
}

fn floor_ns(case: &Case, ground: &Ground) -> u64 {
    let floor = FLOORS.iter().find(|(name, _)| *name == case.transport).map_or(UNKNOWN_FLOOR, |found| found.1);
    let [one_cpu_ns, spinning_ns] = floor;
    match (case.waiting, case.placement, case.cpu_idle) {
        (Waiting::Spin, _, _) => spinning_ns,
        (_, Placement::Apart, CpuIdle::Deep) => {
            (ground.waking_round_trip_ns)().saturating_add(one_cpu_ns).saturating_sub(PIPE_NS)
        }
        _ => one_cpu_ns,
    }
}
