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
fn faults_of_a_knee_and_of_a_comparison_are_named() {
    let mut run = example();
    run["answer"]["knees"] = json!([{"cases": ["1", "1"], "delivered_per_s": 10.0, "not_delivered_per_s": 20.0,
        "why_not": "lost", "highest_power_per_s": null}]);
    assert_eq!(faults(&run), [""; 0]);
    for (pointer, value, expected) in [
        ("/answer/knees/0/cases", json!(["1"]), "answer.knees[0].cases: are not two or more cases"),
        ("/answer/knees/0/cases/1", json!("7"), "answer.knees[0].cases: are not two or more cases"),
        ("/answer/knees/0/not_delivered_per_s", json!(5.0), "answer.knees[0].not_delivered_per_s: is not above"),
        ("/answer/knees/0/why_not", json!(null), "answer.knees[0].why_not: does not agree"),
        ("/comparisons/0/figure", json!("rate"), "comparisons[0].difference_ns: does not agree"),
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
fn faults_of_a_run_are_named_with_their_place() {
    assert_breaks([
        ("/answer/headline", json!(""), "answer.headline: is empty"),
        ("/answer/statements", json!([]), "answer.statements: is empty"),
        ("/answer/statements/0/cases/0", json!("2"), "answer.statements[0]: names an unknown case"),
        ("/answer/statements/1/case", json!("2"), "answer.statements[1]: names an unknown case"),
        ("/answer/pairs/0/b", json!("2"), "answer.pairs[0]: names an unknown case"),
        ("/cases", json!([]), "cases: is empty"),
        ("/findings/0/advice", json!(""), "findings[0].advice: is empty"),
        ("/skipped/0/reason", json!(""), "skipped[0].reason: is empty"),
        ("/tool/version", json!(""), "tool.version: is empty"),
        ("/hosts", json!([]), "hosts: is empty"),
    ]);
}

#[test]
fn faults_of_a_case_are_named_with_their_place() {
    let figure = |value: f64| json!({"value": value, "low": null, "high": null});
    assert_breaks([
        ("/findings/0/cases/0", json!("2"), "findings[0].cases: names an unknown case"),
        (
            "/cases/0/flows/0/latency_ns/p50",
            json!(null),
            "cases[0].flows[0].latency_ns.p50: is null although it has enough samples",
        ),
        (
            "/cases/0/flows/0/latency_ns/p99",
            figure(30.0),
            "cases[0].flows[0].latency_ns.p99: has 398 samples but needs",
        ),
        (
            "/cases/0/flows/0/latency_ns/mean/low",
            json!(13.0),
            "cases[0].flows[0].latency_ns.mean: its interval does not contain",
        ),
        ("/cases/0/flows/0/ledger/sent", json!(401), "cases[0].flows[0].ledger: does not close: 1 messages are"),
        ("/cases/0/path/relay/packets/out", json!(8), "cases[0].path.relay.packets: does not close: 1 packets"),
        ("/cases/0/valid", json!(false), "cases[0].why_invalid: does not agree with `valid`"),
        ("/cases/0/flows/0/latency_ns/p90", figure(9.0), "cases[0].flows[0].latency_ns.p90: is less than p50"),
        ("/cases/0/ends/1/host", json!("server"), "cases[0].ends[1].host: is not listed in `hosts`"),
        ("/cases/0/flows", json!([]), "cases[0].flows: are not the flows of the case"),
        ("/cases/0/flows/0/load/kind", json!("flood"), "cases[0].flows: are not the flows of the case"),
        ("/cases/0/case/flows/0/options", json!([]), "cases[0].flows: are not the flows of the case"),
        ("/cases/0/ledger/sent", json!(7), "cases[0].ledger: differs from the value"),
        ("/cases/0/flows/0/samples", json!(450), "cases[0].flows[0].ledger: 450 samples, but 398 received"),
    ]);
}

#[test]
fn a_run_that_differs_from_the_request_is_reported() {
    assert!(not_as_asked(&example(), 200, 3)[0].contains("3 rounds were requested, not Some(2)"));
    assert!(not_as_asked(&example(), 100, 2)[0].contains("200 messages were requested, not Some(400)"));
    let invalid = with("/cases/0/valid", json!(false));
    assert!(not_as_asked(&invalid, 200, 2)[0].contains("not valid"));
}

/// The tests of hairpin-report check faults of one-way loads and probes.
#[test]
fn a_round_trip_with_figures_of_other_loads_is_a_fault() {
    let figure = json!({"value": 1.0, "low": null, "high": null});
    let mut run = example();
    run["cases"][0]["flows"][0]["goodput_bytes_per_s"] = figure.clone();
    run["cases"][0]["added_ns"] = json!({"p50": figure, "p99": null});
    let expected = [
        "cases[0].flows[0].goodput_bytes_per_s: is present, but the flow has answers",
        "cases[0].added_ns: is present although no flow is a probe",
    ];
    assert_eq!(faults(&run), expected);
}
