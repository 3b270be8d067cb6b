//! Small writes as a user runs them: figures, evidence, findings, checks, and errors.

use std::path::Path;

use hairpin_testing::{or_skip, works};
use serde_json::{Value, json};

use crate::support::contract::assert_kept;
use crate::support::{Arguments, PROGRAM, Place, Running, list, names_in, on_one_line, rounds, text};

/// A short run. Three rounds are the minimum for an interval. The first exchange of a connection is fast, so one
/// exchange is warm-up.
const SHORT: &str = "small-writes --placement same-cpu --transport tcp --rounds 3 --exchanges 4 --warmup 1 --seed 5";
/// Code of the main finding in these tests.
const NAGLE: &str = "nagle-meets-delayed-ack";

fn remedy_of(case: &Value) -> &str {
    text(&case["case"]["flows"][0]["load"]["remedy"])
}

fn case<'r>(run: &'r Value, transport: &str, remedy: &str) -> &'r Value {
    let wanted = |one: &&Value| one["case"]["flows"][0]["transport"] == transport && remedy_of(one) == remedy;
    list(&run["cases"]).iter().find(wanted).unwrap_or_else(|| panic!("no {transport} {remedy} in {run}"))
}

fn finding<'r>(run: &'r Value, code: &str) -> Option<&'r Value> {
    list(&run["findings"]).iter().find(|finding| finding["code"] == code)
}

/// The remedies of the cases that a finding names.
fn remedies_in(run: &Value, code: &str) -> Vec<String> {
    let Some(finding) = finding(run, code) else { return Vec::new() };
    let named = |one: &&Value| list(&finding["cases"]).contains(&one["id"]);
    list(&run["cases"]).iter().filter(named).map(|one| remedy_of(one).to_owned()).collect()
}

fn value(figure: &Value) -> f64 {
    figure["value"].as_f64().unwrap_or_else(|| panic!("no figure: {figure}"))
}

#[test]
fn every_remedy_keeps_the_contract() {
    let place = Place::new();
    let run = place.json((SHORT, "--remedy all,batch=10 --out run"));
    assert_kept(&run);
    let remedies: Vec<&str> = list(&run["cases"]).iter().map(remedy_of).collect();
    let all = "default nodelay cork cork-forgotten more one-write writev quickack batch=10";
    assert_eq!(remedies.join(" "), all);
    for one in list(&run["cases"]) {
        assert_eq!(one["case"]["flows"][0]["load"]["writes"], "100x2", "{one}");
        assert_eq!((&one["flows"][0]["samples"], &one["valid"]), (&json!(12), &json!(true)), "{one}");
        let flow = &one["flows"][0];
        assert_eq!(flow["exchange_ns"], one["latency_ns"], "{one}");
        for key in ["first_exchange_ns", "bytes_per_ms", "segments_per_exchange", "system_calls_per_exchange"] {
            assert!(value(&flow[key]) > 0.0, "{key}: {one}");
        }
        assert!(value(&flow["pure_acks_per_exchange"]) >= 0.0, "{one}");
        let speed_up = &flow["speed_up_against_default"];
        assert_eq!(speed_up.is_null(), remedy_of(one) == "default", "{one}");
    }
    // Checks counts, not times: a hundred writes are a hundred system calls and, without Nagle's algorithm, at most a
    // hundred segments. A congestion control with pacing (bbr) merges some segments.
    let per_exchange = |remedy: &str, key: &str| value(&case(&run, "tcp", remedy)["flows"][0][key]);
    for (remedy, writes) in
        [("default", 100.0), ("nodelay", 100.0), ("cork", 102.0), ("one-write", 1.0), ("writev", 1.0)]
    {
        let calls = per_exchange(remedy, "system_calls_per_exchange");
        assert!((writes + 1.0..=writes + 3.0).contains(&calls), "{remedy}: {calls} calls");
    }
    assert!(per_exchange("nodelay", "segments_per_exchange") > 10.0, "{run}");
    for remedy in ["cork", "more", "one-write", "writev"] {
        assert!(per_exchange(remedy, "segments_per_exchange") < 4.0, "{remedy}: {run}");
    }
}

#[test]
fn controls_without_nagle_have_no_segments_to_count() {
    let place = Place::new();
    let plan = "small-writes --placement same-cpu --transport pipe,unix-stream --remedy default,one-write --rounds 2";
    let run = place.json((plan, "--exchanges 10"));
    assert_kept(&run);
    for one in list(&run["cases"]) {
        assert_eq!((&one["flows"][0]["samples"], &one["valid"]), (&json!(20), &json!(true)), "{one}");
        for key in ["segments_per_exchange", "pure_acks_per_exchange"] {
            assert!(one["flows"][0][key].is_null(), "{key}: {one}");
        }
    }
    assert_eq!(finding(&run, NAGLE), None);
}

#[test]
fn nagle_with_delayed_acks_is_reported_only_for_cases_that_have_it() {
    let place = Place::new();
    let run = place.json((SHORT, "--remedy default,nodelay,cork,more,one-write"));
    assert_eq!(remedies_in(&run, NAGLE), ["default"], "{}", run["findings"]);
    let found = finding(&run, NAGLE).expect("it was just looked at");
    assert!(list(&found["evidence"]).len() >= 3, "more than the latency alone: {found}");
    assert!(text(&found["counter_experiment"]["command"]).contains("--remedy default,nodelay"), "{found}");
    assert_eq!(found["proved"]["verdict"], "confirmed", "both were measured: {found}");
    assert_eq!(remedies_in(&run, "many-small-segments"), ["nodelay"], "{}", run["findings"]);
}

#[test]
fn an_answer_in_two_writes_is_held_at_the_server() {
    let place = Place::new();
    let plan = "small-writes --transport tcp --placement same-cpu --writes 37 --reply-writes 40,1000 --remedy default,nodelay \
                --exchanges 6 --rounds 4 --json";
    let run = place.hairpin(plan).with_code(0).json();
    let found = finding(&run, "nagle-meets-delayed-ack").unwrap_or_else(|| panic!("no finding: {}", run["findings"]));
    assert_eq!(remedies_in(&run, "nagle-meets-delayed-ack"), ["default"]);
    let summary = text(&found["summary"]);
    assert!(summary.contains("of the writes of an answer") && summary.contains("at the server"), "{summary}");
    assert!(text(&found["advice"]).starts_with("Change the server"), "{found}");
}

#[test]
fn a_sleeping_server_is_not_called_nagle() {
    let place = Place::new();
    // The server sleeps for 40 ms, as long as a delayed ACK, with Nagle's algorithm on. It acknowledges data at once,
    // so no data are held, and tracing must not change that.
    for writes in ["100x2", "2x2"] {
        let sleeping = ["--remedy", "default", "--writes", writes, "--injected-fault", "sleep=40ms/1"];
        let run = place.json((SHORT, &sleeping));
        assert_eq!(finding(&run, NAGLE), None, "{writes}: {}", run["findings"]);
        assert!(finding(&run, "echo-stalled").is_some(), "{writes}: {}", run["findings"]);
    }
}

#[test]
fn latency_without_a_trace_is_not_called_nagle() {
    let place = Place::new();
    let run = place.json((SHORT, "--remedy default --trace off"));
    assert_eq!(finding(&run, NAGLE), None, "{}", run["findings"]);
    assert!(case(&run, "tcp", "default")["trace"].is_null());
}

#[test]
fn a_counter_experiment_runs_at_once_on_request() {
    let place = Place::new();
    let high = |run: &Value| {
        let found = finding(run, NAGLE).expect("the default stalls");
        assert_eq!(found["proved"]["verdict"], "confirmed", "{found}");
        found["proved"]["effect"]["high"].as_f64()
    };
    // There is no interval if the machine slows down during the run.
    let mut runs = (0..20).map(|_| place.json((SHORT, "--remedy default --prove")));
    let run = runs.find(|run| high(run).is_some()).expect("an interval");
    assert!(high(&run) < Some(0.0), "the change saves time: {run}");
    assert!(list(&run["cases"]).iter().any(|one| remedy_of(one) == "nodelay"), "the changed case is reported");
    let without = place.json((SHORT, "--remedy default"));
    assert_eq!(list(&without["cases"]).len(), 1);
    assert!(finding(&without, NAGLE).expect("the default stalls")["proved"].is_null());
}

#[test]
fn the_ladder_shows_the_held_write_and_the_late_acknowledgment() {
    let place = Place::new();
    place.json((SHORT, "--remedy default,one-write --out run"));
    let shown = place.hairpin("report run --all --ladder").with_code(0).stdout;
    assert!(on_one_line(&shown).contains(" evidence rounds in "), "evidence rounds are counted separately: {shown}");
    let words = on_one_line(&shown);
    for expected in ["Nagle", "ACK", "held"] {
        assert!(words.contains(expected), "{expected}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    let other = place.hairpin("report run --ladder=one-write").with_code(0).stdout;
    assert_ne!(shown, other);
    let unknown = place.hairpin("report run --ladder=defualt").refused();
    assert!(unknown.stderr.contains("unknown case of the ladder `defualt` (hint: did you mean"), "{unknown:#?}");
}

/// Runs the program without the right to capture. The error says why this test cannot run here.
fn without_capture(place: &Place, arguments: impl Arguments) -> Result<Value, String> {
    let drop = ["--bounding-set=-net_raw", "--inh-caps=-net_raw"];
    works(&["setpriv", drop[0], drop[1], "true"])?;
    let mut command = place.command("setpriv");
    command.args(drop).arg(PROGRAM).args(arguments.words()).arg("--json");
    Ok(Running::start(&mut command).end().with_code(0).json())
}

#[test]
fn without_the_right_to_capture_the_ladder_comes_from_time_stamps() {
    let place = Place::new();
    let run = or_skip!(without_capture(&place, (SHORT, "--remedy default --out run")));
    let trace = &case(&run, "tcp", "default")["trace"];
    assert_eq!(trace["capture"]["kind"], "skipped", "{trace}");
    assert!(text(&trace["capture"]["reason"]).contains("hint"), "{trace}");
    assert_eq!(trace["sequence"]["source"], "kernel-timestamps", "{trace}");
    assert_eq!(remedies_in(&run, NAGLE), ["default"], "the evidence needs no privilege: {}", run["findings"]);
    assert!(!names_in(&place.path("run")).iter().any(|name| name == "captures"));
    let shown = place.hairpin("report run --all --ladder").with_code(0).stdout;
    assert!(on_one_line(&shown).contains("held"), "{shown}");
}

#[test]
fn traces_are_in_the_run_folder_and_no_timed_round_is_traced() {
    let place = Place::new();
    let run = place.json((SHORT, "--remedy default,one-write --out run"));
    assert!(!names_in(&place.path("run/traces")).is_empty());
    for remedy in ["default", "one-write"] {
        let one = case(&run, "tcp", remedy);
        let counts = (&one["rounds"], &one["flows"][0]["samples"]);
        assert_eq!(counts, (&json!(3), &json!(12)), "timed rounds only: {one}");
        let cost = &one["trace"]["cost_ratio"];
        assert!(cost["value"].is_number(), "{cost}");
        assert!(one["trace"]["sequence"]["events"].as_array().is_some_and(|events| events.len() > 4), "{one}");
    }
    let again = place.json("analyse run");
    assert_eq!(again["findings"], run["findings"], "recomputed from the saved data");
    assert_eq!(again["cases"], run["cases"]);
}

#[test]
fn bad_input_is_refused_with_a_hint_before_anything_runs() {
    let place = Place::new();
    let refusals = [
        ("--writes 100x0", "write of 0 bytes"),
        ("--writes 0", "write of 0 bytes"),
        ("--writes x", "is not a valid write size"),
        ("--writes 100000x1", "1 to 10000 writes"),
        ("--remedy nodleay", "did you mean `nodelay`?"),
        ("--remedy batch=0", "batch=10"),
        ("--gap 3s", "time-out"),
        ("--pipeline 0", "pipeline"),
        ("--exchanges 0", "exchanges"),
        ("--transport udp", "boundaries"),
        ("--transport tpc", "did you mean `tcp`?"),
        ("--option nodelay=on", "--remedy"),
        ("--reply 0", "reply"),
        ("--ladder=nodleay", "unknown case of the ladder `nodleay` (hint: did you mean `nodelay`?)"),
        (
            "--ladder=zzz --transport tcp,pipe --remedy default,one-write --placement same-cpu",
            "unknown case of the ladder `zzz` (hint: one of all, most-telling, default, one-write, tcp block same-cpu default \
             100x2 B, tcp block same-cpu one-write 100x2 B)",
        ),
        ("--ladder=nodelay --remedy default", "unknown case of the ladder `nodelay` (hint: "),
        ("--ladder --trace off", "--trace off disables tracing (hint: omit one of them)"),
        ("--ladder nodelay", "(hint: use `--ladder=nodelay`, with an equals sign)"),
        ("--gap 1", "`1` is not a duration: its unit is missing (hint: "),
        ("--writes 2x100,foo", "`foo` of `2x100,foo` is not a valid write size"),
    ];
    for (arguments, expected) in refusals {
        let ran = place.hairpin(("small-writes --out run", arguments)).refused();
        assert!(on_one_line(&ran.stderr).contains(expected), "{arguments:?}: {expected}\n{ran:#?}");
        assert!(!place.path("run").exists(), "no folder, so no round: {arguments:?}");
    }
    let help = place.hairpin("small-writes --help").with_code(0).stdout;
    assert!(on_one_line(&help).contains("WHICH: most-telling (default options, else the longest wait), all, "));
}

/// Returns for each exchange of each traced round with that remedy the ends that held data (Nagle's algorithm).
fn holding_ends(run: &Path, remedy: &str) -> Vec<Vec<Vec<String>>> {
    let ends = |exchange: &Value| {
        let held = list(&exchange["waits"]).iter().filter(|wait| wait["cause"] == "nagle");
        held.map(|wait| text(&wait["end"]).to_owned()).collect()
    };
    let of_remedy = rounds(run).into_iter().filter(|round| remedy_of(&round["order"]) == remedy);
    let traced = of_remedy.filter(|round| round["order"]["purpose"] == "traced");
    traced.map(|round| list(&round["outcome"]["traced"]["exchanges"]).iter().map(ends).collect()).collect()
}

#[test]
fn several_requests_may_be_in_flight_before_their_answers() {
    let place = Place::new();
    let plan = "small-writes --placement same-cpu --transport tcp --writes 4,3210 --gap 1ms --pipeline 3 --remedy default,nodelay,one-write \
                --rounds 2 --exchanges 6 --out run";
    let run = place.json(plan);
    assert_kept(&run);
    for one in list(&run["cases"]) {
        let load = &one["case"]["flows"][0]["load"];
        assert_eq!((&load["pipeline"], &one["flows"][0]["samples"]), (&json!(3), &json!(12)), "{one}");
        assert_eq!((&load["writes"], &load["gap_ns"]), (&json!("4,3210"), &json!(1_000_000)), "{one}");
    }
    for round in rounds(&place.path("run")) {
        let exchanges = round["order"]["extent"]["count"].as_u64().expect("a number of exchanges");
        assert_eq!(exchanges % 3, 0, "whole windows: {round}");
    }
    let shown = place.hairpin("report run --all").with_code(0).stdout.replace('\n', " ");
    assert!(shown.contains("6 timed rounds and 18 evidence rounds"), "2 timed rounds and 3 pairs per case: {shown}");
    // The case `one-write` may or may not stall: its second request may wait for the ACK of its first request.
    let named = remedies_in(&run, NAGLE);
    assert!(named.iter().any(|one| one == "default") && !named.iter().any(|one| one == "nodelay"), "{named:?}");
}

#[test]
fn without_nagle_at_both_ends_nothing_in_flight_is_held() {
    let place = Place::new();
    let plan = "small-writes --placement same-cpu --transport tcp --writes 4,3210 --pipeline 4 --remedy default,nodelay --rounds 2 \
                --exchanges 12 --out run";
    let run = place.json(plan);
    let nodelay = case(&run, "tcp", "nodelay");
    for end in list(&nodelay["ends"]) {
        let options = list(&end["effective_options"]);
        let granted = options.iter().find(|option| option["name"] == "nodelay").expect("tcp has it");
        assert_eq!((&granted["before"], &granted["after"]), (&json!("on"), &json!("on")), "{end}: {nodelay}");
    }
    // With nodelay, each write and each answer is a segment. Nagle's algorithm merges some of them.
    let of = |remedy: &str, key: &str| value(&case(&run, "tcp", remedy)["flows"][0][key]);
    let segments = ["default", "nodelay"].map(|remedy| of(remedy, "segments_per_exchange"));
    assert!(segments[0] < 2.5 && segments[1] > 2.5, "{segments:?}");
    for remedy in ["default", "nodelay"] {
        let calls = of(remedy, "system_calls_per_exchange");
        assert!((2.0..=3.5).contains(&calls), "two writes, and one read of some answers: {remedy} {calls}");
    }
    let none = holding_ends(&place.path("run"), "default");
    assert_eq!(none.len(), 3, "three traced rounds");
    for end in ["client", "server"] {
        assert!(none.concat().concat().iter().any(|one| one == end), "both ends hold data: {none:?}");
    }
    for round in holding_ends(&place.path("run"), "nodelay") {
        assert!(round.len() >= 12 && round.concat().is_empty(), "{round:?}");
    }
}
