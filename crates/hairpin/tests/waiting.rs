//! `hairpin waiting` as a user runs it: every way to wait, what the ends need, and errors.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use hairpin_testing::{or_skip, skip, works};
use serde_json::Value;

use crate::support::contract::assert_kept;
use crate::support::{PROGRAM, Place, list, number, rounds, text};

/// Messages measured in each round.
const LENGTHS: &str = "--count 300 --warmup 10 --rounds 1";

fn waiting_of(case: &Value) -> &str {
    text(&case["case"]["ends"]["waiting"])
}

fn fact(end: &Value, name: &str) -> Option<u64> {
    let fact = list(&end["facts"]).iter().find(|fact| fact["name"] == name)?;
    fact["value"].as_f64().map(|count| count as u64)
}

#[test]
fn every_way_to_wait_answers_every_message_on_two_connections() {
    let place = Place::new();
    let run = place.json(format!(
        "waiting --waiting all --connections 2 --transport tcp,udp,unix-stream --placement cross-cpu,unpinned --seed 5 --out \
         run {LENGTHS}"
    ));
    assert_kept(&run);
    let of_round = rounds(&place.path("run"));
    for case in list(&run["cases"]) {
        let round = of_round.iter().find(|round| round["case_id"] == case["id"]).unwrap();
        let ledger = &round["outcome"]["flows"][0]["ledger"];
        assert_eq!([number(&ledger["sent"]), number(&ledger["received"])], [300, 300], "{}: {ledger}", case["label"]);
        for end in list(&round["outcome"]["ends"]) {
            let threads = fact(end, "process.threads").unwrap();
            let expected = match waiting_of(case) {
                "thread-per-connection" | "async-threads" => 3,
                _ => 1,
            };
            assert_eq!(threads, expected, "{} {}", case["label"], end["role"]);
            assert!(fact(end, "process.descriptors") > Some(3), "{}", case["label"]);
            assert!(fact(end, "process.peak_memory_bytes") > Some(1 << 20), "{}", case["label"]);
        }
        // A case whose only round another program disturbed has no figures.
        if case["valid"] == true {
            for end in list(&case["ends"]) {
                assert!(end["cpu_seconds_per_message"]["value"].as_f64() > Some(0.0), "{}", case["label"]);
            }
        }
    }
    let measured: Vec<&str> = list(&run["cases"]).iter().map(waiting_of).collect();
    for waiting in ["poll", "spin", "epoll", "thread-per-connection"] {
        assert!(measured.contains(&waiting), "{waiting}: {}", run["skipped"]);
    }
    let skipped: Vec<String> = list(&run["skipped"]).iter().map(|skipped| skipped["reason"].to_string()).collect();
    assert!(skipped.iter().any(|skipped| skipped.contains("waits for one connection only")), "{skipped:?}");
}

#[test]
fn scheduling_and_timer_slack_are_settings_of_the_cases() {
    let place = Place::new();
    let run = place.json(format!(
        "waiting --waiting block,thread-per-connection --connections 1 --scheduling all --timer-slack 70us --out run {LENGTHS}"
    ));
    assert_kept(&run);
    let of_round = rounds(&place.path("run"));
    assert!(list(&run["cases"]).len() >= 2, "{}", run["skipped"]);
    for round in &of_round {
        let client = &round["outcome"]["ends"][0];
        // A thread of SCHED_FIFO has no timer slack.
        let is_fifo = round["order"]["case"]["ends"]["scheduling"] == "fifo";
        assert_eq!(fact(client, "thread.timer_slack_ns"), Some(if is_fifo { 0 } else { 70_000 }), "{client}");
    }
    let reasons = run["skipped"].to_string();
    assert!(reasons.contains("its other threads would not have it"), "{reasons}");
    let fifo = list(&run["cases"]).iter().filter(|case| case["case"]["ends"]["scheduling"] == "fifo");
    assert!(fifo.count() == 1 || reasons.contains("cannot use SCHED_FIFO"), "{reasons}");
}

/// A user without other processes, whose limit counts only those of this test.
const ALONE: u32 = 61_234;

#[test]
fn threads_beyond_a_limit_are_an_error_that_names_it() {
    or_skip!(works(&["prlimit", "--version"]));
    if fs::metadata("/proc/self").expect("it is there").uid() != 0 {
        skip!("only root can become a user without other processes");
    }
    let place = Place::new();
    fs::copy(PROGRAM, place.path("hairpin")).unwrap();
    for folder in [".", "tmp"] {
        fs::set_permissions(place.path(folder), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut command = place.command("prlimit");
    let arguments =
        "--nproc=40 ./hairpin waiting --waiting thread-per-connection --connections 100 --rounds 1 --count 10";
    let output = command.args(arguments.split(' ')).uid(ALONE).gid(ALONE).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("of 100: Resource temporarily unavailable"), "{said}");
    assert!(said.contains("raise RLIMIT_NPROC (ulimit -u) or pids.max"), "{said}");
}
