//! Tests that every fault against the contract is reported with its place.

use serde_json::{Value, json};

use super::one_way::OF_BOTH_ENDS;
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

/// Returns the example with a one-way load.
fn example_of(load: &Value) -> Value {
    let figure = |value: f64| json!({"value": value, "low": value, "high": null});
    let both = json!({"client": figure(0.5), "server": null});
    let mut figures = json!({"received_per_s": figure(100.0), "sent_per_s": figure(101.0),
        "goodput_bytes_per_s": figure(6400.0), "warm_up_goodput_bytes_per_s": null, "fairness": figure(0.98),
        "offered_per_s": null, "delivered_per_s": null, "delivered_share": null, "pacing": null});
    for name in OF_BOTH_ENDS {
        figures[*name] = both.clone();
    }
    if load["kind"] == "offered" {
        figures["offered_per_s"] = load["offered_per_s"].clone();
        figures["delivered_per_s"] = figure(100.0);
        figures["delivered_share"] = figure(0.99);
        figures["pacing"] = json!({"method": load["pacing"], "nominal_ns": 1e7,
            "gap_ns": {"p50": figure(1e7), "p99": figure(2e7), "p999": null}, "share_below_half": figure(0.01)});
    }
    let mut run = example();
    let case = &mut run["cases"][0];
    for pointer in ["/case/flows/0", "/flows/0"] {
        let flow = case.pointer_mut(pointer).expect("the example has it");
        (flow["load"], flow["direction"]) = (load.clone(), json!("up"));
    }
    for (name, value) in figures.as_object().into_iter().flatten() {
        case["flows"][0][name] = value.clone();
        case[name] = value.clone();
    }
    run
}

fn loads() -> [Value; 3] {
    [
        json!({"kind": "messages", "size_bytes": 64, "batch": 8}),
        json!({"kind": "stream", "write_size_bytes": 65_536}),
        json!({"kind": "offered", "size_bytes": 64, "offered_per_s": 101.0, "arrivals": "fixed", "pacing": "spin"}),
    ]
}

#[test]
fn one_way_loads_that_keep_the_contract_have_no_fault() {
    for load in loads() {
        assert_eq!(faults(&example_of(&load)), [""; 0], "{load}");
    }
}

#[test]
fn every_break_of_the_contract_of_a_one_way_load_is_named_with_its_place() {
    let figure = |value: f64| json!({"value": value, "low": null, "high": null});
    let flow = "/cases/0/flows/0";
    let breaks = [
        (0, "offered_per_s", json!(5.0), "offered_per_s: is there although nothing was offered"),
        (0, "delivered_per_s", figure(5.0), "delivered_per_s: is there although nothing was offered"),
        (1, "fairness", figure(0.0), "fairness: is no share"),
        (1, "fairness", figure(1.5), "fairness: is no share"),
        (2, "offered_per_s", json!(5.0), "offered_per_s: is not that of the load"),
        (2, "delivered_share", figure(1.5), "delivered_share: is no share"),
        (2, "pacing/share_below_half", figure(-0.1), "pacing.share_below_half: is no share"),
        (2, "ledger/lost", json!({"link": 5}), "ledger: does not close"),
    ];
    for (which, name, value, expected) in breaks {
        let run = changed(example_of(&loads()[which]), &format!("{flow}/{name}"), value);
        let (found, expected) = (faults(&run), format!("cases[0].flows[0].{expected}"));
        assert!(found.iter().any(|fault| fault.starts_with(&expected)), "{expected}: {found:?}");
    }
    let copy = changed(example_of(&loads()[0]), "/cases/0/received_per_s", figure(7.0));
    assert_eq!(faults(&copy), ["cases[0].received_per_s: is not that of the only flow"]);
}

#[test]
fn a_flow_with_answers_has_no_figures_of_a_one_way_load() {
    let mut run = example();
    run["cases"][0]["flows"][0]["goodput_bytes_per_s"] = json!({"value": 1.0, "low": null, "high": null});
    let expected = "cases[0].flows[0].goodput_bytes_per_s: is there although the flow has answers";
    assert_eq!(faults(&run), [expected]);
}

/// Returns the example with a probe and a load, and with figures of every phase.
fn example_under_load() -> Value {
    let figure = |value: f64| json!({"value": value, "low": value - 1.0, "high": value + 1.0});
    let mut run = example_of(&json!({"kind": "stream", "write_size_bytes": 65_536}));
    let case = &mut run["cases"][0];
    let (mut load, mut asked) = (case["flows"][0].clone(), case["case"]["flows"][0].clone());
    for flow in [&mut load, &mut asked] {
        (flow["id"], flow["role"]) = (json!("load"), json!("load"));
    }
    let mut probe = example()["cases"][0].clone();
    for pointer in ["/flows/0", "/case/flows/0"] {
        let flow = probe.pointer_mut(pointer).expect("the example has it");
        (flow["id"], flow["role"]) = (json!("probe"), json!("probe"));
    }
    for end in case["ends"].as_array_mut().expect("they are a list") {
        end["flow"] = json!("probe");
    }
    case["flows"] = json!([probe["flows"][0], load]);
    case["case"]["flows"] = json!([probe["case"]["flows"][0], asked]);
    let of = |goodput: Value, queue: Value| {
        let flow = &probe["flows"][0];
        json!({"probe": {"samples": flow["samples"], "latency_ns": flow["latency_ns"], "ledger": flow["ledger"]},
            "load": {"goodput_bytes_per_s": goodput}, "queue_bytes": queue})
    };
    let queue = json!({"p50": figure(100.0), "max": 200.0});
    case["phases"] = json!({"idle": of(json!(null), json!(null)), "loaded": of(figure(1e6), queue.clone()),
        "recovering": of(json!(null), queue)});
    case["added_ns"] = json!({"p50": figure(170.0), "p99": null});
    case["responsiveness_rpm"] = json!({"value": 300.0, "low": null, "high": null, "draft": "draft-09"});
    case["recovered_after_ns"] = json!(null);
    run
}

#[test]
fn a_probe_under_load_that_keeps_the_contract_has_no_fault() {
    let mut run = example_under_load();
    assert_eq!(faults(&run), [""; 0]);
    let ledger = json!({"sent": 900, "received": 898, "lost": {}, "late": 2, "duplicated": 0, "unexplained": 0});
    run["cases"][0]["flows"][0]["ledger"] = ledger;
    assert_eq!(faults(&run), [""; 0], "its samples are of one phase");
    let case = &mut run["cases"][0];
    for pointer in ["/flows", "/case/flows"] {
        let flows = case.pointer_mut(pointer).expect("the example has it").as_array_mut().expect("they are a list");
        let mut foreign = flows[0].clone();
        (foreign["id"], foreign["role"]) = (json!("foreign-probe"), json!("foreign-probe"));
        flows.push(foreign);
    }
    assert_eq!(faults(&run), [""; 0]);
    run["cases"][0]["flows"].as_array_mut().expect("they are a list").swap(0, 2);
    assert_eq!(faults(&run), [""; 0], "the order of flows has no meaning");
    run["cases"][0]["flows"][0]["role"] = json!("probe");
    assert!(faults(&run).contains(&"cases[0].flows: has several probes".to_owned()));
}

#[test]
fn every_missing_figure_of_a_case_under_load_is_named() {
    for name in ["phases", "added_ns", "responsiveness_rpm", "recovered_after_ns"] {
        let mut run = example_under_load();
        run["cases"][0].as_object_mut().expect("it is one").remove(name).expect("it was there");
        let found = faults(&run);
        assert!(found.contains(&format!("cases[0].{name}: is missing")), "{found:?}");
    }
}

#[test]
fn every_break_of_the_contract_of_a_case_under_load_is_named_with_its_place() {
    let figure = json!({"value": 7.0, "low": null, "high": null});
    let breaks = [
        ("flows/1/role", json!("measured"), "flows[1]: is not a probe with answers or a load without"),
        ("flows/1/id", json!("probe"), "flows: have an identity twice"),
        ("ends/1/flow", json!("other"), "ends[1].flow: is no flow of the case"),
        ("flows/1/direction", json!("round-trip"), "flows[1]: is not a probe with answers or a load without"),
        ("phases/idle/load/goodput_bytes_per_s", figure.clone(), "phases.idle.load.goodput_bytes_per_s: is there"),
        ("phases/loaded/queue_bytes/max", json!(50.0), "phases.loaded.queue_bytes.max: is less than p50"),
        ("phases/loaded/probe/latency_ns/p50", figure.clone(), "phases.loaded.probe.latency_ns: is not that of"),
        ("phases/recovering/probe/ledger/sent", json!(401), "phases.recovering.probe.ledger: does not close"),
        ("responsiveness_rpm/draft", json!(""), "responsiveness_rpm.draft: is empty"),
    ];
    for (pointer, value, expected) in breaks {
        let found = faults(&changed(example_under_load(), &format!("/cases/0/{pointer}"), value));
        let expected = format!("cases[0].{expected}");
        assert!(found.iter().any(|fault| fault.starts_with(&expected)), "{expected}: {found:?}");
    }
    let mut run = example();
    run["cases"][0]["added_ns"] = json!({"p50": figure, "p99": null});
    assert_eq!(faults(&run), ["cases[0].added_ns: is there although no flow is a probe"]);
}
