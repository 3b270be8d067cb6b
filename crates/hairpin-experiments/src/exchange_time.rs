//! Rough durations of exchanges, used only to choose how many to run.
//!
//! The figures are from bare loops on a 2-CPU KVM guest with Linux 6.18 (HZ 250): 100 writes of 2 B and an answer of 4
//! B take 44 ms with default options, 208 ms with a forgotten cork, 0.6 ms with one segment per write, and 0.05 to 0.15
//! ms if all leave together. On other machines they change how many exchanges run, never the results.
//!
//! The unit is the *window*: the exchanges whose requests are written before the first answer is read, one without
//! `--pipeline`. It may stall twice. Its requests stall once: the held part of the first waits for an acknowledgment,
//! and all later data leaves with it. Its answers stall at the server: the second waits for the acknowledgment of the
//! first, which the client delays because it has no more to write. Whether they stall depends on which end runs first,
//! so one round has windows of 0.1 ms and of 44 ms.
//!
//! Over a link a window takes one round trip, `travel_ns`, and another for each acknowledgment that it waits for. On
//! the loopback `travel_ns` is 0.

use hairpin_model::{Card, Case, Exchange, Extent, Remedy};

use crate::links;
use crate::possible;
use crate::warm_up::{WARM_UP_NS, cpus_may_sleep};

/// Nagle's algorithm waits for an ACK that is delayed by `TCP_DELACK_MIN`, 40 ms (include/net/tcp.h), and a tick.
pub const STALL_NS: u64 = 44_000_000;
/// The probe timer releases a forgotten cork: `TCP_RTO_MIN`, 200 ms (include/net/tcp.h), and two ticks.
pub const FORGOTTEN_CORK_NS: u64 = 208_000_000;
/// From the last write to the answer, without a stall.
pub const ROUND_TRIP_NS: u64 = 50_000;
/// A write that leaves as its own segment, with the acknowledgment and the server's wake-up.
pub const SEGMENT_NS: u64 = 6_000;
/// A write whose bytes leave together with others.
pub const WRITE_NS: u64 = 1_000;
/// Overhead of a round: starting two processes, a connection, teardown, saving.
pub const START_NS: u64 = 15_000_000;

/// Warm-up if no CPU sleeps between exchanges.
const SETTLED_NS: u64 = 10_000_000;
/// Minimum windows of a warm-up: the kernel acknowledges quickly at first, so the first windows of a connection differ.
const MIN_WARM_UP_WINDOWS: u64 = 3;
const MAX_WARM_UP_WINDOWS: u64 = 200;
/// Longest warm-up of more than one window.
const MAX_WARM_UP_NS: u64 = 150_000_000;

/// Duration of a window once the connection is past its start, in ns.
pub fn window_ns(case: &Case, exchange: &Exchange, card: &Card, travel_ns: u64) -> u64 {
    let writes = exchange.sizes_written().len() as u64;
    let alone = matches!(exchange.remedy, Remedy::Nodelay | Remedy::Quickack);
    let calls_ns = writes * if alone { SEGMENT_NS } else { WRITE_NS };
    // Copying runs at gigabytes per second: count 1 ns per byte.
    let bytes_ns = case.primary().load.size_bytes().saturating_add(case.primary().load.reply_size_bytes());
    let work_ns = calls_ns.saturating_add(bytes_ns).saturating_add(pauses_ns(exchange));
    let stalls_ns = match exchange.remedy {
        Remedy::CorkForgotten => probe_timer_ns(travel_ns),
        _ => nagle_ns(exchange, card, travel_ns),
    };
    let waits_ns = stalls_ns.saturating_add(travel_ns).saturating_add(ROUND_TRIP_NS);
    work_ns.saturating_mul(exchange.pipeline.max(1)).saturating_add(waits_ns)
}

/// Total pause between the writes of one request, in ns.
pub fn pauses_ns(exchange: &Exchange) -> u64 {
    exchange.gap_ns.saturating_mul(exchange.sizes_written().len() as u64 - 1)
}

/// When a forgotten cork is released, in ns. The probe timer is the retransmission time-out: on a young connection with
/// long round trips, three of them (RFC 6298, section 2.2).
fn probe_timer_ns(travel_ns: u64) -> u64 {
    travel_ns.saturating_mul(3).max(FORGOTTEN_CORK_NS.saturating_add(travel_ns))
}

/// Longest time that Nagle's algorithm may hold a window at both ends together, in ns: until a delayed acknowledgment
/// has crossed the link.
fn nagle_ns(exchange: &Exchange, card: &Card, travel_ns: u64) -> u64 {
    let late = [requests_are_held(exchange, card), answers_may_be_held(exchange, card)];
    let late_ns = late.into_iter().map(|held| if held { STALL_NS.saturating_add(travel_ns) } else { 0 });
    // Without a delay, the rest of a request still waits for the acknowledgment to arrive.
    let is_acknowledged_at_once = exchange.remedy == Remedy::Quickack && exchange.sizes_written().len() > 1;
    late_ns.fold(if is_acknowledged_at_once { travel_ns } else { 0 }, u64::saturating_add)
}

/// Due to Nagle's algorithm at the client.
fn requests_are_held(exchange: &Exchange, card: &Card) -> bool {
    let waits = matches!(exchange.remedy, Remedy::Default | Remedy::Batch(_));
    waits && exchange.sizes_written().len() > 1 && possible::is_tcp(card)
}

/// Due to Nagle's algorithm at the server, if one answer follows another. After the pause of a forgotten cork the
/// kernel acknowledges quickly again (`tcp_event_data_recv`, net/ipv4/tcp_input.c).
fn answers_may_be_held(exchange: &Exchange, card: &Card) -> bool {
    let waits = !matches!(exchange.remedy, Remedy::Nodelay | Remedy::CorkForgotten);
    waits && exchange.pipeline > 1 && possible::is_tcp(card)
}

/// The warm-up of a round in whole windows: as many as fit the settling time, 3 to 200, at most 150 ms, at least one.
/// The settling time itself if the duration of a window is unpredictable.
pub fn warm_up(case: &Case, exchange: &Exchange, card: &Card, travel_ns: u64) -> Extent {
    let window_ns = window_ns(case, exchange, card, travel_ns);
    let settled_ns = if cpus_may_sleep(case, card) { WARM_UP_NS } else { SETTLED_NS };
    if answers_may_be_held(exchange, card) && !requests_are_held(exchange, card) {
        return Extent::DurationNs(settled_ns);
    }
    let wanted = (settled_ns / window_ns).clamp(MIN_WARM_UP_WINDOWS, MAX_WARM_UP_WINDOWS);
    let bearable = (MAX_WARM_UP_NS / window_ns).max(1);
    Extent::Count(wanted.min(bearable) * exchange.pipeline)
}

/// Estimated duration of a round, in ns, with its start.
pub fn round_ns(case: &Case, extents: [Extent; 2], exchange: &Exchange, card: &Card, travel_ns: u64) -> u64 {
    let window_ns = window_ns(case, exchange, card, travel_ns);
    let windows = |extent: Extent| match extent {
        Extent::Count(count) => count.div_ceil(exchange.pipeline.max(1)),
        // The exchange in flight at the end is finished.
        Extent::DurationNs(duration_ns) => duration_ns.div_ceil(window_ns),
    };
    let windows = extents.map(windows).into_iter().fold(0, u64::saturating_add);
    // The first window of a connection is acknowledged at once.
    let spared_ns = if windows > 0 { nagle_ns(exchange, card, 0) } else { 0 };
    // Connecting and closing take a round trip each.
    let on_the_way_ns = travel_ns.saturating_mul(2);
    let link_ns = if case.is_emulated() { links::START_NS.saturating_add(on_the_way_ns) } else { 0 };
    let start_ns = START_NS.saturating_add(link_ns);
    windows.saturating_mul(window_ns).saturating_sub(spared_ns).saturating_add(start_ns)
}
