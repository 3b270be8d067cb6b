//! The measurement loop: plan, rounds, samples, summaries, findings and answer. It prints nothing.

use std::sync::atomic::Ordering;

use hairpin_analysis::{
    Digest, States, answer, comparisons, disturbed_rounds, findings, one_way_figures, phase_figures, round_figures,
    traced,
};
use hairpin_engine::Engine;
use hairpin_experiments::sequence::Blocks;
use hairpin_experiments::{Done, Experiment, Forecast, Knobs, Refused, Step, command, experiments};
use hairpin_model::names::distinct;
use hairpin_model::round::Purpose;
use hairpin_model::run::State;
use hairpin_model::trace::End;
use hairpin_model::{
    Case, CaseSummary, Failure, FailureKind, FindingCard, Finished, Flow, HostCapabilities, Measured, Outcome, Plan,
    RoundOrder, RoundRecord, Run, Samples, SavedCards, Skipped,
};
use hairpin_report::words;
use hairpin_store::{RunFolder, StoreError};

use crate::prove;

/// A measurement and its environment.
pub(crate) struct Task<'a> {
    pub(crate) experiment: &'a Experiment,
    /// The program's own experiments.
    pub(crate) experiments: &'static [Experiment],
    pub(crate) knobs: &'a Knobs,
    /// What can run here.
    pub(crate) capabilities: &'a HostCapabilities,
    pub(crate) engine: &'a Engine,
    /// Where rounds are saved.
    pub(crate) folder: &'a RunFolder,
    /// Whether to run the counter-experiments of the findings too.
    pub(crate) prove: bool,
    /// Whether to run and use all planned rounds.
    pub(crate) all_rounds: bool,
}

/// Events of a run. They are sent between rounds, so that observers do not disturb measurements.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The plan and its number of cases, before the first round.
    Planned {
        plan: &'a Plan,
        cases: usize,
    },
    /// Counter-experiments follow, with this number of rounds and this total time in ns.
    Proving {
        rounds: usize,
        lasts_ns: u64,
    },
    Ordered {
        rounds: usize,
    },
    Starts(&'a RoundOrder),
    Ended(&'a RoundRecord),
    /// A case is abandoned because its rounds fail, the last one with `failure`.
    GivenUp {
        case: &'a Skipped,
        failure: &'a Failure,
    },
    /// An ordered round is skipped because its case was abandoned, or the time is over.
    LeftOut,
}

/// Receives the events of a run.
pub(crate) type Observe<'o> = dyn FnMut(Event<'_>) + 'o;

/// Runs the task. `run` must contain only the header; the returned run is complete or interrupted.
pub(crate) fn run_task(task: &Task<'_>, mut run: Run, observe: &mut Observe<'_>) -> Result<Run, Refused> {
    let mut digest = Digest::new();
    run.state = State::Complete;
    let mut half_width = None;
    let mut limits = Limits::default();
    loop {
        let done = Done { rounds: &run.rounds, half_width };
        let step = task.experiment.next(task.knobs, task.capabilities, &done)?;
        let Step::Run { cases, rounds, skipped, forecast } = step else { break };
        if run.rounds.is_empty() {
            run.plan.rounds = forecast.rounds;
            run.plan.seconds = forecast.lasts_ns as f64 / 1e9;
            run.plan.sends = forecast.sends;
            observe(Event::Planned { plan: &run.plan, cases: cases.len() });
            let has_time_limit = forecast.has_time_limit && !task.all_rounds;
            limits = Limits::of(&Forecast { has_time_limit, ..forecast }, task.engine.elapsed_ns());
        }
        run.plan.cases.extend(cases);
        run.skipped.extend(skipped);
        let before = run.rounds.len();
        run_all(task, &mut digest, &mut run, &rounds, limits, observe);
        repeat_disturbed(task, &mut digest, &mut run, &rounds, limits, observe);
        // If no round ran, all remaining cases were abandoned, and the next step would be the same.
        if run.state == State::Interrupted || run.rounds.len() == before {
            break;
        }
        if task.knobs.is_given("until") {
            summarize_run(&mut run, &digest, task.experiments);
            half_width = widest_half(&run);
        }
    }
    summarize_run(&mut run, &digest, task.experiments);
    if task.prove && run.state == State::Complete {
        let (rounds, lasts_ns) = prove::orders(&mut run, task.capabilities);
        if !rounds.is_empty() {
            observe(Event::Proving { rounds: rounds.len(), lasts_ns });
        }
        let limits = Limits::of(&Forecast { lasts_ns, ..limits.forecast }, task.engine.elapsed_ns());
        run_all(task, &mut digest, &mut run, &rounds, limits, observe);
        summarize_run(&mut run, &digest, task.experiments);
    }
    finish(task, &mut run);
    Ok(run)
}

fn finish(task: &Task<'_>, run: &mut Run) {
    run.duration_ns = task.engine.elapsed_ns();
    for host in run.hosts.iter_mut().filter(|host| host.role == End::Client) {
        host.environment.load_after = hairpin_engine::environment::load();
    }
}

/// Decides after each look at two interleaved runs, at a time in s, whether they are enough.
pub(crate) type IsEnough<'o> = dyn FnMut(&[Run; 2], f64) -> bool + 'o;

/// Runs two tasks of one experiment with their rounds in shared blocks, until a look is enough or the time is over.
pub(crate) fn run_interleaved(
    tasks: &[Task<'_>; 2],
    runs: &mut [Run; 2],
    at_most_ns: u64,
    is_enough: &mut IsEnough<'_>,
    observe: &mut Observe<'_>,
) -> Result<(), Refused> {
    let mut digests = [Digest::new(), Digest::new()];
    let planned = tasks.each_ref().map(|task| (task.knobs, task.capabilities));
    let (mut from, mut look_ns) = (Blocks::default(), 0);
    runs.iter_mut().for_each(|run| run.state = State::Complete);
    while let Some((orders, next)) = tasks[0].experiment.next_interleaved(planned, from, look_ns, at_most_ns)? {
        look_ns = next;
        for place in [0, 1] {
            let rounds = orders.iter().filter(|(of, _)| *of == place).count();
            announce(&tasks[place], &mut runs[place], rounds, observe);
        }
        for (place, order) in &orders {
            run_order(&tasks[*place], &mut digests[*place], &mut runs[*place], order, observe);
            from.first = order.block + 1;
            if is_over(&runs[*place]) {
                break;
            }
        }
        for place in [0, 1] {
            summarize_run(&mut runs[place], &digests[place], tasks[place].experiments);
        }
        from.begin_ns = tasks[0].engine.elapsed_ns();
        let is_enough = is_enough(runs, from.begin_ns as f64 / 1e9);
        if is_enough || runs.iter().any(is_over) {
            break;
        }
    }
    tasks.iter().zip(runs).for_each(|(task, run)| finish(task, run));
    Ok(())
}

/// Whether the user interrupted the run, or all its cases were abandoned.
fn is_over(run: &Run) -> bool {
    let is_abandoned = |case: &Case| is_abandoned(&run.rounds, &case.id());
    run.state == State::Interrupted || run.plan.cases.iter().all(is_abandoned)
}

/// Half the width of the widest interval of a p50, relative to the p50; `None` if a valid case has no interval.
fn widest_half(run: &Run) -> Option<f64> {
    let half = |row: &CaseSummary| {
        let p50 = row.primary().latency_ns.p50?;
        Some((p50.high? / p50.low?).sqrt() - 1.0)
    };
    let halves: Option<Vec<f64>> = run.cases.iter().filter(|row| row.valid).map(half).collect();
    halves?.into_iter().reduce(f64::max)
}

/// How much longer than announced a run may take before it omits rounds.
const MAX_OVERRUN: f64 = 0.15;

/// The times after which no more rounds begin, in ns since the start of the run; `None` without a limit.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    forecast: Forecast,
    timed_ns: Option<u64>,
    evidence_ns: Option<u64>,
}

impl Limits {
    fn of(forecast: &Forecast, begin_ns: u64) -> Self {
        let limit_ns = |lasts_ns: u64| {
            let limit_ns = ((1.0 + MAX_OVERRUN) * lasts_ns as f64) as u64;
            forecast.has_time_limit.then(|| begin_ns.saturating_add(limit_ns))
        };
        let timed_ns = limit_ns(forecast.lasts_ns.saturating_sub(forecast.evidence_ns));
        Self { forecast: *forecast, timed_ns, evidence_ns: limit_ns(forecast.lasts_ns) }
    }

    fn is_over(&self, purpose: Purpose, now_ns: u64) -> bool {
        let limit_ns = if purpose == Purpose::Timed { self.timed_ns } else { self.evidence_ns };
        limit_ns.is_some_and(|limit_ns| now_ns > limit_ns)
    }
}

/// Number of first rounds that end the run if all of them were disturbed.
const MAX_DISTURBED: usize = 3;

fn is_too_noisy(rounds: &[RoundRecord]) -> bool {
    rounds.len() == MAX_DISTURBED && disturbed_rounds(rounds).len() == MAX_DISTURBED
}

/// Repeats the disturbed rounds of a step in their blocks while there is time.
fn repeat_disturbed(
    task: &Task<'_>,
    digest: &mut Digest,
    run: &mut Run,
    rounds: &[RoundOrder],
    limits: Limits,
    observe: &mut Observe<'_>,
) {
    if limits.timed_ns.is_none() || run.plan.rounds_cut > 0 || run.state == State::Interrupted {
        return;
    }
    let disturbed = disturbed_rounds(&run.rounds);
    let is_of_step = |round: &&RoundRecord| rounds.first().is_some_and(|first| round.order.block >= first.block);
    let again = run.rounds.iter().filter(|round| disturbed.contains(&round.number)).filter(is_of_step);
    let again: Vec<RoundOrder> = again.map(|round| RoundOrder { not_before_ns: 0, ..round.order.clone() }).collect();
    for order in again {
        if limits.is_over(order.purpose, task.engine.elapsed_ns()) || run.state == State::Interrupted {
            return;
        }
        run_all(task, digest, run, &[order], limits, observe);
    }
}

/// Runs the rounds in order until the user interrupts. After the time limit, only cases without a round get one.
fn run_all(
    task: &Task<'_>,
    digest: &mut Digest,
    run: &mut Run,
    rounds: &[RoundOrder],
    limits: Limits,
    observe: &mut Observe<'_>,
) {
    announce(task, run, rounds.len(), observe);
    let first_block = rounds.first().map(|order| order.block);
    for (index, order) in rounds.iter().enumerate() {
        let is_first = order.purpose == Purpose::Timed && Some(order.block) == first_block;
        let is_over = limits.is_over(order.purpose, task.engine.elapsed_ns()) && !is_first;
        if is_over || is_too_noisy(&run.rounds) {
            let cut = (rounds.len() - index) as u64;
            run.plan.rounds_ordered -= cut;
            run.plan.rounds_cut += cut;
            (0..cut).for_each(|_| observe(Event::LeftOut));
            return;
        }
        run_order(task, digest, run, order, observe);
        if run.state == State::Interrupted {
            return;
        }
    }
}

fn announce(task: &Task<'_>, run: &mut Run, rounds: usize, observe: &mut Observe<'_>) {
    run.plan.rounds_ordered += rounds as u64;
    save_head(task, run);
    observe(Event::Ordered { rounds });
}

/// Runs one round, unless its case was abandoned.
fn run_order(task: &Task<'_>, digest: &mut Digest, run: &mut Run, order: &RoundOrder, observe: &mut Observe<'_>) {
    if is_abandoned(&run.rounds, &order.case.id()) {
        run.plan.rounds_ordered -= 1;
        return observe(Event::LeftOut);
    }
    observe(Event::Starts(order));
    let record = one_round(task, digest, run, order);
    observe(Event::Ended(&record));
    run.rounds.push(record);
    abandon_if_failing(run, &order.case, observe);
    if task.engine.stop.load(Ordering::Relaxed) {
        run.state = State::Interrupted;
    }
}

/// Number of consecutive failures of one kind after which a case is abandoned.
const MAX_FAILURES: usize = 3;

/// Whether the last [`MAX_FAILURES`] rounds of the case, of any purpose, all failed with one kind of failure.
fn is_abandoned(rounds: &[RoundRecord], case_id: &str) -> bool {
    let last = rounds.iter().rev().filter(|round| round.case_id == case_id).take(MAX_FAILURES);
    are_same_kind(last.map(RoundRecord::failure))
}

fn are_same_kind<'a>(failures: impl Iterator<Item = Option<&'a Failure>>) -> bool {
    let kinds: Vec<Option<FailureKind>> = failures.map(|failure| Some(failure?.kind)).collect();
    kinds.len() == MAX_FAILURES && kinds[0].is_some() && kinds.iter().all(|kind| *kind == kinds[0])
}

/// Abandons the case if its last rounds failed: records it as skipped and reports it.
fn abandon_if_failing(run: &mut Run, case: &Case, observe: &mut Observe<'_>) {
    let Some(failure) = run.rounds.last().and_then(RoundRecord::failure) else { return };
    if !is_abandoned(&run.rounds, &case.id()) {
        return;
    }
    // The cause is in the failed rounds.
    let given_up = Skipped {
        transport: case.primary().transport.clone(),
        case: Some(case.label()),
        reason: format!("abandoned after {MAX_FAILURES} consecutive failed rounds"),
    };
    observe(Event::GivenUp { case: &given_up, failure });
    run.skipped.push(given_up);
}

/// Runs one round, computes its figures and saves it.
fn one_round(task: &Task<'_>, digest: &mut Digest, run: &mut Run, order: &RoundOrder) -> RoundRecord {
    let number = u32::try_from(run.rounds.len()).expect("plans have at most 100 000 rounds");
    let Finished { mut record, samples, trace } = task.engine.run_apart(number, order);
    count_if_only_round(&mut record, &run.rounds);
    if let Outcome::Measured(measured) = &mut record.outcome {
        measured.counts_if_disturbed = task.all_rounds;
    }
    for flow in &order.case.flows {
        fill_figures(&mut record, &run.cards, flow, samples.get(&flow.id));
    }
    if let Some((trace, _)) = &trace {
        traced(&mut record, trace);
    }
    let unsaved = |what: &str, error: StoreError| {
        Failure::new(FailureKind::Other, format!("round {number} was measured but {what}: {error}"), "")
    };
    match task.folder.append(&mut record, &samples, trace) {
        Ok(left_out) => {
            run.unsaved.extend(left_out.into_iter().map(|error| unsaved("its evidence is incomplete", error)));
        }
        Err(error) => run.unsaved.push(unsaved("not saved", error)),
    }
    let link = record.measured().and_then(|measured| measured.link.as_ref());
    if let Some(problem) = link.and_then(|link| link.log_problem.as_ref()) {
        let cause = format!("round {number} was measured but its link's log is incomplete: {problem}");
        run.unsaved.push(Failure::new(FailureKind::Other, cause, ""));
    }
    digest.add(&record, samples.get(&order.case.primary().id));
    record
}

/// Makes an interrupted round with answers count if its case has no other measured round. The state of the run still
/// shows the interruption.
fn count_if_only_round(record: &mut RoundRecord, earlier: &[RoundRecord]) {
    let has_other = earlier.iter().any(|other| other.case_id == record.case_id && other.measured().is_some());
    if let Outcome::Measured(measured) = &mut record.outcome {
        let ledger = &measured.primary().ledger;
        let answered = ledger.received + ledger.late;
        measured.interrupted &= has_other || answered == 0;
    }
}

/// Fills in the figures of a flow of a measured round.
pub(crate) fn fill_figures(record: &mut RoundRecord, cards: &SavedCards, flow: &Flow, samples: Option<&Samples>) {
    let RoundRecord { order, outcome: Outcome::Measured(measured), .. } = record else { return };
    let Measured { flows, link, phases, duration_ns, .. } = &mut **measured;
    let Some(record) = flows.iter_mut().find(|record| record.id == flow.id) else { return };
    if let Some(samples) = samples {
        // With several flows, the link's log does not show to which flow dropped packets belong.
        let link = link.as_ref().filter(|_| order.case.flows.len() == 1);
        let case = order.case.alone(flow);
        let reliable = cards.reliable(&flow.transport);
        record.figures = round_figures(&case, order.purpose, samples, *duration_ns, link, reliable);
        phase_figures(record, phases.as_ref(), Some(samples));
    }
    one_way_figures(record, &flow.load);
}

/// Computes summaries, comparisons, findings and the answer from the rounds. `own` are additional experiments.
pub(crate) fn summarize_run(run: &mut Run, digest: &Digest, own: &'static [Experiment]) {
    let plan_order = plan_order(run);
    let states = States::of(&run.rounds);
    run.cases = digest.summaries(&plan_order, &run.cards, &run.rounds, &states, run.plan.alpha);
    run.machine = states.machine.clone();
    run.comparisons = comparisons(&run.cases, run.plan.alpha);
    run.findings = findings(run);
    command::fill_in(run, own.iter().chain(experiments::ALL));
    word_findings(run);
    run.answer = answer(run);
    words::write_answer(run);
}

/// Writes the texts of findings and of reasons for invalid cases, replacing saved texts.
pub(crate) fn word_findings(run: &mut Run) {
    words::write_reasons(run);
    let cards: Vec<FindingCard> = hairpin_analysis::findings::ALL.iter().map(|detector| detector.card).collect();
    hairpin_report::findings::fill(run, &cards);
}

/// The cases in the order of the plan, which the saved header of a killed run also has.
fn plan_order(run: &Run) -> Vec<Case> {
    let measured = run.rounds.iter().map(|record| &record.order.case);
    distinct(run.plan.cases.iter().chain(measured)).into_iter().cloned().collect()
}

/// Saves the header of the run, so that the run can be reported even if it is killed.
fn save_head(task: &Task<'_>, run: &mut Run) {
    let state = std::mem::replace(&mut run.state, State::Running);
    if let Err(error) = task.folder.write_run(run) {
        run.unsaved.push(Failure::new(FailureKind::Other, format!("the plan was not saved: {error}"), ""));
    }
    run.state = state;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_given_up_after_failures_of_one_kind() {
        let failed = |kind, cause: &str| Some(Failure::new(kind, cause, ""));
        let late = |number: u32| failed(FailureKind::TimedOut, &format!("message {number} timed out"));
        let refused = || failed(FailureKind::Refused, "refused");
        let given_up = |failures: &[Option<Failure>]| are_same_kind(failures.iter().map(Option::as_ref));
        assert!(given_up(&[late(1), late(2), late(3)]));
        assert!(!given_up(&[late(1), refused(), late(3)]), "failures of different kinds may be temporary");
        assert!(!given_up(&[late(1), late(2)]));
        assert!(!given_up(&[late(1), late(2), None]));
        assert!(!given_up(&[None, None, None]));
    }
}
