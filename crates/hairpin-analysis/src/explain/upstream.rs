//! Servers that wait for other servers: a proxy, a program with a database.

use hairpin_model::Cause;
use hairpin_model::trace::End;

use super::peer::Peer;
use super::programs::process;
use super::rule::{Judged, OF_SERVER, Rule};
use super::times::Times;

/// A server waits for another one if it spends this share of its time within the exchanges with it, and these exchanges this share
/// of theirs within its time.
const MIN_WAITING_SHARE: f64 = 0.5;

type Found<'p> = Vec<(&'static Rule, Judged<'p>)>;

/// Removes the work of servers that wait for another server whose exchanges have a cause: that one explains both.
pub(super) fn without_waits_for_others<'p>(peers: &'p [Peer], mut found: Vec<Found<'p>>) -> Vec<Found<'p>> {
    let has_cause: Vec<bool> =
        found.iter().map(|all| all.iter().any(|(rule, _)| rule.code != Cause::ClientIdle)).collect();
    for (peer, causes) in peers.iter().zip(&mut found) {
        let others =
            peers.iter().zip(&has_cause).filter(|(other, has_cause)| **has_cause && !std::ptr::eq(*other, peer));
        let is_work = |rule: &Rule| [Cause::ServerWork, Cause::ServerStalled].contains(&rule.code);
        if causes.iter().any(|(rule, _)| is_work(rule)) && others.into_iter().any(|(other, _)| waits_for(peer, other))
        {
            causes.retain(|(rule, _)| !is_work(rule));
        }
    }
    found
}

/// Whether the server spends its time in exchanges with another server, of which it is the client.
fn waits_for(peer: &Peer, other: &Peer) -> bool {
    let server = peer.connections.first().and_then(|connection| process(connection, 1));
    let is_client = |id: Option<u32>| match (server, id) {
        (Some(server), Some(id)) => server == id,
        _ => true,
    };
    let times = Times::of(peer.exchanges(), &OF_SERVER, End::Server);
    let (mut within_ns, mut sum_ns) = (0.0, 0.0);
    let exchanges = other.exchanges().filter(|(connection, _)| {
        connection.observed.client.ip() == peer.server.ip() && is_client(process(connection, 0))
    });
    for (_, exchange) in exchanges {
        let lasts_ns = exchange.duration_ns() as f64;
        sum_ns += lasts_ns;
        within_ns += times.within(exchange.extent.began_ns..exchange.extent.ended_ns).min(lasts_ns);
    }
    let work_ns = times.within(0..u64::MAX);
    within_ns > 0.0 && within_ns >= MIN_WAITING_SHARE * work_ns && within_ns >= MIN_WAITING_SHARE * sum_ns
}
