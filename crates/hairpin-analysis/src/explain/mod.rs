//! Explains the traffic of programs that Hairpin did not write: exchanges, their states, and causes by name.
//!
//! Packets get their times at both ends (`vantage`), exchanges are found in them, and their states computed as for
//! Hairpin's own rounds. Each rule of `causes` then judges all connections to one server.

mod causes;
mod connection;
mod exchanges;
mod peer;
mod rule;
#[cfg(test)]
mod tests;
mod vantage;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::observed::{Observed, ObservedConnection, ObservedPackets, ObservedPrograms};
use hairpin_model::{
    Cause, CauseText, ExplainedCause, ExplainedConnection, ExplainedPackets, ExplainedPrograms, Explanation, Fact,
    StateSpan, StateUnion, Tier, TimeSequence, VantagePoint, Wait,
};

use crate::trace::states_of_exchanges;
use connection::{Connection, Exchange};
use peer::{Peer, quantile};
use rule::{Judged, Rule};

/// A cause explains another one if it takes at least this part of the other's time.
const MIN_EXPLAINING_SHARE: f64 = 0.5;

/// Programs that wait for a CPU are a cause from this share of the time of the exchanges, and a quota is what stops them from
/// this share of their waits.
const MIN_CPU_WAIT_SHARE: f64 = 0.3;
/// Shorter waits, in all and for each exchange, are those of programs that begin and of other threads.
const MIN_CPU_WAIT_NS: f64 = 50e6;
const MIN_CPU_WAIT_EACH_NS: f64 = 1e6;
const MIN_QUOTA_SHARE: f64 = 0.3;

/// States in which a program must act, or its kernel in its name.
const OF_PROGRAMS: [ExchangeState; 9] = [
    ExchangeState::ClientIdle,
    ExchangeState::ServerProgram,
    ExchangeState::WaitingForCpu,
    ExchangeState::ProgramOrCpu,
    ExchangeState::SendCall,
    ExchangeState::SlowReader,
    ExchangeState::WakeUp,
    ExchangeState::IdleOrHeld,
    ExchangeState::WorkOrHeld,
];

/// A wait is drawn if it takes at least 1 / `MAX_WAITS` of the exchange.
const MAX_WAITS: u64 = 20;

/// Explains what was observed. The texts of the causes, and what the evidence shows as a whole, are left empty.
pub fn explain(observed: Observed, tier: Tier, subject: String) -> Explanation {
    let Observed { mut packets, programs } = observed;
    let connections = std::mem::take(&mut packets.connections);
    let mut peers = peers(connections);
    peers.sort_by_key(|peer| std::cmp::Reverse(peer.elapsed_ns() + peer.opening_ns()));
    let mut causes: Vec<(u64, ExplainedCause)> = Vec::new();
    let mut connections = Vec::new();
    for (id, peer) in (1..).zip(&peers) {
        let found = judge(peer);
        let drawn = found.first().and_then(|(_, judged)| judged.worst);
        let place = peer.server.to_string();
        let time_ns = peer.elapsed_ns() + peer.opening_ns();
        causes.extend(found.into_iter().map(|(rule, judged)| {
            let cost_ns = (judged.share.unwrap_or(1.0) * time_ns as f64) as u64;
            let Judged { share, saved, evidence, .. } = judged;
            let (place, text) = (place.clone(), CauseText::default());
            (cost_ns, ExplainedCause { code: rule.code, place, share, saved_if_fixed_ns: saved, evidence, text })
        }));
        connections.push(explained(id, peer, drawn.and_then(|(connection, exchange)| draw(connection, exchange))));
    }
    // The sort is stable: causes of one server stay in the order of their rules if they cost the same. Idle time is no cost.
    causes.sort_by_key(|(cost_ns, cause)| (cause.code == Cause::ClientIdle, std::cmp::Reverse(*cost_ns)));
    let mut causes: Vec<ExplainedCause> = causes.into_iter().map(|(_, cause)| cause).collect();
    if let Some(programs) = &programs {
        of_programs(programs, &peers, &mut causes);
    }
    let packets = explained_packets(packets, &peers);
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

fn explained_packets(observed: ObservedPackets, peers: &[Peer]) -> ExplainedPackets {
    let ObservedPackets { frames, not_tcp, cut, datagrams, copies, not_kept, .. } = observed;
    let ObservedPackets { lost_by_capture, duration_ns, ended_early, .. } = observed;
    let all = || peers.iter().flat_map(|peer| &peer.connections);
    let mut points: BTreeMap<VantagePoint, usize> = BTreeMap::new();
    all().for_each(|connection| *points.entry(connection.vantage.point()).or_default() += 1);
    ExplainedPackets {
        frames,
        not_tcp,
        cut,
        datagrams,
        copies,
        not_kept,
        lost_by_capture,
        duration_ns,
        connections: all().count() as u64,
        without_handshake: all().filter(|connection| !connection.observed.has_handshake).count() as u64,
        exchanges_skipped: all().map(|connection| connection.skipped as u64).sum(),
        seen_at: points.into_iter().max_by_key(|(_, connections)| *connections).map(|(point, _)| point),
        ended_early,
    }
}

fn explained_programs(observed: ObservedPrograms) -> ExplainedPrograms {
    let ObservedPrograms {
        waited_for_cpu_ns, stopped_by_quota_ns, duration_ns, programs, samples, no_packets, ..
    } = observed;
    ExplainedPrograms { waited_for_cpu_ns, stopped_by_quota_ns, duration_ns, programs, samples, no_packets }
}

/// Adds the causes that counters and samples of programs show, before those that they explain.
fn of_programs(programs: &ObservedPrograms, peers: &[Peer], causes: &mut Vec<ExplainedCause>) {
    let cause = |code, place: String, share, saved, evidence| ExplainedCause {
        code,
        place,
        share,
        saved_if_fixed_ns: saved,
        evidence,
        text: CauseText::default(),
    };
    let number = |name: &str, value: u64| Fact::number(name, value as f64);
    let mut found = Vec::new();
    for (address, program, drops) in &programs.udp_drops {
        let place = if program.is_empty() { address.to_string() } else { format!("{program} ({address})") };
        found.push(cause(Cause::UdpReceiveOverrun, place, None, None, vec![number(evidence::AFFECTED, *drops)]));
    }
    let is_named = |code: Cause, causes: &[ExplainedCause]| causes.iter().any(|cause| cause.code == code);
    if programs.listen_overflows > 0 && !is_named(Cause::AcceptQueueOverflow, causes) {
        let (place, length) = programs.full_queues.first().map_or_else(
            || ("a server".to_owned(), None),
            |(address, length)| (address.to_string(), Some(number(evidence::QUEUE_LENGTH, *length))),
        );
        let overflows = number(evidence::AFFECTED, programs.listen_overflows);
        causes
            .retain(|cause| ![Cause::ConnectDelayed, Cause::ServerWork, Cause::ServerStalled].contains(&cause.code));
        found.push(cause(
            Cause::AcceptQueueOverflow,
            place,
            None,
            None,
            [Some(overflows), length].into_iter().flatten().collect(),
        ));
    }
    if let Some(peer) = peers.first() {
        let waited_ns = programs.waited_for_cpu_ns.max(programs.stopped_by_quota_ns) as f64;
        // A wait for a CPU is a part of the time in which a program must act.
        let of_programs_ns: u64 = peer.exchanges().map(|(_, exchange)| exchange.ns_in(&OF_PROGRAMS)).sum();
        let share = waited_ns.min(of_programs_ns as f64) / peer.elapsed_ns().max(1) as f64;
        let each_ns = MIN_CPU_WAIT_EACH_NS * peer.exchanges().count() as f64;
        if waited_ns >= MIN_CPU_WAIT_NS.max(each_ns) && share >= MIN_CPU_WAIT_SHARE {
            let quota = programs.stopped_by_quota_ns as f64 >= MIN_QUOTA_SHARE * waited_ns;
            let code = if quota { Cause::CpuQuota } else { Cause::CpuContention };
            let wait = Fact::number(evidence::WAIT_NS, waited_ns);
            // What looked like work of a program was a wait for a CPU.
            causes
                .retain(|cause| ![Cause::ServerWork, Cause::ServerStalled, Cause::ClientIdle].contains(&cause.code));
            let place = causes.iter().position(|cause| cause.share.unwrap_or(1.0) < share).unwrap_or(causes.len());
            causes.insert(place, cause(code, peer.server.to_string(), Some(share), None, vec![wait]));
        }
    }
    // What a counter of the kernel shows needs no interpretation.
    causes.splice(0..0, found);
}

/// Returns all connections by their server.
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

/// Returns the time sequence of an exchange.
fn draw(connection: &Connection, exchange: &Exchange) -> Option<TimeSequence> {
    let extents = std::slice::from_ref(&exchange.extent);
    let (_, sequence) = states_of_exchanges(&connection.observed.trace, extents, |_| Some(0));
    let waits = waits(&exchange.spans, exchange.duration_ns());
    Some(TimeSequence { exchange: exchange.place as u64 + 1, waits, ..sequence? })
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
    let durations: Vec<f64> = peer.complete().map(|(_, exchange)| exchange.duration_ns() as f64).collect();
    let states = peer.states();
    let first = peer.connections.first().map(|connection| &connection.observed);
    let clients: Vec<SocketAddr> = peer.connections.iter().map(|connection| connection.observed.client).collect();
    let client = match clients.as_slice() {
        [only] => only.to_string(),
        [one, ..] if clients.iter().all(|client| client.ip() == one.ip()) => one.ip().to_string(),
        all => format!("{} clients", all.len()),
    };
    let named = |address: String, end: usize| {
        let program = first.and_then(|observed| observed.programs[end].as_deref());
        program.map_or_else(|| address.clone(), |program| format!("{program} ({address})"))
    };
    let percentile = |share| quantile(durations.clone(), share).map(|ns| ns as u64);
    let bytes_of = |end: usize| peer.connections.iter().map(|connection| connection.bytes[end]).sum();
    ExplainedConnection {
        id,
        ends: [named(client, 0), named(peer.server.to_string(), 1)],
        connections: peer.connections.len() as u64,
        exchanges: durations.len() as u64,
        p50_ns: percentile(0.5),
        p99_ns: percentile(0.99),
        bytes: [bytes_of(0), bytes_of(1)],
        min_round_trip_ns: peer.round_trip_ns(),
        unions: StateUnion::among(&states),
        states,
        worst,
    }
}
