//! The contract of `--json` for one-way loads, on short runs of the real program.

use hairpin_testing::{contract, schema};
use serde_json::{Value, json};

use crate::support::{Place, list, text};

/// Returns a run with these arguments, which must keep the contract.
fn kept(words: &str) -> Value {
    let place = Place::new();
    let plan = format!("{words} --placement same-cpu --rounds 2 --out run");
    let run = place.json(&plan);
    assert_eq!(contract::faults(&run), [""; 0]);
    run
}

/// Fails unless the case has each of these figures, with the same value in its flow.
fn assert_figures(case: &Value, names: &[&str]) {
    for name in names {
        assert!(case[name]["value"].is_number() && case[name] == case["flows"][0][name], "{name}: {case}");
    }
}

/// Fails unless the run with this value is rejected.
fn assert_refused(run: &Value, pointer: &str, value: Value) {
    let mut wrong = run.clone();
    *wrong.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
    assert!(!contract::faults(&wrong).is_empty(), "{pointer}");
    assert!(!schema::faults(&wrong).is_empty() || !schema::IS_CHECKED, "{pointer}");
}

#[test]
fn message_rate_keeps_the_contract() {
    let run = kept("message-rate --transport tcp,udp,unix-stream --batch 1,8 --duration 20ms --warmup 5ms");
    for case in list(&run["cases"]) {
        assert_figures(case, &["received_per_s", "sent_per_s", "goodput_bytes_per_s"]);
        for name in ["system_calls_per_message", "cpu_seconds_per_million"] {
            assert!(["client", "server"].iter().all(|end| case[name][end]["value"].is_number()), "{name}: {case}");
        }
        let load = &case["case"]["flows"][0]["load"];
        assert!(load["batch"] == 1 || load["batch"] == 8, "{load}");
        assert_eq!((&load["size_bytes"], &case["case"]["flows"][0]["connections"]), (&json!(64), &json!(1)));
        assert!(case["offered_per_s"].is_null() && case["fairness"].is_null(), "{case}");
        assert_eq!(case["ledger"]["unexplained"], 0, "{case}");
    }
    assert!(text(&run["answer"]["headline"]).contains("ighest message rate"), "{}", run["answer"]);
    let pairs = list(&run["answer"]["pairs"]);
    assert!(!pairs.is_empty() && pairs.iter().all(|pair| pair["figure"] == "rate"), "{}", run["answer"]);
    assert_refused(&run, "/cases/0/flows/0/received_per_s", json!("fast"));
    assert_refused(&run, "/cases/0/flows/0/cpu_seconds_per_million/server", json!(1));
    assert_refused(&run, "/cases/0/case/flows/0/load/batch", json!(null));
}

#[test]
fn bulk_keeps_the_contract() {
    let run = kept("bulk --transport tcp,udp,pipe --duration 20ms --omit 5ms");
    for case in list(&run["cases"]) {
        assert_figures(case, &["goodput_bytes_per_s"]);
        assert!(case["case"]["flows"][0]["load"]["write_size_bytes"].is_u64(), "{case}");
        assert!(case["fairness"].is_null(), "one stream: {case}");
    }
    let pairs = list(&run["answer"]["pairs"]);
    assert!(!pairs.is_empty() && pairs.iter().all(|pair| pair["figure"] == "goodput"), "{}", run["answer"]);
    let shared = kept("bulk --transport tcp --connections 3 --duration 20ms --omit 5ms");
    assert_figures(&shared["cases"][0], &["goodput_bytes_per_s", "fairness"]);
    assert_refused(&shared, "/cases/0/flows/0/fairness", json!(0.9));
    assert_refused(&shared, "/cases/0/case/flows/0/load/write_size_bytes", json!("64 KiB"));
}

#[test]
fn offered_load_keeps_the_contract_and_saves_the_bracket_of_its_sweep() {
    // On a busy machine the generator may be too late at all rates, and then there is no knee.
    let mut runs = (0..20).map(|_| kept("offered-load --transport udp --rate 500,1000 --count 100 --warmup 5"));
    let run = runs.find(|run| !run["answer"]["knees"].is_null()).expect("one of twenty has a knee");
    for case in list(&run["cases"]) {
        assert_figures(case, &["delivered_per_s", "delivered_share", "sent_per_s"]);
        assert_eq!(case["offered_per_s"], case["case"]["flows"][0]["load"]["offered_per_s"], "{case}");
        let pacing = &case["pacing"];
        assert_eq!(pacing["method"], "sleep+spin", "{case}");
        assert!(["p50", "p99", "p999"].iter().all(|name| pacing["gap_ns"][name]["value"].is_number()), "{case}");
        assert!(pacing["share_below_half"]["value"].is_number(), "{case}");
    }
    let knees = list(&run["answer"]["knees"]);
    assert_eq!(knees.len(), 1, "{}", run["answer"]);
    assert_eq!(list(&knees[0]["cases"]).len(), 2, "{}", run["answer"]);
    assert!(["delivered_per_s", "not_delivered_per_s"].iter().any(|name| knees[0][name].is_number()), "{}", knees[0]);
    assert_refused(&run, "/cases/0/flows/0/pacing/method", json!("soon"));
    assert_refused(&run, "/cases/0/flows/0/delivered_share", json!(1));
    assert_refused(&run, "/answer/knees/0/cases", json!("none"));
}

#[test]
fn a_choice_has_an_answer_and_judges_every_case() {
    let run = kept("which --transport pipe,tcp --size 200 --rate 1000 --duration 20ms --warmup 5ms --waiting block");
    let answer = &run["answer"];
    let cases = list(&answer["cases"]);
    assert_eq!(cases.len(), 3, "pipe, tcp, and tcp with nodelay: {answer}");
    for case in cases {
        let has_its_case = |row: &Value| row["id"] == case["case"];
        assert!(list(&run["cases"]).iter().any(has_its_case), "{case}");
        assert!(case["delivered_share"].is_number() && case["cost"]["server_ns"].is_number(), "{case}");
        assert!(case["unmet"].is_array(), "{case}");
    }
    assert_eq!(answer["answer"], answer["headline"]);
    assert!(list(&answer["alike"]).len() < 3 && answer["would_change"].is_array(), "{answer}");
    // On a busy machine no case may be usable.
    let is_chosen = answer["transport"].is_string();
    assert_eq!(is_chosen, cases[0]["unmet"] == json!([]), "{answer}");
    assert!([&answer["options"], &answer["cost"]].iter().all(|part| part.is_object() == is_chosen), "{answer}");
    assert_eq!(run["plan"]["needs"]["rate_per_s"], 1000.0);
}
