//! Comparisons of cases of one run, and of two runs.

pub mod budget;
pub mod cases;
mod choices;
mod keys;
mod pairs;
pub mod runs;
pub mod unlike;

use std::collections::BTreeMap;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::figure::NoInterval;
use hairpin_model::summary::Verdict;
use hairpin_model::{CaseSummary, Figure};

use crate::statistics::interval::{Estimate, MIN_ROUNDS_FOR_VERDICT, Over, SAYS_NOTHING_FROM, span_s};
use crate::statistics::location::median;

/// Twice half a step of the histogram of a latency, relative to the latency: smaller differences are not resolved,
/// however similar the rounds. Buckets are 1 ns wide below 2 048 ns, and 1/1024 of a power of two above.
pub(crate) fn step_share(latency_ns: f64) -> f64 {
    let power = latency_ns.max(1.0).log2().floor() - 10.0;
    power.max(0.0).exp2() / latency_ns.max(1.0)
}

/// The value of each block, or the median if a block has several rounds.
pub(crate) fn by_block(values: impl Iterator<Item = (u32, f64)>) -> BTreeMap<u32, f64> {
    let mut by_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (block, value) in values {
        by_block.entry(block).or_default().push(value);
    }
    by_block.into_iter().filter_map(|(block, values)| median(&values).map(|median| (block, median))).collect()
}

pub(crate) fn logarithms_by_block(values: impl Iterator<Item = (u32, f64)>) -> BTreeMap<u32, f64> {
    by_block(values.map(|(block, value)| (block, value.ln())))
}

/// candidate - baseline (for logarithms: that of the ratio), and the number of paired blocks: the median over blocks
/// that both have. If less than three quarters of the blocks have a partner, or too few for a verdict although all
/// would suffice, the difference of the medians of all (and 0 blocks).
pub(crate) fn difference_by_block(
    baseline: &BTreeMap<u32, f64>,
    candidate: &BTreeMap<u32, f64>,
    over: Over,
) -> Option<(Estimate, u64)> {
    let differences: Vec<f64> =
        baseline.iter().filter_map(|(block, value)| candidate.get(block).map(|other| other - value)).collect();
    let rounds = baseline.len().min(candidate.len());
    let suffice = differences.len() >= MIN_ROUNDS_FOR_VERDICT || rounds < MIN_ROUNDS_FOR_VERDICT;
    if !differences.is_empty() && 4 * differences.len() >= 3 * rounds && suffice {
        return Some((Estimate::of(&differences, over)?, differences.len() as u64));
    }
    let median = |by_block: &BTreeMap<u32, f64>| Estimate::of(&by_block.values().copied().collect::<Vec<_>>(), over);
    Some((median(candidate)?.less(&median(baseline)?), 0))
}

/// The parameters of an interval over the rounds of a case.
pub(crate) fn over_points(case: &CaseSummary, alpha: f64) -> Over {
    Over { alpha, ..Over::seconds(span_s(case.round_points.iter().map(|point| point.started_ns))) }
}

/// A difference of logarithms as a ratio. An interval that contains 1 and whose bounds differ by more than a factor of
/// 100 is omitted.
pub(crate) fn as_ratio(logarithm: Figure) -> Figure {
    match (logarithm.low, logarithm.high) {
        (Some(low), Some(high)) if !logarithm.excludes(0.0) && high - low > SAYS_NOTHING_FROM.ln() => {
            Figure::without(logarithm.value.exp(), NoInterval::SaysNothing)
        }
        _ => logarithm.rising(f64::exp),
    }
}

/// Widens the interval by `by` on both sides.
pub(crate) fn widened(figure: Figure, by: f64) -> Figure {
    Figure { low: figure.low.map(|low| low - by), high: figure.high.map(|high| high + by), ..figure }
}

/// The verdict by a figure on a change of its logarithm; `stands` if the change is significant.
fn verdict(figure: ComparedBy, logarithm: f64, stands: bool) -> Verdict {
    match (stands, (logarithm < 0.0) != figure.more_is_better()) {
        (false, _) => Verdict::CannotTell,
        (true, true) => Verdict::Faster,
        (true, false) => Verdict::Slower,
    }
}

/// Twice half a step of the figure's resolution at this value, as a share; 0 for rates, which are counted over time.
fn resolution_share(figure: ComparedBy, value: f64) -> f64 {
    if figure.more_is_better() { 0.0 } else { step_share(value) }
}
