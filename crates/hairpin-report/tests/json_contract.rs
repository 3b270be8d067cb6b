//! The JSON, a contract for scripts.

use hairpin_model::run::Run;
use hairpin_report::json;
use hairpin_testing::contract;
use serde_json::Value;

use crate::support;

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&json::render(run)).expect("it is JSON")
}

#[test]
fn what_is_printed_keeps_the_contract() {
    let json = parsed(&support::survey(1));
    assert_eq!(contract::faults(&json), [""; 0]);
    let count = |name: &str| contract::list(&json, name).len();
    assert_eq!((count("cases"), count("findings"), count("skipped")), (38, 3, 4));
}

#[test]
fn words_are_those_of_the_command_line_and_figures_those_of_the_run() {
    let run = support::survey(1);
    let json = parsed(&run);
    let tcp = json["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["label"] == "tcp block cross-cpu")
        .expect("the fixture has it");
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
fn too_few_samples_are_null_and_a_kernel_that_answers_is_no_server() {
    let json = parsed(&support::survey(1));
    let case = |label: &str| {
        json["cases"].as_array().unwrap().iter().find(|case| case["label"] == label).expect("it is there").clone()
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
    let json = parsed(&run);
    assert!(json["cases"][0]["ends"][0]["cpu_seconds"].is_null());
}

#[test]
fn the_printed_run_loads_again() {
    let run = support::survey(1);
    assert!(hairpin_model::upgrade::load(&json::render(&run)).expect("it loads").0 == run);
}
