//! Explains the traffic of programs that Hairpin did not write: exchanges, their states, and causes by name.
//!
//! Packets get their times at both ends (`vantage`), exchanges are found in them, and their states computed as for
//! Hairpin's own rounds. Each rule of `causes` then judges all connections to one server.

mod causes;
mod connection;
mod exchanges;
mod peer;
mod programs;
mod rule;
#[cfg(test)]
mod tests;
mod times;
mod upstream;
mod vantage;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hairpin_model::explanation::evidence as names;
use hairpin_model::observed::{Observed, ObservedConnection, ObservedPrograms};
use hairpin_model::trace::End;
use hairpin_model::{
    Cause, CauseText, ExplainedCause, ExplainedConnection, ExplainedPackets, ExplainedPrograms, Explanation, Fact,
    StateSpan, StateUnion, Tier, TimeSequence, VantagePoint, Wait,
};

use connection::{Connection, Exchange};
use peer::{Peer, quantile};
use rule::{Judged, MIN_EXPLAINING_SHARE, Rule};

/// A wait is drawn if it takes at least 1 / `MAX_WAITS` of the exchange.
const MAX_WAITS: u64 = 20;

/// Explains what was observed. The texts of the causes, and what the evidence shows as a whole, are left empty.
pub fn explain(observed: Observed, tier: Tier, subject: String) -> Explanation {
    let Observed { packets, programs } = observed;
    let mut peers = peers(packets.connections);
    peers.sort_by_key(|peer| std::cmp::Reverse(peer.elapsed_ns().saturating_add(peer.opening_ns())));
    let mut causes: Vec<(u64, ExplainedCause)> = Vec::new();
    let mut connections = Vec::new();
    let found = upstream::without_waits_for_others(&peers, peers.iter().map(judge).collect());
    for ((id, peer), found) in (1..).zip(&peers).zip(found) {
        let drawn = found.first().and_then(|(_, judged)| judged.worst);
        let place = peer.server.to_string();
        let time_ns = peer.elapsed_ns().saturating_add(peer.opening_ns());
        causes.extend(found.into_iter().map(|(rule, judged)| {
            let cost_ns = (judged.share.unwrap_or(1.0) * time_ns as f64) as u64;
            let Judged { share, saved, evidence, .. } = judged;
            let evidence = with_program(peer, evidence);
            let (place, text) = (place.clone(), CauseText::default());
            (cost_ns, ExplainedCause { code: rule.code, place, share, saved_if_fixed_ns: saved, evidence, text })
        }));
        connections.push(explained(id, peer, drawn.and_then(|(connection, exchange)| draw(connection, exchange))));
    }
    // The sort is stable: causes of one server stay in the order of their rules if they cost the same. Idle time is no cost.
    causes.sort_by_key(|(cost_ns, cause)| (cause.code == Cause::ClientIdle, std::cmp::Reverse(*cost_ns)));
    let mut causes: Vec<ExplainedCause> = causes.into_iter().map(|(_, cause)| cause).collect();
    if let Some(programs) = &programs {
        programs::add_causes(programs, &peers, &mut causes);
    }
    let packets = explained_packets(packets.figures, &peers);
    Explanation {
        tier,
        subject,
        packets,
        programs: programs.map(explained_programs),
        seen: Vec::new(),
        not_seen: Vec::new(),
        causes,
        connections,
        exit_code: None,
    }
}

/// Adds the name of the program at the end that must change, if it is known.
fn with_program(peer: &Peer, mut evidence: Vec<Fact>) -> Vec<Fact> {
    let is_client = evidence.contains(&Fact::word(names::END, End::Client.word()));
    let at = usize::from(!is_client);
    let program = peer.connections.iter().find_map(|connection| connection.observed.programs[at].as_ref());
    evidence.extend(program.map(|program| Fact::word(names::PROGRAM, program.name.clone())));
    evidence
}

fn explained_packets(figures: ExplainedPackets, peers: &[Peer]) -> ExplainedPackets {
    let all = || peers.iter().flat_map(|peer| &peer.connections);
    let mut points: BTreeMap<VantagePoint, usize> = BTreeMap::new();
    all().for_each(|connection| *points.entry(connection.vantage.point()).or_default() += 1);
    ExplainedPackets {
        connections: all().count() as u64,
        without_handshake: all().filter(|connection| !connection.observed.has_handshake).count() as u64,
        exchanges_skipped: all().map(|connection| connection.skipped as u64).sum(),
        seen_at: points.into_iter().max_by_key(|(_, connections)| *connections).map(|(point, _)| point),
        ..figures
    }
}

fn explained_programs(observed: ObservedPrograms) -> ExplainedPrograms {
    let waited_for_cpu_ns = observed.cpu_waits.iter().map(|wait| wait.waited_ns).sum();
    ExplainedPrograms { waited_for_cpu_ns, ..observed.figures }
}

fn peers(connections: Vec<ObservedConnection>) -> Vec<Peer> {
    let mut by_server: BTreeMap<SocketAddr, Vec<Connection>> = BTreeMap::new();
    for observed in connections {
        by_server.entry(observed.server).or_default().push(Connection::new(observed));
    }
    by_server.into_iter().map(|(server, connections)| Peer { server, connections }).collect()
}

/// Returns the causes of a server's exchanges, the one that takes most of their time first, without those that others explain.
fn judge(peer: &Peer) -> Vec<(&'static Rule, Judged<'_>)> {
    let mut found: Vec<(&'static Rule, Judged<'_>)> =
        causes::ALL.iter().filter_map(|rule| Some((rule, (rule.judge)(peer)?))).collect();
    let shares: Vec<(&'static Rule, f64)> =
        found.iter().map(|(rule, judged)| (*rule, judged.share.unwrap_or(1.0))).collect();
    found.retain(|(rule, judged)| {
        let share = judged.share.unwrap_or(1.0);
        let explains = |(other, of_other): &(&Rule, f64)| {
            other.explains.contains(&rule.code) && *of_other >= MIN_EXPLAINING_SHARE * share
        };
        !shares.iter().any(explains)
    });
    found.sort_by(|(one, a), (other, b)| {
        let idle = |rule: &Rule| rule.code == Cause::ClientIdle;
        let share = |judged: &Judged<'_>| judged.share.unwrap_or(1.0);
        idle(one).cmp(&idle(other)).then(share(b).total_cmp(&share(a)))
    });
    found
}

fn draw(connection: &Connection, exchange: &Exchange) -> Option<TimeSequence> {
    let sequence = connection.sequence(exchange)?;
    let waits = waits(&exchange.spans, exchange.duration_ns());
    Some(TimeSequence { exchange: exchange.place as u64 + 1, waits, ..sequence })
}

/// Returns the states of an exchange that are waits of an end.
fn waits(spans: &[StateSpan], duration_ns: u64) -> Vec<Wait> {
    let is_wait = |span: &&StateSpan| (span.until_ns - span.from_ns).saturating_mul(MAX_WAITS) >= duration_ns;
    let wait = |span: &StateSpan| {
        let [from_ns, until_ns] = [span.from_ns, span.until_ns].map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
        let end = span.who.end()?;
        Some(Wait { cause: span.state, end, from_ns, until_ns, first_byte: 0, end_byte: 0, came_ns: None })
    };
    spans.iter().filter(is_wait).filter_map(wait).collect()
}

fn explained(id: u64, peer: &Peer, worst: Option<TimeSequence>) -> ExplainedConnection {
    let duration_ns = |(_, exchange): (&Connection, &Exchange)| exchange.duration_ns() as f64;
    let mut durations: Vec<f64> = peer.complete().map(duration_ns).collect();
    if durations.is_empty() {
        durations = peer.exchanges().map(duration_ns).collect();
    }
    let states = peer.states();
    let first = peer.connections.first().map(|connection| &connection.observed);
    let clients: Vec<SocketAddr> = peer.connections.iter().map(|connection| connection.observed.client).collect();
    let client = match clients.as_slice() {
        [only] => only.to_string(),
        [one, ..] if clients.iter().all(|client| client.ip() == one.ip()) => one.ip().to_string(),
        all => format!("{} clients", all.len()),
    };
    let named = |address: String, end: usize| {
        let program = first.and_then(|observed| observed.programs[end].as_ref());
        program.map_or_else(|| address.clone(), |program| format!("{} ({address})", program.name))
    };
    let percentile = |share| quantile(durations.clone(), share).map(|ns| ns as u64);
    let bytes_of = |end: usize| peer.connections.iter().map(|connection| connection.bytes[end]).sum();
    ExplainedConnection {
        id,
        ends: [named(client, 0), named(peer.server.to_string(), 1)],
        connections: peer.connections.len() as u64,
        exchanges: peer.exchanges().count() as u64,
        p50_ns: percentile(0.5),
        p99_ns: percentile(0.99),
        bytes: [bytes_of(0), bytes_of(1)],
        min_round_trip_ns: peer.round_trip_ns(),
        unions: StateUnion::among(&states),
        states,
        worst,
    }
}
