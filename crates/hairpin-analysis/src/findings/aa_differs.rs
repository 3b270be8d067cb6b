//! `aa-differs`: two measurements of a case were called different.
//!
//! By chance, one pair in twenty is called different (95 % interval), so several pairs are a problem only if more of them
//! differ than chance explains.

use hairpin_model::finding::{About, Severity};
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{Comparison, Finding, FindingCard, Run, finding_keys as keys};

use super::support::{blank, evidence, longer_run};

pub(super) const CARD: FindingCard = FindingCard {
    code: "aa-differs",
    about: About::Run,
    what: "two measurements of the same case differ",
    why: "if two measurements of one case differ, differences between cases are unreliable: trust no winner \
          in this run",
};

/// Probability that a pair is called different by chance: outside a 95 % interval.
const BY_CHANCE: f64 = 0.05;

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let pairs: Vec<&Comparison> = run.comparisons.iter().filter(|pair| pair.role == Role::AgainstItself).collect();
    let mut different: Vec<_> = pairs.iter().filter(|pair| pair.verdict != Verdict::CannotTell).collect();
    different.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    let Some(worst) = different.first() else { return Vec::new() };
    let Some(case) = run.case(&worst.baseline) else { return Vec::new() };
    let chance = chance_of_at_least(different.len(), pairs.len());
    let severity = if chance > BY_CHANCE + 1e-9 { Severity::Warning } else { Severity::Problem };
    let mut experiment = longer_run(&case.case);
    experiment.repeat.cases.iter_mut().for_each(|case| case.replicate = 1);
    let finding = Finding {
        cases: different.iter().flat_map(|pair| [pair.baseline.clone(), pair.candidate.clone()]).collect(),
        evidence: vec![evidence(keys::AA_RATIO, worst.ratio), evidence(keys::AA_CHANCE, chance)],
        counter_experiment: Some(experiment),
        share: distance(worst).min(1.0),
        ..blank(&CARD, severity)
    };
    let counts = [(keys::AA_DIFFERENT, different.len()), (keys::AA_PAIRS, pairs.len())];
    let finding = counts.into_iter().fold(finding, |finding, (key, count)| finding.with(key, count as f64));
    vec![finding.with(keys::VERDICT, worst.verdict.word())]
}

fn distance(pair: &Comparison) -> f64 {
    (pair.ratio.value - 1.0).abs()
}

/// Returns the probability that at least `called` of `pairs` identical pairs are called different (a binomial tail).
fn chance_of_at_least(called: usize, pairs: usize) -> f64 {
    let mut probability = (1.0 - BY_CHANCE).powi(i32::try_from(pairs).unwrap_or(i32::MAX));
    let mut fewer = 0.0;
    for k in 0..called {
        fewer += probability;
        probability *= (pairs - k) as f64 / (k + 1) as f64 * BY_CHANCE / (1.0 - BY_CHANCE);
    }
    (1.0 - fewer).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;

    use super::*;
    use crate::fixture::{Fixture, repeated, shows, value};

    fn pair(fixture: &mut Fixture, size: u64, baseline: &[u64], again: &[u64]) {
        let case = Case::ping_pong("tcp").with(|changed| changed.primary_mut().load.set_sizes(size, size));
        fixture.rounds_of(&case, baseline);
        fixture.rounds_of(&case.with(|changed| changed.replicate = 1), again);
    }

    #[test]
    fn a_pair_that_differs_is_a_problem() {
        let mut fixture = Fixture::new();
        pair(&mut fixture, 4, &[10_000, 10_100, 9_900, 10_050, 9_950, 10_000], &[11_000; 6]);
        let found = fixture.findings("aa-differs");
        assert_eq!((found.len(), found[0].severity, found[0].cases.len()), (1, Severity::Problem, 2));
        assert_eq!(found[0].cases[0], Case::ping_pong("tcp").id());
        assert_eq!(found[0].word(keys::VERDICT), Some("slower"));
        assert!(shows(&found[0], keys::AA_RATIO, 1.1), "{found:?}");
        assert_eq!([keys::AA_DIFFERENT, keys::AA_PAIRS].map(|key| value(&found[0], key)), [1.0, 1.0]);
        let again = Case::ping_pong("tcp").with(|changed| changed.replicate = 1);
        assert_eq!(repeated(&found[0]), [again], "the pair is measured again");
    }

    #[test]
    fn a_pair_without_a_difference_is_not_a_finding() {
        let mut fixture = Fixture::new();
        let again = [10_020, 9_900, 10_080, 10_000, 9_970, 10_010];
        pair(&mut fixture, 4, &[10_000, 10_100, 9_900, 10_050, 9_950, 10_000], &again);
        assert_eq!(fixture.findings("aa-differs"), []);
    }

    #[test]
    fn cases_that_differ_in_anything_else_are_no_pair() {
        let [tcp, udp] = ["tcp", "udp"].map(Case::ping_pong);
        let larger = tcp.clone().with(|changed| changed.primary_mut().load.set_sizes(400, 4));
        let fixture = Fixture::of(&[(&tcp, &[10_000; 6]), (&udp, &[30_000; 6]), (&larger, &[20_000; 6])]);
        assert_eq!(fixture.findings("aa-differs"), []);
    }

    /// The less likely by chance, the more severe: a probability of one in twenty or less is a problem.
    #[test]
    fn at_the_threshold_of_chance_a_warning_becomes_a_problem() {
        let severity = |pairs: u64| {
            let mut fixture = Fixture::new();
            pair(&mut fixture, 4, &[10_000; 6], &[11_000; 6]);
            (1..pairs).for_each(|size| pair(&mut fixture, 9 + size, &[10_000; 6], &[10_000; 6]));
            fixture.findings("aa-differs")[0].severity
        };
        assert_eq!([1, 2, 20].map(severity), [Severity::Problem, Severity::Warning, Severity::Warning]);
        // 1 - 0.95^20.
        assert!((chance_of_at_least(1, 20) - 0.641_514).abs() < 1e-6);
    }
}
