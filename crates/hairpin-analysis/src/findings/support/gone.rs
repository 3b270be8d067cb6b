//! Whether time that a cause is blamed for goes away without that cause.

use hairpin_model::figure::Figure;
use hairpin_model::finding::Proved;
use hairpin_model::round::Measured;
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::{CANNOT_TELL, CONFIRMED, MIN_BLOCKS, REFUTED, rounds_of};
use crate::compare::{by_block, difference_by_block, over_points};

/// A change takes away what it is expected to where no more than this part of it is left.
const GONE: f64 = 0.5;
/// Without an interval it is gone where no more than this part of it is left over so many blocks, and is still there where as much as
/// all but this part is.
const CLEAR: f64 = 0.1;

/// What became of a counter-experiment that is expected to take `expected_ns` away, of which it changed `effect` in ns
/// (below zero: shorter). Confirmed where that excludes zero and half of it or more is gone, refuted where the whole
/// interval says that less is gone.
pub(in crate::findings) fn gone(check: &str, expected_ns: f64, effect: Figure) -> Proved {
    let gone_at = -GONE * expected_ns;
    let verdict = match (effect.low, effect.high) {
        (Some(low), _) if low > gone_at => REFUTED,
        (_, Some(high)) if high < 0.0 && effect.value <= gone_at => CONFIRMED,
        _ => CANNOT_TELL,
    };
    Proved { check: check.to_owned(), verdict: verdict.to_owned(), effect, unit: "ns".to_owned() }
}

/// How a value of the rounds changes from one case to another, and how many paired blocks that rests on.
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

/// The same as [`gone`] of a change between rounds of one block, of which `expected` is to go. What is all gone, or all still there,
/// needs no interval.
pub(in crate::findings) fn gone_by_block(check: &str, expected: f64, (effect, blocks): (Figure, u64)) -> Proved {
    let proved = gone(check, expected, effect);
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

    /// Of 100 ns that are expected to go.
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
    fn a_tenth_with_a_wide_interval_settles_nothing() {
        assert_eq!(
            verdict(-10.0, Some(-80.0), Some(-1.0)),
            "cannot-tell",
            "shorter, but hardly by what was expected"
        );
        assert_eq!(verdict(-49.0, Some(-60.0), Some(-40.0)), "cannot-tell");
        assert_eq!(verdict(-90.0, Some(-200.0), Some(1.0)), "cannot-tell", "zero is not excluded");
        assert_eq!(verdict(-90.0, None, None), "cannot-tell", "without an interval nothing is settled");
    }
}
