//! What differs: cases of one run, and two runs.

pub mod budget;
pub mod cases;
mod pairs;
pub mod runs;
pub mod unlike;

use hairpin_model::figure::Figure;
use hairpin_model::summary::Verdict;

/// Twice half a step of the histogram that a latency was read from, relative to the latency: no difference below it
/// can be told, however alike the rounds. Buckets are 1 ns wide below 2 048 ns, and 1/1024 of a power of two above.
pub(crate) fn step_share(latency_ns: f64) -> f64 {
    let power = latency_ns.max(1.0).log2().floor() - 10.0;
    power.max(0.0).exp2() / latency_ns.max(1.0)
}

/// A difference of logarithms as a ratio.
fn as_ratio(logarithm: &Figure) -> Figure {
    Figure { value: logarithm.value.exp(), low: logarithm.low.map(f64::exp), high: logarithm.high.map(f64::exp) }
}

/// The interval wider by `by` on both sides.
fn widened(figure: Figure, by: f64) -> Figure {
    Figure { low: figure.low.map(|low| low - by), high: figure.high.map(|high| high + by), ..figure }
}

/// The verdict on candidate / baseline, where less is faster.
fn verdict(ratio: &Figure) -> Verdict {
    match (ratio.low, ratio.high) {
        (Some(low), _) if low > 1.0 => Verdict::Slower,
        (_, Some(high)) if high < 1.0 => Verdict::Faster,
        _ => Verdict::CannotTell,
    }
}
