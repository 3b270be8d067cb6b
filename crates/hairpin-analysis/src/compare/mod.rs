//! Compares cases of one run, and of two runs.

pub mod budget;
pub mod cases;
pub mod choices;
mod keys;
mod pairs;
pub mod runs;
pub mod unlike;

use std::collections::BTreeMap;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::figure::NoInterval;
use hairpin_model::summary::Verdict;
use hairpin_model::{CaseSummary, Figure};

use crate::statistics::interval::{Estimate, MAX_BOUNDS_RATIO, MIN_ROUNDS_FOR_VERDICT, Over, span_s};
use crate::statistics::location::median;

/// Returns the width of one bucket of the latency histogram (half a bucket for each of two latencies), relative to
/// the latency. Smaller differences are not resolved, even if all rounds agree. Buckets are 1 ns wide below 2 048 ns,
/// and 1/1024 of a power of two above.
pub(crate) fn step_share(latency_ns: f64) -> f64 {
    let power = latency_ns.max(1.0).log2().floor() - 10.0;
    power.max(0.0).exp2() / latency_ns.max(1.0)
}

/// Returns the value of each block; the median if a block has several rounds.
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

/// Returns the median of candidate - baseline over the blocks that both have, and the number of these blocks. For
/// logarithms, the median is the logarithm of the ratio. If fewer than three quarters of the blocks have a partner,
/// or too few for a verdict although all blocks would suffice, returns the difference of the medians of all blocks,
/// and 0.
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
    Some((median(candidate)?.minus(&median(baseline)?), 0))
}

pub(crate) fn over_points(case: &CaseSummary, alpha: f64) -> Over {
    Over { alpha, ..Over::seconds(span_s(case.round_points.iter().map(|point| point.started_ns))) }
}

/// Converts a difference of logarithms to a ratio. Omits an interval that contains 1 and spans a factor above 100.
pub(crate) fn as_ratio(logarithm: Figure) -> Figure {
    match (logarithm.low, logarithm.high) {
        (Some(low), Some(high)) if !logarithm.excludes(0.0) && high - low > MAX_BOUNDS_RATIO.ln() => {
            Figure::without(logarithm.value.exp(), NoInterval::SaysNothing)
        }
        _ => logarithm.rising(f64::exp),
    }
}

pub(crate) fn widened(figure: Figure, by: f64) -> Figure {
    Figure { low: figure.low.map(|low| low - by), high: figure.high.map(|high| high + by), ..figure }
}

fn verdict(figure: ComparedBy, logarithm: f64, is_significant: bool) -> Verdict {
    match (is_significant, (logarithm < 0.0) != figure.more_is_better()) {
        (false, _) => Verdict::CannotTell,
        (true, true) => Verdict::Faster,
        (true, false) => Verdict::Slower,
    }
}

fn resolution_share(figure: ComparedBy, value: f64) -> f64 {
    if figure.more_is_better() { 0.0 } else { step_share(value) }
}
