//! Each request opens a connection, which costs a round trip and more.

use hairpin_model::Cause;
use hairpin_model::explanation::evidence;

use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, Rule};

pub(super) const RULE: Rule = Rule {
    code: Cause::ConnectionPerRequest,
    judge,
    explains: &[Cause::OneRequestPerRoundTrip, Cause::CongestionWindow, Cause::ClientIdle],
};

/// Fewer connections may be those of a program that begins.
const MIN_CONNECTIONS: usize = 5;
/// With TLS a connection has a handshake of two exchanges before its request.
const MAX_EXCHANGES: f64 = 4.0;
/// A connection is opened anew soon after another one ended, not beside it.
const MIN_OPENING_SHARE: f64 = 0.2;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let opened: Vec<_> = peer.connections.iter().filter(|one| one.opening.ended_ns.is_some()).collect();
    let exchanges = quantile(opened.iter().map(|one| one.exchanges.len() as f64).collect(), 0.5)?;
    if opened.len() < MIN_CONNECTIONS || exchanges > MAX_EXCHANGES || follow_each_other(peer) < MIN_CONNECTIONS - 1 {
        return None;
    }
    let (opening_ns, elapsed_ns) = (peer.opening_ns() as f64, peer.elapsed_ns() as f64);
    let share = opening_ns / (opening_ns + elapsed_ns).max(1.0);
    let took: Vec<f64> = opened.iter().filter_map(|one| Some(one.opening.took_ns()? as f64)).collect();
    let worst = peer.complete().max_by_key(|(_, exchange)| exchange.duration_ns());
    (share >= MIN_OPENING_SHARE).then(|| {
        Judged::lasting(took.clone(), share, worst)
            .with(evidence::CONNECTIONS, Some(opened.len() as f64))
            .with(evidence::EXCHANGES, Some(exchanges))
            .with(evidence::OPENING_NS, quantile(took, 0.5))
            .with(evidence::ROUND_TRIP_NS, peer.round_trip_ns().map(|ns| ns as f64))
    })
}

/// Returns the number of connections that begin after an earlier connection of the same client ended its last exchange.
fn follow_each_other(peer: &Peer) -> usize {
    let mut ends: std::collections::HashMap<_, u64> = std::collections::HashMap::new();
    let mut following = 0;
    for connection in &peer.connections {
        let client = connection.observed.client.ip();
        let earliest_ns = ends.get(&client).copied();
        following += usize::from(earliest_ns.is_some_and(|ended_ns| ended_ns <= connection.opening.began_ns));
        if let Some(last) = connection.exchanges.last() {
            let ended_ns = ends.entry(client).or_insert(last.extent.ended_ns);
            *ended_ns = (*ended_ns).min(last.extent.ended_ns);
        }
    }
    following
}
