//! Many sessions at one server, and many connections that never become sessions, on this host without namespaces.
//!
//! `HAIRPIN_SESSIONS=10000` opens more sessions than the default. With `--nocapture` the tests print their
//! measurements.
#![expect(clippy::print_stdout, reason = "figures for --nocapture")]

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hairpin_hosts::dial::dial;
use hairpin_hosts::protocol::{Purpose, ServerInfo};
use hairpin_hosts::ticket::Ticket;
use hairpin_model::Binding;

use crate::support::{Place, Running, awaited, nameless_descriptors, status, until};

/// Default number of sessions.
const SESSIONS: usize = 300;
/// Connections that never finish their handshake.
const CROWD: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on this host, with a limit of descriptors.
struct Server {
    running: Running,
    ticket: Ticket,
}

impl Server {
    fn start(place: &Place, descriptors: u32) -> Self {
        let script =
            format!("ulimit -n {descriptors}; exec \"$0\" serve --bind 127.0.0.1:0 --limit turn=2h > ticket 2> log");
        let mut command = place.command("sh");
        command.args(["-c", &script, crate::support::PROGRAM]).env("XDG_STATE_HOME", place.path("state"));
        let running = Running::start(&mut command);
        let read = || std::fs::read_to_string(place.path("ticket")).ok().filter(|text| text.ends_with('\n'));
        let ticket = awaited("the server has printed its ticket", read);
        let ticket = Ticket::parse(ticket.trim()).expect("it is one");
        Self { running, ticket }
    }

    fn session(&self) {
        let mut known = dial(&self.ticket, Purpose::Session, Binding::default()).expect("the server welcomes it");
        let about: ServerInfo = known.frames.receive_any(PATIENCE).expect("the server says what it is");
        assert!(!about.transports.is_empty());
    }

    fn descriptors(&self) -> usize {
        nameless_descriptors(self.running.id())
    }

    fn number(&self, name: &str) -> u64 {
        status(self.running.id(), name).expect("it runs")
    }
}

#[test]
fn many_sessions_leave_no_threads_memory_or_descriptors_at_the_server() {
    let sessions = std::env::var("HAIRPIN_SESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(SESSIONS);
    let place = Place::new();
    let server = Server::start(&place, 1024);
    let descriptors = server.descriptors();
    (0..SESSIONS).for_each(|_| server.session());
    let idle = || until("only its first thread is left", || server.number("Threads") == 1);
    idle();
    let before_kb = server.number("VmRSS");
    (0..sessions).for_each(|_| server.session());
    idle();
    let after_kb = server.number("VmRSS");
    println!("{sessions} sessions: resident {before_kb} kB before, {after_kb} kB after");
    // The server has one more descriptor while it saves the list of sessions.
    until("the server has as many descriptors as before", || server.descriptors() == descriptors);
    assert!(after_kb <= before_kb + 1024, "{before_kb} kB before {sessions} sessions, {after_kb} kB after");
    // A session's thread may end before the server has logged it.
    let log = || std::fs::read_to_string(place.path("log")).expect("it has one");
    until("each session is in the log", || log().matches("the run has ended").count() == SESSIONS + sessions);
    drop(server);
}

/// A connection that has begun its handshake and sends no more.
fn unfinished(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect((server.ticket.host.as_str(), server.ticket.port)).expect("it is accepted");
    // The header of a TLS record and the start of a client's hello (RFC 8446, sections 4.1.2 and 5.1).
    socket.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).expect("there is room");
    socket
}

fn median_ms(server: &Server) -> f64 {
    let mut took: Vec<Duration> = (0..101)
        .map(|_| {
            let began = Instant::now();
            server.session();
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[took.len() / 2].as_secs_f64() * 1e3
}

#[test]
fn connections_that_never_finish_their_handshake_block_no_client() {
    let place = Place::new();
    let server = Server::start(&place, 20_000);
    let without_ms = median_ms(&server);
    let crowd: Vec<TcpStream> = (0..CROWD).map(|_| unfinished(&server)).collect();
    until("the server has accepted all connections", || server.descriptors() > CROWD);
    let with_ms = median_ms(&server);
    println!(
        "{CROWD} unfinished connections: a session takes {with_ms:.2} ms, without them {without_ms:.2} ms (p50)"
    );
    drop(crowd);
    drop(server);
}

#[test]
fn a_server_out_of_descriptors_closes_the_oldest_connections_and_continues() {
    let place = Place::new();
    // `ulimit -n` also sets the hard limit, so that the server cannot raise the limit.
    let server = Server::start(&place, 128);
    let crowd: Vec<TcpStream> = (0..CROWD).map(|_| unfinished(&server)).collect();
    (0..20).for_each(|_| server.session());
    assert!(server.descriptors() <= 128);
    let run = place.json("round-trip --to @ticket --transport tcp,udp --quick --out run");
    assert_eq!(run["state"], "complete");
    drop(crowd);
    drop(server);
}
