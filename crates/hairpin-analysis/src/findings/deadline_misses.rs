//! `deadline-misses`: a control loop missed deadlines.
//!
//! If another finding has a cause that makes cycles late, it is named with its counter-experiment, which is judged by the
//! misses. Otherwise, if the median cycle, without its release jitter, takes longer than the deadline, the period is too
//! short; the counter-experiment is a longer one. If messages were lost and the loop waited for their time-outs, or if the
//! hypervisor took at least half of the time by which cycles were longer than the median, that is the cause. If no cause is
//! known, the counter-experiment runs both ends with `SCHED_FIFO`.

use hairpin_model::case::Scheduling;
use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::{FIFO, LONGER_PERIOD};
use hairpin_model::{
    CaseSummary, CounterExperiment, Finding, FindingCard, Measured, PeriodicFigures, Proved, Run, Waiting,
    finding_keys as keys, words,
};

use super::support::{judge_by_block, known_evidence, longer_run, paired, rounds_of, with_longer_period, with_share};
use super::{cpu_quota, echo_stalled, link_drops, retransmission, run_queue, timer_slack};

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
/// Minimum share of the late time that the hypervisor took, to name it.
const MIN_STOLEN: f64 = 0.5;
/// Minimum share of a cause, to explain that most cycles are too long.
const MIN_EXPLAINED: f64 = 0.5;

/// Findings with causes that make cycles late.
const CAUSES: [&str; 6] = [
    cpu_quota::CARD.code,
    run_queue::CARD.code,
    echo_stalled::CARD.code,
    retransmission::CARD.code,
    link_drops::CARD.code,
    timer_slack::CARD.code,
];

words! {
    /// Causes without a finding of their own.
    enum Cause: "cause" {
        /// Most cycles take longer than the deadline.
        TooShort = "too-short",
        /// Messages were lost.
        Lost = "lost",
        /// The hypervisor gave the CPUs to other guests.
        Stolen = "stolen",
        /// Some cycles are late.
        Disturbed = "disturbed",
        /// Some cycles are late although no other program can delay them: interrupts, or the hypervisor.
        DisturbedAnyway = "disturbed-anyway",
    }
}

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let figures = case.primary().periodic.as_ref()?;
    let share = figures.misses as f64 / figures.periods.max(1) as f64;
    // A search tries periods that are too short.
    if share < MIN_SHARE || run.plan.period_search.is_some() {
        return None;
    }
    let [stolen_ns, late_ns] = stolen_and_late_ns(run, case);
    let is_stolen = stolen_ns >= MIN_STOLEN * late_ns && stolen_ns > 0.0;
    let cause = match case.case.ends.scheduling {
        _ if is_too_short(case) => Cause::TooShort,
        _ if are_lost(run, case, figures) => Cause::Lost,
        _ if is_stolen => Cause::Stolen,
        Scheduling::Other => Cause::Disturbed,
        _ => Cause::DisturbedAnyway,
    };
    let severity = if share >= BROKEN { Severity::Problem } else { Severity::Warning };
    let all = [
        (keys::MISSED, Some(share.into())),
        (keys::MISSES, Some((figures.misses as f64).into())),
        (keys::MISS_RUN, Some((figures.longest_miss_run as f64).into())),
        (keys::RELEASE_JITTER_P99, figures.release_jitter_ns.p99),
        (keys::RESPONSE_P99, figures.response_ns.p99),
        (keys::STEAL, (stolen_ns > 0.0).then(|| stolen_ns.into())),
    ];
    let finding = Finding { evidence: known_evidence(case, all), ..with_share(&CARD, severity, share) };
    let finding = finding.with(keys::PERIODS, figures.periods as f64);
    Some(caused(run, finding, case, cause.word(), counter_experiment(case, figures, cause)))
}

fn caused(run: &Run, finding: Finding, case: &CaseSummary, word: &str, experiment: CounterExperiment) -> Finding {
    let of = |measured: &Measured| Some(measured.primary().periodic.as_ref()?.miss_share());
    let proved = judge_by_block(run, case, &experiment, finding.share, of);
    Finding {
        counter_experiment: Some(experiment),
        proved: proved.map(|proved| Proved { unit: "share-of-periods".to_owned(), ..proved }),
        ..finding.with(keys::CAUSE, word)
    }
}

/// Names the first of the findings, in their order, whose cause makes cycles of the loop late.
pub(super) fn explain(run: &Run, findings: &mut [Finding]) {
    let Some(place) = findings.iter().position(|finding| finding.code == CARD.code) else { return };
    let Some(case) = findings[place].cases.first().and_then(|id| run.case(id)) else { return };
    let Some(cause) = findings.iter().find(|cause| makes_late(cause, case)) else { return };
    let is_too_short = is_too_short(case);
    if is_too_short && cause.code != cpu_quota::CARD.code && cause.share < MIN_EXPLAINED {
        return;
    }
    let of_case = cause.counter_experiment.clone().filter(|check| check.pair.is_some() && cause.cases[0] == case.id);
    let (code, own) = (cause.code.clone(), findings[place].counter_experiment.clone());
    if let Some(experiment) = of_case.or(own) {
        findings[place] = caused(run, findings[place].clone(), case, &code, experiment);
    }
}

fn makes_late(cause: &Finding, case: &CaseSummary) -> bool {
    let is_known = CAUSES.contains(&cause.code.as_str()) && cause.cases.contains(&case.id) && cause.share > 0.0;
    // The slack delays each release by about the same time.
    let slack_ns = cause.figure(keys::TIMER_SLACK).filter(|_| cause.code == timer_slack::CARD.code);
    is_known && slack_ns.is_none_or(|slack| slack.value + cycle_ns(case) > deadline_ns(case))
}

/// Whether lost messages, each of which stops the loop until its time-out, explain at least half of the misses.
fn are_lost(run: &Run, case: &CaseSummary, figures: &PeriodicFigures) -> bool {
    let ledger = &case.primary().ledger;
    let (Some(own), Some(round)) =
        (case.case.primary().load.periodic(), run.rounds.iter().find(|round| round.case_id == case.id))
    else {
        return false;
    };
    let missed_by_each = 1 + round.order.timeout_ns / own.period_ns.max(1);
    2 * ledger.sent.saturating_sub(ledger.received).saturating_mul(missed_by_each) >= figures.misses
}

fn cycle_ns(case: &CaseSummary) -> f64 {
    case.primary().service_ns.and_then(|service| service.p50).map_or(0.0, |p50| p50.value)
}

fn deadline_ns(case: &CaseSummary) -> f64 {
    case.case.primary().load.periodic().map_or(f64::INFINITY, |own| own.deadline_ns as f64)
}

fn is_too_short(case: &CaseSummary) -> bool {
    cycle_ns(case) > deadline_ns(case)
}

/// The time that the hypervisor took from the CPUs of the ends, and that by which cycles were longer than the median, in ns.
fn stolen_and_late_ns(run: &Run, case: &CaseSummary) -> [f64; 2] {
    let of_round = |measured: &Measured| {
        let figures = &measured.primary().figures;
        let late_ns = (figures.latency_ns.mean - figures.latency_ns.p50) * figures.samples as f64;
        [measured.noise.cpus.iter().map(|cpu| cpu.steal_ns as f64).sum(), late_ns]
    };
    let rounds = rounds_of(run, &case.id).into_iter().map(|(_, measured)| of_round(measured));
    rounds.fold([0.0; 2], |[stolen, late], [more, later]| [stolen + more, late + later])
}

fn counter_experiment(case: &CaseSummary, figures: &PeriodicFigures, cause: Cause) -> CounterExperiment {
    match cause {
        Cause::TooShort => {
            let response_ns = figures.response_ns.p50.map_or(0.0, |p50| p50.value);
            let factor = (2.0 * response_ns / deadline_ns(case)).ceil().max(2.0) as u64;
            paired(LONGER_PERIOD, [case.case.clone(), with_longer_period(&case.case, factor)])
        }
        Cause::Disturbed if case.case.ends.waiting != Waiting::Spin => {
            let changed = case.case.clone().with(|changed| changed.ends.scheduling = Scheduling::Fifo);
            paired(FIFO, [case.case.clone(), changed])
        }
        Cause::Lost | Cause::Stolen | Cause::Disturbed | Cause::DisturbedAnyway => longer_run(&case.case),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, CpuNoise, Fact, PeriodicCounts, fact_names};

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
            assert_eq!((proved.verdict.as_str(), proved.unit.as_str()), (verdict, "share-of-periods"), "{with_fifo}");
        }
    }

    /// Rounds with ten misses each, changed further.
    fn found_with(change: impl Fn(&mut Measured)) -> Finding {
        let mut fixture = Fixture::new();
        for block in 0..6 {
            fixture.round_with(&control_loop(), block, &paced(1_000_000, &[(10_000, 40_000); 200]), |measured| {
                let counts = PeriodicCounts { periods: 200, misses: 10, longest_miss_run: 10, ..Default::default() };
                measured.primary_mut().periodic = Some(counts);
                change(measured);
            });
        }
        crate::findings(&fixture.run()).into_iter().find(|finding| finding.code == CARD.code).unwrap()
    }

    fn kind(finding: &Finding) -> &str {
        &finding.counter_experiment.as_ref().unwrap().kind
    }

    #[test]
    fn the_first_cause_that_makes_cycles_late_is_named_with_its_check() {
        let waits = |measured: &mut Measured| {
            (0..).zip(&mut measured.ends).for_each(|(cpu, end)| end.pinned_cpu = Some(cpu));
            measured.ends[0].waited_for_cpu_ns = Some(5_000_000);
            measured.noise.wall_ns = measured.duration_ns;
            measured.noise.busy_ns = 100 * measured.duration_ns;
        };
        let waiting = found_with(waits);
        assert_eq!((waiting.word(keys::CAUSE), kind(&waiting)), (Some("run-queue"), FIFO));
        let throttled = found_with(|measured| {
            waits(measured);
            for end in &mut measured.ends {
                end.facts.push(Fact::number(fact_names::CPU_QUOTA, 0.5));
                end.facts.push(Fact::number(fact_names::THROTTLED_PERIODS, 2.0));
                end.facts.push(Fact::number(fact_names::THROTTLED_NS, 1e6));
            }
        });
        assert_eq!(throttled.word(keys::CAUSE), Some("cpu-quota"));
    }

    #[test]
    fn a_slack_that_fits_into_the_deadline_is_not_the_cause_of_misses() {
        let with_slack = |slack_ns: u64, jitter_ns: u64| {
            let case = control_loop().with(|case| case.ends.timer_slack_ns = Some(slack_ns));
            let mut fixture = Fixture::new();
            for block in 0..6 {
                fixture.round_with(&case, block, &paced(1_000_000, &[(jitter_ns, 40_000); 200]), |measured| {
                    let counts = PeriodicCounts { periods: 200, misses: 20, ..Default::default() };
                    measured.primary_mut().periodic = Some(counts);
                    measured.ends[0].facts.push(Fact::number(fact_names::TIMER_SLACK_NS, slack_ns as f64));
                });
            }
            let found = crate::findings(&fixture.run());
            found.iter().map(|finding| (finding.code.clone(), finding.word(keys::CAUSE).map(str::to_owned))).collect()
        };
        let small: Vec<_> = with_slack(50_000, 60_000);
        assert_eq!(small, [("timer-slack".into(), None), ("deadline-misses".into(), Some("disturbed".into()))]);
        let large: Vec<_> = with_slack(970_000, 900_000);
        assert_eq!(large, [("timer-slack".into(), None), ("deadline-misses".into(), Some("timer-slack".into()))]);
    }

    #[test]
    fn time_that_the_hypervisor_took_is_named() {
        let late = |steal_ns: u64| {
            found_with(|measured| {
                measured.primary_mut().figures.latency_ns.mean = 150_000.0;
                measured.noise.cpus = vec![CpuNoise { cpu: 0, steal_ns, busy_ns: 0 }];
            })
        };
        assert_eq!(late(10_000_000).word(keys::CAUSE), Some("stolen"), "half of 200 cycles that are 100 us longer");
        assert_eq!(late(9_000_000).word(keys::CAUSE), Some("disturbed"));
        assert_eq!(value(&late(9_000_000), keys::STEAL), 54e6);
    }

    #[test]
    fn lost_messages_are_the_cause_if_their_time_outs_explain_the_misses() {
        let lost = |count: u64| {
            let found = found_with(|measured| {
                let ledger = &mut measured.primary_mut().ledger;
                (ledger.sent, ledger.received) = (ledger.received + count, ledger.received);
            });
            found.word(keys::CAUSE).map(str::to_owned)
        };
        assert_eq!(
            [lost(0), lost(1)].map(Option::unwrap),
            ["disturbed", "lost"],
            "each stops the loop for its time-out"
        );
    }

    #[test]
    fn cases_of_counter_experiments_come_after_those_of_the_plan() {
        let without_slack = control_loop().with(|case| case.ends.timer_slack_ns = Some(1));
        let mut fixture = Fixture::new();
        rounds(&mut fixture, &control_loop(), 40_000, 10);
        for block in 6..12 {
            fixture.round_with(&without_slack, block, &paced(1_000_000, &[(10_000, 40_000); 200]), |measured| {
                let counts = PeriodicCounts { periods: 200, misses: 20, ..Default::default() };
                measured.primary_mut().periodic = Some(counts);
            });
        }
        assert_eq!(fixture.findings("deadline-misses")[0].cases, [control_loop().id(), without_slack.id()]);
    }
}
