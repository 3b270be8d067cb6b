//! SIGKILL of the client: nothing is left behind, and saved data can be shown.

use std::os::unix::net::UnixListener;

use crate::support::{Place, Running, copy, rounds, saved_rounds, signal, until};

#[test]
fn leftovers_are_found() {
    let place = Place::new();
    let script = "mkfifo $TMPDIR/a; mkdir b; mkfifo b/c; sleep 600 >/dev/null 2>&1 & echo $!";
    let ran = Running::start(place.command("sh").args(["-c", script])).end().with_code(0);
    let _socket = UnixListener::bind(place.path("b/d")).expect("the folder is new");
    let mut found = place.special_files();
    found.sort();
    assert_eq!(found, ["b/c", "b/d", "tmp/a"].map(|name| place.path(name)));
    let id = ran.stdout.trim().parse().expect("a process");
    assert_eq!(place.processes(), [id]);
    signal("KILL", id);
    until("the process has ended", || place.processes().is_empty());
    found.iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
}

/// Kills the program after its first round, and checks what is left.
fn killed(transport: &str) {
    let place = Place::new();
    let plan = format!(
        "round-trip --placement same-cpu --transport {transport} --rounds 900 --duration 60ms \
        --out run"
    );
    let mut running = place.start(&plan);
    until("a round is saved", || saved_rounds(&place.path("run")) > 0);
    running.busy_server();
    signal("KILL", running.id());
    let ran = running.end();
    assert_eq!((ran.code, ran.stdout.as_str()), (None, ""), "{transport}");
    place.assert_nothing_left();

    let kept = rounds(&place.path("run")).len();
    copy(&place.path("run"), &place.path("copy"));
    let told = format!("PARTIAL RUN: still running, or killed; {kept} of 900 rounds were measured.");
    let shown = place.hairpin("report run").with_code(0).stdout;
    assert!(shown.starts_with(&told), "{shown}");
    let run = place.json("report run");
    assert_eq!((&run["state"], &run["cases"][0]["rounds"]), (&"running".into(), &kept.into()), "{transport}");

    let shown = place.hairpin("analyse copy").with_code(0).stdout;
    assert!(shown.starts_with("PARTIAL RUN: "), "{shown}");
    let analysed = place.json("report copy");
    assert_eq!(analysed["cases"], run["cases"], "{transport}: `report` and `analyse` give the same figures");
}

#[test]
fn a_killed_survey_leaves_nothing() {
    // Kills the survey before its first round ends, and later in rounds of different transports.
    for saved in [0, 20, 60] {
        let place = Place::new();
        let running = place.start("--out run");
        until("the survey measures", || saved_rounds(&place.path("run")) >= saved && place.processes().len() > 1);
        signal("KILL", running.id());
        assert_eq!(running.end().code, None);
        place.assert_nothing_left();
        if saved > 0 {
            place.hairpin("report run").with_code(0);
        }
    }
}

#[test]
fn a_killed_run_over_pipes_leaves_nothing() {
    killed("pipe");
    killed("fifo");
}

#[test]
fn a_killed_run_over_shared_memory_leaves_nothing() {
    killed("shm");
}

#[test]
fn a_killed_run_over_unix_sockets_leaves_nothing() {
    killed("unix-stream");
    killed("unix-datagram");
}

#[test]
fn a_killed_run_over_the_network_leaves_nothing() {
    killed("tcp");
    killed("udp");
}

#[test]
fn a_stopped_server_ends_with_its_client() {
    // A stopped server cannot notice that its connections are closed, so the kernel must end it.
    let place = Place::new();
    let mut running = place.start("round-trip --placement same-cpu --transport tcp --duration 3600s --timeout 600s");
    signal("STOP", running.busy_server());
    signal("KILL", running.id());
    running.end();
}

#[test]
fn a_kill_between_two_rounds_leaves_nothing() {
    // Rounds of one message spend most of their time on starting and ending servers.
    for after in [5, 6, 7, 9, 12, 17, 25, 38] {
        let place = Place::new();
        let plan = "round-trip --placement same-cpu --transport fifo,unix-stream,shm --rounds 3000 --count 1";
        let running = place.start((plan, "--warmup 0 --out run"));
        until("some rounds are saved", || saved_rounds(&place.path("run")) >= after);
        signal("KILL", running.id());
        running.end();
    }
}
