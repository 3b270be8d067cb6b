//! Cases of one run compared by their p50, block by block where they share blocks.

use hairpin_model::figure::Figure;
use hairpin_model::summary::{CaseSummary, Comparison, RoundPoint, Verdict};

use super::pairs::pairs;
use super::{as_ratio, by_block, difference_by_block, logarithms_by_block, step_share, verdict, widened};

/// Every comparison that a run calls for: A/A pairs, neighbours on each ladder (same choice of all but the transport),
/// and pairs that differ in one thing, as a counter-experiment does.
///
/// The ratio is exp of the median over blocks of log(candidate / baseline): rounds of one block are neighbours in time,
/// so what drifts with the machine cancels. Where under three quarters of the rounds have a partner, the rounds are
/// compared unpaired (Hodges-Lehmann shift) and `blocks` is 0. Its interval is widened by one step of the histogram.
/// `difference_ns` is that of the p50s, paired in the same way. It has an interval of its own: where most is gone, the
/// ratio is sure and what is gone is as unsure as the baseline. On the side of zero the ratio's verdict bounds it, so
/// that the two never disagree.
#[must_use]
pub fn comparisons(cases: &[CaseSummary], seed: u64) -> Vec<Comparison> {
    pairs(cases)
        .into_iter()
        .filter_map(|(role, baseline, candidate)| {
            let (ratio, blocks) = ratio_of_p50(baseline, candidate, seed)?;
            let verdict = verdict(&ratio);
            Some(Comparison {
                role,
                baseline: baseline.id.clone(),
                candidate: candidate.id.clone(),
                difference_ns: agreeing(difference_of_p50(baseline, candidate, seed)?, verdict),
                verdict,
                ratio,
                blocks,
            })
        })
        .collect()
}

fn difference_of_p50(baseline: &CaseSummary, candidate: &CaseSummary, seed: u64) -> Option<Figure> {
    let p50s = |case: &CaseSummary| by_block(case.round_points.iter().map(|point| (point.block, point.p50_ns)));
    let about = format!("{} {} in ns", baseline.id, candidate.id);
    difference_by_block(&p50s(baseline), &p50s(candidate), seed, &about).map(|(difference, _)| difference)
}

/// The difference, with zero on the side of it where the verdict has it.
fn agreeing(difference: Figure, verdict: Verdict) -> Figure {
    let Figure { value, low, high } = difference;
    match verdict {
        Verdict::Faster => {
            Figure { value: value.min(0.0), low: low.map(|low| low.min(0.0)), high: high.map(|high| high.min(0.0)) }
        }
        Verdict::Slower => {
            Figure { value: value.max(0.0), low: low.map(|low| low.max(0.0)), high: high.map(|high| high.max(0.0)) }
        }
        Verdict::CannotTell => {
            Figure { value, low: low.map(|low| low.min(0.0)), high: high.map(|high| high.max(0.0)) }
        }
    }
}

fn ratio_of_p50(baseline: &CaseSummary, candidate: &CaseSummary, seed: u64) -> Option<(Figure, u64)> {
    let step = step_share(baseline.latency_ns.p50?.value.min(candidate.latency_ns.p50?.value));
    ratio_of(baseline, candidate, |point| point.p50_ns.max(1.0), step, seed)
}

/// candidate / baseline of what `of` reads from their rounds, and how many blocks it rests on; `step` is the share
/// below which no difference can be told.
fn ratio_of(
    baseline: &CaseSummary,
    candidate: &CaseSummary,
    of: fn(&RoundPoint) -> f64,
    step: f64,
    seed: u64,
) -> Option<(Figure, u64)> {
    let by_block = |case: &CaseSummary| {
        logarithms_by_block(case.round_points.iter().map(|point| (point.block, of(point).max(f64::MIN_POSITIVE))))
    };
    let about = format!("{} {}", baseline.id, candidate.id);
    let (difference, blocks) = difference_by_block(&by_block(baseline), &by_block(candidate), seed, &about)?;
    Some((as_ratio(&widened(difference, step)), blocks))
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;
    use hairpin_model::summary::{Role, Verdict};

    use super::*;
    use crate::made_up::{MadeUp, back_to_back};

    fn compared(baseline: &[u64], candidate: &[u64]) -> Comparison {
        let case = Case::ping_pong("tcp");
        let mut made_up = MadeUp::new();
        made_up.rounds_of(&case, baseline);
        made_up.rounds_of(&Case { twin: 1, ..case }, candidate);
        let all = made_up.run().comparisons;
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].role, Role::AgainstItself);
        all.into_iter().next().unwrap()
    }

    #[test]
    fn drift_that_both_share_cancels_within_blocks() {
        let drifting: Vec<u64> = (0..10).map(|block| 10_000 + 2_000 * block).collect();
        let slower: Vec<u64> = drifting.iter().map(|latency| latency * 11 / 10).collect();
        let comparison = compared(&drifting, &slower);
        assert_eq!((comparison.verdict, comparison.blocks), (Verdict::Slower, 10));
        assert!((comparison.ratio.value - 1.1).abs() < 0.001, "{comparison:?}");
        assert_eq!(compared(&slower, &drifting).verdict, Verdict::Faster);
    }

    #[test]
    fn a_step_of_the_clock_is_no_difference() {
        assert_eq!(compared(&[140; 10], &[141; 10]).verdict, Verdict::CannotTell);
        assert_eq!(compared(&[140; 10], &[143; 10]).verdict, Verdict::Slower);
        assert_eq!(compared(&[66_000; 10], &[66_000; 10]).verdict, Verdict::CannotTell);
    }

    #[test]
    fn one_round_of_each_cannot_tell() {
        let comparison = compared(&[1_000], &[9_000]);
        assert_eq!((comparison.verdict, comparison.ratio.low), (Verdict::CannotTell, None));
    }

    #[test]
    fn rounds_that_differ_a_thousand_times_have_no_interval_to_print() {
        let comparison = compared(&[1_000; 3], &[100_000, 900, 10]);
        assert_eq!((comparison.verdict, comparison.ratio.low), (Verdict::CannotTell, None));
        let two = compared(&[1_000; 2], &[3_000; 2]);
        assert_eq!((two.verdict, two.ratio.low, two.difference_ns.high), (Verdict::CannotTell, None, None));
    }

    #[test]
    fn rounds_without_partners_are_compared_unpaired() {
        let case = Case::ping_pong("tcp");
        let mut made_up = MadeUp::new();
        for block in 0..8 {
            let jitter = u64::from(block) * 20;
            made_up.round(&case, block, &back_to_back(&[], &[10_000 + jitter; 50]));
            made_up.round(&Case { twin: 1, ..case.clone() }, block + 100, &back_to_back(&[], &[12_000 + jitter; 50]));
        }
        let comparison = made_up.run().comparisons.remove(0);
        assert_eq!((comparison.verdict, comparison.blocks), (Verdict::Slower, 0));
    }

    #[test]
    fn a_ladder_has_neighbours_from_fast_to_slow_and_invalid_cases_stand_on_none() {
        let mut made_up = MadeUp::new();
        made_up.rounds_of(&Case::ping_pong("tcp"), &[13_000; 6]);
        made_up.rounds_of(&Case::ping_pong("pipe"), &[5_000; 6]);
        made_up.rounds_of(&Case::ping_pong("udp"), &[10_000; 6]);
        made_up.failed(&Case::ping_pong("icmp"), 0, "no permission");
        let run = made_up.run();
        let name = |id: &str| run.case(id).unwrap().case.transport.clone();
        let pairs: Vec<_> =
            run.comparisons.iter().map(|pair| (name(&pair.baseline), name(&pair.candidate))).collect();
        let expected = [("pipe", "udp"), ("udp", "tcp")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(pairs, expected);
        assert!(run.comparisons.iter().all(|pair| pair.role == Role::Neighbours && pair.verdict == Verdict::Slower));
    }
}
