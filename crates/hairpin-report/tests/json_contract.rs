//! The JSON of a run, which scripts rely on.

use hairpin_model::{Document, Run};
use hairpin_testing::{contract, schema};
use serde_json::{Value, json};

use crate::support::{self, one_way, under_load};

fn parsed(run: &Run) -> Value {
    let json = serde_json::from_str(&run.to_json()).expect("valid JSON");
    assert_eq!(schema::faults(&json), [""; 0]);
    json
}

#[test]
fn printed_runs_keep_the_contract() {
    let (survey, offered, streams) = (support::survey(1), one_way::offered_load(), support::bulk::run());
    let one_way = [one_way::message_rate(), one_way::write_sizes(), offered, streams];
    let under_load = [under_load::congestion(), under_load::two_cpus()];
    for run in [survey.clone(), support::links::run()].into_iter().chain(one_way).chain(under_load) {
        assert_eq!(contract::faults(&parsed(&run)), [""; 0], "{}", run.plan.experiment);
    }
    let json = parsed(&survey);
    let count = |name: &str| contract::list(&json, name).len();
    assert_eq!((count("cases"), count("findings"), count("skipped")), (38, 3, 4));
}

#[test]
fn the_json_has_the_words_of_the_command_line_and_the_figures_of_the_run() {
    let run = support::survey(1);
    let json = parsed(&run);
    let tcp = json["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["label"] == "tcp block cross-cpu")
        .expect("a case of the fixture");
    let (flow, ends) = (&tcp["case"]["flows"][0], &tcp["case"]["ends"]);
    let words = [&flow["transport"], &ends["waiting"], &ends["placement"], &ends["kind"], &tcp["path"]["link"]];
    assert_eq!(words.map(|word| word.as_str().unwrap()), ["tcp", "block", "cross-cpu", "processes", "loopback"]);
    let p50 = run.case(tcp["id"].as_str().unwrap()).unwrap().primary().latency_ns.p50.unwrap();
    assert_eq!(tcp["latency_ns"]["p50"]["value"].as_f64(), Some(p50.value));
    assert_eq!(tcp["latency_ns"]["p50"]["low"].as_f64(), p50.low);
    let invalid = json["cases"].as_array().unwrap().last().unwrap();
    assert_eq!(invalid["flows"][0]["options"], serde_json::json!({"nodelay": "on", "sndbuf": "4096"}));
    assert_eq!(invalid["valid"], false);
}

#[test]
fn percentiles_with_too_few_samples_are_null_and_kernel_transports_have_no_server() {
    let json = parsed(&support::survey(1));
    let case = |label: &str| {
        json["cases"].as_array().unwrap().iter().find(|case| case["label"] == label).expect("a case").clone()
    };
    let open_loop = case("udp block cross-cpu 1000/s");
    assert!(open_loop["latency_ns"]["p99"].is_null() && open_loop["latency_ns"]["p999"].is_null());
    assert_eq!(open_loop["ledger"]["lost"], serde_json::json!({"receive-buffer-overflow": 2}));
    assert_eq!(open_loop["ledger"]["unexplained"], 1);
    let roles =
        |label: &str| contract::list(&case(label), "ends").iter().map(|end| end["role"].clone()).collect::<Vec<_>>();
    assert_eq!(
        (roles("icmp block cross-cpu").len(), roles("tcp block cross-cpu")),
        (1, vec!["client".into(), "server".into()])
    );
}

#[test]
fn numbers_that_are_not_finite_become_null() {
    let mut run = support::survey(1);
    run.cases[0].ends[0].cpu_seconds = f64::NAN;
    run.cases[0].primary_mut().curve[0].latency_ns = f64::INFINITY;
    let json: Value = serde_json::from_str(&run.to_json()).expect("valid JSON");
    assert!(json["cases"][0]["ends"][0]["cpu_seconds"].is_null());
}

#[test]
fn the_printed_run_loads_again() {
    let run = support::survey(1);
    assert!(hairpin_model::upgrade::load(&run.to_json()).expect("a loadable run").0 == run);
}

/// The run with `value` at `pointer`; with `None`, without the member there.
fn changed(run: &Value, pointer: &str, value: Option<Value>) -> Value {
    let mut changed = run.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = changed.pointer_mut(parent).unwrap_or_else(|| panic!("no {pointer}"));
    match value {
        Some(value) => parent[name] = value,
        None => drop(parent.as_object_mut().expect("an object").remove(name).expect("a member")),
    }
    changed
}

/// Asserts that the schema forbids this value, or for `None` a missing member, at `pointer`.
fn assert_forbidden(run: &Value, pointer: &str, value: Option<Value>) {
    assert!(!schema::faults(&changed(run, pointer, value)).is_empty(), "{pointer}");
}

/// Asserts that this change in a case breaks the contract, with a fault that begins with `expected`.
fn assert_broken(run: &Value, case: usize, (pointer, value, expected): (&str, Option<Value>, &str)) {
    let found = contract::faults(&changed(run, &format!("/cases/{case}/{pointer}"), value));
    let expected = format!("cases[{case}].{expected}");
    assert!(found.iter().any(|fault| fault.starts_with(&expected)), "{expected}: {found:?}");
}

fn figure(value: f64) -> Value {
    json!({"value": value, "low": null, "high": null})
}

#[test]
fn faults_of_one_way_loads_are_reported_with_their_place() {
    let runs = [one_way::message_rate(), support::bulk::run(), one_way::offered_load()].map(|run| parsed(&run));
    for (which, name, value, expected) in [
        (0, "offered_per_s", json!(5.0), "offered_per_s: is present although the load has no"),
        (0, "delivered_per_s", figure(5.0), "delivered_per_s: is present although the load has no"),
        (1, "fairness", figure(0.0), "fairness: is not a share"),
        (1, "fairness", figure(1.5), "fairness: is not a share"),
        (2, "offered_per_s", json!(5.0), "offered_per_s: differs from the rate of the load"),
        (2, "delivered_share", figure(1.5), "delivered_share: is not a share"),
        (2, "pacing/share_below_half", figure(-0.1), "pacing.share_below_half: is not a share"),
        (2, "ledger/lost", json!({"link": 5}), "ledger: does not close"),
    ] {
        let (pointer, expected) = (format!("flows/0/{name}"), format!("flows[0].{expected}"));
        assert_broken(&runs[which], 0, (&pointer, Some(value), &expected));
    }
    let copy = changed(&runs[0], "/cases/0/received_per_s", Some(figure(7.0)));
    assert_eq!(contract::faults(&copy), ["cases[0].received_per_s: differs from the value of the only flow"]);
}

#[test]
fn faults_of_cases_under_load_are_reported_with_their_place() {
    let run = parsed(&under_load::congestion());
    let no_flow = "flows[1]: is neither a round-trip probe nor a one-way load";
    for (pointer, value, expected) in [
        ("flows/1/role", json!("measured"), no_flow),
        ("flows/1/id", json!("probe"), "flows: have a duplicate id"),
        ("ends/1/flow", json!("other"), "ends[1].flow: is not a flow of the case"),
        ("flows/1/direction", json!("round-trip"), no_flow),
        ("phases/idle/load/goodput_bytes_per_s", figure(7.0), "phases.idle.load.goodput_bytes_per_s: is present"),
        ("phases/loaded/queue_bytes/max", json!(50.0), "phases.loaded.queue_bytes.max: is less than p50"),
        ("phases/loaded/probe/latency_ns/p50", figure(7.0), "phases.loaded.probe.latency_ns: differs from"),
        ("phases/recovering/probe/ledger/sent", json!(401), "phases.recovering.probe.ledger: does not close"),
        ("responsiveness_rpm/draft", json!(""), "responsiveness_rpm.draft: is empty"),
    ] {
        assert_broken(&run, 1, (pointer, Some(value), expected));
    }
    for name in ["phases", "added_ns", "responsiveness_rpm", "recovered_after_ns"] {
        assert_broken(&run, 1, (name, None, &format!("{name}: is missing")));
    }
}

#[test]
fn a_case_under_load_has_one_probe_and_its_flows_in_any_order() {
    let mut run = parsed(&under_load::congestion());
    for pointer in ["/cases/1/flows", "/cases/1/case/flows"] {
        let flows = run.pointer_mut(pointer).and_then(Value::as_array_mut).expect("a list of flows");
        let mut foreign = flows[0].clone();
        (foreign["id"], foreign["role"]) = (json!("foreign-probe"), json!("foreign-probe"));
        flows.push(foreign);
    }
    assert_eq!(contract::faults(&run), [""; 0]);
    run["cases"][1]["flows"].as_array_mut().expect("a list of flows").swap(0, 2);
    assert_eq!(contract::faults(&run), [""; 0]);
    run["cases"][1]["flows"][0]["role"] = json!("probe");
    assert!(contract::faults(&run).contains(&"cases[1].flows: has several probes".to_owned()));
}

fn in_a_case(run: &Value, pointer: &str) -> String {
    let mut pointers = (0..contract::list(run, "cases").len()).map(|number| format!("/cases/{number}/{pointer}"));
    pointers.find(|pointer| run.pointer(pointer).is_some()).unwrap_or_else(|| panic!("no {pointer}"))
}

#[test]
fn the_schema_forbids_invalid_values_and_missing_members() {
    if !schema::IS_CHECKED {
        skip!("`cargo xtask ci` alone builds hairpin-testing with its feature `schema`");
    }
    let survey = parsed(&support::survey(1));
    for (pointer, value) in [
        ("/schema", json!("hairpin:runs")),
        ("/version", json!(99)),
        ("/seed", json!(null)),
        ("/tool/version", json!(1)),
        ("/skipped/0/reason", json!(null)),
        ("/findings/0/evidence/0/value", json!(null)),
        ("/comparisons/0/figure", json!("speed")),
        ("/cases/0/why_invalid", json!([1])),
        ("/cases/0/case/ends/waiting", json!("sleep")),
        ("/cases/0/case/flows/0/options", json!([])),
        ("/cases/0/flows/0/load/kind", json!("flood")),
        ("/cases/0/flows/0/samples", json!(-1)),
        ("/cases/0/flows/0/ledger/lost", json!({"link": -1})),
        ("/cases/0/flows/0/latency_ns/p90", json!(3)),
        ("/cases/0/flows/0/rate_per_s", json!({"value": 1.0})),
        ("/cases/0/flows/0/rate_per_s/low", json!({"low": 1})),
        ("/cases/0/ends/0/role", json!("near")),
        ("/cases/0/ends/0/cpu_seconds", json!("0")),
    ] {
        assert_forbidden(&survey, pointer, Some(value));
    }
    let linked = parsed(&support::links::run());
    assert_forbidden(&linked, &in_a_case(&linked, "path/relay/lateness_ns/max"), Some(json!(null)));
    for (run, pointer, value) in [
        (one_way::message_rate(), "load/batch", json!(null)),
        (one_way::message_rate(), "received_per_s", json!(5)),
        (one_way::message_rate(), "sent_per_s", json!({"value": 1.0})),
        (one_way::message_rate(), "system_calls_per_message", json!({"value": 1.0})),
        (one_way::message_rate(), "cpu_seconds_per_million", json!({"client": null})),
        (support::bulk::run(), "load/write_size_bytes", json!("64 KiB")),
        (support::bulk::run(), "goodput_bytes_per_s", json!("fast")),
        (one_way::offered_load(), "pacing/method", json!("soon")),
        (one_way::offered_load(), "pacing/gap_ns/p99", json!(7)),
    ] {
        assert_forbidden(&parsed(&run), &format!("/cases/0/flows/0/{pointer}"), Some(value));
    }
    let knees = parsed(&one_way::offered_load());
    assert_forbidden(&knees, "/answer/knees/0/delivered_per_s", Some(json!("10")));
    let loaded = parsed(&under_load::congestion());
    for (pointer, value) in [("phases/loaded/queue_bytes", json!(5)), ("added_ns/p50", json!(170.0))] {
        assert_forbidden(&loaded, &in_a_case(&loaded, pointer), Some(value));
    }
    for pointer in [
        "added_ns/p50",
        "added_ns/p99",
        "responsiveness_rpm/value",
        "responsiveness_rpm/low",
        "responsiveness_rpm/high",
        "responsiveness_rpm/draft",
        "phases/idle",
        "phases/loaded",
        "phases/recovering",
        "phases/idle/probe",
        "phases/loaded/probe/samples",
        "phases/loaded/probe/latency_ns",
        "phases/recovering/probe/ledger",
        "phases/loaded/load",
        "phases/loaded/load/goodput_bytes_per_s",
        "phases/idle/queue_bytes",
        "phases/loaded/queue_bytes/p50",
        "phases/loaded/queue_bytes/max",
    ] {
        assert_forbidden(&loaded, &in_a_case(&loaded, pointer), None);
    }
}
