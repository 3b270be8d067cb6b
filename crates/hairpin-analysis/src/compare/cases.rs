//! Compares cases of one run, paired by block if they share blocks.

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{CaseSummary, Comparison, Figure, RoundPoint, TailComparison, ladder};

use super::pairs::{Pair, pairs};
use super::runs::Change;
use super::{by_block, difference_by_block, logarithms_by_block, over_points, resolution_share, verdict};
use crate::statistics::interval::holm;

/// Compares all pairs of a run: A/A pairs, neighbours on each ladder (equal except for the transport), and pairs that
/// differ in one thing, such as a counter-experiment. [`ladder::compared_by`] lists the compared figures.
///
/// The ratio is exp of the median over blocks of log(candidate / baseline). Rounds of one block are close in time and
/// see the same state of the machine, so changes of the state cancel out. If less than three quarters of the rounds
/// have a partner, the medians of all rounds are compared and `blocks` is 0. Latency differences below one step of
/// the histogram do not count.
///
/// The verdicts on neighbours, over all their figures, form one family and are corrected by Holm's method. The other
/// pairs are not corrected, because each tests its own hypothesis.
///
/// `difference_ns` is the difference of the p50s, paired in the same way. The difference has its own interval: if
/// most of the latency is saved, the ratio is precise, but the difference is as uncertain as the baseline. The
/// interval is limited at zero so that it never contradicts the verdict on the ratio.
pub fn comparisons(cases: &[CaseSummary], alpha: f64) -> Vec<Comparison> {
    let mut compared: Vec<Compared<'_>> =
        pairs(cases).into_iter().filter_map(|pair| Compared::new(pair, alpha)).collect();
    let mut ranked: Vec<&mut Changed> = compared
        .iter_mut()
        .filter(|compared| compared.pair.0 == Role::Neighbours)
        .flat_map(|compared| compared.changes.iter_mut())
        .collect();
    let p_values: Vec<f64> = ranked.iter().map(|changed| changed.p_value).collect();
    for (changed, level) in ranked.iter_mut().zip(holm(&p_values, alpha)) {
        changed.is_significant = changed.p_value <= level;
    }
    compared.iter().filter_map(|compared| compared.comparison(alpha)).collect()
}

/// A pair of cases with each figure that both cases have; the judged figure is first.
struct Compared<'c> {
    pair: Pair<'c>,
    changes: Vec<Changed>,
    blocks: u64,
}

struct Changed {
    figure: ComparedBy,
    change: Change,
    p_value: f64,
    is_significant: bool,
    is_significant_alone: bool,
}

impl Changed {
    fn verdict(&self) -> Verdict {
        verdict(self.figure, self.change.logarithm.value, self.is_significant)
    }

    fn pointwise(&self) -> Verdict {
        verdict(self.figure, self.change.logarithm.value, self.is_significant_alone)
    }
}

impl<'c> Compared<'c> {
    fn new(pair: Pair<'c>, alpha: f64) -> Option<Self> {
        let (judged_by, tails) = ladder::compared_by(&[pair.1, pair.2]).split_first()?;
        let (judged, blocks) = compare_figure(&pair, *judged_by, alpha)?;
        let tails = tails.iter().filter_map(|tail| Some(compare_figure(&pair, *tail, alpha)?.0));
        Some(Self { changes: std::iter::once(judged).chain(tails).collect(), blocks, pair })
    }

    fn comparison(&self, alpha: f64) -> Option<Comparison> {
        let (role, baseline, candidate) = self.pair;
        let (judged, tails) = self.changes.split_first()?;
        let tail = |changed: &Changed| TailComparison {
            figure: changed.figure,
            ratio: changed.change.ratio(),
            verdict: changed.verdict(),
            pointwise: changed.pointwise(),
        };
        let difference_ns = match judged.figure {
            ComparedBy::P50 => Some(limit_at_zero(difference_of_p50(baseline, candidate, alpha)?, judged.verdict())),
            _ => None,
        };
        Some(Comparison {
            role,
            baseline: baseline.id.clone(),
            candidate: candidate.id.clone(),
            figure: judged.figure,
            ratio: judged.change.ratio(),
            difference_ns,
            verdict: judged.verdict(),
            pointwise: judged.pointwise(),
            tails: tails.iter().map(tail).collect(),
            blocks: self.blocks,
        })
    }
}

pub(crate) fn pointwise(baseline: &CaseSummary, candidate: &CaseSummary, alpha: f64) -> Verdict {
    let judged = ladder::compared_by(&[baseline, candidate]).first();
    judged.map_or(Verdict::CannotTell, |figure| pointwise_by(*figure, baseline, candidate, alpha))
}

pub(crate) fn pointwise_by(
    figure: ComparedBy,
    baseline: &CaseSummary,
    candidate: &CaseSummary,
    alpha: f64,
) -> Verdict {
    let found = compare_figure(&(Role::CounterExperiment, baseline, candidate), figure, alpha);
    found.map_or(Verdict::CannotTell, |(changed, _)| changed.pointwise())
}

/// Compares one figure of a pair, and returns the number of paired blocks; `None` if a case lacks the figure.
fn compare_figure((_, baseline, candidate): &Pair<'_>, figure: ComparedBy, alpha: f64) -> Option<(Changed, u64)> {
    let (one, other) = (baseline.compared(figure)?, candidate.compared(figure)?);
    let step = resolution_share(figure, one.value.min(other.value));
    let by_block = |case: &CaseSummary| {
        let of_rounds = case.round_points.iter().filter_map(|point| Some((point.block, point.compared(figure)?)));
        logarithms_by_block(of_rounds)
    };
    let over = over_points(baseline, alpha);
    let (logarithm, blocks) = difference_by_block(&by_block(baseline), &by_block(candidate), over)?;
    let p_value = logarithm.p_value(step);
    let (is_significant, change) = (p_value <= alpha, Change { logarithm, step, alpha });
    Some((Changed { figure, change, p_value, is_significant, is_significant_alone: is_significant }, blocks))
}

fn difference_of_p50(baseline: &CaseSummary, candidate: &CaseSummary, alpha: f64) -> Option<Figure> {
    let p50 = |point: &RoundPoint| Some((point.block, point.compared(ComparedBy::P50)?));
    let p50s = |case: &CaseSummary| by_block(case.round_points.iter().filter_map(p50));
    let (difference, _) = difference_by_block(&p50s(baseline), &p50s(candidate), over_points(baseline, alpha))?;
    Some(difference.figure(alpha))
}

/// Limits the interval of the difference at zero so that it agrees with the verdict.
fn limit_at_zero(difference: Figure, verdict: Verdict) -> Figure {
    match verdict {
        Verdict::Faster => difference.rising(|bound| bound.min(0.0)),
        Verdict::Slower => difference.rising(|bound| bound.max(0.0)),
        Verdict::CannotTell | Verdict::Unlike => {
            let Figure { low, high, .. } = difference;
            Figure { low: low.map(|low| low.min(0.0)), high: high.map(|high| high.max(0.0)), ..difference }
        }
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;
    use hairpin_model::summary::{Role, Verdict};

    use super::*;
    use crate::fixture::{Fixture, back_to_back};

    fn compared(baseline: &[u64], candidate: &[u64]) -> Comparison {
        let case = Case::ping_pong("tcp");
        let again = case.clone().with(|changed| changed.replicate = 1);
        let mut all = Fixture::of(&[(&case, baseline), (&again, candidate)]).run().comparisons;
        assert_eq!((all.len(), all[0].role), (1, Role::AgainstItself));
        all.remove(0)
    }

    #[test]
    fn drift_of_both_cases_cancels_within_blocks() {
        let drifting: Vec<u64> = (0..10).map(|block| 10_000 + 2_000 * block).collect();
        let slower: Vec<u64> = drifting.iter().map(|latency| latency * 11 / 10).collect();
        let comparison = compared(&drifting, &slower);
        assert_eq!((comparison.verdict, comparison.blocks), (Verdict::Slower, 10));
        assert!((comparison.ratio.value - 1.1).abs() < 0.001, "{comparison:?}");
        assert_eq!(compared(&slower, &drifting).verdict, Verdict::Faster);
    }

    #[test]
    fn a_step_of_the_clock_is_not_a_difference() {
        assert_eq!(compared(&[140; 10], &[141; 10]).verdict, Verdict::CannotTell);
        assert_eq!(compared(&[140; 10], &[143; 10]).verdict, Verdict::Slower);
        assert_eq!(compared(&[66_000; 10], &[66_000; 10]).verdict, Verdict::CannotTell);
    }

    #[test]
    fn one_round_of_each_gives_no_verdict() {
        let comparison = compared(&[1_000], &[9_000]);
        assert_eq!((comparison.verdict, comparison.ratio.low), (Verdict::CannotTell, None));
    }

    #[test]
    fn rounds_that_differ_by_a_factor_of_a_thousand_have_no_interval() {
        let comparison = compared(&[1_000; 3], &[100_000, 900, 10]);
        assert_eq!((comparison.verdict, comparison.ratio.low), (Verdict::CannotTell, None));
        let two = compared(&[1_000; 2], &[3_000; 2]);
        assert_eq!((two.verdict, two.ratio.low, two.difference_ns.unwrap().high), (Verdict::CannotTell, None, None));
    }

    #[test]
    fn rounds_without_partners_are_compared_unpaired() {
        let case = Case::ping_pong("tcp");
        let again = case.clone().with(|changed| changed.replicate = 1);
        let mut fixture = Fixture::new();
        for block in 0..8 {
            let jitter = u64::from(block) * 20;
            fixture.round(&case, block, &back_to_back(&[], &[10_000 + jitter; 50]));
            fixture.round(&again, block + 100, &back_to_back(&[], &[12_000 + jitter; 50]));
        }
        let comparison = fixture.run().comparisons.remove(0);
        assert_eq!((comparison.verdict, comparison.blocks), (Verdict::Slower, 0));
    }

    /// A quick run has five blocks, and over a link one round of each case may be omitted.
    #[test]
    fn four_rounds_of_each_suffice_for_a_plain_verdict() {
        let compared = |latencies: [u64; 2], left_out: [u32; 2]| {
            let case = Case::ping_pong("tcp");
            let mut fixture = Fixture::new();
            let sides = [case.clone(), case.with(|changed| changed.replicate = 1)];
            for (side, (latency, out)) in sides.iter().zip(latencies.into_iter().zip(left_out)) {
                for block in (0..5).filter(|block| *block != out) {
                    // One case becomes slower, the other faster.
                    let step = u64::from(if side.replicate == 0 { block } else { 5 - block });
                    fixture.round(side, block, &back_to_back(&[], &[latency + step * latency / 100; 50]));
                }
            }
            let comparison = fixture.run().comparisons.remove(0);
            (comparison.verdict, comparison.blocks, comparison.ratio.low)
        };
        assert_eq!(compared([52_000_000, 4_290_000], [2, 2]), (Verdict::Faster, 4, None));
        assert_eq!(compared([52_000_000, 4_290_000], [2, 3]), (Verdict::Faster, 0, None), "three blocks in common");
        assert_eq!(compared([52_000_000, 51_900_000], [2, 2]).0, Verdict::CannotTell);
    }

    #[test]
    fn a_ladder_is_ordered_from_fast_to_slow_and_has_no_invalid_cases() {
        let [tcp, pipe, udp] = ["tcp", "pipe", "udp"].map(Case::ping_pong);
        let mut fixture = Fixture::of(&[(&tcp, &[13_000; 6]), (&pipe, &[5_000; 6]), (&udp, &[10_000; 6])]);
        fixture.failed(&Case::ping_pong("icmp"), 0, "no permission");
        let run = fixture.run();
        let name = |id: &str| run.case(id).unwrap().case.primary().transport.clone();
        let pairs: Vec<_> =
            run.comparisons.iter().map(|pair| (name(&pair.baseline), name(&pair.candidate))).collect();
        let expected = [("pipe", "udp"), ("udp", "tcp")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(pairs, expected);
        assert!(run.comparisons.iter().all(|pair| pair.role == Role::Neighbours && pair.verdict == Verdict::Slower));
    }
}
