//! Servers that wait for other servers: a proxy, a program with a database.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hairpin_model::Cause;
use hairpin_model::trace::End;

use super::peer::Peer;
use super::programs::process;
use super::rule::{Judged, OF_SERVER, Rule};
use super::times::Times;

/// A server waits for another one if it spends this share of its time within the exchanges with it, and these exchanges this share
/// of theirs within its time.
const MIN_WAITING_SHARE: f64 = 0.5;
/// Maximum number of servers that are tried as those for which one waits.
const MAX_TRIED: usize = 100;

type Found<'p> = Vec<(&'static Rule, Judged<'p>)>;

/// Removes the work of servers that wait for another server whose exchanges have a cause: that one explains both.
pub(super) fn without_waits_for_others<'p>(peers: &'p [Peer], mut found: Vec<Found<'p>>) -> Vec<Found<'p>> {
    // Servers with a cause, by the addresses of their clients.
    let mut by_client: BTreeMap<IpAddr, Vec<&Peer>> = BTreeMap::new();
    for (peer, causes) in peers.iter().zip(&found) {
        let mut clients: Vec<IpAddr> = peer.connections.iter().map(|one| one.observed.client.ip()).collect();
        clients.sort_unstable();
        clients.dedup();
        if causes.iter().any(|(rule, _)| rule.code != Cause::ClientIdle) {
            clients.into_iter().for_each(|client| by_client.entry(client).or_default().push(peer));
        }
    }
    let is_work = |rule: &Rule| [Cause::ServerWork, Cause::ServerStalled].contains(&rule.code);
    for (peer, causes) in peers.iter().zip(&mut found).filter(|(_, causes)| causes.iter().any(|one| is_work(one.0))) {
        let others = by_client.get(&peer.server.ip()).map(Vec::as_slice).unwrap_or_default();
        let times = Times::of(peer.exchanges(), &OF_SERVER, End::Server);
        let mut others = others.iter().filter(|other| !std::ptr::eq(**other, peer)).take(MAX_TRIED);
        if others.any(|other| waits_for(peer, &times, other)) {
            causes.retain(|(rule, _)| !is_work(rule));
        }
    }
    found
}

/// Whether the server spends its `times` of work in exchanges with another server, of which it is the client.
fn waits_for(peer: &Peer, times: &Times, other: &Peer) -> bool {
    let server = peer.connections.first().and_then(|connection| process(connection, 1));
    let is_client = |id: Option<u32>| match (server, id) {
        (Some(server), Some(id)) => server == id,
        _ => true,
    };
    let (mut within_ns, mut sum_ns) = (0.0, 0.0);
    let exchanges = other.exchanges().filter(|(connection, _)| {
        connection.observed.client.ip() == peer.server.ip() && is_client(process(connection, 0))
    });
    for (_, exchange) in exchanges {
        let lasts_ns = exchange.duration_ns() as f64;
        sum_ns += lasts_ns;
        within_ns += times.within(exchange.extent.began_ns..exchange.extent.ended_ns).min(lasts_ns);
    }
    within_ns > 0.0 && within_ns >= MIN_WAITING_SHARE * times.total_ns() && within_ns >= MIN_WAITING_SHARE * sum_ns
}
