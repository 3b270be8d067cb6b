//! Rough durations of exchanges, used only to choose how many to run.
//!
//! The constants were measured on a 2-CPU KVM guest with Linux 6.18 (HZ 250): 100 writes of 2 B and an answer of 4 B
//! take 44 ms with default options, 208 ms with a forgotten cork, 0.6 ms with one segment per write, and 0.05 to 0.15
//! ms if all writes leave together. On other machines a wrong constant changes only how many exchanges run.
//!
//! The unit is the *window*: all exchanges whose requests are written before the first answer is read. Without
//! `--pipeline` a window is one exchange. A window may stall once at each end. At the client, Nagle's algorithm holds
//! part of the first request until an acknowledgment arrives, and all later data leaves together with that part. At
//! the server, the second answer waits for the acknowledgment of the first answer, which the client delays because it
//! has no more to write. Whether answers stall depends on which end runs first, so one round has windows of 0.1 ms
//! and windows of 44 ms.
//!
//! Over a link, a window takes one round trip, `travel_ns`, and one more for each acknowledgment that the window
//! waits for. On the loopback `travel_ns` is 0.

use hairpin_model::{Card, Case, Exchange, Extent, Remedy};

use crate::links;
use crate::possible;
use crate::warm_up::{WARM_UP_NS, cpus_may_sleep};

/// Stall by Nagle's algorithm: the ACK is delayed by `TCP_DELACK_MIN`, 40 ms (include/net/tcp.h), plus a tick.
pub const STALL_NS: u64 = 44_000_000;
/// The probe timer releases a forgotten cork after `TCP_RTO_MIN`, 200 ms (include/net/tcp.h), plus two ticks.
pub const FORGOTTEN_CORK_NS: u64 = 208_000_000;
/// Time from the last write to the answer, without a stall.
pub const ROUND_TRIP_NS: u64 = 50_000;
/// Cost of a write that leaves as its own segment, including the acknowledgment and the server's wake-up.
pub const SEGMENT_NS: u64 = 6_000;
/// Cost of a write whose bytes leave together with others.
pub const WRITE_NS: u64 = 1_000;

/// Warm-up if no CPU sleeps between exchanges, in ns.
const SETTLING_NS: u64 = 10_000_000;
/// Minimum windows of a warm-up. The first windows differ because the kernel initially does not delay ACKs.
const MIN_WARM_UP_WINDOWS: u64 = 3;
const MAX_WARM_UP_WINDOWS: u64 = 200;
/// Maximum duration of a warm-up with more than one window, in ns.
const MAX_WARM_UP_NS: u64 = 150_000_000;

/// Duration of a window, in ns. The first windows of a connection are shorter.
pub fn window_ns(case: &Case, exchange: &Exchange, card: &Card, travel_ns: u64) -> u64 {
    let writes = (exchange.sizes_written().len() + exchange.sizes_answered().len()) as u64;
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

/// Time after which a forgotten cork is released, in ns. The probe timer is the retransmission time-out: three round
/// trips on a young connection with long round trips (RFC 6298, section 2.2).
fn probe_timer_ns(travel_ns: u64) -> u64 {
    travel_ns.saturating_mul(3).max(FORGOTTEN_CORK_NS.saturating_add(travel_ns))
}

/// Maximum total time that Nagle's algorithm holds a window at the client and the server, in ns. Each end holds data
/// until the delayed acknowledgment has crossed the link.
fn nagle_ns(exchange: &Exchange, card: &Card, travel_ns: u64) -> u64 {
    let holds = [requests_are_held(exchange, card), answers_may_be_held(exchange, card)];
    let holds_ns = holds.into_iter().map(|held| if held { STALL_NS.saturating_add(travel_ns) } else { 0 });
    // Without a delay, the rest of a request still waits for the acknowledgment to arrive.
    let is_acknowledged_at_once = exchange.remedy == Remedy::Quickack && exchange.sizes_written().len() > 1;
    holds_ns.fold(if is_acknowledged_at_once { travel_ns } else { 0 }, u64::saturating_add)
}

/// Whether Nagle's algorithm holds requests at the client.
fn requests_are_held(exchange: &Exchange, card: &Card) -> bool {
    let waits = matches!(exchange.remedy, Remedy::Default | Remedy::Batch(_));
    waits && exchange.sizes_written().len() > 1 && possible::is_tcp(card)
}

/// Whether Nagle's algorithm may hold answers at the server, which needs several answers in a row, or an answer in
/// several writes. After the pause of a forgotten cork the kernel acknowledges quickly again (`tcp_event_data_recv`,
/// net/ipv4/tcp_input.c).
fn answers_may_be_held(exchange: &Exchange, card: &Card) -> bool {
    let waits = !matches!(exchange.remedy, Remedy::Nodelay | Remedy::CorkForgotten);
    waits && (exchange.pipeline > 1 || exchange.sizes_answered().len() > 1) && possible::is_tcp(card)
}

/// Returns the warm-up of a round as a number of windows: as many as fit the settling time, but at least 3 and at most
/// 200. Fewer, but at least one, if they would exceed 150 ms. If the duration of a window is unpredictable, returns the
/// settling time itself.
pub fn warm_up(case: &Case, exchange: &Exchange, card: &Card, travel_ns: u64) -> Extent {
    let window_ns = window_ns(case, exchange, card, travel_ns);
    let settling_ns = if cpus_may_sleep(case, card) { WARM_UP_NS } else { SETTLING_NS };
    if answers_may_be_held(exchange, card) && !requests_are_held(exchange, card) {
        return Extent::DurationNs(settling_ns);
    }
    let wanted = (settling_ns / window_ns).clamp(MIN_WARM_UP_WINDOWS, MAX_WARM_UP_WINDOWS);
    let max_windows = (MAX_WARM_UP_NS / window_ns).max(1);
    Extent::Count(wanted.min(max_windows) * exchange.pipeline)
}

/// Estimated duration of a round, in ns, with the start of a link but without the overhead of any round.
pub fn round_ns(case: &Case, extents: [Extent; 2], exchange: &Exchange, card: &Card, travel_ns: u64) -> u64 {
    let window_ns = window_ns(case, exchange, card, travel_ns);
    let windows = |extent: Extent| match extent {
        Extent::Count(count) => count.div_ceil(exchange.pipeline.max(1)),
        // The round finishes the exchange in flight at its end.
        Extent::DurationNs(duration_ns) => duration_ns.div_ceil(window_ns),
    };
    let windows = extents.map(windows).into_iter().fold(0, u64::saturating_add);
    // The ACKs of a connection's first window are not delayed.
    let spared_ns = if windows > 0 { nagle_ns(exchange, card, 0) } else { 0 };
    // Connecting and closing take a round trip each.
    let on_the_way_ns = travel_ns.saturating_mul(2);
    let link_ns = if case.is_emulated() { links::START_NS.saturating_add(on_the_way_ns) } else { 0 };
    windows.saturating_mul(window_ns).saturating_sub(spared_ns).saturating_add(link_ns)
}
