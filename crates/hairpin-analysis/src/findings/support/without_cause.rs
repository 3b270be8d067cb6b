//! Tests whether the time attributed to a cause disappears without that cause.

use hairpin_model::{CaseSummary, CounterExperiment, Figure, Measured, Proved, Run};

use super::{CANNOT_TELL, CONFIRMED, MIN_BLOCKS, REFUTED, check_result, rounds_of, sibling_of};
use crate::compare::{by_block, difference_by_block, over_points};

/// Maximum share that remains if the change had the expected effect.
const MAX_SHARE_LEFT: f64 = 0.5;
/// Without an interval, the cause is confirmed if at most this share remains, refuted if at most this share is saved.
const CLEAR_SHARE: f64 = 0.1;

/// Judges a counter-experiment that is expected to save `expected_ns` and changed the value by `effect` ns (negative:
/// shorter). Confirmed if the interval excludes zero and at least half of the expected time is saved, refuted if the
/// whole interval shows a smaller reduction.
pub(crate) fn judge_reduction(kind: &str, expected_ns: f64, effect: Figure) -> Proved {
    let threshold_ns = -MAX_SHARE_LEFT * expected_ns;
    let verdict = match (effect.low, effect.high) {
        (Some(low), _) if low > threshold_ns => REFUTED,
        (_, Some(high)) if high < 0.0 && effect.value <= threshold_ns => CONFIRMED,
        _ => CANNOT_TELL,
    };
    check_result(kind, verdict, effect)
}

/// Returns the change of a value of the rounds from one case to another, and the number of paired blocks.
pub(crate) fn change_of(
    run: &Run,
    cases: [&CaseSummary; 2],
    of: impl Fn(&Measured) -> Option<f64>,
) -> Option<(Figure, u64)> {
    let [from, to] = cases.map(|case| {
        let rounds = rounds_of(run, &case.id).into_iter();
        by_block(rounds.filter_map(|(round, measured)| Some((round.order.block, of(measured)?))))
    });
    let over = over_points(cases[0], run.plan.alpha);
    let (change, blocks) = difference_by_block(&from, &to, over)?;
    Some((change.figure(over.alpha), blocks))
}

/// Like [`judge_reduction`], for the change of a value of the rounds from `case` to the changed case of the experiment.
/// Needs no interval if the change saves nearly all or nearly nothing. `None` if the run lacks the changed case.
pub(crate) fn judge_by_block(
    run: &Run,
    case: &CaseSummary,
    experiment: &CounterExperiment,
    expected: f64,
    of: impl Fn(&Measured) -> Option<f64>,
) -> Option<Proved> {
    let changed = sibling_of(run, &experiment.pair.as_ref()?[1])?;
    let (effect, blocks) = change_of(run, [case, changed], of)?;
    let proved = judge_reduction(&experiment.kind, expected, effect);
    let left = 1.0 + effect.value / expected;
    let verdict = match left {
        _ if effect.low.is_some() || blocks < MIN_BLOCKS => proved.verdict,
        little if little <= CLEAR_SHARE => CONFIRMED.to_owned(),
        much if much >= 1.0 - CLEAR_SHARE => REFUTED.to_owned(),
        _ => proved.verdict,
    };
    Some(Proved { verdict, ..proved })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict with 100 ns expected to disappear.
    fn verdict(value: f64, low: Option<f64>, high: Option<f64>) -> String {
        judge_reduction("drop nothing", 100.0, Figure { value, low, high, why: None }).verdict
    }

    #[test]
    fn half_of_the_expected_time_must_be_saved() {
        assert_eq!(verdict(-90.0, Some(-95.0), Some(-85.0)), "confirmed");
        assert_eq!(verdict(-50.0, Some(-60.0), Some(-40.0)), "confirmed");
        assert_eq!(verdict(-10.0, Some(-20.0), Some(-5.0)), "refuted");
        assert_eq!(verdict(30.0, Some(20.0), Some(40.0)), "refuted");
    }

    #[test]
    fn a_wide_interval_gives_no_verdict() {
        assert_eq!(verdict(-10.0, Some(-80.0), Some(-1.0)), "cannot-tell", "shorter, but by much less than expected");
        assert_eq!(verdict(-49.0, Some(-60.0), Some(-40.0)), "cannot-tell");
        assert_eq!(verdict(-90.0, Some(-200.0), Some(1.0)), "cannot-tell", "zero is not excluded");
        assert_eq!(verdict(-90.0, None, None), "cannot-tell", "undecided without an interval");
    }
}
