//! A round of several concurrent flows. Each flow has its own client and server, in their own processes, over one path.
//!
//! The ends of a flow know nothing of other flows. Once all flows are connected they start together; each flow then
//! has its own warm-up and ends independently. If a flow fails after the start, the other flows continue. In a round
//! with phases, the probe runs in all phases, the loads in the second (their warm-up) and the third.

use std::time::Duration;

use hairpin_model::flow::{ConnectionUse, FlowRole};
use hairpin_model::phases::Phase;
use hairpin_model::trace::End;
use hairpin_model::{
    Binding, ByPhase, Case, Extent, FailedFlow, Failure, Finished, Flow, FlowRecord, FlowSamples, LinkRecord,
    Measured, Periodic, PhaseSamples, RoundOrder, Span, ledger,
};
use hairpin_transports::giving_up::has_given_up;

use crate::barrier::Barrier;
use crate::ends::client::warm_up_ns;
use crate::ends::opening;
use crate::engine::{Done, Engine, Prepared};
use crate::links::{LinkEnd, LostMessages};
use crate::observer::{Context, FlowProcesses, Mark, Observations};
use crate::observers::Observers;
use crate::path::{Link, port_of};
use crate::round_process::{Job, RoundProcess};
use crate::threads;
use hairpin_loops::clock::{Clock, RealClock};

const POLL_INTERVAL_NS: u64 = 1_000_000_000;

/// Runs a round with several flows or with phases.
pub(crate) fn run(engine: &Engine, number: u32, order: &RoundOrder) -> Finished {
    engine.record(number, order, || attempt(engine, number, order))
}

fn attempt(engine: &Engine, number: u32, order: &RoundOrder) -> Result<Done, Failure> {
    let mut path = Prepared::open(engine, number, order)?;
    let [client, server] = &path.namespaces;
    let card = opening::transport(&order.case.primary().transport)?.card();
    let (clock, binding) = (engine.clock, Binding::default());
    let mut observers = Observers::of_round(Context { clock, order, card: &card, end: End::Client, binding });
    let groups = groups(&order.case);
    let is_one_of_several = groups.len() > 1;
    let flows = groups.into_iter().map(|group| {
        let (alone, starts_after_ns) = order_for_group(order, &group);
        let barrier = Some(Barrier { client: client.clone(), server: server.clone(), starts_after_ns });
        let process = RoundProcess::start(engine, &Job { barrier, ..engine.job(number, &alone) })?;
        Ok(FlowProcess { group, process, is_one_of_several })
    });
    let mut flows = flows.collect::<Result<Vec<FlowProcess<'_>>, Failure>>()?;
    // Nothing is measured yet. If a flow fails, dropping the other processes closes their input, which ends them.
    let connected = flows.iter_mut().map(|flow| {
        let processes = flow.step(RoundProcess::connected)?;
        Ok(FlowProcesses { flow: flow.group.primary().id.clone(), processes })
    });
    let connected = connected.collect::<Result<Vec<_>, Failure>>()?;
    let begin_ns = engine.clock.now_ns();
    flows.iter_mut().try_for_each(|flow| flow.step(|process| process.begin(begin_ns)))?;
    let spans = order.phases.map(|lengths| lengths.spans(begin_ns + warm_up_ns(order)));
    observers.mark(Mark::Connected(&connected));
    let ended = wait_for_all(flows, &bounds_ns(spans), clock, &mut observers);
    observers.end();
    let link = path.link.take().map(Link::finish).transpose()?;
    let mut together = Measured {
        flows: Vec::new(),
        ends: Vec::new(),
        phases: spans.map(|spans| spans.since(begin_ns)),
        ..Measured::default()
    };
    let mut samples = FlowSamples::new();
    for (group, result) in join_threads(ended) {
        let (measured, of_group) = match result {
            Ok(results) => results,
            Err(failure) => {
                let failed = |flow: &Flow| FailedFlow { id: flow.id.clone(), failure: failure.clone() };
                together.failed_flows.extend(group.flows.iter().map(failed));
                continue;
            }
        };
        samples.extend(of_group);
        together.duration_ns = together.duration_ns.max(measured.duration_ns);
        together.interrupted |= measured.interrupted;
        together.flows.extend(measured.flows);
        together.ends.extend(measured.ends);
    }
    if let Some(failed) = together.failed_flows.first()
        && (together.flows.is_empty() || has_given_up())
    {
        return Err(failed.failure.clone());
    }
    let seen = observers.report(Observations { ends: together.ends, ..Observations::default() });
    (together.ends, together.noise) = (seen.ends, seen.noise);
    together.link = link.map(|LinkEnd { record, started_ns, lost }| {
        for record in &mut together.flows {
            if let Some(lost) = lost.get(&record.id) {
                let phases = samples.get_mut(&record.id).and_then(|samples| samples.phases.as_deref_mut());
                add_losses(record, lost, phases);
            }
        }
        let samples_began_ns = spans.map(|_| begin_ns.saturating_sub(started_ns));
        LinkRecord { samples_began_ns, ..record }
    });
    // The analysis uses only the counts of a load under a probe, so its samples are dropped.
    samples.retain(|id, _| together.flow(id).is_some_and(|flow| flow.role != FlowRole::Load));
    Ok(Done { measured: together, samples, trace: None, budget: None })
}

/// The process of one flow, or of the flows that share a connection.
struct FlowProcess<'e> {
    /// The flows of this process, as a case.
    group: Case,
    process: RoundProcess<'e>,
    /// Whether the round has further processes.
    is_one_of_several: bool,
}

impl<'e> FlowProcess<'e> {
    /// Runs `step` on the process. If it fails, adds the flow's name to the cause.
    fn step<T>(&mut self, step: impl FnOnce(&mut RoundProcess<'e>) -> Result<T, Failure>) -> Result<T, Failure> {
        let of_several = Some(&self.group.primary().id).filter(|_| self.is_one_of_several);
        step(&mut self.process).map_err(|failure| match of_several {
            Some(id) => Failure { cause: format!("flow `{id}`: {}", failure.cause), ..failure },
            None => failure,
        })
    }
}

/// Adds the messages that the link dropped to the ledgers of a flow and of its phases. The flow's own processes do
/// not know of these drops.
fn add_losses(flow: &mut FlowRecord, lost: &LostMessages, phases: Option<&mut PhaseSamples>) {
    match &flow.sent {
        // A ledger that covers the warm-up counts more messages sent than were measured.
        Some(sent) => {
            let in_warm_up = if flow.ledger.sent > sent.messages { lost.in_warm_up } else { 0 };
            let all = lost.by_cause.values().sum::<u64>() + in_warm_up;
            if all > 0 {
                flow.ledger.lost.insert(ledger::LINK.to_owned(), all);
            }
        }
        None => flow.ledger.lost.extend(lost.by_cause.iter().map(|(cause, count)| (cause.clone(), *count))),
    }
    flow.ledger = std::mem::take(&mut flow.ledger).closed();
    let Some(phases) = phases else { return };
    for phase in Phase::ALL {
        let counts = phases.counts.get_mut(*phase);
        let own = counts.first_sequence..counts.first_sequence + counts.sent;
        for (cause, numbers) in &lost.numbers {
            let in_phase = numbers.iter().filter(|number| own.contains(number)).count() as u64;
            if in_phase > 0 {
                counts.lost.insert(cause.clone(), in_phase);
            }
        }
    }
}

/// Splits the case into one case per process. Flows that share a connection share a process; each thread has its own.
fn groups(case: &Case) -> Vec<Case> {
    let probe = case.primary();
    let shares = |flow: &Flow| {
        let on_probe = probe.connection_use == ConnectionUse::Shared && flow.role == FlowRole::Load;
        on_probe || flow.id == probe.id
    };
    let (together, others): (Vec<&Flow>, Vec<&Flow>) = case.flows.iter().partition(|flow| shares(flow));
    let together = case.alone(probe).with(|alone| alone.flows = together.into_iter().cloned().collect());
    let groups = std::iter::once(together).chain(others.into_iter().map(|flow| case.alone(flow)));
    let threads = |group: Case| {
        let threads = group.primary().threads as usize;
        std::iter::repeat_n(group.with(|group| group.primary_mut().threads = 1), threads)
    };
    groups.flat_map(threads).collect()
}

/// Joins the results of the threads of each flow, which follow each other. If a thread fails, its flow fails.
fn join_threads(ended: Vec<(Case, Result<Results, Failure>)>) -> Vec<(Case, Result<Results, Failure>)> {
    let mut flows: Vec<(Case, Result<Results, Failure>)> = Vec::new();
    for (group, result) in ended {
        let same = flows.pop_if(|(flow, _)| flow.primary().id == group.primary().id);
        let result = match same {
            Some((_, before)) => before.and_then(|before| Ok(threads::joined(before, result?))),
            None => result,
        };
        flows.push((group, result));
    }
    flows
}

/// Returns the order for only the flows of `group`, and the delay from the time when all flows are connected to the
/// start of the group's load, in ns.
fn order_for_group(order: &RoundOrder, group: &Case) -> (RoundOrder, u64) {
    let flow = group.primary();
    let port = port_of(order, flow).unwrap_or(order.port);
    let alone = RoundOrder { case: group.clone(), port, not_before_ns: 0, ..order.clone() };
    let Some(lengths) = &order.phases else {
        let loop_ns = order.case.primary().load.periodic().map(|own| loop_ns(order, own));
        // A load beside a control loop lasts as long as the loop with its warm-up.
        return match loop_ns.filter(|_| flow.role == FlowRole::Load) {
            Some(loop_ns) => (RoundOrder { keep_samples: 0, ..lasting(alone, [0, loop_ns]) }, 0),
            None => (alone, 0),
        };
    };
    let starts_after_ns = warm_up_ns(order).saturating_add(lengths.before_ns(Phase::Ramp));
    // The samples of a load would be discarded.
    let as_load = |alone| RoundOrder { keep_samples: 0, ..lasting(alone, [lengths.ramp, lengths.loaded]) };
    (if flow.load.is_one_way() { as_load(alone) } else { alone }, starts_after_ns)
}

fn lasting(order: RoundOrder, [warm_up_ns, extent_ns]: [u64; 2]) -> RoundOrder {
    RoundOrder { warm_up: Extent::DurationNs(warm_up_ns), extent: Extent::DurationNs(extent_ns), ..order }
}

/// How long a control loop and its warm-up last if no cycle is late, in ns.
fn loop_ns(order: &RoundOrder, own: &Periodic) -> u64 {
    let extent_ns = |extent: Extent| match extent {
        Extent::Count(periods) => periods.saturating_mul(own.period_ns),
        Extent::DurationNs(duration_ns) => duration_ns,
    };
    extent_ns(order.warm_up).saturating_add(extent_ns(order.extent)).saturating_add(own.period_ns)
}

/// The start of each phase and the end of the last phase, in ns of the clock.
fn bounds_ns(spans: Option<ByPhase<Span>>) -> Vec<u64> {
    spans.map_or_else(Vec::new, |spans| {
        spans.each().map(|(_, span)| span.from_ns).chain([spans.recovering.until_ns]).collect()
    })
}

type Results = (Measured, FlowSamples);

/// Waits for all processes, and marks the start and end of each phase. Returns each result with its part of the case.
/// If a process fails, the others continue to their end.
fn wait_for_all(
    mut flows: Vec<FlowProcess<'_>>,
    mut bounds_ns: &[u64],
    clock: RealClock,
    observers: &mut Observers,
) -> Vec<(Case, Result<Results, Failure>)> {
    let mut results: Vec<Option<Result<Results, Failure>>> = flows.iter().map(|_| None).collect();
    while results.iter().any(Option::is_none) {
        let now_ns = clock.now_ns();
        while let Some((_, later)) = bounds_ns.split_first().filter(|(bound_ns, _)| **bound_ns <= now_ns) {
            observers.mark(Mark::Phase);
            bounds_ns = later;
        }
        let left_ns = bounds_ns.first().map_or(u64::MAX, |bound_ns| bound_ns - now_ns);
        let running = results.iter().filter(|result| result.is_none()).count() as u64;
        let look = Duration::from_nanos(left_ns.min(POLL_INTERVAL_NS).div_ceil(running));
        for (flow, result) in flows.iter_mut().zip(&mut results).filter(|(_, result)| result.is_none()) {
            *result = flow.step(|process| process.result(look).transpose()).transpose();
        }
    }
    flows.into_iter().zip(results).filter_map(|(flow, result)| Some((flow.group, result?))).collect()
}
