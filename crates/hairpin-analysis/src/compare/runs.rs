//! Two runs compared, case by case, unpaired: rounds of different runs are no neighbours in time.

use std::collections::BTreeMap;

use hairpin_model::figure::Figure;
use hairpin_model::round::{Measured, RoundRecord};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Verdict};
use hairpin_model::words;
use serde::Serialize;

use super::keys::{DifferentLinks, Keys};
use super::{as_ratio, step_share, verdict, widened};
use crate::counted;
use crate::statistics::interval::ratio_of_medians;

words! {
    /// A figure that two runs are compared by.
    pub enum Compared: "figure" {
        /// Median latency.
        P50 = "p50",
        /// 90th percentile.
        P90 = "p90",
        /// 99th percentile.
        P99 = "p99",
        /// 99.9th percentile.
        P999 = "p999",
        /// Mean latency.
        Mean = "mean",
        /// Answers a second: more is better.
        Rate = "rate",
    }
}

/// Two runs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunComparison {
    /// The links where the two runs went over different ones; null where a case of both went over one and the same.
    pub links: Option<DifferentLinks>,
    /// Cases that both runs have, in the baseline's order.
    pub cases: Vec<CaseComparison>,
    /// Labels of cases that only the baseline has.
    pub only_in_baseline: Vec<String>,
    /// Labels of cases that only the candidate has.
    pub only_in_candidate: Vec<String>,
}

/// One case in two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseComparison {
    /// Its identity in the baseline.
    pub id: String,
    /// The case in words; without its link where that is not the same in both runs.
    pub label: String,
    /// Why the baseline's figures must not be used, one reason each; empty where they may.
    pub baseline_why_invalid: Vec<String>,
    /// The same of the candidate's.
    pub candidate_why_invalid: Vec<String>,
    /// Its figures, in the order of [`Compared::ALL`].
    pub figures: Vec<FigureComparison>,
}

impl CaseComparison {
    /// Whether the figures of both runs may be used. No verdict is spoken of others.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.baseline_why_invalid.is_empty() && self.candidate_why_invalid.is_empty()
    }
}

/// One figure of one case in two runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FigureComparison {
    /// Which figure.
    pub figure: Compared,
    /// In the baseline, the median over its rounds; null where its samples do not suffice.
    pub baseline: Option<Figure>,
    /// In the candidate.
    pub candidate: Option<Figure>,
    /// candidate / baseline of these two with its 95 % interval (unpaired, over rounds); null where either is.
    pub ratio: Option<Figure>,
    /// Faster (for the rate: higher), slower, or cannot tell, as always where the case is invalid in either.
    pub verdict: Verdict,
}

/// Compares the cases that two runs have in common by their rounds (`rounds` must be filled in; without them only p50,
/// p99 and the rate are compared, from the summaries' own points).
///
/// The interval holds what differs between rounds, and not what differs between two runs for reasons of their own
/// (memory layout, a neighbour on the host): repeat both runs before you trust a small difference.
#[must_use]
pub fn compare_runs(baseline: &Run, candidate: &Run, seed: u64) -> RunComparison {
    let keys = Keys::of(baseline, candidate);
    let [by_key, candidate_by_key] = [baseline, candidate]
        .map(|run| run.cases.iter().map(|case| (keys.key(case), case)).collect::<BTreeMap<String, &CaseSummary>>());
    let only = |of: &Run, other: &BTreeMap<String, &CaseSummary>| {
        let alone = of.cases.iter().filter(|case| !other.contains_key(&keys.key(case)));
        alone.map(|case| case.label.clone()).collect()
    };
    let (one, other) = (counted_by_case(baseline), counted_by_case(candidate));
    let both = baseline.cases.iter().filter_map(|case| Some((case, *candidate_by_key.get(&keys.key(case))?)));
    RunComparison {
        cases: both
            .map(|(a, b)| {
                let one = Side { summary: a, rounds: one.get(a.id.as_str()).map_or(&[], Vec::as_slice) };
                let other = Side { summary: b, rounds: other.get(b.id.as_str()).map_or(&[], Vec::as_slice) };
                CaseComparison { label: keys.label(a), ..compare_case(&one, &other, seed) }
            })
            .collect(),
        only_in_baseline: only(baseline, &candidate_by_key),
        only_in_candidate: only(candidate, &by_key),
        links: keys.links,
    }
}

fn counted_by_case<'r>(run: &'r Run) -> BTreeMap<&'r str, Vec<&'r Measured>> {
    let mut by_case: BTreeMap<&str, Vec<&RoundRecord>> = BTreeMap::new();
    for round in &run.rounds {
        by_case.entry(&round.case_id).or_default().push(round);
    }
    let counted = |(id, rounds): (&'r str, Vec<&'r RoundRecord>)| {
        (id, counted::timed(rounds.into_iter()).into_iter().map(|(_, measured)| measured).collect())
    };
    by_case.into_iter().map(counted).collect()
}

/// A case in one of the runs.
struct Side<'r> {
    summary: &'r CaseSummary,
    rounds: &'r [&'r Measured],
}

impl Side<'_> {
    fn figure(&self, which: Compared) -> Option<Figure> {
        let latency = &self.summary.latency_ns;
        match which {
            Compared::P50 => latency.p50,
            Compared::P90 => latency.p90,
            Compared::P99 => latency.p99,
            Compared::P999 => latency.p999,
            Compared::Mean => latency.mean,
            Compared::Rate => self.summary.rate_per_s,
        }
    }

    fn why_invalid(&self) -> Vec<String> {
        match (self.summary.valid, self.summary.why_invalid.as_slice()) {
            (true, _) => Vec::new(),
            (false, []) => vec!["no reason was recorded".to_owned()],
            (false, reasons) => reasons.to_vec(),
        }
    }

    fn of_rounds(&self, which: Compared) -> Vec<f64> {
        if self.rounds.is_empty() {
            let points = self.summary.round_points.iter();
            match which {
                Compared::P50 => points.map(|point| point.p50_ns).collect(),
                Compared::P99 => points.map(|point| point.p99_ns).collect(),
                Compared::Rate => points.map(|point| point.rate_per_s).collect(),
                Compared::P90 | Compared::P999 | Compared::Mean => Vec::new(),
            }
        } else {
            // A round without an answer has percentiles of nothing.
            let answered = |measured: &&&Measured| which == Compared::Rate || measured.figures.samples > 0;
            self.rounds.iter().filter(answered).map(|measured| of_round(measured, which)).collect()
        }
    }
}

fn of_round(measured: &Measured, which: Compared) -> f64 {
    let latency = &measured.figures.latency_ns;
    match which {
        Compared::P50 => latency.p50,
        Compared::P90 => latency.p90,
        Compared::P99 => latency.p99,
        Compared::P999 => latency.p999,
        Compared::Mean => latency.mean,
        Compared::Rate => measured.figures.rate_per_s,
    }
}

fn compare_case(baseline: &Side<'_>, candidate: &Side<'_>, seed: u64) -> CaseComparison {
    let valid = baseline.summary.valid && candidate.summary.valid;
    let compared = |figure: &Compared| {
        let (one, other) = (baseline.figure(*figure), candidate.figure(*figure));
        let ratio = one.zip(other).and_then(|(one, other)| {
            let about = format!("{} {figure}", baseline.summary.id);
            let ratio = ratio_of_medians(&baseline.of_rounds(*figure), &candidate.of_rounds(*figure), seed, &about)?;
            let step = if *figure == Compared::Rate { 0.0 } else { step_share(one.value.min(other.value)) };
            Some(as_ratio(&widened(ratio, step)))
        });
        let verdict = ratio.filter(|_| valid).map_or(Verdict::CannotTell, |ratio| match (figure, verdict(&ratio)) {
            (Compared::Rate, Verdict::Slower) => Verdict::Faster,
            (Compared::Rate, Verdict::Faster) => Verdict::Slower,
            (_, verdict) => verdict,
        });
        FigureComparison { figure: *figure, baseline: one, candidate: other, ratio, verdict }
    };
    CaseComparison {
        id: baseline.summary.id.clone(),
        label: baseline.summary.label.clone(),
        baseline_why_invalid: baseline.why_invalid(),
        candidate_why_invalid: candidate.why_invalid(),
        figures: Compared::ALL.iter().map(compared).collect(),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;

    use super::*;
    use crate::made_up::MadeUp;

    fn run(latencies: &[u64], transports: &[&str]) -> Run {
        let mut made_up = MadeUp::new();
        for transport in transports {
            made_up.rounds_of(&Case::ping_pong(transport), latencies);
        }
        made_up.run()
    }

    #[test]
    fn a_slower_run_is_called_slower_and_its_rate_too() {
        let latencies: Vec<u64> = (0..10).map(|k| 10_000 + 50 * k).collect();
        let slower: Vec<u64> = latencies.iter().map(|latency| latency * 6 / 5).collect();
        let compared = compare_runs(&run(&latencies, &["tcp", "udp"]), &run(&slower, &["tcp", "pipe"]), 1);
        assert_eq!(compared.only_in_baseline, ["udp block together"]);
        assert_eq!(compared.only_in_candidate, ["pipe block together"]);
        assert_eq!(compared.cases.len(), 1);
        let figures = &compared.cases[0].figures;
        let verdicts: Vec<_> = figures.iter().map(|figure| (figure.figure.word(), figure.verdict)).collect();
        let (slower, dash) = (Verdict::Slower, Verdict::CannotTell);
        // 10 rounds of 100 messages are 1 000 samples: enough for a p99, not for a p99.9.
        let expected =
            [("p50", slower), ("p90", slower), ("p99", slower), ("p999", dash), ("mean", slower), ("rate", slower)];
        assert_eq!(verdicts, expected);
        assert!((figures[0].ratio.unwrap().value - 1.2).abs() < 0.003);
        assert_eq!(figures[3].ratio, None);
    }

    #[test]
    fn the_change_is_that_between_the_figures_shown() {
        // Of two modes, as on a machine that is busy now and then: other estimates of the shift lie elsewhere.
        let fast = |k: u64| 1_000_000 + 1_000 * k;
        let slow = |k: u64| 2_500_000 + 1_000 * k;
        let one: Vec<u64> = (0..6).map(fast).chain((0..4).map(slow)).collect();
        let other: Vec<u64> = (0..4).map(fast).chain((0..6).map(slow)).collect();
        for figure in &compare_runs(&run(&one, &["tcp"]), &run(&other, &["tcp"]), 1).cases[0].figures {
            let Some(ratio) = figure.ratio else { continue };
            let shown = figure.candidate.unwrap().value / figure.baseline.unwrap().value;
            assert!((ratio.value / shown - 1.0).abs() < 1e-9, "{figure:?}");
            assert_eq!(figure.verdict, Verdict::CannotTell, "{figure:?}");
        }
    }

    #[test]
    fn figures_that_must_not_be_used_have_no_verdict_and_their_side_is_named() {
        let fine = run(&[10_000; 6], &["tcp"]);
        let mut spoiled = run(&[20_000; 6], &["tcp"]);
        spoiled.cases[0].valid = false;
        let compared = |one: &Run, other: &Run| compare_runs(one, other, 1).cases.remove(0);
        let case = compared(&spoiled, &fine);
        assert_eq!((case.is_valid(), case.candidate_why_invalid.len()), (false, 0));
        assert_eq!(case.baseline_why_invalid, ["no reason was recorded"]);
        assert!(case.figures[0].ratio.is_some(), "what was measured is still shown");
        assert!(case.figures.iter().all(|figure| figure.verdict == Verdict::CannotTell), "{case:?}");
        spoiled.cases[0].why_invalid = vec!["the relay was late".to_owned()];
        assert_eq!(compared(&fine, &spoiled).candidate_why_invalid, ["the relay was late"]);
        assert!(compared(&fine, &fine).is_valid());
    }

    #[test]
    fn without_rounds_the_points_of_the_summaries_serve() {
        let mut one = run(&[10_000, 10_100, 10_200, 10_300, 10_400, 10_500], &["tcp"]);
        one.rounds.clear();
        let compared = compare_runs(&one, &one.clone(), 1);
        let told: Vec<bool> = compared.cases[0].figures.iter().map(|figure| figure.ratio.is_some()).collect();
        assert_eq!(told, [true, false, false, false, false, true], "600 samples have no p99");
        assert_eq!(compared.cases[0].figures[0].verdict, Verdict::CannotTell);
    }
}
