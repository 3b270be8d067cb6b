//! A probe before, during and after a load: the counts of both flows, and faults in the middle of a round.

use hairpin_testing::or_skip;
use serde_json::Value;

use crate::support::contract::assert_kept;
use crate::support::{Place, can_link, list, number, rounds, signal, text};

/// Phases short enough for a test; their figures mean nothing.
const SHORT: &str = "--idle 150ms --ramp 100ms --duration 250ms --recovery 150ms --rounds 1 --placement same-cpu";

fn lost(ledger: &Value) -> u64 {
    ledger["lost"].as_object().expect("causes").values().map(number).sum()
}

fn assert_closes(ledger: &Value) {
    assert_eq!(ledger["unexplained"], 0, "{ledger}");
    let accounted = number(&ledger["received"]) + number(&ledger["late"]) + lost(ledger);
    assert_eq!(number(&ledger["sent"]), accounted, "{ledger}");
}

#[test]
fn the_ledgers_of_probe_and_load_close_separately_and_those_of_the_phases_within_the_probes() {
    let place = Place::new();
    let plan =
        format!("under-load {SHORT} --transport tcp,udp --load up,down,both,none --load-cpu same --out run --quiet");
    place.hairpin(plan).with_code(0);
    let run = place.json("report run");
    assert_kept(&run);
    assert_eq!(list(&run["cases"]).len(), 8);
    for case in list(&run["cases"]) {
        let flows = list(&case["flows"]);
        let names: Vec<&str> = flows.iter().map(|flow| text(&flow["id"])).collect();
        let expected: &[&str] = match flows.len() {
            1 => &["probe"],
            2 => &["probe", "load"],
            _ => &["probe", "load", "load-back"],
        };
        assert_eq!(names, expected, "{case}");
        for flow in flows {
            assert_closes(&flow["ledger"]);
            assert!(number(&flow["ledger"]["sent"]) > 0, "{flow}");
        }
        for phase in ["idle", "loaded", "recovering"] {
            let figures = &case["phases"][phase];
            assert_closes(&figures["probe"]["ledger"]);
            assert!(figures["queue_bytes"].is_null(), "there is no link to report it: {figures}");
            let has_goodput = !figures["load"]["goodput_bytes_per_s"].is_null();
            assert_eq!(has_goodput, phase == "loaded" && flows.len() > 1, "{phase}: {case}");
        }
        // On a busy machine the short idle phase may end before its first answer.
        let is_compared = number(&case["phases"]["idle"]["probe"]["ledger"]["received"]) > 0;
        assert_eq!(case["added_ns"]["p50"]["value"].is_number(), is_compared, "{case}");
        assert!(case["responsiveness_rpm"].is_null(), "{case}");
    }
    for round in rounds(&place.path("run")) {
        let probe = &round["outcome"]["flows"][0];
        let of_phases: u64 = ["idle", "ramp", "loaded", "recovering"]
            .iter()
            .map(|phase| number(&probe["phases"][phase]["ledger"]["sent"]))
            .sum();
        let warm_up_is_in_it = number(&probe["ledger"]["sent"]) > of_phases;
        assert!(
            number(&probe["ledger"]["sent"]) == of_phases || warm_up_is_in_it && lost(&probe["ledger"]) > 0,
            "{probe}"
        );
        for load in list(&round["outcome"]["flows"]).iter().filter(|flow| flow["id"] != "probe") {
            assert_eq!(load["ledger"]["sent"], load["sent"]["messages"], "each load has a ledger of its own: {load}");
        }
        for end in list(&round["outcome"]["ends"]) {
            assert!(end["phase_usage"]["loaded"]["cpu_ns"].is_u64(), "{end}");
            assert!(end["used_in_all"].is_null(), "{end}");
        }
    }
    let again = place.json("analyse run");
    for (case, before) in list(&again["cases"]).iter().zip(list(&run["cases"])) {
        assert_eq!(case["phases"], before["phases"], "recomputed from the saved data");
        assert_eq!(case["flows"], before["flows"], "recomputed from the saved data");
    }
}

#[test]
fn over_a_link_the_queue_is_reported_and_losses_of_both_flows_have_their_causes() {
    or_skip!(can_link());
    let place = Place::new();
    // Both flows are datagrams: the link distinguishes them by their ports.
    let plan =
        format!("under-load {SHORT} --load-transport udp --load-rate 12mbit --load-size 1000 --out run --json");
    let ran = place.hairpin((plan, ["--link", "rate=8mbit queue=16KiB delay=1ms"]));
    let run = ran.json();
    let case = &run["cases"][0];
    // On a busy machine the emulator is late or has no room for packets, reports this, and the round does not count.
    let why = case["why_invalid"].to_string();
    let was_busy = case["valid"] == false && (why.contains("no room") || why.contains("was late"));
    for flow in list(&case["flows"]) {
        assert!(flow["ledger"]["unexplained"] == 0 || was_busy, "{case}");
    }
    assert!(lost(&case["flows"][1]["ledger"]) > 0, "more is offered than the link carries: {case}");
    assert!(case["phases"]["loaded"]["queue_bytes"]["max"].as_f64() > Some(8_000.0), "{case}");
    assert!(case["phases"]["loaded"]["queue_bytes"]["p50"]["value"].is_number(), "{case}");
    let round = &rounds(&place.path("run"))[0];
    let timeline = &round["outcome"]["link"]["up"]["timeline"];
    assert_eq!(list(&timeline["queue_bytes_mean"]).len(), list(&timeline["queue_bytes_max"]).len());
    let out: u64 = list(&timeline["out_bytes"]).iter().map(number).sum();
    assert!(out > 0 && out <= number(&round["outcome"]["link"]["up"]["in_bytes"]), "{timeline}");
}

#[test]
fn responsiveness_is_measured_on_new_connections_under_a_tcp_load() {
    let place = Place::new();
    let plan = format!(
        "under-load {SHORT} --responsiveness on --load-cpu same --probe-connection own,per-message,shared --out run"
    );
    let run = place.json(plan);
    assert_kept(&run);
    assert_eq!(list(&run["cases"]).len(), 3);
    for case in list(&run["cases"]) {
        let rpm = &case["responsiveness_rpm"];
        assert_eq!(rpm["draft"], "draft-ietf-ippm-responsiveness-09", "{case}");
        assert!(rpm["value"].as_f64() > Some(0.0), "{case}");
        let flows = list(&case["flows"]);
        let foreign =
            flows.iter().find(|flow| flow["connection_use"] == "per-message").expect("one opens connections");
        assert!(number(&foreign["ledger"]["received"]) > 0, "{foreign}");
        for flow in flows {
            assert_closes(&flow["ledger"]);
        }
    }
}

#[test]
fn a_load_that_cannot_start_fails_its_round_and_a_flow_that_ends_early_leaves_the_other_measured() {
    let place = Place::new();
    let refused = format!("under-load {SHORT} --load-cpu same --load-option sndbuf=1000000000 --json");
    let run = place.hairpin(refused).with_code(3).json();
    let failed = text(&run["cases"][0]["failed_rounds"][0]);
    assert!(failed.contains("flow `load`: ") && failed.contains("sndbuf"), "{failed}");
    place.assert_nothing_left();

    let plan = "under-load --idle 100ms --ramp 100ms --duration 5s --recovery 100ms --rounds 1 --load-cpu same --json \
                --out run";
    let mut running = place.start(plan);
    signal("KILL", running.busy_server());
    let run = running.end().with_code(3).json();
    let outcome = &rounds(&place.path("run"))[0]["outcome"];
    let ([failed], [measured]) = (list(&outcome["failed_flows"]), list(&outcome["flows"])) else {
        panic!("one of two flows fails: {outcome}")
    };
    assert_ne!(failed["id"], measured["id"], "{outcome}");
    assert_closes(&measured["ledger"]);
    assert!(number(&measured["ledger"]["received"]) > 0, "{measured}");
    let case = &run["cases"][0];
    let expected = format!("flow `{}`: ", text(&failed["id"]));
    let told = text(&case["failed_rounds"][0]);
    assert!(told.contains(&expected) && told.contains("the server ended early"), "{told}");
    assert_eq!(case["valid"], false, "the probe without its load is not under load: {case}");
    assert!(case["phases"]["loaded"]["load"]["goodput_bytes_per_s"].is_null(), "no goodput: {case}");
}

#[test]
fn a_ramp_that_is_too_short_for_the_queue_marks_its_round() {
    or_skip!(can_link());
    let place = Place::new();
    // The queue takes 4 s to fill, much longer than the ramp.
    let plan = format!("under-load {SHORT} --load-transport udp --load-rate 4mbit --load-size 1000 --json");
    let run = place.hairpin((plan, ["--link", "rate=2mbit queue=1MiB delay=1ms"])).json();
    let case = &run["cases"][0];
    assert_eq!(case["valid"], false, "{case}");
    // On a busy machine the relay is late, which is reported first.
    let why = case["why_invalid"].to_string();
    assert!(why.contains("the load was not steady") || why.contains("the relay"), "{why}");
}

#[test]
fn impossible_loads_are_refused_before_they_start() {
    let place = Place::new();
    for (plan, expected) in [
        ("--closed-loop --rate 100", "--closed-loop and --rate"),
        ("--congestion none-such", "congestion control `none-such` is not available here"),
        ("--transport udp --probe-connection per-message", "no connections to open"),
        ("--transport udp --probe-connection shared", "the load's connection uses tcp"),
        ("--transport tcp --probe-connection shared --connections 2", "share only one connection, of one load"),
        ("--transport tcp --probe-connection shared --load none", "no load has a connection"),
        ("--responsiveness on --load-transport udp", "--responsiveness needs a load over TCP"),
        ("--congestion cubic --load none", "--congestion needs a load over TCP"),
        ("--load-rate 5", "is not a rate"),
        ("--load-transport pipe --link delay=2ms", "works on one machine only"),
    ] {
        let refused = place.hairpin(format!("under-load {plan}")).refused();
        assert!(crate::support::on_one_line(&refused.stderr).contains(expected), "{plan}: {}", refused.stderr);
    }
}

#[test]
fn the_idle_phase_is_compared_with_a_run_of_round_trips() {
    let place = Place::new();
    let plan =
        format!("under-load {SHORT} --rounds 6 --load-cpu same --load up,down --rate 1000 --out loaded --quiet");
    place.hairpin(plan.replace("--rounds 1", "")).with_code(0);
    let plan = "round-trip --transport udp --size 64B --rate 1000 --placement same-cpu --duration 150ms --rounds 6 --out plain --quiet";
    place.hairpin(plan).with_code(0);
    let compare = "compare plain loaded --allow-unlike --json";
    place.hairpin(compare).refused().told("no case in common");
    // On a busy machine, messages at a rate may be too late to be used: exit code 5, and the comparison says why.
    let ran = place.hairpin((compare, "--phase idle"));
    let code = if ran.code == Some(5) { 5 } else { 0 };
    let compared = ran.with_code(code).json();
    let invalid = list(&compared["invalid"]);
    assert_eq!(invalid.is_empty(), code == 0, "{compared}");
    assert!(!invalid.iter().any(|case| case.to_string().contains("no reason was recorded")), "{compared}");
    let figures: Vec<&str> = list(&compared["rows"]).iter().map(|row| text(&row["figure"])).collect();
    assert_eq!(figures[..2], ["p50", "p90"], "{compared}");
    let cases: std::collections::BTreeSet<&str> =
        list(&compared["rows"]).iter().map(|row| text(&row["case"])).collect();
    assert_eq!(cases.len(), 1, "the idle phases of both loads are one case: {compared}");
}

#[test]
fn measurements_until_ctrl_c_are_reported() {
    let place = Place::new();
    let long =
        "under-load --idle 100ms --ramp 100ms --duration 3600s --recovery 100ms --rounds 1 --load-cpu same --json";
    let mut running = place.start(long);
    running.busy_client();
    signal("INT", running.id());
    let run = running.end().with_code(130).json();
    assert_eq!(run["state"], "interrupted", "{run}");
}
