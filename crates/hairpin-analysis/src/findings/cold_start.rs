//! `cold-start`: the warm-up was too short, so the figures include the slow start of each connection.
//!
//! The first messages of a connection take longer than later ones (caches, the scheduler, TCP's slow start). The cost of
//! the first message itself is a figure of the table, not a finding. Evidence: the first tenth of the measured part
//! compared with its last half, median over rounds; and the first tenth is the slowest in most rounds, while chance or a
//! path with varying delay slows each tenth equally often. The share is the excess of that tenth over the steady state,
//! relative to the duration of the round.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::LONGER_WARM_UP;
use hairpin_model::{CaseSummary, Extent, Finding, FindingCard, Run, finding_keys as keys};

use super::support::{counter_experiment, known_evidence, rounds_of, with_share};
use crate::compare::over_points;
use crate::statistics::interval::median_over;
use crate::statistics::location::median;

pub(super) const CARD: FindingCard = FindingCard {
    code: "cold-start",
    about: About::Cause,
    what: "the warm-up was too short: the slow start of each connection is in the figures",
    why: "the figures are then partly those of a cold connection and depend on the length of a round",
};

/// Minimum ratio of the first tenth of the measured part to the steady state.
const MIN_FIRST_TENTH_RATIO: f64 = 1.25;
/// Minimum share of a round's duration to report.
const MIN_SHARE: f64 = 0.01;
/// Minimum share of rounds in which the first tenth is the slowest, and minimum number of rounds.
const MIN_ROUNDS_SHARE: f64 = 0.75;
const MIN_ROUNDS: usize = 3;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let rounds = rounds_of(run, &case.id);
    let courses: Vec<_> = rounds
        .iter()
        .map(|(_, measured)| &measured.primary().figures.course_ns)
        .filter(|course| course.len() >= 10)
        .collect();
    let is_slowest = |course: &&&Vec<f64>| course[1..].iter().all(|later| *later < course[0]);
    let slowest = courses.iter().filter(is_slowest).count();
    if courses.len() < MIN_ROUNDS || (slowest as f64) < MIN_ROUNDS_SHARE * courses.len() as f64 {
        return None;
    }
    let over = |values: &[f64]| median_over(values, over_points(case, run.plan.alpha));
    let steady_of = |course: &[f64]| median(&course[5..]);
    let early = over(&courses.iter().map(|course| course[0]).collect::<Vec<_>>())?;
    let steady = over(&courses.iter().filter_map(|course| steady_of(course)).collect::<Vec<_>>())?;
    let leaks: Vec<f64> = courses.iter().filter_map(|course| Some(course[0] / steady_of(course)?)).collect();
    let leak = median(&leaks).filter(|leak| leak.is_finite())?;
    let shares = courses.iter().filter_map(|course| {
        let time: f64 = course.iter().sum();
        Some((course[0] - steady_of(course)?) / time)
    });
    let share = median(&shares.collect::<Vec<_>>()).filter(|share| share.is_finite())?;
    if leak < MIN_FIRST_TENTH_RATIO || share < MIN_SHARE {
        return None;
    }
    let firsts =
        rounds.iter().filter_map(|(_, measured)| measured.primary().figures.cold_start).map(|start| start.first_ns);
    let first = over(&firsts.collect::<Vec<_>>());
    // 1 000 messages, or the messages of one second if these are fewer.
    let many = (1e9 / steady.value.max(1.0)).clamp(10.0, 1000.0).round();
    let warm_up = rounds.first().map(|(round, _)| round.order.warm_up);
    let warm_up = if let Some(Extent::Count(messages)) = warm_up { messages } else { 0 };
    let longer = ((warm_up * 4) as f64).max(many);
    let mut experiment = counter_experiment(LONGER_WARM_UP, [case.case.clone()]);
    experiment.repeat.warm_up = Some(Extent::Count(longer as u64));
    let figures = [
        (keys::FIRST_TENTH, Some(early)),
        (keys::LAST_HALF, Some(steady)),
        (keys::TENTH_OVER_HALF, Some(leak.into())),
        (keys::FIRST_MESSAGE, first),
    ];
    Some(Finding {
        evidence: known_evidence(case, figures),
        counter_experiment: Some(experiment),
        ..with_share(&CARD, Severity::Warning, share)
    })
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Samples};

    use super::*;
    use crate::fixture::{Fixture, back_to_back, value};

    /// Findings in six rounds with this warm-up, whose messages in the first tenth take `early` ns.
    fn found(warm_up: &[u64], early: u64) -> Vec<Finding> {
        let measured = [[early; 10].as_slice(), &[10_000; 90]].concat();
        found_in(6, &back_to_back(warm_up, &measured))
    }

    fn found_in(blocks: u32, samples: &Samples) -> Vec<Finding> {
        Fixture::alike(blocks, &Case::ping_pong("tcp"), samples).findings("cold-start")
    }

    #[test]
    fn a_short_warm_up_is_found_with_its_excess() {
        let found = found(&[16_000; 20], 15_000);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        // An excess of 5 us in one of ten tenths, and 105 us in total.
        assert!((found[0].share - 5.0 / 105.0).abs() < 0.001, "{}", found[0].share);
        assert!(value(&found[0], keys::FIRST_TENTH) > 1.25 * value(&found[0], keys::LAST_HALF), "{found:?}");
    }

    #[test]
    fn the_finding_begins_at_the_threshold() {
        assert_eq!(found(&[16_000; 20], 12_400), []);
        assert_eq!(found(&[16_000; 20], 12_600).len(), 1);
    }

    /// The first tenth is slow in most rounds, but another tenth is slower: the path or the machine varies.
    #[test]
    fn varying_tenths_are_no_cold_start() {
        let measured = [[15_000; 10].as_slice(), &[10_000; 20], &[16_000; 10], &[10_000; 60]].concat();
        assert_eq!(found_in(6, &back_to_back(&[], &measured)), []);
        let cold = [[15_000; 10].as_slice(), &[10_000; 90]].concat();
        assert_eq!(found_in(2, &back_to_back(&[], &cold)), [], "two rounds are chance");
    }

    #[test]
    fn a_steady_or_quick_start_and_a_slow_warm_up_are_no_cold_start() {
        assert_eq!(found(&[10_000; 20], 10_000), []);
        assert_eq!(found(&[5_000; 20], 5_000), []);
        // Messages of the warm-up are not in the figures and explain none of them.
        assert_eq!(found(&[[900_000; 1].as_slice(), &[50_000; 19]].concat(), 10_000), []);
    }
}
