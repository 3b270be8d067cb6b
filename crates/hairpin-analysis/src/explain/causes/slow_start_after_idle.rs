//! The congestion window was reset after a pause, so the next transfer begins slowly (RFC 5681, section 4.1).

use hairpin_model::Cause;
use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, Rule};

pub(super) const RULE: Rule = Rule { code: Cause::SlowStartAfterIdle, judge, explains: &[Cause::CongestionWindow] };

/// A pause of at least the minimum retransmission time-out (include/net/tcp.h, `TCP_RTO_MIN`) resets the window.
const MIN_PAUSE_NS: u64 = 200_000_000;
/// The window was larger before if a flight of the transfer before was by this factor.
const MIN_LARGER: f64 = 2.0;
const MIN_WINDOW_SHARE: f64 = 0.3;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let waits = peer.waits(|connection, exchange| {
        let is_reset = restart(connection, exchange).is_some();
        if is_reset { exchange.ns_in(&[ExchangeState::CongestionWindow]) } else { 0 }
    });
    let judged = Judged::of(&waits, MIN_WINDOW_SHARE)?;
    let restarts: Vec<(f64, f64)> =
        waits.affected.iter().filter_map(|(connection, exchange)| restart(connection, exchange)).collect();
    let median = |values: Vec<f64>| quantile(values, 0.5);
    Some(
        judged
            .with(evidence::FIRST_FLIGHT_BYTES, median(restarts.iter().map(|(first, _)| *first).collect()))
            .with(evidence::EARLIER_FLIGHT_BYTES, median(restarts.iter().map(|(_, before)| *before).collect()))
            .with(evidence::ROUND_TRIP_NS, peer.round_trip_ns().map(|ns| ns as f64)),
    )
}

/// Returns the first flight of a transfer after a pause, and the largest one of the transfer before, in bytes, if the pause
/// reset the window.
fn restart(connection: &Connection, exchange: &Exchange) -> Option<(f64, f64)> {
    let before = connection.exchanges.get(exchange.place.checked_sub(1)?)?;
    if exchange.idle_before_ns < MIN_PAUSE_NS {
        return None;
    }
    let first = *flights(connection, exchange).first()?;
    let largest = *flights(connection, before).iter().max()?;
    // Linux halves the window for each time-out that the pause lasted (net/ipv4/tcp_output.c, `tcp_cwnd_restart`).
    let is_reset = largest as f64 >= MIN_LARGER * first as f64;
    is_reset.then_some((first as f64, largest as f64))
}

/// Returns the bytes of each flight of a transfer: packets without a pause of half a round trip between them.
fn flights(connection: &Connection, exchange: &Exchange) -> Vec<u64> {
    let from = if exchange.reply_bytes() >= exchange.request_bytes() { End::Server } else { End::Client };
    let pause_ns = connection.vantage.round_trip_ns().unwrap_or(0) / 2;
    let (mut flights, mut last_ns): (Vec<u64>, Option<u64>) = (Vec::new(), None);
    for packet in connection.sent_within(from, exchange.extent.began_ns, exchange.extent.ended_ns) {
        let bytes = packet.end_byte - packet.first_byte;
        match flights.last_mut().filter(|_| last_ns.is_some_and(|last_ns| packet.at_ns - last_ns < pause_ns)) {
            Some(flight) => *flight += bytes,
            None => flights.push(bytes),
        }
        last_ns = Some(packet.at_ns);
    }
    flights
}
