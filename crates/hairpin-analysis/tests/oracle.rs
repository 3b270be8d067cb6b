//! The statistics against SciPy and against exact enumeration: `oracle.json` has values and what those say of them, and
//! `oracle.py` makes it.

use hairpin_analysis::statistics::distribution::student_quantile;
use hairpin_analysis::statistics::interval::{median_difference, median_figure, shift};
use hairpin_analysis::statistics::location::median;
use hairpin_analysis::statistics::trend::trend;
use serde_json::Value;

/// The cases of that name; there are some.
fn cases(name: &str) -> Vec<Value> {
    let mut oracle: Value = serde_json::from_str(include_str!("oracle.json")).unwrap();
    let Value::Array(cases) = oracle[name].take() else { panic!("no list {name}") };
    assert!(!cases.is_empty(), "{name}");
    cases
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).iter().map(number).collect()
}

#[track_caller]
fn assert_near(ours: f64, expected: f64) {
    assert!((ours - expected).abs() <= 1e-7 * ours.abs().max(expected.abs()).max(1.0), "{ours} is not {expected}");
}

#[test]
fn the_median_is_the_median() {
    for case in cases("medians") {
        assert_near(median(&numbers(&case["values"])).unwrap(), number(&case["median"]));
    }
}

#[test]
fn students_quantile_is_right_from_one_degree_of_freedom_on() {
    for (degrees, expected) in (1..).zip(cases("student_quantiles")) {
        assert_near(student_quantile(0.975, degrees), number(&expected));
    }
}

#[test]
fn few_differences_have_students_interval() {
    for case in cases("few_differences") {
        let ours = median_difference(&numbers(&case["values"]), 1, "oracle").unwrap();
        let expected = numbers(&case["interval"]);
        assert_near(ours.value, number(&case["median"]));
        assert_near(ours.low.unwrap(), expected[0]);
        assert_near(ours.high.unwrap(), expected[1]);
    }
    let alike = median_difference(&[7.0; 4], 1, "oracle").unwrap();
    assert_eq!((alike.low, alike.value, alike.high), (Some(7.0), 7.0, Some(7.0)));
}

#[test]
fn the_shift_is_the_hodges_lehmann_estimate() {
    for case in cases("shifts") {
        let ours = shift(&numbers(&case["one"]), &numbers(&case["other"]), 1, "oracle").unwrap();
        assert_near(ours.value, number(&case["shift"]));
    }
}

#[test]
fn trends_have_the_slope_of_theil_and_sen_and_the_p_of_kendalls_test() {
    for case in cases("trends") {
        let values = numbers(&case["values"]);
        let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(k, value)| (k as f64, *value)).collect();
        let ours = trend(&points).unwrap();
        assert_near(ours.slope, number(&case["slope"]));
        assert_near(ours.p, number(&case["p"]));
    }
}

#[test]
fn the_bootstrap_interval_has_the_tails_of_all_resamples() {
    for case in cases("bootstraps") {
        let values = numbers(&case["values"]);
        let ours = median_figure(&values, 1, "oracle").unwrap();
        assert_near(ours.value, number(&case["median"]));
        for (bound, range) in [(ours.low, &case["low"]), (ours.high, &case["high"])] {
            let (bound, range) = (bound.unwrap(), numbers(range));
            assert!((range[0]..=range[1]).contains(&bound), "{} rounds: {bound} is not in {range:?}", values.len());
        }
    }
}
