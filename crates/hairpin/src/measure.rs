//! The measurement loop: plan, rounds, samples, summaries, findings and answer. It prints nothing.

use std::fmt;
use std::sync::atomic::Ordering;

use hairpin_analysis::{
    Digest, States, answer, comparisons, disturbed_rounds, findings, one_way_figures, phase_figures, round_figures,
    stamped, traced,
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
use hairpin_store::{Evidence, RunFolder};

use crate::prove;

pub(crate) struct Measurement<'a> {
    pub(crate) experiment: &'static Experiment,
    pub(crate) experiments: &'static [Experiment],
    pub(crate) knobs: &'a Knobs,
    pub(crate) capabilities: &'a HostCapabilities,
    pub(crate) engine: Engine,
    pub(crate) folder: RunFolder,
    pub(crate) prove: bool,
    pub(crate) all_rounds: bool,
    pub(crate) limits: Limits,
    pub(crate) digest: Digest,
    pub(crate) run: Run,
}

/// Events of a run. They are sent between rounds, so that observers do not disturb measurements.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The plan and its cases, before the first round.
    Planned {
        plan: &'a Plan,
        cases: &'a [Case],
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

pub(crate) type Observe<'o> = dyn FnMut(Event<'_>) + 'o;

/// Decides after each look at two interleaved runs, at a time in s, whether they are enough.
pub(crate) type IsEnough<'o> = dyn FnMut([&Run; 2], f64) -> bool + 'o;

/// Runs two measurements of one experiment with their rounds in shared blocks, until a look is enough or the time is
/// over.
pub(crate) fn run_interleaved(
    both: &mut [Measurement<'_>; 2],
    at_most_ns: u64,
    is_enough: &mut IsEnough<'_>,
    observe: &mut Observe<'_>,
) -> Result<(), Refused> {
    let experiment = both[0].experiment;
    let planned = both.each_ref().map(|one| (one.knobs, one.capabilities));
    let (mut from, mut look_ns) = (Blocks::default(), 0);
    both.iter_mut().for_each(|one| one.run.state = State::Complete);
    while let Some((orders, next)) = experiment.next_interleaved(planned, from, look_ns, at_most_ns)? {
        look_ns = next;
        for (place, one) in both.iter_mut().enumerate() {
            one.announce(orders.iter().filter(|(of, _)| *of == place).count(), observe);
        }
        for (place, order) in &orders {
            both[*place].run_order(order, observe);
            from.first = order.block + 1;
            if both[*place].is_over() {
                break;
            }
        }
        both.iter_mut().for_each(Measurement::summarize);
        from.begin_ns = both[0].engine.elapsed_ns();
        let is_enough = is_enough(both.each_ref().map(|one| &one.run), from.begin_ns as f64 / 1e9);
        if is_enough || both.iter().any(Measurement::is_over) {
            break;
        }
    }
    both.iter_mut().for_each(Measurement::finish);
    Ok(())
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

/// When no more rounds begin: after the forecast time from this time on, in ns since the start of the run, if at all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    forecast: Forecast,
    begin_ns: u64,
}

impl Limits {
    fn is_over(&self, purpose: Purpose, now_ns: u64) -> bool {
        self.forecast.has_time_limit && self.is_past(purpose, now_ns)
    }

    fn is_past(&self, purpose: Purpose, now_ns: u64) -> bool {
        let Forecast { lasts_ns, evidence_ns, .. } = self.forecast;
        let lasts_ns = if purpose == Purpose::Timed { lasts_ns.saturating_sub(evidence_ns) } else { lasts_ns };
        now_ns > self.begin_ns.saturating_add(((1.0 + MAX_OVERRUN) * lasts_ns as f64) as u64)
    }
}

/// Number of first rounds that end the run if all of them were disturbed.
const MAX_DISTURBED: usize = 3;

/// Number of rounds in a row that do not reach a server on another host and end the run.
const MAX_UNREACHED: usize = 2;

/// Number of rounds that predict the duration of the next one.
const RECENT_ROUNDS: usize = 50;

/// Median duration of the last rounds, with their start, in ns.
fn median_round_ns(rounds: &[RoundRecord]) -> u64 {
    let recent = &rounds[rounds.len().saturating_sub(RECENT_ROUNDS)..];
    let starts: Vec<f64> =
        recent.windows(2).map(|pair| pair[1].started_ns.saturating_sub(pair[0].started_ns) as f64).collect();
    hairpin_analysis::statistics::location::median(&starts).map_or(0, |median| median as u64)
}

impl Measurement<'_> {
    /// Measures until the experiment is done or the user interrupts. The run must contain only the header.
    pub(crate) fn complete(&mut self, observe: &mut Observe<'_>) -> Result<(), Refused> {
        self.run.state = State::Complete;
        let mut half_width = None;
        loop {
            let done = Done { rounds: &self.run.rounds, half_width };
            let step = self.experiment.next(self.knobs, self.capabilities, &done)?;
            let Step::Run { cases, rounds, skipped, forecast } = step else { break };
            if self.run.rounds.is_empty() {
                self.run.plan.rounds = forecast.rounds;
                self.run.plan.seconds = forecast.lasts_ns as f64 / 1e9;
                self.run.plan.sends = forecast.sends;
                observe(Event::Planned { plan: &self.run.plan, cases: &cases });
                let has_time_limit = forecast.has_time_limit && !self.all_rounds;
                self.limit(Forecast { has_time_limit, ..forecast });
            }
            self.run.plan.cases.extend(cases);
            self.run.skipped.extend(skipped);
            let before = self.run.rounds.len();
            self.run_all(&rounds, observe);
            self.repeat_disturbed(&rounds, observe);
            // If no round ran, all remaining cases were abandoned, and the next step would be the same.
            if self.run.state == State::Interrupted || self.run.rounds.len() == before {
                break;
            }
            if self.knobs.is_given("until") {
                self.summarize();
                half_width = widest_half(&self.run);
            }
        }
        self.summarize();
        if self.prove && self.run.state == State::Complete {
            let (rounds, lasts_ns) = prove::orders(&mut self.run, self.capabilities);
            if !rounds.is_empty() {
                observe(Event::Proving { rounds: rounds.len(), lasts_ns });
            }
            self.limit(Forecast { lasts_ns, ..self.limits.forecast });
            self.run_all(&rounds, observe);
            self.summarize();
        }
        self.finish();
        Ok(())
    }

    fn limit(&mut self, forecast: Forecast) {
        self.limits = Limits { forecast, begin_ns: self.engine.elapsed_ns() };
    }

    fn summarize(&mut self) {
        let search = self.experiment.search;
        self.run.periodic = search.and_then(|search| (search.found)(self.knobs, &self.run.rounds));
        summarize_run(&mut self.run, &self.digest, self.experiments);
    }

    fn finish(&mut self) {
        self.run.duration_ns = self.engine.elapsed_ns();
        for host in self.run.hosts.iter_mut().filter(|host| host.role == End::Client) {
            host.environment.load_after = hairpin_engine::environment::load();
        }
    }

    /// Whether the user interrupted the run, or all its cases were abandoned.
    fn is_over(&self) -> bool {
        let is_abandoned = |case: &Case| is_abandoned(&self.run.rounds, &case.id());
        self.run.state == State::Interrupted || self.run.plan.cases.iter().all(is_abandoned)
    }

    /// Repeats the disturbed rounds of a step in their blocks while there is time.
    fn repeat_disturbed(&mut self, rounds: &[RoundOrder], observe: &mut Observe<'_>) {
        if self.all_rounds || self.run.plan.rounds_cut > 0 {
            return;
        }
        let disturbed = disturbed_rounds(&self.run.rounds);
        let is_of_step = |round: &&RoundRecord| rounds.first().is_some_and(|first| round.order.block >= first.block);
        let again = self.run.rounds.iter().filter(|round| disturbed.contains(&round.number)).filter(is_of_step);
        let again = again.map(|round| RoundOrder { not_before_ns: 0, ..round.order.clone() });
        for order in again.collect::<Vec<_>>() {
            let is_over = self.limits.is_past(order.purpose, self.engine.elapsed_ns());
            if is_over || self.run.state == State::Interrupted {
                return;
            }
            self.run_all(&[order], observe);
        }
    }

    /// Runs the rounds in order until the user interrupts. After the time limit, only cases without a round get one.
    fn run_all(&mut self, rounds: &[RoundOrder], observe: &mut Observe<'_>) {
        self.announce(rounds.len(), observe);
        let first_block = rounds.first().map(|order| order.block);
        for (index, order) in rounds.iter().enumerate() {
            let is_first = order.purpose == Purpose::Timed && Some(order.block) == first_block;
            let ends_ns = self.engine.elapsed_ns().saturating_add(median_round_ns(&self.run.rounds));
            let is_over = self.limits.is_over(order.purpose, ends_ns) && !is_first;
            let so_far = &self.run.rounds;
            let is_too_noisy = so_far.len() == MAX_DISTURBED && disturbed_rounds(so_far).len() == MAX_DISTURBED;
            if is_over || is_too_noisy || self.is_unreached() {
                let cut = (rounds.len() - index) as u64;
                self.run.plan.rounds_ordered -= cut;
                self.run.plan.rounds_cut += cut;
                (0..cut).for_each(|_| observe(Event::LeftOut));
                return;
            }
            self.run_order(order, observe);
            if self.run.state == State::Interrupted {
                return;
            }
        }
    }

    /// Whether the server on another host did not answer in the last rounds: each attempt takes long.
    fn is_unreached(&self) -> bool {
        let last = self.run.rounds.iter().rev().take(MAX_UNREACHED).filter_map(RoundRecord::failure);
        self.engine.far.is_some()
            && last.filter(|failure| failure.kind == FailureKind::Unreachable).count() == MAX_UNREACHED
    }

    /// Counts the rounds as ordered, and saves the header of the run, so that it can be reported even if it is killed.
    fn announce(&mut self, rounds: usize, observe: &mut Observe<'_>) {
        self.run.plan.rounds_ordered += rounds as u64;
        let state = std::mem::replace(&mut self.run.state, State::Running);
        if let Err(error) = self.folder.write_run(&self.run) {
            self.run.unsaved.push(unsaved(format!("the plan was not saved: {error}")));
        }
        self.run.state = state;
        observe(Event::Ordered { rounds });
    }

    fn run_order(&mut self, order: &RoundOrder, observe: &mut Observe<'_>) {
        let case_id = order.case.id();
        if is_abandoned(&self.run.rounds, &case_id) {
            self.run.plan.rounds_ordered -= 1;
            return observe(Event::LeftOut);
        }
        observe(Event::Starts(order));
        let record = self.one_round(order);
        observe(Event::Ended(&record));
        self.run.rounds.push(record);
        if let Some(failure) = self.run.rounds.last().and_then(RoundRecord::failure)
            && is_abandoned(&self.run.rounds, &case_id)
        {
            // The cause is in the failed rounds.
            let given_up = Skipped {
                transport: order.case.primary().transport.clone(),
                case: Some(order.case.label()),
                reason: format!("abandoned after {MAX_FAILURES} consecutive failed rounds"),
            };
            observe(Event::GivenUp { case: &given_up, failure });
            self.run.skipped.push(given_up);
        }
        if self.engine.stop.load(Ordering::Relaxed) {
            self.run.state = State::Interrupted;
        }
    }

    fn one_round(&mut self, order: &RoundOrder) -> RoundRecord {
        let run = &mut self.run;
        let number = u32::try_from(run.rounds.len()).expect("plans have at most 100 000 rounds");
        let Finished { mut record, mut samples, trace, budget } = self.engine.run_apart(number, order);
        count_if_only_round(&mut record, &run.rounds);
        if let Outcome::Measured(measured) = &mut record.outcome {
            measured.counts_if_disturbed = self.all_rounds;
        }
        for flow in &order.case.flows {
            fill_figures(&mut record, &run.cards, flow, samples.get(&flow.id));
        }
        if let Some((trace, _)) = &trace {
            traced(&mut record, trace);
        }
        if let Some(budget) = &budget {
            stamped(&mut record, budget, samples.get(&order.case.primary().id));
            self.digest.add_trips(&record, budget);
            // Only the sampled round trips of a stamped round are kept.
            samples.clear();
            if let Outcome::Measured(measured) = &mut record.outcome {
                measured.flows.iter_mut().for_each(|flow| flow.samples_kept = 0);
            }
        }
        let trace = trace.map(|(trace, capture)| Evidence::Trace(trace, capture));
        let mut lost = |what: &str, error: &dyn fmt::Display| {
            run.unsaved.push(unsaved(format!("round {number} was measured but {what}: {error}")));
        };
        match self.folder.append(&mut record, &samples, trace.or(budget.map(Evidence::Budget))) {
            Ok(left_out) => left_out.iter().for_each(|error| lost("its evidence is incomplete", error)),
            Err(error) => lost("not saved", &error),
        }
        let link = record.measured().and_then(|measured| measured.link.as_ref());
        if let Some(problem) = link.and_then(|link| link.log_problem.as_ref()) {
            lost("its link's log is incomplete", problem);
        }
        self.digest.add(&record, samples.get(&order.case.primary().id));
        record
    }

    /// Merges the samples and saves the summary. Failures are recorded in the run.
    pub(crate) fn saved(self) -> (RunFolder, Run) {
        let Self { folder, mut run, .. } = self;
        // After a failed write the disk may be full, and merging needs space.
        if run.unsaved.is_empty()
            && let Err(error) = folder.merge_samples(&mut run.rounds)
        {
            run.unsaved.push(unsaved(format!("the samples stay in one file per round: {error}")));
        }
        if let Err(error) = folder.write_run(&run) {
            let cause = format!("the summary was not saved: {error}");
            folder.note_not_saved(run.unsaved.first().map_or(&cause, |first| &first.cause));
            run.unsaved.push(unsaved(cause));
        }
        (folder, run)
    }
}

fn unsaved(cause: String) -> Failure {
    Failure::new(FailureKind::Other, cause, "")
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
    fill_found(run);
    run.findings = findings(run);
    command::fill_in(run, own.iter().chain(experiments::ALL));
    word_findings(run);
    run.answer = answer(run);
    words::write_answer(run);
}

fn fill_found(run: &mut Run) {
    let Run { cases, periodic: Some(found), .. } = run else { return };
    let of_case = |case: &&CaseSummary| Some(&case.id) == found.case.as_ref();
    if let Some(figures) = cases.iter().find(of_case).and_then(|case| case.primary().periodic.as_ref()) {
        found.release_jitter_ns = Some(figures.release_jitter_ns);
        found.response_ns = Some(figures.response_ns);
        found.longest_miss_run = figures.longest_miss_run;
    }
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
