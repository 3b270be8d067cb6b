//! Faults from outside: the affected round fails with its cause, the others are reported, and the exit code shows it.

use std::net::TcpListener;
use std::path::Path;

use hairpin_testing::{or_skip, works};
use serde_json::{Value, json};

use crate::support::{
    PROGRAM, Place, Ran, Running, in_namespaces, list, names_in, on_one_line, rounds, signal, text,
};

fn causes(case: &Value) -> Vec<&str> {
    list(&case["failed_rounds"]).iter().map(text).collect()
}

fn case<'r>(run: &'r Value, transport: &str) -> &'r Value {
    let mut cases = list(&run["cases"]).iter();
    cases
        .find(|case| case["case"]["flows"][0]["transport"] == transport)
        .unwrap_or_else(|| panic!("no {transport} in {run}"))
}

#[test]
fn an_occupied_port_fails_its_rounds_only() {
    let place = Place::new();
    let occupied = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = occupied.local_addr().expect("it is bound");
    let port = address.port().to_string();
    let plan = format!("round-trip --placement same-cpu --transport tcp,pipe --rounds 2 --count 50 --port {port}");
    let ran = place.hairpin((plan, "--json --out run")).with_code(3);
    let run = ran.json();
    let cause = format!("server: cannot bind {address}: Address already in use");
    assert_eq!(causes(case(&run, "tcp")).len(), 2);
    for failed in causes(case(&run, "tcp")) {
        assert!(failed.contains(&cause), "{failed}");
        assert!(!failed.contains("ended"), "only the first cause is reported: {failed}");
    }
    let failed = rounds(&place.path("run")).into_iter().filter(|round| round["outcome"]["kind"] == "failed");
    for round in failed {
        assert!(text(&round["outcome"]["hint"]).contains("the port is occupied"), "{round}");
    }
    assert_eq!((&case(&run, "pipe")["rounds"], &case(&run, "pipe")["flows"][0]["samples"]), (&json!(2), &json!(100)));
    let shown = on_one_line(&place.hairpin("report run").with_code(0).stdout);
    assert!(shown.contains("2 rounds failed") && shown.contains("Address already in use"), "{shown}");
}

/// A valid plan. The name of the run folder follows.
const ANY: &str = "round-trip --placement same-cpu --transport pipe --rounds 1 --count 20 --out";

#[test]
fn an_unusable_run_folder_is_refused_before_anything_is_measured() {
    let place = Place::new();
    std::fs::write(place.path("file"), "mine").expect("the folder can be written to");
    place.hairpin((ANY, "file")).refused().told("file/samples: Not a directory").told("(hint: choose another --out)");
    assert_eq!(std::fs::read_to_string(place.path("file")).expect("it is untouched"), "mine");

    place.hairpin((ANY, "run")).with_code(0);
    let saved = |name: &str| std::fs::read(place.path("run").join(name)).expect("it was saved");
    let before = [saved("run.json"), saved("rounds.jsonl"), saved("latency.hlog")];
    place.hairpin((ANY, "run")).refused().told("run already holds a run (hint: choose another --out; ");
    assert_eq!(before, [saved("run.json"), saved("rounds.jsonl"), saved("latency.hlog")], "not overwritten");
}

/// Runs `script` in its own mount namespace, with a disk of this size mounted on `disk` and the program as `$0`. The
/// error says why the system refuses such namespaces.
fn with_disk(place: &Place, options: &str, script: &str) -> Result<Ran, String> {
    in_namespaces(place, "-rm", &format!("{} && {script}", disk(place, options)))
}

/// Command that mounts a disk of this size on `disk`.
fn disk(place: &Place, options: &str) -> String {
    std::fs::create_dir_all(place.path("disk")).expect("a folder can be made");
    format!("mount -t tmpfs -o {options} none disk")
}

#[test]
fn a_read_only_disk_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let script = format!("exec \"$0\" {ANY} disk/run");
    let ran = or_skip!(with_disk(&place, "size=1M,ro", &script)).refused();
    let cause = "cannot make the run folder disk/run/samples: Read-only file system";
    assert!(ran.stderr.contains(cause), "{ran:#?}");
    assert!(ran.stderr.contains("(hint: choose a folder you may write to with --out)"), "{ran:#?}");
}

#[test]
fn a_full_disk_loses_no_measured_data() {
    for ends in ["processes", "threads"] {
        or_skip!(a_full_disk(ends));
    }
}

fn a_full_disk(ends: &str) -> Result<(), String> {
    let place = Place::new();
    // A round takes about 100 kB, so the disk fills up halfway through the run.
    let plan = format!(
        "round-trip --placement same-cpu --ends {ends} --transport pipe,unix-stream --rounds 10 --count 4000 --json --out disk/run"
    );
    let script = format!(
        "\"$0\" {plan}; code=$?; \"$0\" report disk/run --json >report.json; cp -r disk/run saved; exit $code"
    );
    let ran = with_disk(&place, "size=1M", &script)?.with_code(3);
    let run = ran.json();
    assert_eq!(run["state"], "complete");
    for transport in ["pipe", "unix-stream"] {
        assert_eq!(case(&run, transport)["flows"][0]["samples"], 40_000, "{transport}: all samples count");
    }
    assert!(ran.stderr.contains("was measured but not saved: cannot write disk/run/samples/"), "{ran:#?}");
    assert!(ran.stderr.contains("No space left on device (os error 28) (hint: free some space"), "{ran:#?}");
    assert!(ran.stderr.matches("was measured but not saved").count() <= 3, "the first errors: {ran:#?}");
    // If the summary did not fit either, `unsaved` lists the summary too.
    let is_a_round = |one: &&Value| text(&one["cause"]).contains("was measured but not saved");
    let unsaved = list(&run["unsaved"]).iter().filter(is_a_round).count();
    assert!((1..20).contains(&unsaved), "some rounds were saved and some were not: {unsaved}");

    // The files on the disk are a valid, smaller run.
    let saved = rounds(&place.path("saved"));
    assert_eq!(saved.len() + unsaved, 20);
    for round in &saved {
        let file = round["outcome"]["flows"][0]["samples_file"].as_str().expect("its samples were saved");
        assert!(place.path("saved").join(file).exists(), "{file}");
    }
    let report = std::fs::read_to_string(place.path("report.json")).expect("it was reported");
    assert!(serde_json::from_str::<Value>(&report).is_ok_and(|report| report["format"] == 3), "{report}");
    Ok(())
}

/// Folders and files of a run folder, as relative paths.
fn tree(run: &Path) -> Vec<String> {
    let below = |name: String| match run.join(&name) {
        path if path.is_dir() => {
            let inside = names_in(&path);
            assert!(!inside.is_empty(), "an empty folder {}", path.display());
            inside.into_iter().map(|inner| format!("{name}/{inner}")).collect()
        }
        _ => vec![name],
    };
    names_in(run).into_iter().flat_map(below).collect()
}

#[test]
fn a_disk_that_fills_while_capturing_leaves_the_timed_rounds_and_says_what_is_missing() {
    // In its own network namespace any user may capture.
    let plan = "small-writes --placement same-cpu --transport tcp --remedy default --rounds 2 --exchanges 4 --warmup 1 --seed 5 --json";
    or_skip!(works(&["unshare", "-rmn", "ip", "link", "set", "dev", "lo", "up"]));
    let place = Place::new();
    // The disk has room for the timed rounds, and for none or some of the evidence.
    for size in ["100k", "200k"] {
        let disk = disk(&place, &format!("size={size}"));
        let script = format!(
            "ip link set dev lo up && {disk} && {{ \"$0\" {plan} --out disk/run; code=$?; cp -r disk/run {size}; exit $code; }}"
        );
        let ran = or_skip!(in_namespaces(&place, "-rmn", &script)).with_code(3);
        let run = ran.json();
        let tcp = case(&run, "tcp");
        let facts = [&tcp["rounds"], &tcp["flows"][0]["samples"], &tcp["valid"]];
        assert_eq!(facts, [&json!(2), &json!(8), &json!(true)], "{tcp}");
        // If no evidence fits, evidence fails first. Else the first failing file depends on the size of the captures.
        let missing: Vec<&str> = list(&run["unsaved"]).iter().map(|one| text(&one["cause"])).collect();
        let is_told = |what: &str| missing.iter().any(|cause| cause.contains(what));
        assert!(
            is_told("its evidence is incomplete") || size == "200k" && is_told("not saved"),
            "{size}: {missing:?}"
        );
        assert!(ran.stderr.contains("No space left on device (os error 28) (hint: free some space"), "{ran:#?}");
        assert!(ran.stderr.contains("cannot write disk/run/report.html: No space left on device"), "{ran:#?}");

        let files = tree(&place.path(size));
        assert!(!files.iter().any(|file| file.contains("partial") || file == "report.html"), "{files:?}");
        let saved = rounds(&place.path(size));
        let captures =
            saved.iter().map(|round| &round["outcome"]["traced"]["capture"]).chain([&tcp["trace"]["capture"]]);
        for capture in captures.filter(|capture| !capture.is_null()) {
            let is_true = match text(&capture["kind"]) {
                "saved" => files.contains(&text(&capture["file"]).to_owned()),
                _ => text(&capture["reason"]).contains("No space left on device"),
            };
            assert!(is_true, "{size}: {capture} {files:?}");
        }
        let expected = if size == "100k" { "skipped" } else { "saved" };
        assert_eq!(tcp["trace"]["capture"]["kind"], expected, "{size}: {tcp}");
        let of_timed = |round: &&Value| round["order"]["purpose"].is_null();
        assert_eq!(saved.iter().filter(of_timed).count(), 2, "{size}");
        let again = place.hairpin(["report", size, "--json"]).with_code(0).json();
        assert_eq!(case(&again, "tcp")["flows"][0]["samples"], 8, "{size}");
    }
}

#[test]
fn a_killed_server_fails_its_round_only() {
    for transport in ["tcp", "udp", "unix-stream", "pipe", "shm"] {
        let place = Place::new();
        let plan = format!("round-trip --placement same-cpu --transport {transport} --rounds 2 --duration 500ms");
        let mut running = place.start((plan, "--json"));
        signal("KILL", running.busy_server());
        let ran = running.end().with_code(3);
        let run = ran.json();
        let case = case(&run, transport);
        let failed = causes(case);
        assert_eq!((failed.len(), &case["rounds"]), (1, &json!(1)), "{case}");
        assert!(failed[0].contains("the server ended early (signal: 9 (SIGKILL))"), "{failed:?}");
        assert!(case["flows"][0]["samples"].as_u64() > Some(0) && case["ledger"]["unexplained"] == 0, "{case}");
    }
}

#[test]
fn a_killed_client_fails_its_round_only() {
    for (experiment, ends) in
        [("round-trip", "processes"), ("round-trip", "threads"), ("bulk", "processes"), ("bulk", "threads")]
    {
        let place = Place::new();
        let plan = format!("{experiment} --placement same-cpu --transport tcp --ends {ends} --rounds 2");
        let mut running = place.start((plan, "--duration 2s --json"));
        signal("KILL", running.busy_client());
        let run = running.end().with_code(3).json();
        let case = case(&run, "tcp");
        let failed = causes(case);
        assert_eq!((failed.len(), &case["rounds"]), (1, &json!(1)), "{experiment}, {ends}: {case}");
        let cause = "the round's process cannot be read: it ended early (signal: 9 (SIGKILL))";
        assert!(failed[0].contains(cause), "{experiment}, {ends}: {failed:?}");
    }
}

#[test]
fn a_stopped_server_times_out() {
    for transport in ["tcp", "unix-datagram", "pipe", "shm"] {
        let place = Place::new();
        // The rounds last an hour, so only their time-out can end them in this test.
        let plan = format!("round-trip --placement same-cpu --transport {transport} --rounds 2 --duration 3600s");
        let mut running = place.start((plan, "--timeout 300ms --json"));
        let first = running.busy_server();
        signal("STOP", first);
        let second = running.busy_server_after(first);
        assert!(!Path::new(&format!("/proc/{first}")).exists(), "{transport}: it ended before the next round");
        signal("STOP", second);
        let ran = running.end().with_code(3);
        let run = ran.json();
        let failed = causes(case(&run, transport));
        assert_eq!(failed.len(), 2, "{failed:?}");
        for cause in failed {
            assert!(cause.contains("timed out: ") && cause.contains("made no progress for 300 ms"), "{cause}");
        }
    }
}

#[test]
fn a_limit_on_file_sizes_loses_no_measured_data() {
    let place = Place::new();
    // The limit is 30 KiB: each round adds about 2 kB to one file, and the page is larger.
    let plan =
        "round-trip --placement same-cpu --transport pipe,unix-stream --rounds 10 --count 200 --json --out run";
    let script = format!("ulimit -f 60; exec \"$0\" {plan}");
    let ran = Running::start(place.command("sh").args(["-c", &script, PROGRAM])).end().with_code(3);
    let run = ran.json();
    assert_eq!(run["state"], "complete");
    for transport in ["pipe", "unix-stream"] {
        assert_eq!(case(&run, transport)["flows"][0]["samples"], 2000, "{transport}: all samples count");
    }
    let told = "File too large (os error 27) (hint: raise the limit on the size of files (ulimit -f), ";
    assert!(ran.stderr.contains("not saved: cannot write run/rounds.jsonl: "), "{ran:#?}");
    assert!(ran.stderr.contains("cannot write run/report.html: "), "{ran:#?}");
    assert!(ran.stderr.matches(told).count() >= 2, "{ran:#?}");
    let is_a_round = |one: &&Value| text(&one["cause"]).contains("was measured but not saved");
    let unsaved = list(&run["unsaved"]).iter().filter(is_a_round).count();
    let saved = rounds(&place.path("run")).len();
    assert!(unsaved > 0 && saved > 0 && saved + unsaved == 20, "{saved} saved, {unsaved} not");
    // The summary was not saved either. A later report must say why, and must not say that the run was killed.
    let later = on_one_line(&place.hairpin("report run").stdout);
    assert!(later.starts_with("PARTIAL RUN: not all was saved: round "), "{later}");
    assert!(!later.contains("still running or was killed"), "{later}");
}

#[test]
fn an_alarm_signal_from_outside_fails_no_round() {
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport tcp,udp,shm --waiting block --rounds 1 --duration 1s";
    let mut running = place.start((plan, "--json"));
    let server = running.busy_server();
    for _ in 0..20 {
        signal("ALRM", running.id());
    }
    signal("ALRM", server);
    running.busy_server_after(server);
    for _ in 0..20 {
        signal("ALRM", running.id());
    }
    let run = running.end().with_code(0).json();
    for transport in ["tcp", "udp", "shm"] {
        let case = case(&run, transport);
        assert_eq!((causes(case).len(), &case["rounds"]), (0, &json!(1)), "{case}");
    }
}

#[test]
fn a_case_whose_rounds_fail_is_abandoned_and_other_cases_continue() {
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport tcp,pipe --rounds 8 --count 10 --all --out run";
    let ran = or_skip!(in_namespaces(&place, "-rn", &format!("exec \"$0\" {plan}"))).with_code(3);
    let run = place.json("report run");
    let skipped = list(&run["skipped"]);
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert_eq!(skipped[0]["case"], "tcp block same-cpu");
    assert_eq!(skipped[0]["reason"], "abandoned after 3 consecutive failed rounds");
    assert_eq!((causes(case(&run, "tcp")).len(), &case(&run, "pipe")["rounds"]), (3, &json!(8)));
    assert_eq!((&run["state"], &run["plan"]["rounds_ordered"]), (&json!("complete"), &json!(11)));
    let told =
        "tcp block same-cpu: abandoned after 3 consecutive failed rounds: client: cannot connect to 127.0.0.1:";
    assert_eq!(ran.stderr.matches(told).count(), 1, "reported once, when the case is abandoned: {ran:#?}");
    let brief = place.hairpin("report run").with_code(0).stdout;
    assert!(brief.contains("3 rounds failed") && !brief.contains("Skipped"), "reported as failed: {brief}");
}

#[test]
fn a_loopback_that_is_down_is_reported_with_a_hint() {
    let place = Place::new();
    let plan = "round-trip --placement same-cpu --transport icmp,tcp,udp --rounds 3 --count 10 --all --out run";
    let ran = or_skip!(in_namespaces(&place, "-rn", &format!("exec \"$0\" {plan}")));
    let shown = on_one_line(&ran.with_code(3).stdout);
    let hinted = "Network is unreachable (os error 101) (hint: is the interface up (`ip link`)?)";
    // ICMP has no ports, so its cause differs from the cause of TCP and UDP.
    assert_eq!(shown.matches(hinted).count(), 2, "each cause once: {shown}");
    for told in
        ["icmp block same-cpu: 3 rounds failed: the first, round ", " and 1 other case: 6 rounds failed: the first"]
    {
        assert_eq!(shown.matches(told).count(), 1, "{shown}");
    }
}

#[test]
fn a_pipe_that_its_reader_closes_early_is_not_an_error() {
    let place = Place::new();
    place.hairpin((ANY, "run")).with_code(0);
    for arguments in ["list --json", "report run", "report run --json", "report run --csv=samples", "completions zsh"]
    {
        let script = format!("{{ \"$0\" {arguments}; echo \"$?\" >code; }} | true");
        let ran = Running::start(place.command("sh").args(["-c", &script, PROGRAM])).end();
        assert!(!ran.stderr.contains("panicked"), "{arguments}: {ran:#?}");
        assert_eq!(std::fs::read_to_string(place.path("code")).expect("it ended").trim(), "0", "{arguments}");
    }
    assert!(!names_in(Path::new(&place.path("."))).contains(&"core".to_owned()));
}
