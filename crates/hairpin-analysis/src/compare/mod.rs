//! What differs: cases of one run, and two runs.

pub mod budget;
pub mod cases;
mod choices;
mod keys;
mod pairs;
pub mod runs;
pub mod unlike;

use std::collections::BTreeMap;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::figure::{Figure, NoInterval};
use hairpin_model::summary::{CaseSummary, Verdict};

use crate::statistics::interval::{Estimate, MIN_ROUNDS_FOR_VERDICT, Over, SAYS_NOTHING_FROM, span_s};
use crate::statistics::location::median;

/// Twice half a step of the histogram that a latency was read from, relative to the latency: no difference below it
/// can be told, however alike the rounds. Buckets are 1 ns wide below 2 048 ns, and 1/1024 of a power of two above.
pub(crate) fn step_share(latency_ns: f64) -> f64 {
    let power = latency_ns.max(1.0).log2().floor() - 10.0;
    power.max(0.0).exp2() / latency_ns.max(1.0)
}

/// The value of each block; of blocks with several rounds their median.
pub(crate) fn by_block(values: impl Iterator<Item = (u32, f64)>) -> BTreeMap<u32, f64> {
    let mut by_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (block, value) in values {
        by_block.entry(block).or_default().push(value);
    }
    by_block.into_iter().filter_map(|(block, values)| median(&values).map(|median| (block, median))).collect()
}

/// The same of the logarithms.
pub(crate) fn logarithms_by_block(values: impl Iterator<Item = (u32, f64)>) -> BTreeMap<u32, f64> {
    by_block(values.map(|(block, value)| (block, value.ln())))
}

/// candidate - baseline (of logarithms: that of the ratio), and how many paired blocks it rests on: the median over blocks
/// that both have, or the difference of the medians of all (and 0 blocks) where under three quarters of them have a
/// partner, or too few for a verdict where all would suffice.
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

/// What an interval over the rounds of a case rests on.
pub(crate) fn over_points(case: &CaseSummary, alpha: f64) -> Over {
    Over { alpha, ..Over::seconds(span_s(case.round_points.iter().map(|point| point.started_ns))) }
}

/// A difference of logarithms as a ratio. An interval that holds 1 and has bounds more than a hundred times apart says
/// nothing, and there is none.
pub(crate) fn as_ratio(logarithm: Figure) -> Figure {
    match (logarithm.low, logarithm.high) {
        (Some(low), Some(high)) if !logarithm.excludes(0.0) && high - low > SAYS_NOTHING_FROM.ln() => {
            Figure::without(logarithm.value.exp(), NoInterval::SaysNothing)
        }
        _ => logarithm.rising(f64::exp),
    }
}

/// The interval wider by `by` on both sides.
pub(crate) fn widened(figure: Figure, by: f64) -> Figure {
    Figure { low: figure.low.map(|low| low - by), high: figure.high.map(|high| high + by), ..figure }
}

/// The verdict by that figure on a change of its logarithm, and whether that stands.
fn verdict(figure: ComparedBy, logarithm: f64, stands: bool) -> Verdict {
    match (stands, (logarithm < 0.0) != figure.more_is_better()) {
        (false, _) => Verdict::CannotTell,
        (true, true) => Verdict::Faster,
        (true, false) => Verdict::Slower,
    }
}

/// Twice half a step of that figure's resolution at this value, as a share; rates are counted over a time and have none.
fn resolution_share(figure: ComparedBy, value: f64) -> f64 {
    if figure.more_is_better() { 0.0 } else { step_share(value) }
}
