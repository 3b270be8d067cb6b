//! The statistics against those of `anofox-statistics`, where it has the same thing. It has no expanded percentile
//! interval: its plain one at the confidence that the expansion amounts to stands in. Student's quantile and the exact
//! Mann-Kendall distribution are checked against closed forms in the unit tests as well.

use anofox_statistics::{
    Alternative, KendallVariant, TTestKind, bootstrap_ci, kendall, mann_whitney_u, t_test, utils::math,
};
use hairpin_analysis::statistics::distribution::student_quantile;
use hairpin_analysis::statistics::interval::{expanded_tail, median_difference, median_figure, shift};
use hairpin_analysis::statistics::location::{mean, median, standard_deviation};
use hairpin_analysis::statistics::trend::trend;
use proptest::prelude::*;

fn values(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(1.0..1e6_f64, length)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-7 * a.abs().max(b.abs()).max(1.0)
}

proptest! {
    #[test]
    fn the_median_is_the_median(values in values(1..50)) {
        prop_assert!(near(median(&values).unwrap(), math::median(&values).unwrap()));
    }

    #[test]
    fn few_differences_have_students_interval(values in values(3..6)) {
        let zeros = vec![0.0; values.len()];
        let oracle = t_test(&values, &zeros, TTestKind::Paired, Alternative::TwoSided, 0.0, Some(0.95));
        // It refuses values that are all alike.
        if let Some(interval) = oracle.ok().and_then(|result| result.conf_int) {
            let ours = median_difference(&values, 1, "oracle").unwrap();
            prop_assert!(near(ours.low.unwrap(), interval.lower) && near(ours.high.unwrap(), interval.upper));
        }
    }

    #[test]
    fn students_quantile_is_that_of_its_intervals(values in values(8..60)) {
        let zeros = vec![0.0; values.len()];
        let oracle = t_test(&values, &zeros, TTestKind::Paired, Alternative::TwoSided, 0.0, Some(0.95)).unwrap();
        let interval = oracle.conf_int.unwrap();
        let half = student_quantile(0.975, values.len() as u32 - 1) * standard_deviation(&values).unwrap()
            / (values.len() as f64).sqrt();
        prop_assert!(near(mean(&values).unwrap() - half, interval.lower), "{half} {interval:?}");
    }

    #[test]
    fn the_shift_is_the_hodges_lehmann_estimate(one in values(6..15), other in values(6..15)) {
        let result = mann_whitney_u(&other, &one, Alternative::TwoSided, true, true, Some(0.95), None).unwrap();
        prop_assert!(near(shift(&one, &other, 1, "oracle").unwrap().value, result.estimate.unwrap()));
    }

    #[test]
    fn many_values_trend_as_kendalls_test_says(values in values(31..60)) {
        let times: Vec<f64> = (0..values.len()).map(|k| k as f64).collect();
        let points: Vec<(f64, f64)> = times.iter().copied().zip(values.iter().copied()).collect();
        let oracle = kendall(&times, &values, KendallVariant::TauB).unwrap();
        let ours = trend(&points).unwrap();
        // Ours corrects for continuity, the oracle need not.
        prop_assert!((ours.p - oracle.p_value).abs() < 0.02, "{} {}", ours.p, oracle.p_value);
        prop_assert!(oracle.estimate.abs() < 1e-9 || ours.slope == 0.0 || (oracle.estimate > 0.0) == (ours.slope > 0.0)
            || oracle.estimate.abs() < 0.2, "{} {}", oracle.estimate, ours.slope);
    }
}

#[test]
fn the_bootstrap_interval_is_that_of_another_bootstrap() {
    for rounds in [6_usize, 10, 15, 30] {
        // Ascending, unevenly spaced, no two alike.
        let values: Vec<f64> = (0..rounds).map(|k| 100.0 + (k * k) as f64).collect();
        let ours = median_figure(&values, 1, "oracle").unwrap();
        let confidence = 1.0 - 2.0 * expanded_tail(rounds);
        let oracle =
            bootstrap_ci(&values, |resample| median(resample).unwrap(), 20_000, confidence, Some(1)).unwrap();
        assert!((ours.value - oracle.estimate).abs() < 1e-9);
        // Both draw at random, so either may land on the next of the few possible medians.
        let step = 2.0 * rounds as f64;
        assert!((ours.low.unwrap() - oracle.conf_int_lower).abs() <= step, "{rounds}: {ours:?} {oracle:?}");
        assert!((ours.high.unwrap() - oracle.conf_int_upper).abs() <= step, "{rounds}: {ours:?} {oracle:?}");
    }
}
