//! `cpu-quota`: the kernel throttled the ends because their control group had used up its CPU quota.
//!
//! A group with a quota (a container, a CI runner) may use a limited CPU time in each period, usually 100 ms; then all its
//! threads stop until the next period. Messages that are in flight at that moment take tens of ms longer, and rates are
//! limited by the quota. Evidence: `cpu.stat` of the groups of both ends while they handled measured messages
//! (Documentation/scheduler/sched-bwc.rst). The share is the throttled part of the measured time. The counter-experiment
//! sends at a rate, or gives a control loop a period, that the quota allows.

use hairpin_model::fact::{self, Fact};
use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::WITHIN_QUOTA;
use hairpin_model::{
    Case, CaseSummary, CounterExperiment, Finding, FindingCard, Measured, Run, Waiting, fact_names,
    finding_keys as keys,
};

use crate::lateness::throttled_ns;

use super::support::{counter_experiment, evidence, evidence_of, paired, rounds_of, with_longer_period, with_share};

pub(super) const CARD: FindingCard = FindingCard {
    code: "cpu-quota",
    about: About::Cause,
    what: "the kernel stopped the ends because their control group had used up its CPU quota",
    why: "figures then describe the quota of a container and not the transport",
};

/// Minimum share of the measured time, or of the rounds, to report.
const MIN_SHARE: f64 = 0.001;
const MIN_ROUNDS_SHARE: f64 = 0.1;
/// From this share of the measured time on, the figures no longer describe the transport.
const SPOILT: f64 = 0.05;
/// Share of the quota that the counter-experiment uses.
const USED_SHARE: f64 = 0.5;

pub(super) fn is_throttled(measured: &Measured) -> bool {
    total(measured, fact_names::THROTTLED_PERIODS) > 0.0
}

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let rounds: Vec<&Measured> = rounds_of(run, &case.id).into_iter().map(|(_, measured)| measured).collect();
    let quotas = rounds.iter().flat_map(|measured| quotas(measured));
    let quota_cpus = quotas.reduce(f64::min)?;
    let throttled_rounds = rounds.iter().filter(|measured| is_throttled(measured)).count();
    let sum = |of: &dyn Fn(&Measured) -> f64| rounds.iter().map(|measured| of(measured)).sum::<f64>();
    let wall_ns = sum(&|measured| measured.duration_ns as f64);
    let cpu_ns = sum(&|measured| measured.ends.iter().map(|end| end.cpu_ns as f64).sum());
    let share = sum(&throttled_ns) / wall_ns;
    let touched = share >= MIN_SHARE || throttled_rounds as f64 >= MIN_ROUNDS_SHARE * rounds.len() as f64;
    if !(throttled_rounds > 0 && touched && wall_ns > 0.0) {
        return None;
    }
    // The number of CPUs that both ends use.
    let used_cpus = cpu_ns / wall_ns;
    let cpu_s_per_message = cpu_ns / 1e9 / sum(&|measured| measured.primary().figures.samples as f64);
    let periods = sum(&|measured| total(measured, fact_names::THROTTLED_PERIODS));
    let finding = Finding {
        evidence: vec![
            evidence_of(case, keys::QUOTA, quota_cpus),
            evidence_of(case, keys::CPUS_USED, used_cpus),
            evidence(keys::THROTTLED, share),
            evidence_of(case, keys::THROTTLED_PERIODS, periods),
        ],
        counter_experiment: within_quota(&case.case, quota_cpus, used_cpus, cpu_s_per_message),
        ..with_share(&CARD, if share >= SPOILT { Severity::Problem } else { Severity::Warning }, share)
    };
    Some(finding.with(keys::THROTTLED_ROUNDS, throttled_rounds as f64).with(keys::ROUNDS, rounds.len() as f64))
}

/// Takes the maximum over the ends, not the sum: ends in one group report the same counter.
fn total(measured: &Measured, name: &str) -> f64 {
    let of_end = |facts: &[Fact]| fact::number(facts, name).unwrap_or(0.0);
    measured.ends.iter().map(|end| of_end(&end.facts)).fold(0.0, f64::max)
}

fn quotas(measured: &Measured) -> Vec<f64> {
    measured.ends.iter().filter_map(|end| fact::number(&end.facts, fact_names::CPU_QUOTA)).collect()
}

/// The case at a rate that needs half of the quota; `None` if the ends busy-poll or the load is one-way, because such
/// ends use up the quota at any rate.
fn within_quota(case: &Case, quota_cpus: f64, used_cpus: f64, cpu_s_per_message: f64) -> Option<CounterExperiment> {
    if let Some(own) = case.primary().load.periodic() {
        let factor = (used_cpus / (USED_SHARE * quota_cpus)).ceil().max(2.0) as u64;
        let can_run = !own.timing.keeps_cpu() && case.ends.waiting == Waiting::Block && case.loads().is_empty();
        return can_run.then(|| paired(WITHIN_QUOTA, [case.clone(), with_longer_period(case, factor)]));
    }
    let per_s = (USED_SHARE * quota_cpus / cpu_s_per_message).floor();
    let has_rate =
        case.ends.waiting == Waiting::Block && case.loads().is_empty() && !case.primary().load.is_one_way();
    let can_run = has_rate && per_s.is_finite() && per_s >= 1.0;
    can_run.then(|| counter_experiment(WITHIN_QUOTA, [case.clone(), case.at_rate(per_s)]))
}

#[cfg(test)]
mod tests {
    use hairpin_model::trace::End;

    use super::*;
    use crate::fixture::{Fixture, apart, control_loop};
    use hairpin_model::periodic::Timing;

    /// Ten rounds of a case. For each round, `throttled` has the throttled periods and the throttled time in ns.
    fn found(case: &Case, quota: Option<f64>, throttled: &[(f64, f64)]) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        let rounds = std::cell::Cell::new(0);
        fixture.rounds_with(case, &[10_000; 10], |measured| {
            let (periods, ns) = throttled.get(rounds.replace(rounds.get() + 1)).copied().unwrap_or_default();
            for end in &mut measured.ends {
                end.seen_cpus = vec![usize::from(end.role == End::Server)];
                end.cpu_ns = measured.duration_ns / 4;
                end.facts.extend(quota.map(|cpus| Fact::number(fact_names::CPU_QUOTA, cpus)));
                end.facts.extend(quota.map(|_| Fact::number(fact_names::THROTTLED_PERIODS, periods)));
                end.facts.extend(quota.map(|_| Fact::number(fact_names::THROTTLED_NS, ns)));
            }
        });
        fixture.findings("cpu-quota")
    }

    fn case() -> Case {
        apart(Case::ping_pong("tcp"))
    }

    #[test]
    fn throttled_rounds_are_found_with_their_share_of_the_time() {
        let found = found(&case(), Some(0.6), &[(3.0, f64::MAX), (1.0, f64::MAX)]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Problem));
        assert!((found[0].share - 0.2).abs() < 1e-9, "two of ten rounds: {}", found[0].share);
        let values = [keys::QUOTA, keys::THROTTLED_PERIODS, keys::THROTTLED_ROUNDS, keys::ROUNDS, keys::CPUS_USED];
        assert_eq!(
            values.map(|key| found[0].figure(key).map(|figure| figure.value)),
            [0.6, 4.0, 2.0, 10.0, 0.5].map(Some)
        );
    }

    #[test]
    fn on_two_hosts_the_cpus_of_each_host_are_counted_separately() {
        let end = |host, cpu, ns| hairpin_model::EndReport {
            host,
            seen_cpus: vec![cpu],
            facts: vec![Fact::number(fact_names::THROTTLED_NS, ns)],
            ..Default::default()
        };
        let of = |host| Measured {
            ends: vec![end(End::Client, 0, 100.0), end(host, 1, 80.0)],
            duration_ns: 1000,
            ..Measured::default()
        };
        assert_eq!([End::Client, End::Server].map(|host| throttled_ns(&of(host))), [50.0, 100.0]);
    }

    #[test]
    fn a_quota_that_was_not_used_up_is_no_cause() {
        assert_eq!(found(&case(), Some(0.6), &[]), []);
        assert_eq!(found(&case(), None, &[]), []);
    }

    #[test]
    fn one_briefly_throttled_round_of_ten_is_enough() {
        assert_eq!(found(&case(), Some(0.6), &[(1.0, 1.0)]).len(), 1);
    }

    #[test]
    fn the_check_sends_at_a_rate_that_needs_half_of_the_quota() {
        let check = |case: &Case| found(case, Some(0.6), &[(1.0, f64::MAX)])[0].counter_experiment.clone();
        let experiment = check(&case()).unwrap();
        let hairpin_model::Load::Paced { rate_per_s, .. } = experiment.repeat.cases[1].primary().load else {
            panic!("{experiment:?}")
        };
        // Round trips of 10 us, in which both ends use a CPU for half of the time.
        assert!((rate_per_s - 0.3 / 5e-6).abs() <= 1.0, "{rate_per_s}");
        assert_eq!(check(&case().with(|case| case.ends.waiting = Waiting::Spin)), None);
    }

    #[test]
    fn the_check_of_a_control_loop_has_a_longer_period() {
        let check = |timing: Timing| {
            let case = control_loop().with(|case| case.primary_mut().load.periodic_mut().unwrap().timing = timing);
            found(&case, Some(0.2), &[(1.0, f64::MAX)])[0].counter_experiment.clone()
        };
        let [before, after] = *check(Timing::Absolute).unwrap().pair.unwrap();
        let of = |case: &Case| case.primary().load.periodic().map(|own| (own.period_ns, own.deadline_ns));
        assert_eq!(
            [of(&before), of(&after)],
            [Some((1_000_000, 1_000_000)), Some((5_000_000, 5_000_000))],
            "half a CPU used"
        );
        assert_eq!(check(Timing::Spin), None);
    }
}
