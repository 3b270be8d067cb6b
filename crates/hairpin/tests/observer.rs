//! `hairpin observer` as a user runs it: what each end recorded, the capture, the costs in JSON, and errors.

use serde_json::Value;

use crate::support::contract::assert_kept;
use crate::support::{
    Arguments, PROGRAM, Place, Running, awaited, command_line, is_a, list, rounds, signal, text, until,
};

/// Messages measured in each round; 10 more are the warm-up.
const LENGTHS: &str = "--count 300 --warmup 10 --rounds 1 --placement same-cpu --waiting block";

fn observer_of(case: &Value) -> &str {
    text(&case["case"]["flows"][0]["load"]["observer"])
}

/// What an end of the case recorded, in its only round.
fn recorded(round: &Value, role: &str, name: &str) -> Option<u64> {
    let ends = list(&round["outcome"]["ends"]);
    let end = ends.iter().find(|end| end["role"] == role).unwrap_or_else(|| panic!("no {role} in {round}"));
    let fact = list(&end["facts"]).iter().find(|fact| fact["name"] == name)?;
    fact["value"].as_f64().map(|count| count as u64)
}

#[test]
fn every_observer_records_the_messages_of_both_ends() {
    let place = Place::new();
    let run = place.json(format!("observer --transport tcp,udp,unix-stream --seed 5 --out run {LENGTHS}"));
    assert_kept(&run);
    let rounds = rounds(&place.path("run"));
    for case in list(&run["cases"]) {
        let observer = observer_of(case);
        let cost = case["observer"].as_array().and_then(|costs| costs.first());
        // A case whose only round another program disturbed has no figures.
        let is_compared = case["case"]["replicate"] == 1 || observer != "none";
        assert!(cost.is_some() == is_compared || case["valid"] == false, "{case}");
        if let Some(cost) = cost {
            assert_eq!(cost["observer"], observer, "{case}");
            for figure in ["rate_against_none", "time_per_message_against_none"] {
                assert!(cost[figure]["value"].is_number(), "{case}");
            }
        }
        let round = rounds.iter().find(|round| round["case_id"] == case["id"]).unwrap();
        let flow = &round["outcome"]["flows"][0];
        let [sent, received] = ["sent", "received"].map(|which| flow["ledger"][which].as_u64().unwrap());
        assert_eq!(sent, 300, "{case}");
        let [client, server] = ["client", "server"].map(|role| recorded(round, role, "observer.recorded"));
        match observer {
            "none" | "recorder" | "timestamps" => assert_eq!((client, server), (None, None), "{case}"),
            "capture" => assert!(client > Some(0) && server.is_none(), "{case}: {client:?} {server:?}"),
            _ => assert!(client == Some(310) && server >= Some(received), "{case}: {client:?} {server:?}"),
        }
        // The kernel enables the stamps a moment after they are requested, so a short round may have none.
        let stamps = ["client", "server"].map(|role| recorded(round, role, "stamps.received").is_some());
        assert_eq!(stamps, [false, observer == "timestamps"], "{case}");
    }
}

/// Dropping the place checks that no process is left.
#[test]
fn the_capture_ends_with_a_round_that_is_killed() {
    let place = Place::new();
    let short = place.json(format!("observer --transport udp --observer capture {LENGTHS}"));
    if let [skipped] = list(&short["skipped"]) {
        skip!("{}", text(&skipped["reason"]));
    }
    let plan = "observer --transport udp --observer capture --duration 2s --rounds 20 --placement same-cpu";
    let running = place.start(plan);
    let capture = awaited("a round captures", || running.child(|line| line.contains("__capture")));
    let line = command_line(capture);
    let round = line.split_whitespace().last().and_then(|id| id.parse().ok()).expect("the id of the round");
    signal("KILL", round);
    until("the capture has ended", || !is_a("__capture", capture));
    signal("INT", running.id());
    running.end();
}

#[test]
fn a_folder_without_room_for_the_log_is_named() {
    let place = Place::new();
    let plan = format!("observer --transport unix-stream --observer tracing-file --json {LENGTHS}");
    let mut command = place.command(PROGRAM);
    let run = Running::start(command.env("TMPDIR", place.path("missing")).args(plan.words())).end().json();
    let failed = list(&run["cases"]).iter().find(|case| observer_of(case) == "tracing-file").unwrap();
    let cause = text(&failed["failed_rounds"][0]);
    assert!(
        cause.contains("cannot observe messages: cannot create a file in ") && cause.contains("TMPDIR"),
        "{cause}"
    );
}
