//! Whether the time attributed to a cause disappears without that cause.

use hairpin_model::{CaseSummary, Figure, Measured, Proved, Run};

use super::{CANNOT_TELL, CONFIRMED, MIN_BLOCKS, REFUTED, checked, rounds_of};
use crate::compare::{by_block, difference_by_block, over_points};

/// Maximum share that remains if a change had the expected effect.
const GONE: f64 = 0.5;
/// Without an interval: maximum share that remains if it is gone, and minimum reduction if it is not.
const CLEAR: f64 = 0.1;

/// The verdict on a counter-experiment that is expected to save `expected_ns` and changed `effect` ns (negative:
/// shorter). Confirmed if the interval excludes zero and at least half is gone, refuted if the whole interval shows a
/// smaller reduction.
pub(in crate::findings) fn gone(kind: &str, expected_ns: f64, effect: Figure) -> Proved {
    let gone_at = -GONE * expected_ns;
    let verdict = match (effect.low, effect.high) {
        (Some(low), _) if low > gone_at => REFUTED,
        (_, Some(high)) if high < 0.0 && effect.value <= gone_at => CONFIRMED,
        _ => CANNOT_TELL,
    };
    checked(kind, verdict, effect)
}

/// The change of a value of the rounds from one case to another, and the number of paired blocks.
pub(in crate::findings) fn change_of(
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

/// Like [`gone`], for a change between rounds of one block, with a reduction by `expected`. If all or nothing is gone,
/// no interval is needed.
pub(in crate::findings) fn gone_by_block(kind: &str, expected: f64, (effect, blocks): (Figure, u64)) -> Proved {
    let proved = gone(kind, expected, effect);
    let left = 1.0 + effect.value / expected;
    let verdict = match left {
        _ if effect.low.is_some() || blocks < MIN_BLOCKS => proved.verdict,
        little if little <= CLEAR => CONFIRMED.to_owned(),
        much if much >= 1.0 - CLEAR => REFUTED.to_owned(),
        _ => proved.verdict,
    };
    Proved { verdict, ..proved }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 100 ns expected to disappear.
    fn verdict(value: f64, low: Option<f64>, high: Option<f64>) -> String {
        gone("drop nothing", 100.0, Figure { value, low, high, why: None }).verdict
    }

    #[test]
    fn half_of_it_must_be_gone() {
        assert_eq!(verdict(-90.0, Some(-95.0), Some(-85.0)), "confirmed");
        assert_eq!(verdict(-50.0, Some(-60.0), Some(-40.0)), "confirmed");
        assert_eq!(verdict(-10.0, Some(-20.0), Some(-5.0)), "refuted");
        assert_eq!(verdict(30.0, Some(20.0), Some(40.0)), "refuted");
    }

    #[test]
    fn a_wide_interval_decides_nothing() {
        assert_eq!(
            verdict(-10.0, Some(-80.0), Some(-1.0)),
            "cannot-tell",
            "shorter, but hardly by what was expected"
        );
        assert_eq!(verdict(-49.0, Some(-60.0), Some(-40.0)), "cannot-tell");
        assert_eq!(verdict(-90.0, Some(-200.0), Some(1.0)), "cannot-tell", "zero is not excluded");
        assert_eq!(verdict(-90.0, None, None), "cannot-tell", "undecided without an interval");
    }
}
