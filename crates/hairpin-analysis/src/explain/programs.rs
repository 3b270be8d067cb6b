//! Causes that counters and samples of programs show: drops, full accept queues, waits for a CPU.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::observed::{CpuWait, ObservedPrograms};
use hairpin_model::trace::End;
use hairpin_model::{Cause, CauseText, ExplainedCause, Fact};

use super::connection::Connection;
use super::peer::Peer;
use super::rule::MIN_EXPLAINING_SHARE;
use super::times::Times;

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

/// Adds these causes, before those that they explain.
pub(super) fn add_causes(programs: &ObservedPrograms, peers: &[Peer], causes: &mut Vec<ExplainedCause>) {
    let number = |name: &str, value: u64| Fact::number(name, value as f64);
    let mut found = Vec::new();
    for (address, program, drops) in &programs.udp_drops {
        let place = if program.is_empty() { address.to_string() } else { format!("{program} ({address})") };
        found.push(cause(Cause::UdpReceiveOverrun, place, None, vec![number(evidence::AFFECTED, *drops)]));
    }
    let is_named = |code: Cause, causes: &[ExplainedCause]| causes.iter().any(|cause| cause.code == code);
    if programs.listen_overflows > 0 && !is_named(Cause::AcceptQueueOverflow, causes) {
        let full = programs.full_queues.first();
        // The queue of a server that listens on all addresses has its port.
        let port = full.map(|(address, _)| format!(":{}", address.port()));
        let follows = [Cause::ConnectDelayed, Cause::ServerWork, Cause::ServerStalled, Cause::ConnectionPerRequest];
        let is_there = |place: &str| port.as_ref().is_none_or(|port| place.ends_with(port.as_str()));
        causes.retain(|cause| !follows.contains(&cause.code) || !is_there(&cause.place));
        let overflows = number(evidence::AFFECTED, programs.listen_overflows);
        let length = full.map(|(_, length)| number(evidence::QUEUE_LENGTH, *length));
        let place = full.map_or_else(|| "a server".to_owned(), |(address, _)| address.to_string());
        let evidence = [Some(overflows), length].into_iter().flatten().collect();
        found.push(cause(Cause::AcceptQueueOverflow, place, None, evidence));
    }
    for waits in peers.iter().filter_map(|peer| wait_for_cpu(programs, peer)) {
        // What looked like work of a program was a wait for a CPU.
        let looks_like = [Cause::ServerWork, Cause::ServerStalled, Cause::ClientIdle];
        let share = |cause: &ExplainedCause| cause.share.unwrap_or(1.0);
        causes.retain(|cause| {
            let is_work = cause.place == waits.place && looks_like.contains(&cause.code);
            !is_work || share(&waits) < MIN_EXPLAINING_SHARE * share(cause)
        });
        let place = causes.iter().position(|cause| share(cause) < share(&waits)).unwrap_or(causes.len());
        causes.insert(place, waits);
    }
    // What a counter of the kernel shows needs no interpretation.
    causes.splice(0..0, found);
}

fn cause(code: Cause, place: String, share: Option<f64>, evidence: Vec<Fact>) -> ExplainedCause {
    ExplainedCause { code, place, share, saved_if_fixed_ns: None, evidence, text: CauseText::default() }
}

fn wait_for_cpu(programs: &ObservedPrograms, peer: &Peer) -> Option<ExplainedCause> {
    let of_programs_ns: u64 = peer.exchanges().map(|(_, exchange)| exchange.ns_in(&OF_PROGRAMS)).sum();
    let stopped_ns = (programs.figures.stopped_by_quota_ns as f64).min(of_programs_ns as f64);
    let at_end_ns = |end| waited_ns(peer, end, &programs.cpu_waits);
    let waited_ns = (at_end_ns(End::Client) + at_end_ns(End::Server)).max(stopped_ns);
    let share = waited_ns / peer.elapsed_ns().max(1) as f64;
    let each_ns = MIN_CPU_WAIT_EACH_NS * peer.exchanges().count() as f64;
    if waited_ns < MIN_CPU_WAIT_NS.max(each_ns) || share < MIN_CPU_WAIT_SHARE {
        return None;
    }
    let is_quota = stopped_ns >= MIN_QUOTA_SHARE * waited_ns;
    let code = if is_quota { Cause::CpuQuota } else { Cause::CpuContention };
    let wait = Fact::number(evidence::WAIT_NS, waited_ns);
    Some(cause(code, peer.server.to_string(), Some(share.min(1.0)), vec![wait]))
}

/// The time in which a program at this end had to act and its threads waited for a CPU, in ns.
fn waited_ns(peer: &Peer, end: End, waits: &[CpuWait]) -> f64 {
    let at = usize::from(end == End::Server);
    let mut processes: Vec<Option<u32>> = peer.connections.iter().map(|one| process(one, at)).collect();
    processes.sort_unstable();
    processes.dedup();
    let of_process = |id: Option<u32>| {
        let exchanges = peer.exchanges().filter(|(one, _)| process(one, at) == id);
        let times = Times::of(exchanges, &OF_PROGRAMS, end);
        // Threads that serve no connection wait too: those of a compiler, of a garbage collector.
        let serving = peer.connections.iter().filter(|one| process(one, at) == id).count();
        let intervals = waits.chunk_by(|one, other| (one.from_ns, one.process) == (other.from_ns, other.process));
        let of_it = intervals.filter(|threads| id.is_none_or(|id| threads[0].process == id));
        let longest = |threads: &[CpuWait]| {
            let mut all: Vec<u64> = threads.iter().map(|wait| wait.waited_ns).collect();
            all.sort_unstable();
            let waited_ns: u64 = all.iter().rev().take(serving).sum();
            (waited_ns as f64).min(times.within(threads[0].from_ns..threads[0].until_ns))
        };
        of_it.map(longest).sum::<f64>()
    };
    processes.into_iter().map(of_process).sum()
}

pub(super) fn process(connection: &Connection, at: usize) -> Option<u32> {
    connection.observed.programs[at].as_ref().map(|program| program.process)
}
