//! `deadline-misses`: a control loop missed deadlines.
//!
//! Why: the loop then acts on old values, or not at all. Evidence: the periods without a complete answer by their
//! deadline, the most consecutive ones, and the p99 of release jitter and response time. If the median cycle, without its
//! release jitter, takes longer than the deadline, the period is too short; the counter-experiment is a longer one. If
//! only some cycles are late, other work took the CPU; the counter-experiment runs both ends with `SCHED_FIFO`.

use hairpin_model::case::Scheduling;
use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::{FIFO, LONGER_PERIOD};
use hairpin_model::periodic::MAX_PERIOD_NS;
use hairpin_model::{
    CaseSummary, CounterExperiment, Finding, FindingCard, PeriodicFigures, Proved, Run, Waiting,
    finding_keys as keys, words,
};

use super::support::{Hits, evidence_of, judge_by_block, known_evidence, longer_run, paired};

pub(super) const CARD: FindingCard = FindingCard {
    code: "deadline-misses",
    about: About::Traffic,
    what: "a control loop missed deadlines",
    why: "the loop then acts on old values, or not at all",
};

/// Minimum share of missed periods to report.
const MIN_SHARE: f64 = 0.001;
/// From this share on, the loop does not work.
const BROKEN: f64 = 0.05;

words! {
    enum Cause: "cause" {
        /// Most cycles take longer than the deadline.
        TooShort = "too-short",
        /// Some cycles are late.
        Disturbed = "disturbed",
        /// Some cycles are late although no other program can delay them: interrupts, or the hypervisor.
        DisturbedAnyway = "disturbed-anyway",
    }
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    // A search tries periods that are too short.
    if run.plan.period_search.is_some() {
        return Vec::new();
    }
    let hits = Hits::among(run, misses);
    let Some(first) = hits.first() else { return Vec::new() };
    let (figures, cause) = first.data;
    let experiment = counter_experiment(first.case, figures, cause);
    let of = |measured: &hairpin_model::Measured| Some(measured.primary().periodic.as_ref()?.miss_share());
    let proved = judge_by_block(run, first.case, &experiment, first.share, of);
    let severity = if first.share >= BROKEN { Severity::Problem } else { Severity::Warning };
    let mut evidence = vec![
        evidence_of(first.case, keys::MISSED, first.share),
        evidence_of(first.case, keys::MISSES, figures.misses as f64),
        evidence_of(first.case, keys::MISS_RUN, figures.longest_miss_run as f64),
    ];
    let tails =
        [(keys::RELEASE_JITTER_P99, figures.release_jitter_ns.p99), (keys::RESPONSE_P99, figures.response_ns.p99)];
    evidence.extend(known_evidence(first.case, tails));
    let finding = Finding {
        evidence,
        counter_experiment: Some(experiment),
        proved: proved.map(|proved| Proved { unit: "share".to_owned(), ..proved }),
        ..hits.finding(&CARD, severity)
    };
    vec![finding.with(keys::CAUSE, cause.word()).with(keys::PERIODS, figures.periods as f64)]
}

fn misses(case: &CaseSummary) -> Option<(f64, (&PeriodicFigures, Cause))> {
    let (own, figures) = (case.case.primary().load.periodic()?, case.primary().periodic.as_ref()?);
    let share = figures.misses as f64 / figures.periods.max(1) as f64;
    let cycle_ns = case.primary().service_ns.and_then(|service| service.p50)?.value;
    let cause = match case.case.ends.scheduling {
        _ if cycle_ns > own.deadline_ns as f64 => Cause::TooShort,
        Scheduling::Other => Cause::Disturbed,
        _ => Cause::DisturbedAnyway,
    };
    (share >= MIN_SHARE).then_some((share, (figures, cause)))
}

fn counter_experiment(case: &CaseSummary, figures: &PeriodicFigures, cause: Cause) -> CounterExperiment {
    let ends = &case.case.ends;
    match cause {
        Cause::TooShort => {
            let response_ns = figures.response_ns.p50.map_or(0.0, |p50| p50.value);
            let changed = case.case.clone().with(|changed| {
                if let Some(own) = changed.primary_mut().load.periodic_mut() {
                    let factor = (2.0 * response_ns / own.deadline_ns.max(1) as f64).ceil().max(2.0) as u64;
                    own.period_ns = own.period_ns.saturating_mul(factor).min(MAX_PERIOD_NS);
                    own.deadline_ns = own.deadline_ns.saturating_mul(factor).min(own.period_ns);
                }
            });
            paired(LONGER_PERIOD, [case.case.clone(), changed])
        }
        Cause::Disturbed if ends.waiting != Waiting::Spin => {
            let changed = case.case.clone().with(|changed| changed.ends.scheduling = Scheduling::Fifo);
            paired(FIFO, [case.case.clone(), changed])
        }
        Cause::Disturbed | Cause::DisturbedAnyway => longer_run(&case.case),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, PeriodicCounts};

    use super::*;
    use crate::fixture::{Fixture, control_loop, paced, value};

    /// Six rounds of 200 periods of 1 ms, of which each has `misses`.
    fn rounds(fixture: &mut Fixture, case: &Case, cycle_ns: u64, misses: u64) {
        for block in 0..6 {
            fixture.round_with(case, block, &paced(1_000_000, &[(10_000, cycle_ns); 200]), |measured| {
                let counts = PeriodicCounts { periods: 200, misses, longest_miss_run: misses, ..Default::default() };
                measured.primary_mut().periodic = Some(counts);
            });
        }
    }

    fn found(case: &Case, cycle_ns: u64, misses: u64) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        rounds(&mut fixture, case, cycle_ns, misses);
        fixture.findings("deadline-misses")
    }

    #[test]
    fn some_late_cycles_are_checked_with_a_real_time_policy() {
        assert_eq!(found(&control_loop(), 40_000, 0), []);
        let found = found(&control_loop(), 40_000, 2);
        assert_eq!((found[0].severity, found[0].word(keys::CAUSE)), (Severity::Warning, Some("disturbed")));
        assert_eq!([keys::MISSED, keys::MISSES, keys::MISS_RUN].map(|key| value(&found[0], key)), [0.01, 12.0, 2.0]);
        let pair = found[0].counter_experiment.as_ref().unwrap().pair.as_ref().unwrap();
        assert_eq!(pair[1].ends.scheduling, Scheduling::Fifo);
        let fifo = control_loop().with(|case| case.ends.scheduling = Scheduling::Fifo);
        assert_eq!(self::found(&fifo, 40_000, 2)[0].counter_experiment.as_ref().unwrap().pair, None);
    }

    #[test]
    fn cycles_that_are_longer_than_the_deadline_are_checked_with_a_longer_period() {
        let found = found(&control_loop(), 1_300_000, 200);
        assert_eq!((found[0].severity, found[0].word(keys::CAUSE)), (Severity::Problem, Some("too-short")));
        let pair = found[0].counter_experiment.as_ref().unwrap().pair.as_ref().unwrap();
        let own = pair[1].primary().load.periodic().unwrap();
        assert_eq!((own.period_ns, own.deadline_ns), (3_000_000, 3_000_000), "twice the response of 1.31 ms");
    }

    #[test]
    fn the_check_compares_the_shares_of_missed_periods() {
        let fifo = control_loop().with(|case| case.ends.scheduling = Scheduling::Fifo);
        for (with_fifo, verdict) in [(0, "confirmed"), (10, "refuted")] {
            let mut fixture = Fixture::new();
            rounds(&mut fixture, &control_loop(), 40_000, 10);
            rounds(&mut fixture, &fifo, 40_000, with_fifo);
            let found = fixture.findings("deadline-misses").remove(0);
            let proved = found.proved.unwrap();
            assert_eq!((proved.verdict.as_str(), proved.unit.as_str()), (verdict, "share"), "{with_fifo}");
        }
    }
}
