//! Processes of either host are killed or stopped at random moments of a run.
//!
//! `HAIRPIN_KILLS=100` tries more than the default. From the seventh kill on, some take minutes: they wait for the
//! deadlines of an end whose peer was stopped.

use std::time::{Duration, Instant};

use hairpin_testing::or_skip;

use super::{Host, Lab, Served};
use crate::support::{awaited, is_a, list, saved_rounds, signal, text, until};

/// Default number of kills.
const KILLS: u64 = 6;
const SEED: u64 = 15;
/// Longer than the longest deadline of an end whose peer was stopped.
const LIMIT: Duration = Duration::from_mins(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The program that the user started.
    Client,
    ClientRound,
    /// `hairpin serve`.
    Server,
    /// The process that serves a round.
    ServerRound,
}

/// Signals and victims, the quick ones first.
const WAYS: [(&str, Victim); 8] = [
    ("KILL", Victim::Client),
    ("KILL", Victim::ClientRound),
    ("KILL", Victim::Server),
    ("KILL", Victim::ServerRound),
    ("STOP", Victim::ServerRound),
    ("STOP", Victim::Client),
    ("STOP", Victim::ClientRound),
    ("STOP", Victim::Server),
];

const PLANS: [&str; 4] = [
    "round-trip --transport udp --duration 600ms",
    "bulk --transport tcp --direction up --duration 600ms",
    "round-trip --transport tcp --duration 600ms",
    "message-rate --transport udp --batch 8 --direction down --duration 600ms",
];

/// One of a host's processes with this argument.
fn find(host: &Host, word: &str) -> Option<u32> {
    host.processes().into_iter().find(|id| is_a(word, *id))
}

/// Like `until`, for something that waits for a deadline.
fn until_late(what: &str, mut has_come: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !has_come() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn if_one_end_is_killed_or_stopped_the_other_ends_and_the_session_leaves_nothing() {
    let count = std::env::var("HAIRPIN_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let lab = or_skip!(Lab::direct());
    let mut random = SEED;
    for number in 0..count {
        // The generator of Knuth's MMIX.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let way = WAYS[usize::try_from(number).expect("it is small") % WAYS.len()];
        let plan = PLANS[usize::try_from(random >> 33).expect("it fits") % PLANS.len()];
        try_one(&lab, way, plan, Duration::from_millis((random >> 40) % 1500), &format!("run-{number}"));
    }
}

fn try_one(lab: &Lab, (name, victim): (&str, Victim), plan: &str, after: Duration, out: &str) {
    let what = format!("{out}: SIG{name} to {victim:?} {after:?} after the start of {plan}");
    let served = Served::start(&lab.server, &format!("--bind {}", lab.server.at.v4), &lab.client);
    let descriptors = served.descriptors();
    let words = format!("{plan} --rounds 3 --to @ticket --out {out} --json");
    let client = lab.client.start(&words);
    until("the session begins", || served.log().contains("begins a run"));
    until("its run is saved", || lab.client.path(out).join("run.json").exists());
    std::thread::sleep(after);
    let id = awaited("the victim runs", || match victim {
        Victim::Client => Some(client.id()),
        Victim::ClientRound => find(&lab.client, "__round"),
        Victim::Server => Some(served.running.id()),
        Victim::ServerRound => find(&lab.server, "__server"),
    });
    signal(name, id);
    if (name, victim) == ("STOP", Victim::Client) {
        until_late("the server has left the round", || find(&lab.server, "__server").is_none());
        signal("KILL", client.id());
    }
    until_late(&what, || lab.client.processes().is_empty());
    let ran = client.end();
    if victim == Victim::Client {
        assert_eq!((ran.code, ran.stdout.as_str()), (None, ""), "{what}");
    } else {
        let run = ran.with_code(3).json();
        let failed = list(&run["cases"][0]["failed_rounds"]);
        assert!(!failed.is_empty(), "{what}");
        for cause in failed.iter().map(text) {
            assert!(causes(name, victim).iter().any(|expected| cause.contains(expected)), "{what}: {cause}");
        }
    }
    let saved = saved_rounds(&lab.client.path(out));
    let shown = lab.client.json(&format!("report {out}"));
    let case = shown["cases"].get(0);
    let of_case = case.map_or(0, |case| {
        case["rounds"].as_u64().map_or(0, |count| count as usize) + list(&case["failed_rounds"]).len()
    });
    assert_eq!(of_case, saved, "{what}: every round that was saved can be read");
    if victim == Victim::Server {
        signal("KILL", served.running.id());
        until("the server's processes have ended", || lab.server.processes().is_empty());
    } else {
        served.until_idle_after(1);
        until("its descriptors are closed", || served.descriptors() == descriptors);
        lab.client.json("round-trip --transport tcp,udp --count 5 --rounds 1 --to @ticket");
        served.until_idle_after(2);
    }
}

/// Causes that the client may report for its rounds.
fn causes(name: &str, victim: Victim) -> &'static [&'static str] {
    match (name, victim) {
        ("KILL", Victim::ClientRound) => {
            &["the round's process cannot be read: it ended early (signal: 9 (SIGKILL))"]
        }
        (_, Victim::ClientRound) => &["the round did not end in time"],
        // Later rounds find no server.
        ("KILL", Victim::Server) => &["the control channel was closed", "Connection refused"],
        (_, Victim::Server) => &["no message for", "no answer for 15 s", "made no progress"],
        ("KILL", _) => &["the server: the control channel was closed", "or has ended"],
        _ => &["made no progress for 2000 ms", "the server: no message for", "no answer to 3 messages in a row"],
    }
}

const SILENT: &str = "server: the client sent nothing for 14 s";

fn is_dropped_when_stopped(plan: &str, expected: &[&str]) {
    let lab = or_skip!(Lab::direct());
    let mut served = Served::start(&lab.server, &format!("--bind {}", lab.server.at.v4), &lab.client);
    let descriptors = served.descriptors();
    let mut client = lab.client.start(&format!("{plan} --rounds 1 --to @ticket --json"));
    served.running.busy_server();
    client.busy_client();
    let mut all = lab.client.processes();
    loop {
        all.iter().for_each(|id| signal("STOP", *id));
        // A process may have started another before it stopped.
        let stopped = std::mem::replace(&mut all, lab.client.processes());
        if all == stopped {
            break;
        }
    }
    until("the server has left the round", || find(&lab.server, "__server").is_none());
    all.iter().for_each(|id| signal("CONT", *id));
    let run = client.end().with_code(3).json();
    let cause = text(&run["cases"][0]["failed_rounds"][0]);
    assert!(expected.iter().any(|expected| cause.contains(expected)), "{cause}");
    served.until_idle_after(1);
    until("its descriptors are closed", || served.descriptors() == descriptors);
}

#[test]
fn a_client_that_is_stopped_in_a_round_is_dropped() {
    is_dropped_when_stopped("round-trip --transport tcp --duration 3600s", &[SILENT]);
}

#[test]
fn a_client_that_is_stopped_under_load_is_dropped_on_each_connection() {
    let plan = |connection| {
        format!("under-load --probe-connection {connection} --rate 100 --load down --load-cpu same --duration 3600s")
    };
    is_dropped_when_stopped(&plan("shared"), &[SILENT]);
    // Here the load has its own connection, and the server may notice either connection first.
    is_dropped_when_stopped(&plan("per-message"), &["made no progress for 2000 ms", SILENT]);
}
