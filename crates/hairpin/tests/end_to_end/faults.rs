//! Faults from outside: the round fails with its cause, the rest goes on and is reported, the exit code says so.

use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{PROGRAM, Place, Ran, Running, list, names_in, on_one_line, rounds, signal, skipped, text};

/// The causes of a case's failed rounds.
fn causes(case: &Value) -> Vec<&str> {
    list(&case["failed_rounds"]).iter().map(text).collect()
}

fn case<'r>(run: &'r Value, transport: &str) -> &'r Value {
    let mut cases = list(&run["cases"]).iter();
    cases.find(|case| case["case"]["transport"] == transport).unwrap_or_else(|| panic!("no {transport} in {run}"))
}

#[test]
fn an_occupied_port_fails_its_rounds_only() {
    let place = Place::new();
    let occupied = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = occupied.local_addr().expect("it is bound");
    let port = address.port().to_string();
    let plan = ["round-trip", "--transport", "tcp,pipe", "--rounds", "2", "--count", "50", "--port", &port];
    let ran = place.hairpin(&[&plan[..], &["--json", "--out", "run"]].concat()).with_code(3);
    let run = ran.json();
    let cause = format!("echo half: cannot bind {address}: Address already in use");
    assert_eq!(causes(case(&run, "tcp")).len(), 2);
    for failed in causes(case(&run, "tcp")) {
        assert!(failed.contains(&cause), "{failed}");
        assert!(!failed.contains("ended"), "that it ended then is no news: {failed}");
    }
    let failed = rounds(&place.path("run")).into_iter().filter(|round| round["outcome"]["kind"] == "failed");
    for round in failed {
        assert!(text(&round["outcome"]["hint"]).contains("the port is occupied"), "{round}");
    }
    assert_eq!((&case(&run, "pipe")["rounds"], &case(&run, "pipe")["samples"]), (&json!(2), &json!(100)));
    let shown = on_one_line(&place.hairpin(&["report", "run"]).with_code(0).stdout);
    assert!(shown.contains("2 rounds failed") && shown.contains("Address already in use"), "{shown}");
    place.assert_nothing_left();
}

/// A plan that would measure at once.
const ANY: &[&str] = &["round-trip", "--transport", "pipe", "--rounds", "1", "--count", "20", "--out"];

#[test]
fn a_folder_that_cannot_be_one_is_refused_before_anything_is_measured() {
    let place = Place::new();
    std::fs::write(place.path("file"), "mine").expect("the folder can be written to");
    let ran = place.hairpin(&[ANY, &["file"]].concat()).refused();
    assert!(ran.stderr.contains("file/samples: Not a directory"), "{ran:#?}");
    assert!(ran.stderr.contains("(hint: choose another --out)"), "{ran:#?}");
    assert_eq!(std::fs::read_to_string(place.path("file")).expect("it is untouched"), "mine");

    place.hairpin(&[ANY, &["run"]].concat()).with_code(0);
    let saved = |name: &str| std::fs::read(place.path("run").join(name)).expect("it was saved");
    let before = [saved("run.json"), saved("rounds.jsonl"), saved("latency.hlog")];
    let ran = place.hairpin(&[ANY, &["run"]].concat()).refused();
    assert!(ran.stderr.contains("run holds a run already (hint: choose another --out; "), "{ran:#?}");
    assert_eq!(before, [saved("run.json"), saved("rounds.jsonl"), saved("latency.hlog")], "never overwritten");
}

/// Runs `script` in a mount namespace of its own with a disk of this size mounted on `disk`, and the program as `$0`;
/// nothing where the system refuses such namespaces.
fn with_disk(place: &Place, options: &str, script: &str) -> Option<Ran> {
    if Running::start(place.command("unshare").args(["-rm", "true"])).end().code != Some(0) {
        return None;
    }
    std::fs::create_dir(place.path("disk")).expect("the folder is new");
    let script = format!("mount -t tmpfs -o {options} none disk && {script}");
    Some(Running::start(place.command("unshare").args(["-rm", "sh", "-c", &script, PROGRAM])).end())
}

const NO_NAMESPACE: &str = "`unshare -rm` is refused here";

#[test]
fn a_read_only_disk_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let script = format!("exec \"$0\" {} disk/run", ANY.join(" "));
    let Some(ran) = with_disk(&place, "size=1M,ro", &script) else {
        return skipped("a_read_only_disk_is_refused_before_anything_is_measured", NO_NAMESPACE);
    };
    let ran = ran.refused();
    let cause = "cannot make the run folder disk/run/samples: Read-only file system";
    assert!(ran.stderr.contains(cause), "{ran:#?}");
    assert!(ran.stderr.contains("(hint: choose a folder you may write to with --out)"), "{ran:#?}");
}

#[test]
fn a_full_disk_loses_nothing_of_what_was_measured() {
    let place = Place::new();
    // About 100 kB a round: the disk is full halfway.
    let plan = "round-trip --transport pipe,unix-stream --rounds 10 --count 4000 --json --out disk/run";
    let script = format!(
        "\"$0\" {plan}; code=$?; \"$0\" report disk/run --json >report.json; cp -r disk/run saved; exit $code"
    );
    let Some(ran) = with_disk(&place, "size=1M", &script) else {
        return skipped("a_full_disk_loses_nothing_of_what_was_measured", NO_NAMESPACE);
    };
    let ran = ran.with_code(3);
    let run = ran.json();
    assert_eq!(run["state"], "complete");
    for transport in ["pipe", "unix-stream"] {
        assert_eq!(case(&run, transport)["samples"], 40_000, "{transport}: all is reported");
    }
    assert!(ran.stderr.contains("was measured but not saved: cannot write disk/run/samples/"), "{ran:#?}");
    assert!(ran.stderr.contains("No space left on device (os error 28) (hint: free some space"), "{ran:#?}");
    let unsaved = list(&run["unsaved"]).len();
    assert!((1..20).contains(&unsaved), "some rounds were saved and some were not: {unsaved}");

    // What is on the disk is a whole run, only smaller.
    let saved = rounds(&place.path("saved"));
    assert_eq!(saved.len() + unsaved, 20);
    for round in &saved {
        let file = round["outcome"]["samples_file"].as_str().expect("its samples were saved");
        assert!(place.path("saved").join(file).exists(), "{file}");
    }
    let report = std::fs::read_to_string(place.path("report.json")).expect("it was reported");
    assert!(serde_json::from_str::<Value>(&report).is_ok_and(|report| report["format"] == 1), "{report}");
    place.assert_nothing_left();
}

#[test]
fn a_killed_echo_half_fails_its_round_only() {
    for transport in ["tcp", "udp", "unix-stream", "pipe", "shm"] {
        let place = Place::new();
        let plan = ["round-trip", "--transport", transport, "--rounds", "2", "--duration", "500ms", "--json"];
        let mut running = place.start(&plan);
        signal("KILL", running.busy_echo_half());
        let ran = running.end().with_code(3);
        let run = ran.json();
        let case = case(&run, transport);
        let failed = causes(case);
        assert_eq!((failed.len(), &case["rounds"]), (1, &json!(1)), "{case}");
        assert!(failed[0].contains("the echo half ended early (signal: 9 (SIGKILL))"), "{failed:?}");
        assert!(case["samples"].as_u64() > Some(0) && case["ledger"]["unexplained"] == 0, "{case}");
        place.assert_nothing_left();
    }
}

#[test]
fn a_stopped_echo_half_times_out() {
    for transport in ["tcp", "unix-datagram", "pipe", "shm"] {
        let place = Place::new();
        // The round is longer than anybody waits: it ends by its time-out or not at all.
        let plan =
            ["round-trip", "--transport", transport, "--rounds", "1", "--duration", "3600s", "--timeout", "300ms"];
        let mut running = place.start(&[&plan[..], &["--json"]].concat());
        signal("STOP", running.busy_echo_half());
        let ran = running.end().with_code(3);
        let run = ran.json();
        let failed = causes(case(&run, transport));
        assert!(failed.len() == 1 && failed[0].contains("timed out: "), "{failed:?}");
        assert!(failed[0].contains("made no progress for 300 ms"), "{failed:?}");
        place.assert_nothing_left();
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let place = Place::new();
    place.hairpin(&[ANY, &["run"]].concat()).with_code(0);
    for arguments in ["list --json", "report run", "report run --json", "completions zsh"] {
        let script = format!("{{ \"$0\" {arguments}; echo \"$?\" >code; }} | true");
        let ran = Running::start(place.command("sh").args(["-c", &script, PROGRAM])).end();
        assert!(!ran.stderr.contains("panicked"), "{arguments}: {ran:#?}");
        assert_eq!(std::fs::read_to_string(place.path("code")).expect("it ended").trim(), "0", "{arguments}");
    }
    assert!(!names_in(Path::new(&place.path("."))).contains(&"core".to_owned()));
}
