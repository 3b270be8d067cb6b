//! `drift`: a case became slower or faster over the run, or within each of its rounds.
//!
//! Evidence, over rounds: Theil-Sen slope of the logarithm of the rounds' p50 (for one-way loads at full rate, of the time
//! per byte) and the Mann-Kendall test, at 5 % over all cases together (Bonferroni). Within rounds: the last three tenths
//! compared with the second to fourth (the first tenth belongs to `cold-start`), median over rounds with its interval.
//! Either change must be at least 5 %. Exchanges are not checked within rounds: TCP acknowledges the first exchanges of a
//! connection quickly and later ones late, although the machine does not change.

use hairpin_model::finding::{About, Severity};
use hairpin_model::{CaseSummary, Evidence, Finding, FindingCard, RoundPoint, Run, finding_keys as keys};

use super::support::{evidence, longer_run, ns_per_gb, rounds_of, strongest, with_share};
use crate::compare::over_points;
use crate::statistics::interval::{Estimate, MIN_ROUNDS};
use crate::statistics::location::mean;
use crate::statistics::trend::trend;

pub(super) const CARD: FindingCard = FindingCard {
    code: "drift",
    about: About::Run,
    what: "a case became slower or faster over the run, or within its rounds",
    why: "one figure cannot describe a case that changes",
};

/// Minimum change to report.
const MIN_SHARE: f64 = 0.05;
/// Probability of a false alarm over all cases of a run.
const FALSE_ALARM: f64 = 0.05;

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let tested = run.cases.iter().filter(|case| case.round_points.len() >= MIN_ROUNDS).count().max(1);
    let over = strongest(run, |case| over_rounds(case, FALSE_ALARM / tested as f64));
    [over, strongest(run, |case| within_rounds(run, case))].concat()
}

fn finding(case: &CaseSummary, evidence: Vec<Evidence>, change: f64) -> Finding {
    let finding = with_share(&CARD, Severity::Warning, change.abs());
    Finding {
        evidence,
        counter_experiment: Some(longer_run(&case.case)),
        share: change.abs().min(1.0),
        ..finding.with_if(case.case.is_emulated(), keys::EMULATED)
    }
}

fn over_rounds(case: &CaseSummary, least_p: f64) -> Option<Finding> {
    if case.round_points.len() < MIN_ROUNDS {
        return None;
    }
    let slowness_ns = |point: &RoundPoint| ns_per_gb(case, point).unwrap_or_else(|| point.p50_ns.max(1.0));
    let points: Vec<(f64, f64)> =
        case.round_points.iter().map(|point| (point.started_ns as f64, slowness_ns(point).ln())).collect();
    let trend = trend(&points)?;
    let times = || points.iter().map(|point| point.0);
    let span = times().fold(0.0, f64::max) - times().fold(f64::INFINITY, f64::min);
    let change = (trend.slope * span).exp_m1();
    let facts = vec![evidence(keys::CHANGE_OVER_RUN, change), evidence(keys::TREND_CHANCE, trend.p)];
    (trend.p < least_p && change.abs() >= MIN_SHARE).then(|| finding(case, facts, change))
}

fn within_rounds(run: &Run, case: &CaseSummary) -> Option<Finding> {
    if case.case.primary().load.exchange().is_some() {
        return None;
    }
    let change = |course: &[f64]| {
        let (early, late) = (mean(course.get(1..4)?)?, mean(course.get(7..10)?)?);
        (early > 0.0 && late > 0.0).then(|| (late / early).ln())
    };
    let rounds = rounds_of(run, &case.id);
    let changes: Vec<f64> =
        rounds.iter().filter_map(|(_, measured)| change(&measured.primary().figures.course_ns)).collect();
    let over = over_points(case, run.plan.alpha);
    let share = Estimate::of(&changes, over)?.figure(over.alpha).rising(f64::exp_m1);
    let is_certain = share.excludes(0.0) && share.value.abs() >= MIN_SHARE;
    is_certain.then(|| finding(case, vec![evidence(keys::CHANGE_WITHIN, share)], share.value))
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;

    use super::*;
    use crate::fixture::links::over;
    use crate::fixture::one_way_losses::{counts, messages};
    use crate::fixture::{Fixture, back_to_back, value};

    #[test]
    fn a_steady_rise_over_rounds_is_found_and_measured() {
        let rising: Vec<u64> = (0..10).map(|k| 10_000 + 300 * k).collect();
        let found = Fixture::of(&[(&Case::ping_pong("tcp"), &rising)]).findings("drift");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].cases, [Case::ping_pong("tcp").id()]);
        assert!((value(&found[0], keys::CHANGE_OVER_RUN) - 0.27).abs() < 0.005, "{found:?}");
        // The p-value of 10 rounds in perfect order is 2 / 10!.
        assert!((found[0].evidence[1].value.value - 2.0 / 3_628_800.0).abs() < 1e-12);
    }

    #[test]
    fn a_load_at_full_rate_drifts_by_its_goodput_and_not_by_its_queue() {
        let found = |goodput: fn(u64) -> u64, p50_ns: fn(u64) -> u64| {
            let case = messages("tcp");
            let mut fixture = Fixture::new();
            for block in 0..10_u32 {
                let samples = back_to_back(&[], &[p50_ns(block.into()); 100]);
                fixture.round_with(&case, block, &samples, |measured| {
                    counts(&[], 0.0)(measured);
                    measured.primary_mut().received.as_mut().unwrap().bytes_after_first = goodput(block.into());
                });
            }
            fixture.findings("drift")
        };
        assert_eq!(found(|_| 1_000_000, |block| 10_000 + 3_000 * block), []);
        let slower = found(|block| 1_000_000 - 30_000 * block, |_| 10_000);
        assert!((value(&slower[0], keys::CHANGE_OVER_RUN) - 0.37).abs() < 0.005, "{slower:?}");
    }

    #[test]
    fn a_fall_within_each_round_is_found() {
        let falling: Vec<u64> = (0..100).map(|k| 20_000 - 50 * k).collect();
        let found = Fixture::alike(6, &Case::ping_pong("tcp"), &back_to_back(&[], &falling)).findings("drift");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].cases, [Case::ping_pong("tcp").id()]);
        assert!((value(&found[0], keys::CHANGE_WITHIN) + 0.16).abs() < 0.005, "{found:?}");
        assert!(!found[0].has(keys::EMULATED), "{found:?}");
    }

    #[test]
    fn over_a_link_its_queue_may_have_drifted() {
        let filling: Vec<u64> = (0..100).map(|k| 20_000_000 + 500_000 * k).collect();
        let case = over("rate=1mbit delay=10ms", Case::ping_pong("tcp"));
        let found = Fixture::alike(6, &case, &back_to_back(&[], &filling)).findings("drift");
        assert!(found[0].has(keys::EMULATED) && value(&found[0], keys::CHANGE_WITHIN) > 0.0, "{found:?}");
    }

    #[test]
    fn the_finding_begins_at_the_threshold() {
        let found = |step: u64| {
            let rising: Vec<u64> = (0..10).map(|k| 1_000_000 + step * k).collect();
            Fixture::of(&[(&Case::ping_pong("tcp"), &rising)]).findings("drift").len()
        };
        // Nine steps of 0.54 % add up to 4.9 %, of 0.58 % to 5.2 %.
        assert_eq!((found(5_400), found(5_800)), (0, 1));
    }

    /// A slow first tenth is a warm-up that was too short; one slow round in the middle is not a trend.
    #[test]
    fn a_cold_start_and_a_single_slow_round_are_no_drift() {
        let cold = [[30_000; 10].as_slice(), &[10_000; 90]].concat();
        let mut fixture = Fixture::alike(6, &Case::ping_pong("tcp"), &back_to_back(&[], &cold));
        fixture.rounds_of(&Case::ping_pong("udp"), &[10_000, 10_010, 9_990, 50_000, 10_005, 9_995, 10_000, 10_001]);
        assert_eq!(fixture.findings("drift"), []);
    }

    #[test]
    fn scatter_a_small_trend_and_few_rounds_are_no_drift() {
        let cases = ["tcp", "udp", "pipe"].map(Case::ping_pong);
        // A slope of 11 % over the run, and a p-value of 0.28.
        let scatter = [10_000, 9_000, 11_000, 9_500, 12_000, 9_200, 11_500, 10_500];
        let small: Vec<u64> = (0..10).map(|k| 10_000 + 30 * k).collect();
        let few = [10_000, 12_000, 14_000, 16_000, 18_000];
        let fixture = Fixture::of(&[(&cases[0], &scatter), (&cases[1], &small), (&cases[2], &few)]);
        assert_eq!(fixture.findings("drift"), []);
    }
}
