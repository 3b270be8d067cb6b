//! Rounds over an emulated link: they take the link's round-trip time, their ledgers agree with the link's ledger,
//! and they leave nothing behind.
//!
//! The only bound on times is the profile's: no packet is faster than its link.

use hairpin_testing::or_skip;
use serde_json::Value;

use crate::support::across::{assert_log_is_the_record, log};
use crate::support::{
    Arguments, PROGRAM, Place, Running, awaited, can_link, list, number, rounds, signal, text, until,
};

/// Round-trip time of `delay=1ms`.
const ROUND_TRIP_NS: f64 = 2e6;

/// Runs a measurement over that link. Returns its rounds, which must not have failed.
fn measured(place: &Place, link: &str, words: impl Arguments) -> Vec<Value> {
    let ran = place.hairpin((words, &["--link", link, "--seed", "7", "--out", "run", "--quiet"]));
    let ran = ran.with_code(0);
    let rounds = rounds(&place.path("run"));
    for round in &rounds {
        assert_eq!(round["outcome"]["kind"], "measured", "{round} {ran:#?}");
        let link = &round["outcome"]["link"];
        assert_eq!(link["relay"]["overrun"], 0, "{link}");
        assert!(link["samples_began_ns"].as_u64().is_some_and(|began_ns| began_ns > 0), "{link}");
        let packets = &link["packets"];
        let gone = number(&packets["out"]) + sum(&packets["dropped"]) + number(&packets["inside"]);
        assert_eq!(number(&packets["in"]) + number(&packets["duplicated"]), gone, "{packets}");
    }
    rounds
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().expect("counts by name").values().map(number).sum()
}

/// A fact of an end, 0 if missing.
fn fact(end: &Value, name: &str) -> f64 {
    let found = list(&end["facts"]).iter().find(|fact| fact["name"] == name);
    found.and_then(|fact| fact["value"].as_f64()).unwrap_or(0.0)
}

/// Fails unless every message is accounted for. A full receive buffer may count copies as lost messages.
fn assert_closed(round: &Value) {
    let (ledger, packets) = (&round["outcome"]["flows"][0]["ledger"], &round["outcome"]["link"]["packets"]);
    let overflows = ["server", "client"].map(|end| ledger["lost"].get(format!("receive-buffer-overflow-{end}")));
    let overflows: u64 = overflows.into_iter().flatten().map(number).sum();
    let copies = overflows.min(number(&packets["duplicated"]) + number(&packets["corrupted"]));
    let too_many = ledger["unexplained"].as_i64().and_then(|missing| u64::try_from(-missing).ok());
    let too_many = too_many.unwrap_or_else(|| panic!("{}: messages are missing: {ledger}", round["order"]["case"]));
    assert!(too_many <= copies, "{}: {ledger} {packets}", round["order"]["case"]);
    let known = number(&ledger["received"]) + number(&ledger["late"]) + sum(&ledger["lost"]);
    assert_eq!(number(&ledger["sent"]) + too_many, known, "{ledger}");
}

#[test]
fn rounds_over_a_link_take_its_round_trip_and_keep_its_record() {
    let place = Place::new();
    or_skip!(can_link());
    let plan = "round-trip --placement same-cpu --transport tcp,udp6,icmp,pipe --rounds 1 --count 20 --ends all";
    let rounds = measured(&place, "delay=1ms", plan);
    let mut transports: Vec<&str> =
        rounds.iter().map(|round| text(&round["order"]["case"]["flows"][0]["transport"])).collect();
    transports.sort_unstable();
    transports.dedup();
    assert_eq!(transports, ["icmp", "tcp", "udp6"]);
    assert!(!place.path("run/links").exists(), "no log is kept by default");
    for round in &rounds {
        assert_closed(round);
        let measured = &round["outcome"];
        assert_eq!(measured["link"]["log_file"], Value::Null);
        assert_eq!(measured["flows"][0]["ledger"]["received"], 20, "{round}");
        assert!(measured["flows"][0]["figures"]["latency_ns"]["p50"].as_f64() >= Some(ROUND_TRIP_NS), "{round}");
        assert!(number(&measured["link"]["packets"]["in"]) >= 40, "{round}");
        assert_eq!(round["order"]["case"]["path"]["link"], "delay=1ms");
        assert_eq!(round["order"]["link_seed"], 7);
    }
    let run = place.json("report run");
    let skipped = list(&run["skipped"]);
    assert!(skipped.iter().any(|one| one["transport"] == "pipe" && text(&one["reason"]).contains("link")), "{run}");
    let namespace = if run["hosts"][0]["environment"]["root"] == true { "original" } else { "own" };
    assert_eq!(run["hosts"][0]["environment"]["network_namespace"], namespace);
}

#[test]
fn a_run_keeps_the_logs_of_its_links_on_request() {
    let place = Place::new();
    or_skip!(can_link());
    let line = "up=10mbit loss=5% duplicate=5% delay=1ms";
    let plan = "round-trip --placement same-cpu --transport udp --rounds 2 --count 40 --timeout 200ms";
    let rounds = measured(&place, line, (plan, "--keep-link-log"));
    let mut duplicated = 0;
    for (number_of, round) in rounds.iter().enumerate() {
        let link = &round["outcome"]["link"];
        assert_eq!(link["log_file"], format!("links/round-{number_of:06}.log"));
        assert_eq!(link["log_problem"], Value::Null);
        let lines = log(&place.path("run").join(text(&link["log_file"])));
        assert_log_is_the_record(&lines, link);
        assert!(lines.len() >= 40, "{link}");
        duplicated += number(&link["packets"]["duplicated"]);
    }
    assert!(rounds.len() == 2 && duplicated > 0, "{rounds:?}");

    // A log that does not fit on the disk is reported, and the rounds are still measured.
    std::fs::create_dir_all(place.path("full/links")).expect("the place can be written to");
    let script = "mount -t tmpfs -o size=4k none full/links && exec \"$0\" \"$@\"";
    let mut small = place.command("unshare");
    small.args(["-rmn", "sh", "-c", script, PROGRAM]).args(plan.words());
    small.args(["--link", line, "--keep-link-log", "--out", "full", "--quiet"]);
    let told = Running::start(&mut small).end().with_code(3);
    let problem = "cannot write the link's log full/links/round-000000.log: No space left on device (os error 28)";
    let error = format!("error: round 0 was measured but its link's log is incomplete: {problem}\n");
    assert_eq!(told.stderr.matches(&error).count(), 1, "{told:#?}");
    let rounds = self::rounds(&place.path("full"));
    assert!(rounds.iter().all(|round| round["outcome"]["kind"] == "measured"), "{rounds:?}");
    assert_eq!(rounds[0]["outcome"]["link"]["log_problem"], problem);
}

#[test]
fn a_links_log_is_not_written_through_a_symbolic_link() {
    or_skip!(can_link());
    let place = Place::new();
    let canary = place.path("canary");
    std::fs::write(&canary, "canary").expect("it is new");
    std::fs::create_dir_all(place.path("run/links")).expect("the place can be written to");
    std::os::unix::fs::symlink(&canary, place.path("run/links/round-000000.log")).expect("it is new");
    let plan = "round-trip --placement same-cpu --transport udp --rounds 1 --count 20 --keep-link-log";
    let rounds = measured(&place, "delay=1ms", plan);
    assert_eq!(std::fs::read_to_string(&canary).expect("it is there"), "canary");
    let file = place.path("run").join(text(&rounds[0]["outcome"]["link"]["log_file"]));
    assert!(std::fs::symlink_metadata(&file).expect("it is there").is_file());
    assert!(log(&file).len() >= 20);
}

#[test]
fn drops_of_a_lossy_link_are_the_losses_in_the_ledger() {
    let place = Place::new();
    or_skip!(can_link());
    let plan = "round-trip --placement same-cpu --transport udp,icmp --rounds 2 --count 150 --size 64";
    let rounds = measured(&place, "loss=10%", (plan, "--timeout 60ms"));
    for round in &rounds {
        assert_closed(round);
        let (ledger, link) = (&round["outcome"]["flows"][0]["ledger"], &round["outcome"]["link"]);
        // Hellos and farewells over UDP are not messages, and have other sizes. IP and UDP headers add 28 bytes.
        let is_message = |drop: &&Value| drop["size_bytes"] == 64 + 28 && drop["carries_data"] == true;
        let dropped = ["up", "down"].map(|way| {
            assert_eq!(link[way]["drops_unlisted"], 0);
            list(&link[way]["drops"]).iter().filter(is_message).count() as u64
        });
        assert!(dropped[0] > 0 && dropped[1] > 0, "{link}");
        assert_eq!(number(&ledger["lost"]["link-loss"]), dropped[0] + dropped[1], "{ledger}");
        assert_eq!(ledger["lost"].as_object().map(serde_json::Map::len), Some(1), "{ledger}");
    }
    assert!(rounds.len() >= 2, "UDP at least: {}", rounds.len());
}

#[test]
fn nothing_stays_unexplained_whatever_a_link_does() {
    or_skip!(can_link());
    let closed = "--transport udp,icmp --count 120 --timeout 30ms";
    let open = "--transport udp,udp6 --count 400 --timeout 20ms --rate 1500 --size 200";
    // The receive buffers hold a few packets, and copies fill the buffers like messages.
    let crowded = "--transport udp,udp6 --count 2000 --timeout 50ms --rate 20000 --size 1000 --option rcvbuf=4608";
    let links = [
        ("delay=2ms duplicate=30% corrupt=10%", crowded),
        ("loss=5% corrupt=5% duplicate=10% delay=1ms±1ms order=free reorder=5%/5ms", closed),
        ("up=1mbit queue=10packets delay=15ms±5ms order=free duplicate=5%", open),
        ("delay=20ms outage=100ms-200ms", open),
    ];
    let mut seen: Vec<String> = Vec::new();
    // On a busy machine the outage may be over before the first message.
    let again = [links[3]].into_iter().cycle().take(20);
    for (link, words) in links.into_iter().chain(again) {
        if link == links[3].0 && seen.iter().any(|cause| cause == "link-outage") {
            break;
        }
        for ends in ["processes", "threads"] {
            let place = Place::new();
            let plan = format!("round-trip --placement same-cpu --rounds 1 --ends {ends} {words}");
            for round in measured(&place, link, plan) {
                assert_closed(&round);
                seen.extend(
                    round["outcome"]["flows"][0]["ledger"]["lost"].as_object().expect("causes").keys().cloned(),
                );
            }
        }
    }
    for cause in ["link-loss", "link-corrupt", "link-queue", "link-outage", "receive-buffer-overflow-server"] {
        assert!(seen.iter().any(|one| one == cause), "{cause}: {seen:?}");
    }
}

#[test]
fn answers_that_the_link_holds_longer_than_the_time_out_are_late() {
    let place = Place::new();
    or_skip!(can_link());
    let plan = "round-trip --placement same-cpu --transport udp,icmp --rounds 1 --count 30 --timeout 30ms";
    for round in measured(&place, "delay=20ms", plan) {
        assert_closed(&round);
        let ledger = &round["outcome"]["flows"][0]["ledger"];
        assert_eq!((&ledger["received"], &ledger["duplicated"]), (&0.into(), &0.into()), "{ledger}");
        let inside = ledger["lost"].get("link-inside").map_or(0, number);
        assert_eq!(number(&ledger["late"]) + inside, number(&ledger["sent"]), "{ledger}");
        assert!(number(&ledger["late"]) >= 20, "all except those in flight at the end: {ledger}");
    }
}

#[test]
fn tcp_sends_lost_segments_again() {
    let place = Place::new();
    or_skip!(can_link());
    let plan = "round-trip --placement same-cpu --transport tcp,tcp6 --rounds 1 --count 20 --warmup 0";
    for round in measured(&place, "delay=1ms up.drop-data=3", plan) {
        assert_closed(&round);
        let (measured, link) = (&round["outcome"], &round["outcome"]["link"]);
        let [drop] = list(&link["up"]["drops"]) else { panic!("the link drops one packet: {link}") };
        assert_eq!((&drop["stage"], &drop["reason"]), (&"loss".into(), &"data-packet".into()), "{drop}");
        assert_eq!(measured["flows"][0]["ledger"]["lost"], serde_json::json!({}));
        assert!(fact(&measured["ends"][0], "tcp_info.retransmits") >= 1.0, "{}", measured["ends"][0]);
        let why = ["netstat.TCPLossProbes", "netstat.TCPTimeouts", "netstat.TCPFastRetrans"];
        let times: f64 = why.iter().map(|name| fact(&measured["ends"][0], name)).sum();
        assert!(times >= 1.0, "{}", measured["ends"][0]);
    }
}

#[test]
fn a_trace_across_a_link_has_the_times_of_both_ends() {
    let place = Place::new();
    or_skip!(can_link());
    let plan = "small-writes --placement same-cpu --transport tcp --remedy default --rounds 1";
    let rounds = measured(&place, "delay=1ms", plan);
    let traced: Vec<&Value> =
        rounds.iter().map(|round| &round["outcome"]["traced"]).filter(|it| !it.is_null()).collect();
    assert!(!traced.is_empty());
    for figures in traced {
        assert_eq!(figures["capture"]["kind"], "saved", "{figures}");
        let sequence = &figures["sequence"];
        assert_eq!(sequence["source"], "capture", "{sequence}");
        let error_ns = sequence["clock_error_ns"].as_i64().expect("a time");
        let arrows = list(&sequence["events"]).iter().filter(|event| event["kind"] == "segment");
        let taken: Vec<i64> = arrows
            .map(|event| event["until_ns"].as_i64().expect("it arrived") - event["at_ns"].as_i64().expect("a time"))
            .collect();
        assert!(taken.len() >= 3, "two of the request, one of the answer: {sequence}");
        assert!(taken.iter().all(|taken_ns| *taken_ns >= 1_000_000 - error_ns), "{taken:?}");
        let waits = list(&sequence["waits"]);
        assert!(waits.iter().any(|wait| wait["cause"] == "nagle" && wait["end"] == "client"), "{sequence}");
        let unknown = waits.iter().find(|wait| wait["cause"] == "unexplained");
        assert_eq!(unknown, None, "{sequence}");
    }
}

#[test]
fn a_run_over_a_link_that_is_interrupted_or_killed_leaves_nothing() {
    or_skip!(can_link());
    for (sign, code, transport) in [("INT", Some(130), "udp"), ("INT", Some(130), "tcp"), ("KILL", None, "tcp")] {
        let place = Place::new();
        let plan = format!("round-trip --placement same-cpu --transport {transport} --link delay=1ms");
        let mut running = place.start((plan, "--duration 600s --out run --quiet"));
        running.busy_server();
        signal(sign, running.id());
        assert_eq!(running.end().code, code, "SIG{sign} over {transport}");
        if code.is_some() {
            let rounds = rounds(&place.path("run"));
            assert_closed(&rounds[0]);
        }
    }
}

#[test]
fn a_killed_run_leaves_no_stopped_link() {
    or_skip!(can_link());
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport tcp --link delay=1ms --duration 600s --out run";
    let mut running = place.start(plan);
    let server = running.busy_server();
    let link = running.child(|words| words.contains(" __link ")).expect("a link is a process of its own");
    for id in [link, server] {
        signal("STOP", id);
    }
    signal("KILL", running.id());
    running.end();
}

#[test]
fn a_round_that_would_wait_for_hours_ends_on_request() {
    or_skip!(can_link());
    for (transport, ends) in [("udp", "processes"), ("tcp", "processes"), ("tcp", "threads")] {
        let cause = || {
            let place = Place::new();
            let plan = format!(
                "round-trip --placement same-cpu --transport {transport} --ends {ends} --link delay=60min --rounds 2 --out run --quiet"
            );
            let running = place.start(&plan);
            until("the link runs", || running.child(|line| line.contains(" __link ")).is_some());
            signal("TERM", running.id());
            let ran = running.end().with_code(130);
            let rounds = rounds(&place.path("run"));
            assert_eq!(rounds.len(), 1, "no other round is begun: {ran:#?}");
            text(&rounds[0]["outcome"]["cause"]).to_owned()
        };
        // On a busy machine the 2 s of grace can be too short.
        let mut causes = (0..20).map(|_| cause()).skip_while(|cause| cause == "the round did not end in time");
        assert_eq!(causes.next().as_deref(), Some("the round was interrupted while it waited for the other end"));
    }
}

#[test]
fn a_round_whose_link_has_gone_down_ends_on_request() {
    or_skip!(can_link());
    let ended = || {
        let place = Place::new();
        let plan = "round-trip --transport udp --rounds 1 --timeout 100s --count 1000000 --out run --quiet";
        let mut running = place.start((plan, ["--link", "delay=1ms outage=3s-3000s"]));
        let server = running.busy_server();
        // The link is down when no more packets reach the far end. Then neither an answer nor the farewell arrives.
        let arrived = || std::fs::read_to_string(format!("/proc/{server}/net/dev")).expect("the round goes on");
        let (mut seen, mut unchanged) = (arrived(), 0);
        until("the link has gone down", || {
            let last = std::mem::replace(&mut seen, arrived());
            unchanged = if seen == last { unchanged + 1 } else { 0 };
            unchanged == 200
        });
        signal("TERM", running.id());
        running.end().with_code(130);
        let rounds = rounds(&place.path("run"));
        assert_eq!(rounds.len(), 1);
        place.assert_nothing_left();
        rounds[0]["outcome"].clone()
    };
    // On a busy machine the 2 s of grace can be too short, and packets can pause before the link goes down.
    let is_early = |outcome: &Value| {
        outcome["cause"] == "the round was interrupted while it waited for the other end"
            || outcome["flows"][0]["ledger"]["lost"] == serde_json::json!({})
    };
    let outcome = (0..10).map(|_| ended()).find(|outcome| !is_early(outcome));
    let outcome = outcome.expect("one of ten rounds is ended after the link went down, and ends in time");
    // The control channel, which does not use the link, ends the server, so the measured data are kept.
    assert_eq!(
        (&outcome["kind"], &outcome["flows"][0]["ledger"]["unexplained"]),
        (&"measured".into(), &0.into()),
        "{outcome}"
    );
    assert_eq!(outcome["flows"][0]["ledger"]["lost"], serde_json::json!({"link-outage": 1}));
}

#[test]
fn a_killed_relay_fails_its_round_and_the_run_continues() {
    let place = Place::new();
    or_skip!(can_link());
    let plan = "round-trip --placement same-cpu --transport udp --link delay=1ms --rounds 2 --duration 6s";
    let mut running = place.start((plan, "--timeout 5s --out run --quiet"));
    running.busy_server();
    signal("KILL", awaited("the relay is found", || running.child(|words| words.contains("__link"))));
    running.end().with_code(3);
    let rounds = rounds(&place.path("run"));
    let kinds: Vec<&str> = rounds.iter().map(|round| text(&round["outcome"]["kind"])).collect();
    assert_eq!(kinds, ["failed", "measured"], "{rounds:?}");
    assert!(text(&rounds[0]["outcome"]["cause"]).contains("the link ended early"), "{}", rounds[0]);
    assert_closed(&rounds[1]);
}
