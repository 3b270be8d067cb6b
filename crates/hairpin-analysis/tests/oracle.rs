//! Compares the statistics with SciPy and exact enumeration. `oracle.py` writes `oracle.json`, which has the values
//! and the expected results.

use std::collections::BTreeSet;

use hairpin_analysis::statistics::distribution::{normal_quantile, student_quantile};
use hairpin_analysis::statistics::interval::{ALPHA, Estimate, Over, holm, median_over};
use hairpin_analysis::statistics::location::median;
use hairpin_analysis::statistics::trend::trend;
use serde_json::Value;

/// The test cases called `name`; panics if the list is empty.
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
fn medians_are_right() {
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
fn normal_quantiles_are_right() {
    for case in cases("normal_quantiles") {
        assert_near(normal_quantile(number(&case["probability"])), number(&case["z"]));
    }
}

#[test]
fn intervals_over_rounds_are_those_of_another_implementation() {
    let mut reasons = BTreeSet::new();
    for case in cases("intervals") {
        let ours = median_over(&numbers(&case["values"]), Over::seconds(number(&case["span_s"]))).unwrap();
        assert_near(ours.value, number(&case["median"]));
        match case["why"].as_str() {
            Some(why) => assert_eq!(ours.why.map(|why| why.to_string()).as_deref(), Some(why)),
            None => {
                assert_near(ours.low.unwrap(), number(&case["low"]));
                assert_near(ours.high.unwrap(), number(&case["high"]));
            }
        }
        reasons.insert(case["why"].as_str().map(str::to_owned));
    }
    assert_eq!(reasons.len(), 3, "some have an interval, and both reasons occur: {reasons:?}");
}

#[test]
fn runs_are_compared_as_by_welch() {
    for case in cases("welch") {
        let ours = Estimate::welch(&numbers(&case["one"]), &numbers(&case["other"])).unwrap();
        assert_near(ours.value, number(&case["difference"]));
        assert_near(ours.half_width(ALPHA), number(&case["half"]));
    }
}

#[test]
fn several_hypotheses_are_tested_by_holm() {
    for case in cases("holm") {
        let expected: Vec<bool> =
            case["stands"].as_array().unwrap().iter().map(|one| one.as_bool().unwrap()).collect();
        let p_values = numbers(&case["p_values"]);
        let confirmed = p_values.iter().zip(holm(&p_values, ALPHA)).map(|(p_value, level)| *p_value <= level);
        assert_eq!(confirmed.collect::<Vec<_>>(), expected);
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
