//! Limits of a ticket, turns of several clients, and how `hairpin check` and `hairpin serve --list` show them.

use serde_json::Value;

use crate::support::served::{Served, log};
use crate::support::{PROGRAM, Place, document, list, signal, text, until};

#[test]
fn a_plan_that_exceeds_a_limit_is_refused_before_anything_runs_and_the_limit_is_named() {
    let place = Place::new();
    let _served = Served::start(&place, "--bind 127.0.0.1:0 --limit rate=100mbit,turn=2s,daily-bytes=1MiB");
    for (plan, expected) in [
        ("bulk --transport tcp", "the server's limit rate=100mbit: the load sends as fast as it can"),
        (
            "offered-load --transport udp --rate 100k --size 1000 --duration 1s",
            "the server's limit rate=100mbit: the load sends up to 800mbit",
        ),
        ("round-trip --transport tcp --duration 10s", "limit turn=2s: the round lasts"),
        (
            "round-trip --transport tcp --rate 1000 --size 1000 --duration 1s",
            "limit daily-bytes=1MiB: 1 MiB are left for today, and the round sends about 1.9",
        ),
    ] {
        let ran = place.hairpin((plan, "--rounds 1 --to @ticket")).refused();
        assert!(ran.stderr.replace("\n  ", " ").contains(expected), "{plan}: {}", ran.stderr);
    }
    let run = place.json("round-trip --to @ticket --count 50 --rounds 1 --out run");
    assert_eq!(run["state"], "complete");
}

#[test]
fn the_bytes_of_a_day_are_counted_over_runs_and_starts_of_the_server() {
    let place = Place::new();
    let limits = "--bind 127.0.0.1:0 --limit daily-bytes=1MiB";
    let served = Served::start(&place, limits);
    let plan = "round-trip --transport udp --size 1000 --count 100 --warmup 10 --rounds 1 --to @ticket";
    place.hairpin(plan).with_code(0);
    let check = place.json("check @ticket");
    // The server counts 100 messages and answers of 1000 bytes, and those of the warm-up.
    let used = check["used_bytes"].as_u64().unwrap();
    assert!(used >= 220_000 && used.is_multiple_of(2000), "{check}");
    signal("INT", served.running.id());
    served.running.end().with_code(0);
    let old = std::fs::read_to_string(place.path("ticket")).unwrap();
    let at = crate::support::served::address(&place);
    std::fs::remove_file(place.path("ticket")).unwrap();
    let _served = Served::start(&place, &format!("--bind {at}"));
    std::fs::write(place.path("old"), old).unwrap();
    assert_eq!(place.json("check @old")["used_bytes"].as_u64(), Some(used));
    assert_eq!(place.json("check @ticket")["used_bytes"].as_u64(), Some(0), "each ticket has its own count");
}

/// Fails unless the server ended a round for that reason. On a busy machine the client can notice the end before the
/// reason arrives, but the server's log always has the reason.
fn assert_limited(place: &Place, rounds: usize, failed: &str, limit: &str) {
    let closed = "the other end closed the connection or has ended";
    assert!(failed.contains(limit) || failed.contains(closed), "{failed}");
    until("the server has logged its reason", || {
        log(place).matches(&format!("failed: the server: {limit}")).count() == rounds
    });
}

/// These loads have no rate: the server ends them when the daily limit is reached.
#[test]
fn a_load_without_a_rate_is_ended_when_the_daily_bytes_are_used_up() {
    for load in [
        "bulk --transport tcp",
        "round-trip --transport tcp --size 1000",
        "round-trip --transport udp --size 1000 --waiting spin",
    ] {
        let place = Place::new();
        let _served = Served::start(&place, "--bind 127.0.0.1:0 --limit daily-bytes=1MiB");
        let endless = format!("{load} --duration 3600s --rounds 1 --to @ticket --json");
        let run = place.hairpin(&endless).with_code(3).json();
        let failed = text(&run["cases"][0]["failed_rounds"][0]);
        assert_limited(&place, 1, failed, "limit daily-bytes=1MiB: today's bytes are used up");
        let check = place.hairpin("check @ticket --json").with_code(3).json();
        assert!(text(&check["refused"]["what"]).contains("limit daily-bytes=1MiB"), "{load}: {check}");
    }
}

/// The mean rate of the load is below the limit, and only the mean is known before the round.
#[test]
fn a_load_that_turns_out_to_be_too_fast_is_ended() {
    let place = Place::new();
    let _served = Served::start(&place, "--bind 127.0.0.1:0 --limit rate=100kbit");
    let burst = "offered-load --transport tcp --rate 5 --size 1400 --arrivals burst=100000 --duration 60s --warmup 0 \
                 --rounds 1 --to @ticket --json";
    let run = place.hairpin(burst).with_code(3).json();
    let failed = text(&run["cases"][0]["failed_rounds"][0]);
    assert_limited(&place, 1, failed, "limit rate=100kbit: more was sent in the last seconds");
    // The excess counts against the next round.
    let next = "offered-load --transport tcp --rate 5 --size 1400 --duration 1s --rounds 1 --to @ticket --json";
    let run = place.hairpin(next).with_code(3).json();
    let failed = text(&run["cases"][0]["failed_rounds"][0]);
    assert_limited(&place, 2, failed, "limit rate=100kbit: more was sent in the last seconds");
}

#[test]
fn bytes_of_a_killed_client_are_counted() {
    let place = Place::new();
    let mut served = Served::start(&place, "--bind 127.0.0.1:0 --limit daily-bytes=100GiB");
    let endless = "round-trip --transport tcp --duration 3600s --rounds 1 --to @ticket --quiet";
    let running = place.start(endless);
    served.running.busy_server();
    let used = || place.json("check @ticket")["used_bytes"].as_u64().unwrap();
    until("the server counts", || used() > 0);
    signal("KILL", running.id());
    until("the session is over", || log(&place).contains("the run has ended"));
    let counted = used();
    let at = crate::support::served::address(&place);
    std::fs::rename(place.path("ticket"), place.path("old")).unwrap();
    signal("INT", served.running.id());
    served.running.end().with_code(0);
    let _served = Served::start(&place, &format!("--bind {at}"));
    assert_eq!(place.json("check @old")["used_bytes"].as_u64(), Some(counted), "after a restart of the server");
}

#[test]
fn a_ticket_limits_its_simultaneous_runs_and_the_list_shows_them() {
    let place = Place::new();
    let mut served = Served::start(&place, "--bind 127.0.0.1:0 --limit sessions=1 --json");
    until("the server listens", || std::fs::read_to_string(place.path("ticket")).unwrap().contains("listening"));
    let first = document(std::fs::read_to_string(place.path("ticket")).unwrap().lines().next().unwrap());
    std::fs::write(place.path("word"), text(&first["ticket"])).unwrap();
    let plan = "round-trip --transport tcp --duration 3600s --rounds 1 --to @word --quiet";
    let running = place.start(plan);
    served.running.busy_server();
    let second = place.hairpin("round-trip --to @word --quick").with_code(3);
    assert!(second.stderr.contains("limit sessions=1: 1 run with this ticket is under way"), "{}", second.stderr);
    let state = |arguments: &[&str]| {
        place.command(PROGRAM).args(arguments).env("XDG_STATE_HOME", place.path("state")).output()
    };
    let listed = || document(&String::from_utf8(state(&["serve", "--list", "--json"]).unwrap().stdout).unwrap());
    let own = || listed()["servers"][0].clone();
    until("the session is listed", || list(&own()["sessions"]).len() == 1);
    assert!(own()["sessions"][0]["ended_unix_s"].is_null(), "{}", own());
    assert_eq!((&own()["address"], &own()["is_running"]), (&first["address"], &Value::from(true)));
    assert_eq!(list(&listed()["tickets"]).len(), 1);
    let shown = || String::from_utf8(state(&["serve", "--list"]).unwrap().stdout).unwrap();
    assert!(shown().contains("  under way  "), "{}", shown());
    signal("KILL", running.id());
    until("the session is over", || own()["sessions"][0]["ended_unix_s"].is_u64());
    let shown = shown();
    let heading = format!("\nServer at {}: running\n", text(&first["address"]));
    assert!(shown.contains("sessions=1") && shown.contains(&heading) && shown.contains(" s   "), "{shown}");
    drop(running);
    let events: Vec<Value> = std::fs::read_to_string(place.path("ticket")).unwrap().lines().map(document).collect();
    let names: Vec<&str> = events.iter().map(|event| text(&event["event"])).collect();
    assert_eq!(names, ["listening", "began", "refused", "round", "ended"], "{events:#?}");
}

#[test]
fn rounds_of_two_clients_take_turns_and_the_turns_of_others_are_no_wait() {
    let place = Place::new();
    let mut served = Served::start(&place, "--bind 127.0.0.1:0 --limit wait=1ms");
    let first = "round-trip --transport tcp --duration 1s --rounds 1 --to @ticket --out turn-1 --json";
    let first = place.start(first);
    served.running.busy_server();
    let second = "round-trip --transport tcp --duration 100ms --rounds 1 --to @ticket --out turn-2 --json";
    let second = place.hairpin(second).with_code(0).json();
    for run in [second, first.end().with_code(0).json()] {
        assert_eq!(run["cases"][0]["valid"], true, "{run}");
    }
}

#[test]
fn a_ticket_that_is_revoked_ends_its_round() {
    let place = Place::new();
    let mut served = Served::start(&place, "--bind 127.0.0.1:0");
    let run = "round-trip --transport tcp --duration 3600s --rounds 1 --to @ticket --out run --json";
    let running = place.start(run);
    served.running.busy_server();
    let folder = place.path("state/hairpin/tickets");
    for ticket in std::fs::read_dir(folder).unwrap() {
        std::fs::remove_file(ticket.unwrap().path()).unwrap();
    }
    let ended = running.end();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(
        ended.stderr.contains("the ticket was revoked") || ended.stdout.contains("the ticket was revoked"),
        "{ended:?}"
    );
}

#[test]
fn check_reports_the_limits_and_the_unavailable_transports() {
    let place = Place::new();
    let _served = Served::start(&place, "--bind 127.0.0.1:0 --limit rate=1gbit,sessions=3");
    let check = place.json("check @ticket");
    assert_eq!(check["datagrams"]["is_through"], true, "{check}");
    assert_eq!(check["limits"]["rate_bits_per_s"].as_f64(), Some(1e9));
    let refusals = list(&check["refusals"]);
    assert!(refusals.iter().any(|refusal| refusal["transport"] == "pipe"), "{check}");
    assert!(!refusals.iter().any(|refusal| refusal["transport"] == "tcp"), "{check}");
    let shown = place.hairpin("check @ticket").with_code(0).stdout;
    assert!(shown.contains("rate=1gbit, turn=7200s, sessions=3") && shown.contains("UDP         yes"), "{shown}");
    place.hairpin("check").refused();
    place.hairpin("check nonsense").refused();
}
