//! A round of several flows at once. Each has its own client and server, in their own processes, over one path.
//!
//! The ends of a flow know nothing of the others. Once all flows are connected they start together; each then has its
//! own warm-up and ends by itself. In a round with phases the probe runs through all phases, and the others from the second to the third: their warm-up is the ramp. Each end's usage in each phase is read from outside,
//! so that no end makes a call for it.

use hairpin_model::flow::{ConnectionUse, FlowRole};
use hairpin_model::phases::Phase;
use hairpin_model::trace::End;
use hairpin_model::{
    ByPhase, Case, EndReport, Extent, Failure, Finished, Flow, FlowId, FlowRecord, LinkRecord, Measured, Outcome,
    PhaseLengths, PhaseSamples, PhaseUsage, RoundOrder, Span, ledger,
};

use crate::barrier::Barrier;
use crate::ends::client::warm_up_ns;
use crate::engine::{Done, Engine, Prepared};
use crate::links::{LinkEnd, LostMessages};
use crate::noise::Reading;
use crate::path::{Link, port_of, told_apart};
use crate::round_process::RoundProcess;
use crate::usage::of_process;
use hairpin_loops::clock::{Clock, RealClock};

/// Longest wait of one check of the flows, in ms.
const LOOK_MS: u64 = 1000;

/// Runs a round of several flows, or of one with phases. Its samples are those of the primary flow.
pub(crate) fn run(engine: &Engine, number: u32, order: &RoundOrder) -> Finished {
    engine.record(number, order, || attempt(engine, number, order))
}

fn attempt(engine: &Engine, number: u32, order: &RoundOrder) -> Result<Done, Failure> {
    let mut path = Prepared::open(engine, number, order)?;
    let [client, server] = &path.namespaces;
    let (before, noise_from_ns) = (Reading::now(), engine.clock.now_ns());
    let groups = groups(&order.case);
    let flows = groups.iter().map(|group| {
        let (alone, starts_after_ns) = of_group(order, group);
        let barrier = Barrier { client: client.clone(), server: server.clone(), starts_after_ns };
        engine.start_flow(number, &alone, barrier)
    });
    let mut flows = flows.collect::<Result<Vec<RoundProcess<'_>>, Failure>>()?;
    // If another flow failed, the processes of those dropped here find their input closed.
    let processes = flows.iter_mut().map(RoundProcess::connected).collect::<Result<Vec<_>, Failure>>()?;
    let begin_ns = engine.clock.now_ns();
    flows.iter_mut().try_for_each(|flow| flow.begin(begin_ns))?;
    let spans = order.phases.map(|lengths| lengths.spans(begin_ns + warm_up_ns(order)));
    let processes = groups.iter().map(|group| group.primary().id.clone()).zip(processes).collect();
    let mut usage = UsageByPhase::new(engine.clock, processes, spans);
    let finished = all_finished(&mut flows, &mut usage)?;
    drop(flows);
    let noise = before.until(&Reading::now(), engine.clock.now_ns() - noise_from_ns);
    let link = path.link.take().map(Link::finish).transpose()?;
    let mut together = Measured {
        flows: Vec::new(),
        ends: Vec::new(),
        noise,
        phases: spans.map(|spans| spans.since(begin_ns)),
        ..Measured::default()
    };
    let primary = &order.case.primary().id;
    let (mut samples, mut other_samples) = (None, Vec::new());
    let mut records: Vec<FlowRecord> = order.case.flows.iter().map(FlowRecord::of).collect();
    for (group, finished) in groups.iter().zip(finished) {
        let Outcome::Measured(measured) = finished.record.outcome else { continue };
        let first = group.primary();
        match finished.samples {
            own if first.id == *primary => samples = own,
            Some(of_other) if !first.load.is_one_way() => other_samples.push((first.id.clone(), of_other)),
            _ => {}
        }
        together.duration_ns = together.duration_ns.max(measured.duration_ns);
        together.interrupted |= measured.interrupted;
        for result in measured.flows {
            records.iter_mut().filter(|record| record.id == result.id).for_each(|record| *record = result.clone());
        }
        together.ends.extend(measured.ends.into_iter().map(|report| {
            let phase_usage = usage.of(&first.id, report.role, report.used_in_all);
            EndReport { phase_usage, ..report }
        }));
    }
    together.flows = records;
    together.link = link.map(|LinkEnd { record, started_ns, lost }| {
        for (flow, lost) in told_apart(order).zip(&lost) {
            let samples = samples.as_mut().filter(|_| flow.id == *primary);
            let mut phases = samples.and_then(|samples| samples.phases.as_deref_mut());
            let records = together.flows.iter_mut().filter(|record| record.id == flow.id);
            records.for_each(|record| add_losses(record, lost, phases.as_deref_mut()));
        }
        let samples_began_ns = spans.map(|_| begin_ns.saturating_sub(started_ns));
        LinkRecord { samples_began_ns, ..record }
    });
    Ok(Done { measured: together, samples, other_samples, trace: None })
}

/// Adds the messages that the link lost to the ledgers of a flow and its phases: the flow's own processes do not know
/// them.
fn add_losses(flow: &mut FlowRecord, lost: &LostMessages, phases: Option<&mut PhaseSamples>) {
    match &flow.sent {
        // A ledger that covers the warm-up counts more messages sent than measured.
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

/// A case for each process: of the flows that share a connection, or of one flow.
fn groups(case: &Case) -> Vec<Case> {
    let probe = case.primary();
    let shares = |flow: &Flow| {
        let on_probe = probe.connection_use == ConnectionUse::Shared && flow.role == FlowRole::Load;
        on_probe || flow.id == probe.id
    };
    let (together, others): (Vec<&Flow>, Vec<&Flow>) = case.flows.iter().partition(|flow| shares(flow));
    let together = case.alone(probe).with(|alone| alone.flows = together.into_iter().cloned().collect());
    std::iter::once(together).chain(others.into_iter().map(|flow| case.alone(flow))).collect()
}

/// The order for only the flows of that group, and the time from all being connected to the beginning of their load, in
/// ns.
fn of_group(order: &RoundOrder, group: &Case) -> (RoundOrder, u64) {
    let flow = group.primary();
    let port = port_of(order, flow).unwrap_or(order.port);
    let alone = RoundOrder { case: group.clone(), port, not_before_ns: 0, ..order.clone() };
    let Some(lengths) = &order.phases else { return (alone, 0) };
    let starts_after_ns = warm_up_ns(order).saturating_add(lengths.before_ns(Phase::Ramp));
    let alone = if flow.load.is_one_way() { of_load(alone, lengths) } else { alone };
    (alone, starts_after_ns)
}

fn of_load(order: RoundOrder, lengths: &PhaseLengths) -> RoundOrder {
    RoundOrder {
        warm_up: Extent::DurationNs(lengths.ramp),
        extent: Extent::DurationNs(lengths.loaded),
        // Its times would be discarded.
        keep_samples: 0,
        ..order
    }
}

/// The results of all flows, in their order.
fn all_finished(flows: &mut [RoundProcess<'_>], usage: &mut UsageByPhase) -> Result<Vec<Finished>, Failure> {
    let mut finished: Vec<Option<Finished>> = flows.iter().map(|_| None).collect();
    while finished.iter().any(Option::is_none) {
        usage.look();
        let unfinished = finished.iter().filter(|one| one.is_none()).count() as u64;
        let look_ms = usage.left_ms().min(LOOK_MS).div_ceil(unfinished);
        for (flow, finished) in flows.iter_mut().zip(&mut finished).filter(|(_, finished)| finished.is_none()) {
            if flow.has_finished(i32::try_from(look_ms).unwrap_or(i32::MAX))? {
                let one = flow.finished()?;
                if let Outcome::Failed(failure) = one.record.outcome {
                    return Err(failure);
                }
                *finished = Some(one);
            }
        }
    }
    Ok(finished.into_iter().flatten().collect())
}

/// Reads the usage of the processes of all ends at the bounds of the phases.
struct UsageByPhase {
    clock: RealClock,
    /// The client's and the server's process of each flow.
    processes: Vec<(FlowId, [Option<u32>; 2])>,
    bounds_ns: Vec<u64>,
    /// For each bound that has passed, the usage of each end so far.
    readings: Vec<Vec<(FlowId, End, PhaseUsage)>>,
}

impl UsageByPhase {
    fn new(clock: RealClock, processes: Vec<(FlowId, [Option<u32>; 2])>, spans: Option<ByPhase<Span>>) -> Self {
        let bounds_ns = spans.map_or_else(Vec::new, |spans| {
            spans.each().map(|(_, span)| span.from_ns).chain([spans.recovering.until_ns]).collect()
        });
        Self { clock, processes, bounds_ns, readings: Vec::new() }
    }

    fn look(&mut self) {
        let now_ns = self.clock.now_ns();
        while self.bounds_ns.get(self.readings.len()).is_some_and(|bound_ns| *bound_ns <= now_ns) {
            let reading = self.processes.iter().flat_map(|(flow, processes)| {
                let ends = [End::Client, End::Server].into_iter().zip(processes);
                ends.filter_map(|(role, process)| Some((flow.clone(), role, of_process((*process)?)?)))
            });
            self.readings.push(reading.collect());
        }
    }

    /// Time to the next bound, in ms, rounded up.
    fn left_ms(&self) -> u64 {
        let next_ns = self.bounds_ns.get(self.readings.len()).copied().unwrap_or(u64::MAX);
        next_ns.saturating_sub(self.clock.now_ns()).div_ceil(1_000_000).max(1)
    }

    /// The usage of an end of a flow by phase. If it had ended before a bound, its total counts there.
    fn of(&self, flow: &FlowId, role: End, used_in_all: Option<PhaseUsage>) -> Option<ByPhase<PhaseUsage>> {
        let read = |bound: usize| {
            let mut ends = self.readings.get(bound)?.iter();
            ends.find(|(of, end, _)| of == flow && *end == role).map(|(_, _, usage)| *usage)
        };
        let at = |bound: usize| read(bound).or_else(|| used_in_all.filter(|_| bound > 0));
        let between = |bound: usize| {
            let (from, until) = (at(bound)?, at(bound + 1)?);
            Some(PhaseUsage {
                cpu_ns: until.cpu_ns.saturating_sub(from.cpu_ns),
                waited_for_cpu_ns: until.waited_for_cpu_ns.saturating_sub(from.waited_for_cpu_ns),
            })
        };
        Some(ByPhase { idle: between(0)?, ramp: between(1)?, loaded: between(2)?, recovering: between(3)? })
    }
}
