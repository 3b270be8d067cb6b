//! Tests that every fault against the contract is reported with its place.

use serde_json::{Value, json};

use super::{changed, example, faults, not_as_asked, with};

#[test]
fn a_run_that_keeps_the_contract_has_no_fault() {
    assert_eq!(faults(&example()), [""; 0]);
    assert_eq!(crate::schema::faults(&example()), [""; 0]);
    assert_eq!(not_as_asked(&example(), 200, 2), [""; 0]);
}

#[test]
fn every_break_of_the_contract_of_a_knee_and_of_a_comparison_is_named() {
    let mut run = example();
    run["answer"]["knees"] = json!([{"cases": ["1", "1"], "delivered_per_s": 10.0, "not_delivered_per_s": 20.0,
        "why_not": "lost", "highest_power_per_s": null}]);
    assert_eq!(faults(&run), [""; 0]);
    for (pointer, value, expected) in [
        ("/answer/knees/0/cases", json!(["1"]), "answer.knees[0].cases: are not cases of the run"),
        ("/answer/knees/0/cases/1", json!("7"), "answer.knees[0].cases: are not cases of the run"),
        ("/answer/knees/0/not_delivered_per_s", json!(5.0), "answer.knees[0].not_delivered_per_s: is not above"),
        ("/answer/knees/0/why_not", json!(null), "answer.knees[0].why_not: does not fit"),
        ("/comparisons/0/figure", json!("rate"), "comparisons[0].difference_ns: does not fit the figure"),
    ] {
        let found = faults(&changed(run.clone(), pointer, value));
        assert!(found.iter().any(|fault| fault.starts_with(expected)), "{expected}: {found:?}");
    }
}

/// Checks that each change causes a fault at the expected place.
fn assert_breaks(changes: impl IntoIterator<Item = (&'static str, Value, &'static str)>) {
    for (pointer, value, expected) in changes {
        let found = faults(&with(pointer, value));
        assert!(found.iter().any(|fault| fault.starts_with(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn every_break_of_the_contract_of_a_run_is_named_with_its_place() {
    assert_breaks([
        ("/answer/headline", json!(""), "answer.headline: is empty"),
        ("/answer/statements", json!([]), "answer.statements: is empty"),
        ("/answer/statements/0/cases/0", json!("2"), "answer.statements[0]: names a case that is not there"),
        ("/answer/statements/1/case", json!("2"), "answer.statements[1]: names a case that is not there"),
        ("/answer/pairs/0/b", json!("2"), "answer.pairs[0]: names a case that is not there"),
        ("/cases", json!([]), "cases: is empty"),
        ("/findings/0/advice", json!(""), "findings[0].advice: is empty"),
        ("/skipped/0/reason", json!(""), "skipped[0].reason: is empty"),
        ("/tool/version", json!(""), "tool.version: is empty"),
        ("/hosts", json!([]), "hosts: is empty"),
    ]);
}

#[test]
fn every_break_of_the_contract_of_a_case_is_named_with_its_place() {
    let figure = |value: f64| json!({"value": value, "low": null, "high": null});
    assert_breaks([
        ("/findings/0/cases/0", json!("2"), "findings[0].cases: names a case that the run does not have"),
        (
            "/cases/0/flows/0/latency_ns/p50",
            json!(null),
            "cases[0].flows[0].latency_ns.p50: is null although there are samples",
        ),
        (
            "/cases/0/flows/0/latency_ns/p99",
            figure(30.0),
            "cases[0].flows[0].latency_ns.p99: is shown, but 398 samples",
        ),
        (
            "/cases/0/flows/0/latency_ns/mean/low",
            json!(13.0),
            "cases[0].flows[0].latency_ns.mean: its interval does not hold",
        ),
        ("/cases/0/flows/0/ledger/sent", json!(401), "cases[0].flows[0].ledger: does not close: 1 are left, not 0"),
        ("/cases/0/path/relay/packets/out", json!(8), "cases[0].path.relay.packets: does not close: 1 are left"),
        ("/cases/0/valid", json!(false), "cases[0].why_invalid: does not agree with `valid`"),
        ("/cases/0/flows/0/latency_ns/p90", figure(9.0), "cases[0].flows[0].latency_ns.p90: is less than p50"),
        ("/cases/0/ends/1/host", json!("server"), "cases[0].ends[1].host: is not listed in `hosts`"),
        ("/cases/0/flows", json!([]), "cases[0].flows: are not the flows of the case"),
        ("/cases/0/flows/0/load/kind", json!("flood"), "cases[0].flows: are not the flows of the case"),
        ("/cases/0/case/flows/0/options", json!([]), "cases[0].flows: are not the flows of the case"),
        ("/cases/0/ledger/sent", json!(7), "cases[0].ledger: is not that of the only flow"),
        ("/cases/0/flows/0/samples", json!(450), "cases[0].flows[0].ledger: 450 samples, but 398 received"),
    ]);
}

#[test]
fn a_run_that_did_something_else_is_found() {
    assert!(not_as_asked(&example(), 200, 3)[0].contains("3 rounds were asked, not Some(2)"));
    assert!(not_as_asked(&example(), 100, 2)[0].contains("200 messages were asked, not Some(400)"));
    let invalid = with("/cases/0/valid", json!(false));
    assert!(not_as_asked(&invalid, 200, 2)[0].contains("not valid"));
}

/// The breaks of other loads are tried on the runs of hairpin-report's tests.
#[test]
fn a_flow_with_answers_has_no_figures_of_other_loads() {
    let figure = json!({"value": 1.0, "low": null, "high": null});
    let mut run = example();
    run["cases"][0]["flows"][0]["goodput_bytes_per_s"] = figure.clone();
    run["cases"][0]["added_ns"] = json!({"p50": figure, "p99": null});
    let expected = [
        "cases[0].flows[0].goodput_bytes_per_s: is there although the flow has answers",
        "cases[0].added_ns: is there although no flow is a probe",
    ];
    assert_eq!(faults(&run), expected);
}
