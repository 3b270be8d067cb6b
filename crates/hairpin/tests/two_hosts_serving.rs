//! Output of `hairpin serve` about itself, its sessions and its tickets, and of `hairpin check` about a server that
//! refuses.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use hairpin_hosts::ticket::Ticket;
use serde_json::Value;

use crate::support::served::{Served, log, ticket};
use crate::support::{
    Arguments, PROGRAM, Place, Ran, Running, document, edit_json, list, names_in, on_one_line, signal, text, until,
};

/// A past time, in seconds since 1970.
const PAST: u64 = 1_700_000_000;

fn with_state(place: &Place, arguments: impl Arguments) -> Ran {
    let mut command = place.command(PROGRAM);
    Running::start(command.args(arguments.words()).env("XDG_STATE_HOME", place.path("state")).env("COLUMNS", "80"))
        .end()
}

fn servers(place: &Place) -> Vec<Value> {
    list(&with_state(place, "serve --list --json").with_code(0).json()["servers"]).to_vec()
}

fn read(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.path(name)).unwrap_or_default()
}

/// Runs `check --json`. The exit code must be `code`, also in the JSON, and an error must also be printed.
fn check(place: &Place, ticket: &str, code: i32) -> Value {
    let ran = place.hairpin(["check", ticket, "--json"]).with_code(code);
    let told = ran.json();
    assert_eq!(told["exit_code"], code, "{told}");
    assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("error: ")).count(), usize::from(code != 0));
    told
}

/// The file of the only ticket that the servers know.
fn kept(place: &Place) -> std::path::PathBuf {
    let folder = place.path("state/hairpin/tickets");
    let names = names_in(&folder);
    assert_eq!(names.len(), 1);
    folder.join(&names[0])
}

#[test]
fn two_servers_of_a_user_list_their_own_sessions_and_count_their_own_bytes() {
    let place = Place::new();
    let one = Served::start_into(&place, "one", "log-one", "--bind 127.0.0.1:0");
    let other = Served::start_into(&place, "other", "log-other", "--bind 127.0.0.1:0");
    let once = Served::start_into(&place, "once", "log-once", "--bind 127.0.0.1:0 --once");
    // Each server accepts the tickets of both servers.
    let address = |name: &str| read(&place, name).split('#').next().unwrap().to_owned();
    for (to, from) in [("one", "one"), ("other", "other"), ("other", "one")] {
        let own = Ticket::parse(read(&place, from).trim()).unwrap();
        let port = Ticket::parse(read(&place, to).trim()).unwrap().port;
        std::fs::write(place.path("used"), Ticket { port, ..own }.word()).unwrap();
        let plan = "round-trip --transport tcp --size 1000 --count 100 --warmup 10 --rounds 1 --to @used";
        place.hairpin(plan).with_code(0);
    }
    let of = |address: &str| servers(&place).into_iter().find(|server| server["address"] == *address);
    let [one_at, other_at, once_at] = ["one", "other", "once"].map(address);
    until("both have listed their sessions", || {
        let over = |at: &str, expected: usize| {
            let server = of(at).expect("it is listed");
            let sessions = list(&server["sessions"]);
            sessions.len() == expected && sessions.iter().all(|session| session["ended_unix_s"].is_u64())
        };
        over(&one_at, 1) && over(&other_at, 2)
    });
    let used = |at: &str| -> Vec<u64> {
        let server = of(at).unwrap();
        let used = server["used"].as_object().unwrap().values().map(|used| used["bytes"].as_u64().unwrap());
        used.collect()
    };
    let server = of(&other_at).unwrap();
    assert_ne!(server["sessions"][0]["ticket"], server["sessions"][1]["ticket"]);
    assert_eq!((used(&one_at).len(), used(&other_at).len()), (1, 2));
    assert!([used(&one_at), used(&other_at)].concat().iter().all(|bytes| *bytes >= 220_000));
    assert!(of(&once_at).is_none(), "a server of a single run keeps no account");
    assert!([&one_at, &other_at].iter().all(|at| of(at).unwrap()["is_running"] == true));
    signal("INT", one.running.id());
    one.running.end().with_code(0);
    assert!(of(&one_at).unwrap()["is_running"] == false && of(&other_at).unwrap()["is_running"] == true);
    let shown = with_state(&place, "serve --list").with_code(0).stdout;
    for line in [format!("Server at {one_at}: ended"), format!("Server at {other_at}: running")] {
        assert!(shown.lines().any(|shown| shown == line), "{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    drop((other, once));
}

#[test]
fn check_reports_refusals_and_unreachable_servers_in_json() {
    let place = Place::new();
    let served = Served::start(&place, "--bind 127.0.0.1:0 --limit sessions=1");
    assert_eq!(check(&place, "@ticket", 0)["refused"], Value::Null);
    let good = Ticket::parse(&ticket(&place)).unwrap();
    let expired = Ticket { expires_unix_s: PAST, ..good.clone() };
    std::fs::write(place.path("expired"), expired.word()).unwrap();
    let told = check(&place, "@expired", 3);
    let what = text(&told["refused"]["what"]);
    assert!(what.contains(" expired at 2023-11-14 22:13:20 UTC by the clock of this host"), "{what}");
    assert!(text(&told["refused"]["hint"]).contains("set the clocks of both hosts") && told["failed"].is_null());

    let plan = "round-trip --transport tcp --duration 3600s --rounds 1 --to @ticket --quiet";
    let running = place.start(plan);
    until("the run has begun", || {
        log(&place).contains("begins a run") && servers(&place)[0]["sessions"][1].is_object()
    });
    let told = check(&place, "@ticket", 3);
    let expected =
        format!("the server at {} refuses: limit sessions=1: 1 run with this ticket is under way", good.address());
    assert_eq!(told["refused"]["what"], expected);
    assert_eq!(told["refused"]["hint"], "wait until one has ended");
    drop(running);

    std::fs::remove_file(kept(&place)).unwrap();
    let told = check(&place, "@ticket", 3);
    assert!(text(&told["refused"]["what"]).contains("the ticket is not known here, or was revoked"), "{told}");
    drop(served);
    let told = check(&place, "@ticket", 3);
    assert!(told["refused"].is_null(), "{told}");
    assert!(text(&told["failed"]["cause"]).contains("Connection refused"), "{told}");
    assert!(text(&told["failed"]["hint"]).contains("is `hairpin serve` running"), "{told}");
    // Text that is not a ticket is bad usage, as in every command.
    place.hairpin("check nonsense --json").refused();
}

#[test]
fn a_ticket_that_has_expired_is_refused_by_the_server_too_and_both_say_so() {
    let place = Place::new();
    let _served = Served::new(&place);
    place.hairpin("check @ticket").with_code(0);
    // Only the server's copy of the ticket has expired, as if the client's clock were behind.
    edit_json(&kept(&place), |ticket| ticket["expires_unix_s"] = PAST.into());
    for arguments in ["check @ticket", "round-trip --quick --to @ticket"] {
        let ran = place.hairpin(arguments).with_code(3);
        let told = on_one_line(&ran.stderr);
        let refused = "refuses: the ticket has expired (hint: get a new one from `hairpin serve`)";
        assert!(told.contains(refused), "{told}");
    }
    // The second refusal of the address for this reason is counted.
    until("the first refusal is logged", || log(&place).matches("refused: the ticket has expired\n").count() == 1);
    // Once a wrong clock is corrected, the ticket is valid again.
    edit_json(&kept(&place), |ticket| ticket["expires_unix_s"] = u64::MAX.into());
    place.hairpin("check @ticket").with_code(0);
    let shown = with_state(&place, "serve --list").with_code(0).stdout;
    assert!(shown.contains("584554051223-11-09"), "{shown}");
}

#[test]
fn a_server_that_ends_reports_the_reason_and_what_it_served() {
    let place = Place::new();
    for name in ["INT", "TERM"] {
        let served = Served::start_into(&place, "ticket", "log", "--bind 127.0.0.1:0");
        let plan = "round-trip --transport udp --size 1000 --count 100 --warmup 10 --rounds 1 --to @ticket";
        place.hairpin(plan).with_code(0);
        place.hairpin("check @ticket").with_code(0);
        signal(name, served.running.id());
        served.running.end().with_code(0);
        let log = log(&place);
        let (_, served) = log.split_once("the run has ended, 1 round, ").expect("it was logged");
        let served = served.lines().next().unwrap();
        assert!(served.ends_with(" KiB"), "{log}");
        assert!(log.ends_with(&format!("\nthe server ends on a signal: 2 sessions, {served}\n")), "{log}");
        std::fs::remove_file(place.path("ticket")).unwrap();
    }
    let served = Served::start_into(&place, "ticket", "log", "--bind 127.0.0.1:0 --json");
    signal("TERM", served.running.id());
    served.running.end().with_code(0);
    let events = read(&place, "ticket");
    let events: Vec<Value> = events.lines().map(document).collect();
    let expected = serde_json::json!({ "schema": "hairpin:serve", "version": 1, "event": "stopped", "why": "signal",
        "sessions": 0, "bytes": 0 });
    assert_eq!(events.last(), Some(&expected));
    let served = Served::start_into(&place, "ticket", "log", "--bind 127.0.0.1:0 --for 1ms");
    served.running.end().with_code(0);
    assert_eq!(log(&place).lines().last().unwrap(), "the server ends after the time of --for: 0 sessions, 0 B");
}

#[test]
fn a_run_under_way_when_its_server_ends_is_listed_as_ended() {
    let place = Place::new();
    let mut served = Served::new(&place);
    let plan = "round-trip --transport tcp --duration 3600s --rounds 1 --to @ticket --quiet";
    let running = place.start(plan);
    served.running.busy_server();
    signal("TERM", served.running.id());
    served.running.end().with_code(0);
    let server = &servers(&place)[0];
    assert_eq!(server["is_running"], false);
    assert!(server["sessions"][0]["ended_unix_s"].is_u64(), "{server}");
    running.end().with_code(3);
}

#[test]
fn a_ticket_file_that_others_can_read_causes_a_warning() {
    let place = Place::new();
    let serve = |umask: &str, to: &str| {
        let script = format!("umask {umask}; exec \"$0\" serve --bind 127.0.0.1:0 --for 1ms {to}");
        let mut command: Command = place.command("sh");
        command.args(["-c", &script, PROGRAM]).env("XDG_STATE_HOME", place.path("state"));
        Running::start(&mut command).end().with_code(0).stderr
    };
    let warned = serve("022", "> open");
    assert_eq!(warned.matches("warning: other users of this host can read").count(), 1, "{warned}");
    assert!(warned.contains("chmod 600 FILE"), "{warned}");
    for (umask, to) in [("077", "> private"), ("022", "> /dev/null"), ("022", "")] {
        let told = serve(umask, to);
        assert!(!told.contains("other users"), "{umask} {to}: {told}");
    }
}

#[test]
fn a_file_names_the_tickets_and_a_reload_takes_effect_at_once() {
    let place = Place::new();
    std::fs::write(place.path("names"), "alice turn=2h\nbob sessions=2 from=192.0.2.0/24 # elsewhere\n").unwrap();
    let ready = UnixDatagram::bind(place.path("ready")).unwrap();
    let script = "umask 077; NOTIFY_SOCKET=$PWD/ready exec \"$0\" serve --bind 127.0.0.1:0 --tickets names --allow 127.0.0.0/8 \
                  --metrics 127.0.0.1:0 > words 2> log";
    let mut command = place.command("sh");
    let mut served = Running::start(command.args(["-c", script, PROGRAM]).env("XDG_STATE_HOME", place.path("state")));
    let mut told = [0; 100];
    let bytes = ready.recv(&mut told).unwrap();
    assert_eq!(told[..bytes], *b"READY=1");
    std::fs::remove_file(place.path("ready")).unwrap();
    let word = |name: &str| {
        let words = read(&place, "words");
        let word = words.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).map(str::to_owned);
        std::fs::write(place.path(name), word.unwrap_or_else(|| panic!("no ticket of {name}: {words}"))).unwrap();
        format!("@{name}")
    };
    let [alice, bob] = ["alice", "bob"].map(word);
    check(&place, &alice, 0);
    let told = check(&place, &bob, 3);
    assert!(text(&told["refused"]["what"]).ends_with("the ticket is not for clients at 127.0.0.1"), "{told}");
    let first = read(&place, "log");
    for expected in ["ticket alice (", ", from 192.0.2.0/24; expires at", ", ticket alice) begins a run"] {
        assert!(first.contains(expected), "{expected}: {first}");
    }
    let metrics = first.lines().find_map(|line| line.strip_prefix("counters at http://")?.strip_suffix("/metrics"));
    let mut scraped = TcpStream::connect(metrics.expect("it says where")).unwrap();
    scraped.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut counters = String::new();
    scraped.read_to_string(&mut counters).unwrap();
    for expected in ["hairpin_sessions_total 1\n", "hairpin_refusals_total{reason=\"address\"} 1\n", "\n# EOF\n"] {
        assert!(counters.contains(expected), "{expected}: {counters}");
    }
    // A round in progress ends when its ticket is removed.
    let running = place.start("round-trip --transport tcp --duration 3600s --rounds 1 --to @alice --quiet");
    served.busy_server();
    std::fs::write(place.path("names"), "bob\nbob").unwrap();
    signal("HUP", served.id());
    until("the invalid file is refused", || read(&place, "log").contains("the tickets are as before: names: line 2"));
    std::fs::write(place.path("names"), "bob\ncarol\n").unwrap();
    signal("HUP", served.id());
    let ended = running.end();
    assert!(on_one_line(&ended.stdout).contains("the ticket was revoked"), "{}", ended.stdout);
    check(&place, &alice, 3);
    check(&place, &bob, 0);
    check(&place, &word("carol"), 0);
    for expected in ["ticket alice (", ") removed\n", ") changed: turn=10s; expires"] {
        assert!(read(&place, "log").contains(expected), "{expected}");
    }
    signal("INT", served.id());
    served.end().with_code(0);
}

#[test]
fn the_output_of_check_fits_80_columns_and_names_a_silent_host() {
    let place = Place::new();
    let _served = Served::start(
        &place,
        "--bind 127.0.0.1:0 --limit rate=100mbit,turn=60s,daily-bytes=10GiB,sessions=2,wait=30s",
    );
    let shown = with_state(&place, "check @ticket").with_code(0).stdout;
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("Limits      rate=100mbit,") && shown.contains("\n            "), "{shown}");
    // Another program listens at that port and closes the connection.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let good = Ticket::parse(&ticket(&place)).unwrap();
    std::fs::write(place.path("elsewhere"), Ticket { port, ..good }.word()).unwrap();
    let closes = std::thread::spawn(move || drop(other.accept()));
    let told = check(&place, "@elsewhere", 3);
    closes.join().unwrap();
    assert!(text(&told["failed"]["cause"]).contains("closed the connection"), "{told}");
}
