//! Rough durations of rounds, used only to announce a run and to choose how many rounds fit its time budget.

use hairpin_model::{Case, CpuIdle, Extent, HostCapabilities, Load, Placement, RoughRoundTrip, RoundOrder};

use crate::exchange_time;
use crate::links;
use crate::quantity::SECOND_NS;

/// Overhead of a round (starting two processes, a connection, teardown, saving) / time to start a small process.
/// Measured: 18 ms / 0.72 ms (AMD EPYC, 2 CPUs, Linux 6.18, 2026-11-26).
pub const OVERHEAD_STARTS: u64 = 25;

/// The same for one-way loads, whose ends also agree on the end of the load: 36 ms / 1.2 ms (the same machine, slower that
/// day).
const ONE_WAY_OVERHEAD_STARTS: u64 = 30;

/// Average wait for the last messages of an unreliable transport, in ns: 100 ms of silence if messages were lost.
const SILENCE_NS: u64 = 50_000_000;

/// Additional overhead of a round for each task of other programs per CPU, in ns: the round's processes wait about
/// twenty times for a time slice (3 ms).
const WAITS_NS: f64 = 60e6;

/// Round trip over a blocking pipe on one CPU, in ns. `waking_round_trip_ns` includes this time.
const PIPE_NS: u64 = 5_000;

/// Assumed round trip of a transport that is not among the host capabilities.
pub const UNKNOWN: RoughRoundTrip = RoughRoundTrip { blocking_ns: 15_000, spinning_ns: 9_000 };

/// Cost of copying a byte in both directions, in ns.
const BYTE_NS: u64 = 1;

/// Cost of a connection in addition to its round trip, in ns.
const CONNECTION_NS: u64 = 20_000;

/// Cost of a write to a stream in addition to its bytes, in ns.
const WRITE_NS: u64 = 1_000;

/// Duration of these rounds back to back, in ns.
pub fn orders_ns(orders: &[RoundOrder], capabilities: &HostCapabilities) -> u64 {
    let each = orders.iter().map(|order| round_ns(&order.case, [order.warm_up, order.extent], capabilities));
    each.fold(0, u64::saturating_add)
}

/// Duration of one round of this case with its warm-up, in ns.
pub fn round_ns(case: &Case, extents: [Extent; 2], capabilities: &HostCapabilities) -> u64 {
    let travel_ns = links::travel_ns(case, capabilities);
    if let (Some(exchange), Some(candidate)) =
        (case.primary().load.exchange(), capabilities.candidate(&case.primary().transport))
    {
        let messages_ns = exchange_time::round_ns(case, extents, exchange, &candidate.card, travel_ns);
        return overhead_ns(case, capabilities).saturating_add(messages_ns);
    }
    let bytes = case.primary().load.size_bytes().saturating_add(case.primary().load.reply_size_bytes());
    let work_ns = floor_ns(case, capabilities).saturating_add(bytes.saturating_mul(BYTE_NS));
    // The cast to u64 saturates, which is enough for an estimate.
    let each_ns = match case.primary().load {
        Load::Paced { rate_per_s, .. } | Load::Offered { offered_per_s: rate_per_s, .. } => {
            (SECOND_NS as f64 / rate_per_s) as u64
        }
        Load::Periodic { periodic, .. } => periodic.period_ns,
        Load::Messages { .. } | Load::Stream { .. } => {
            WRITE_NS.saturating_add(bytes.saturating_mul(BYTE_NS)).saturating_mul(case.primary().wires())
        }
        Load::PingPong { .. } | Load::Exchange { .. } => {
            let slowdown = (1.0 + capabilities.busy_per_cpu) * throttling(case, capabilities);
            travel_ns.saturating_add((work_ns as f64 * slowdown) as u64)
        }
    };
    let takes_ns = |extent: Extent| match extent {
        Extent::Count(count) => count.saturating_mul(each_ns),
        Extent::DurationNs(duration_ns) => duration_ns,
    };
    // Connecting and closing take a round trip each.
    let link_ns = if case.is_emulated() { links::START_NS.saturating_add(travel_ns.saturating_mul(2)) } else { 0 };
    let messages_ns = extents.map(takes_ns).into_iter().fold(0, u64::saturating_add);
    let drain_ns = if case.primary().load.is_one_way() { links::drain_ns(case, capabilities) } else { 0 };
    let is_lossy =
        capabilities.candidate(&case.primary().transport).is_some_and(|candidate| !candidate.card.reliable);
    let is_at_full_speed = matches!(case.primary().load, Load::Messages { .. } | Load::Stream { .. });
    let silence_ns = if is_lossy && is_at_full_speed { SILENCE_NS } else { 0 };
    let connections_ns = CONNECTION_NS.saturating_mul(u64::from(case.primary().connections));
    let parts_ns = [connections_ns, link_ns, messages_ns, drain_ns, silence_ns];
    parts_ns.into_iter().fold(overhead_ns(case, capabilities), u64::saturating_add)
}

/// Overhead of a round: see [`OVERHEAD_STARTS`].
fn overhead_ns(case: &Case, capabilities: &HostCapabilities) -> u64 {
    let starts = if case.primary().load.is_one_way() { ONE_WAY_OVERHEAD_STARTS } else { OVERHEAD_STARTS };
    let overhead_ns = (starts * (capabilities.process_start_ns)()) as f64 + capabilities.busy_per_cpu * WAITS_NS;
    (overhead_ns * throttling(case, capabilities)) as u64
}

/// Factor by which a CPU quota lengthens the work of the ends.
fn throttling(case: &Case, capabilities: &HostCapabilities) -> f64 {
    let used_cpus = if case.ends.placement.has_own_cpus() { 2.0 } else { 1.0 };
    capabilities.cpu_quota.map_or(1.0, |quota| (used_cpus / quota).max(1.0))
}

/// Maximum duration of a round, in ns: a minute plus ten times its estimate and ten time-outs. A round that takes
/// longer waits for data that will not arrive.
pub fn deadline_ns(case: &Case, extents: [Extent; 2], timeout_ns: u64, capabilities: &HostCapabilities) -> u64 {
    const MIN_NS: u64 = 60 * SECOND_NS;
    let waits_ns = round_ns(case, extents, capabilities).saturating_add(timeout_ns).saturating_mul(10);
    MIN_NS.saturating_add(waits_ns)
}

fn floor_ns(case: &Case, capabilities: &HostCapabilities) -> u64 {
    let candidate = capabilities.candidate(&case.primary().transport);
    let RoughRoundTrip { blocking_ns, spinning_ns } =
        candidate.map_or(UNKNOWN, |candidate| candidate.card.rough_round_trip);
    match (case.ends.waiting, case.ends.placement, case.ends.cpu_idle) {
        (waiting, _, _) if waiting.spins() => spinning_ns,
        (_, placement, CpuIdle::Deep) if placement.has_own_cpus() && placement != Placement::Pinned => {
            (capabilities.waking_round_trip_ns)().saturating_add(blocking_ns).saturating_sub(PIPE_NS)
        }
        _ => blocking_ns,
    }
}
