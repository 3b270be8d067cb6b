//! Rounds over every carrier of `Control`: after a late, spoilt, missing or hostile message, both ends end.
//!
//! A relay between the ends spoils one frame. The end that reads this frame must report the cause, the other end must
//! end too, and no thread may remain. All time-outs are those of the ends.

mod carriers;
mod clients;

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use hairpin_engine::Engine;
use hairpin_engine::control::{Control, ControlError, Message, VERSION};
use hairpin_engine::ends::{Host, server, start};
use hairpin_model::flow::Direction;
use hairpin_model::{
    Case, EndReport, Extent, Failure, FailureKind, Finished, Flow, Measured, Outcome, Placement, RoundOrder, Waiting,
};

use crate::support::{OwnChild, PROGRAM};
use carriers::{CARRIERS, Carrier, End, Fault, IMPATIENT, Limited, Pace, Relay, Spoilt, framed};

const COUNT: u64 = 5;
/// Maximum polls of an end, 10 ms apart. Only a hang reaches this number.
const MAX_POLLS: u32 = 6000;
/// Number of parallel rounds, which spend most of their time waiting.
const BESIDE: usize = 16;

/// A kind of round, and the names of the control messages that it needs from each end, separated by spaces.
struct RoundKind {
    name: &'static str,
    direction: Direction,
    placement: Placement,
    of_client: &'static str,
    of_server: &'static str,
}

const KINDS: &[RoundKind] = &[
    RoundKind {
        name: "ping-pong",
        direction: Direction::RoundTrip,
        placement: Placement::SameCpu,
        of_client: "version order measure",
        of_server: "version listening ready measuring report",
    },
    // If a message may have to wake another CPU, pings measure how long that takes.
    RoundKind {
        name: "ping-pong on any CPU",
        direction: Direction::RoundTrip,
        placement: Placement::Unpinned,
        of_client: "ping",
        of_server: "ping",
    },
    RoundKind {
        name: "stream up",
        direction: Direction::Up,
        placement: Placement::SameCpu,
        of_client: "version order measuring sent",
        of_server: "version listening ready report",
    },
    RoundKind {
        name: "stream down",
        direction: Direction::Down,
        placement: Placement::SameCpu,
        of_client: "version order complete",
        of_server: "version listening ready measuring sent report",
    },
];

impl RoundKind {
    fn order(&self) -> RoundOrder {
        let mut order = order(self.direction);
        order.case.ends.placement = self.placement;
        order
    }

    fn messages(&self) -> impl Iterator<Item = (End, &'static str)> {
        let of_client = self.of_client.split(' ').map(|name| (End::Client, name));
        of_client.chain(self.of_server.split(' ').map(|name| (End::Server, name)))
    }
}

fn order(direction: Direction) -> RoundOrder {
    let flow = match direction {
        Direction::RoundTrip => Flow::ping_pong("tcp"),
        one_way => Flow::stream("tcp", 100, one_way),
    };
    let waiting = if direction == Direction::RoundTrip { Waiting::Block } else { Waiting::Poll };
    RoundOrder {
        timeout_ns: 500_000_000,
        deadline_ns: 20_000_000_000,
        keep_samples: 100,
        ..RoundOrder::of(Case::of(flow).with(|case| case.ends.waiting = waiting), COUNT)
    }
}

/// Returns the same engine for all rounds, because calibrating its clock takes a while.
fn engine() -> Engine {
    static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
        Engine::new(PathBuf::from(PROGRAM), Arc::new(AtomicBool::new(false))).expect("the CPUs are known")
    });
    ENGINE.clone()
}

/// A server behind a carrier. A hung thread fails the test, and ends with the test process.
enum Server {
    Thread(JoinHandle<()>),
    Process(OwnChild),
}

impl Server {
    /// Starts a server for one round at one end of the carrier. Returns the other end.
    fn start(carrier: &Carrier, engine: &Engine, name: &str, is_impatient: bool) -> (Self, [OwnedFd; 2]) {
        let host = Host { clock: engine.clock, cpus: engine.cpus.clone(), namespace: None, across: None };
        if carrier.is_a_process {
            let host = serde_json::to_string(&host).expect("a host has only string keys");
            let mut command = Command::new(PROGRAM);
            command.args([start::COMMAND, &std::process::id().to_string(), &host]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be started");
            let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
            return (Self::Process(OwnChild(child)), [output.into(), input.into()]);
        }
        let [own, other] = (carrier.join)();
        let serve = move || server::run(&mut Limited::new(own, End::Server, is_impatient), &host, None);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(serve);
        (Self::Thread(thread.expect("a thread can be started")), other)
    }

    fn has_ended(&mut self) -> bool {
        match self {
            Self::Thread(thread) => thread.is_finished(),
            Self::Process(child) => child.0.try_wait().expect("it is our child").is_some(),
        }
    }
}

/// Waits until `has_ended` returns true. Returns false if this takes so long that it counts as a hang.
fn ends(mut has_ended: impl FnMut() -> bool) -> bool {
    (0..MAX_POLLS).any(|_| {
        let ended = has_ended();
        if !ended {
            std::thread::sleep(Duration::from_millis(10));
        }
        ended
    })
}

/// Results of a round at both ends, and their messages.
struct Ended {
    client: Result<Measured, Failure>,
    server: Result<Box<EndReport>, Failure>,
    said: [Vec<Message>; 2],
}

/// Returns the end that is made impatient: the end that would read the missing message. A server in a process waits for
/// a minute, so there the client notices that the server does not answer.
fn noticing(carrier: &Carrier, Spoilt { by, message, fault }: Spoilt) -> Option<End> {
    match fault {
        // The load itself notices what is missing.
        Fault::Silent(0) if message == "sent" || message == "measuring" && by == End::Client => None,
        // The server has ended, which closes its channel.
        Fault::Silent(_) if message == "report" => None,
        Fault::Silent(_) | Fault::Slow if carrier.is_a_process => Some(End::Client),
        Fault::Silent(_) | Fault::Slow => Some(by.other()),
        _ => None,
    }
}

/// Cause for a server that has ended and whose last message was lost.
const LOST: &str = "lost";

/// Runs a round over that carrier, with one frame spoilt.
fn round(carrier: &Carrier, kind: &RoundKind, pace: Pace, spoilt: Option<Spoilt>) -> Result<Ended, String> {
    round_of(carrier, kind.order(), pace, spoilt, None)
}

/// Like [`round`], with another order and the client's stop flag.
fn round_of(
    carrier: &Carrier,
    order: RoundOrder,
    pace: Pace,
    spoilt: Option<Spoilt>,
    stop: Option<Arc<AtomicBool>>,
) -> Result<Ended, String> {
    let mut engine = engine();
    let noticing = spoilt.and_then(|spoilt| noticing(carrier, spoilt));
    let is_flooded = spoilt.is_some_and(|spoilt| spoilt.fault == Fault::OnlyProgress && carrier.name == "TCP");
    let name = thread_name();
    let (mut server, server_side) = Server::start(carrier, &engine, &name, noticing == Some(End::Server));
    let [own, client_side] = (carrier.join)();
    let relay = Relay::start(client_side, server_side, pace, spoilt);
    let mut control = Limited::new(own, End::Client, noticing == Some(End::Client));
    if let Some(stop) = stop {
        engine.stop = Arc::clone(&stop);
        control = control.stopping(stop);
    }
    let run = move || engine.run_over(0, &order, Box::new(control));
    let client = std::thread::Builder::new().name(name.clone()).spawn(run).expect("a thread can be started");
    for (what, ended) in [
        ("client", ends(|| client.is_finished())),
        ("server", ends(|| server.has_ended())),
        ("relay", ends(|| relay.has_ended())),
    ] {
        if !ended {
            return Err(format!("the {what} does not end"));
        }
    }
    let Finished { record, .. } = client.join().map_err(|_| "the client panicked".to_owned())?;
    drop(server);
    if !ends(|| !has_thread(&name)) {
        return Err("a thread of an end is left".to_owned());
    }
    let said = relay.end();
    Ok(Ended {
        client: match record.outcome {
            Outcome::Measured(measured) => Ok(*measured),
            Outcome::Failed(failure) => Err(failure),
        },
        server: match said[1].last() {
            Some(Message::Report(report)) => Ok(report.clone()),
            Some(Message::Failed(failure)) => Err(failure.clone()),
            // If the server closes with unread data, TCP may discard the server's last message.
            _ if is_flooded => Err(Failure::new(FailureKind::Other, LOST, LOST)),
            other => return Err(format!("the server does not say how it ended: {other:?}")),
        },
        said,
    })
}

/// A name for the threads of a round. Threads that they start inherit the name.
fn thread_name() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("control-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn has_thread(name: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").expect("a process has threads");
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.into_iter().any(|own| own.trim_end() == name)
}

#[test]
fn a_round_completes_over_every_carrier_even_byte_by_byte_and_late() {
    for carrier in CARRIERS {
        for (kind, pace) in KINDS.iter().flat_map(|kind| [(kind, Pace::AtOnce), (kind, Pace::Late)]) {
            let what = format!("{} over {}, {pace:?}", kind.name, carrier.name);
            let ended = round(carrier, kind, pace, None).unwrap_or_else(|why| panic!("{what}: {why}"));
            let (client, server) = (ended.client, ended.server.expect("it reports"));
            let client = client.unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
            let ledger = &client.flows[0].ledger;
            assert_eq!((ledger.sent, ledger.received, ledger.unexplained), (COUNT, COUNT, 0), "{what}");
            assert_eq!(client.ends.len(), 2, "{what}");
            match kind.direction {
                Direction::RoundTrip => {
                    let echoed: u64 = server.turnaround.expect("it stamps").counts.iter().sum();
                    assert_eq!(echoed, COUNT, "{what}");
                }
                Direction::Up => assert_eq!(server.streamed[0].received, COUNT, "{what}"),
                Direction::Down => assert_eq!(server.streamed[0].sent, COUNT, "{what}"),
            }
        }
    }
}

#[test]
fn measurements_until_ctrl_c_are_reported_over_every_carrier() {
    for (carrier, kind) in CARRIERS.iter().flat_map(|carrier| KINDS.iter().map(move |kind| (carrier, kind))) {
        let endless = RoundOrder { extent: Extent::DurationNs(3_600_000_000_000), ..kind.order() };
        let stop = Some(Arc::new(AtomicBool::new(false)));
        let what = format!("{} over {}", kind.name, carrier.name);
        let ended =
            round_of(carrier, endless, Pace::AtOnce, None, stop).unwrap_or_else(|why| panic!("{what}: {why}"));
        let client = ended.client.unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
        let ledger = &client.flows[0].ledger;
        assert!(client.interrupted && ended.server.is_ok(), "{what}: {:?}", ended.server);
        assert_eq!((ledger.received, ledger.unexplained), (ledger.sent, 0), "{what}");
    }
}

/// Programs that are started as the server but are not servers, and the cause that the round reports.
const NO_SERVERS: &[(&str, &str)] = &[
    ("exit 0", "the server ended early (exit status: 0)"),
    ("kill -9 $$", "the server ended early (signal: 9 (SIGKILL))"),
    (
        "echo 'Usage: cat [FILE]'; exec sleep 60",
        "the server: a control message of 1734439765 bytes exceeds the limit of 67108864 bytes",
    ),
    (r#"printf '\013\0\0\0{"version'; exit 0"#, "the server ended early (exit status: 0)"),
    (
        r#"printf '\015\0\0\0{"version":3}'; exec sleep 60"#,
        "the server: version 3 of the control messages; this Hairpin has version 2",
    ),
    (r#"printf '\015\0\0\0{"version":2}'; exec sleep 60"#, "the server: no message for 5200 ms"),
];

#[test]
fn a_program_that_is_not_a_server_is_detected() {
    for (script, cause) in NO_SERVERS {
        let folder = tempfile::tempdir().expect("a folder for temporary files can be written to");
        let [written, program] = ["written", "server"].map(|name| folder.path().join(name));
        std::fs::write(&written, format!("#!/bin/sh\n{script}\n")).expect("the folder is new");
        std::fs::set_permissions(&written, Permissions::from_mode(0o700)).expect("it is ours");
        // A child process of another test may have the written file open, and such a file cannot be executed.
        let copied = Command::new("cp").arg("--preserve=mode").args([&written, &program]).status();
        assert!(copied.expect("cp can be run").success());
        let engine = Engine { server_program: program, ..engine() };
        let short = RoundOrder { timeout_ns: 100_000_000, ..order(Direction::RoundTrip) };
        match engine.run(0, &short).record.outcome {
            Outcome::Failed(failure) => assert_eq!(failure.cause, *cause, "{script}"),
            other => panic!("{script}: {other:?}"),
        }
    }
}

/// A round with one frame spoilt.
struct Row {
    carrier: &'static Carrier,
    kind: &'static RoundKind,
    spoilt: Spoilt,
}

impl std::fmt::Display for Row {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Spoilt { by, message, fault } = self.spoilt;
        write!(out, "{} over {}, `{message}` of {}: {fault:?}", self.kind.name, self.carrier.name, by.name())
    }
}

impl Row {
    /// Why the frame's reader fails; `None` if the frame only says that its sender is done, as a closed channel does.
    fn cause(&self) -> Option<String> {
        let Spoilt { by, message, fault } = self.spoilt;
        let ends_the_load = matches!(message, "measure" | "measuring" | "sent" | "complete");
        let is_of_a_stream =
            message == "sent" || message == "measuring" && self.kind.direction != Direction::RoundTrip;
        let problem = match fault {
            Fault::Cut(_) if by == End::Client && ends_the_load => return None,
            // Only the load notices this fault, because it makes no progress.
            Fault::Silent(0) | Fault::OnlyProgress if is_of_a_stream => {
                return Some("timed out: the load made no progress for 500 ms".to_owned());
            }
            Fault::Silent(_) if message == "report" => "the control channel was closed".to_owned(),
            Fault::Cut(_) => "the control channel was closed".to_owned(),
            Fault::Silent(_) | Fault::Slow => format!("no message for {} ms", IMPATIENT.as_millis()),
            Fault::Garbage(_) => "cannot read a control message: ".to_owned(),
            Fault::Noise(_) => "a control message of ".to_owned(),
            Fault::TooLarge => {
                let most = by.other().most_bytes();
                format!("a control message of {} bytes exceeds the limit of {most} bytes", most + 1)
            }
            Fault::Newer => {
                format!("version {} of the control messages; this Hairpin has version {VERSION}", VERSION + 1)
            }
            // Twice the time-out and 5 s.
            Fault::OnlyProgress if message == "report" => "only progress messages for 6000 ms".to_owned(),
            Fault::OnlyProgress => "unexpected control message `progress`".to_owned(),
        };
        Some(format!("{}: {problem}", by.name()))
    }

    fn is_silent(&self) -> bool {
        matches!(self.spoilt.fault, Fault::Silent(_))
    }

    fn check(&self) -> Result<(), String> {
        let Self { carrier, kind, spoilt } = *self;
        let reader = spoilt.by.other();
        let Ended { client, server, .. } = round(carrier, kind, Pace::AtOnce, Some(spoilt))?;
        let (client, server) = (client.err(), server.err());
        let is = |told: &Option<Failure>, cause: &str| {
            let rest = told.as_ref().and_then(|told| told.cause.strip_prefix(cause));
            // Parse errors end with the parser's text. A server may end just after the client has given up.
            let ended = "; the server: the control channel was closed";
            // On a busy machine a report of progress may come before the end that waits gives up.
            let is_progress = told.as_ref().is_some_and(|told| told.cause.contains("only progress messages for "));
            let may_progress = self.is_silent() && cause.contains("no message for ");
            is_progress && may_progress
                || rest
                    .is_some_and(|rest| rest.is_empty() || cause.ends_with(' ') || self.is_silent() && rest == ended)
        };
        let gone = "the client: the control channel was closed";
        let is_right = match (self.cause(), reader) {
            // The server notices that the client is gone, whatever the server is doing.
            (Some(cause), End::Client) => {
                let wire = "server: wire 0: the other end closed the connection or has ended";
                is(&client, &cause) && (server.is_none() || is(&server, gone) || is(&server, wire))
            }
            (Some(_), End::Server) if noticing(carrier, spoilt) == Some(End::Client) => {
                is(&client, "the server: no message for 300 ms") && (server.is_none() || is(&server, gone))
            }
            (Some(_), End::Server) if is(&server, LOST) => client.is_some(),
            // The server reports its cause to the client, whose data connection may have failed before.
            (Some(cause), End::Server) => {
                let told = client.as_ref().zip(server.as_ref());
                is(&server, &cause) && told.is_some_and(|(client, server)| client.cause.ends_with(&server.cause))
            }
            (None, _) => server.is_none(),
        };
        let is_hinted = [&client, &server].into_iter().flatten().all(|told| !told.hint.is_empty());
        if is_right && is_hinted { Ok(()) } else { Err(format!("client: {client:?}, server: {server:?}")) }
    }
}

/// Positions at which a frame is cut: some of its bytes, and over TCP each of its first bytes.
fn places(carrier: &Carrier, bytes: usize) -> impl Iterator<Item = usize> {
    let all = if carrier.name == "TCP" { 20 } else { 1 };
    (0..bytes)
        .filter(move |place| *place < all || [3, 4, 9].contains(place) || place % 211 == 0 || place + 1 == bytes)
}

fn faults(carrier: &Carrier, by: End, message: &str, bytes: usize) -> Vec<Fault> {
    let mut faults: Vec<Fault> = places(carrier, bytes).map(Fault::Cut).collect();
    faults.extend([Fault::Silent(0), Fault::Silent(7), Fault::TooLarge]);
    faults.extend((1..=3).flat_map(|seed| [Fault::Garbage(seed), Fault::Noise(seed)]));
    // Byte by byte is not a fault for an end that has a minute.
    faults.extend((!carrier.is_a_process || by == End::Server).then_some(Fault::Slow));
    faults.extend((message == "version").then_some(Fault::Newer));
    // The server has a minute to receive `complete`: `receive_past` has its own test.
    faults.extend((message != "complete").then_some(Fault::OnlyProgress));
    faults
}

/// Runs the rows in parallel. Returns all failures.
fn checked(rows: &[Row]) -> Vec<String> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = row.check() {
                        wrong.lock().expect("no thread panics").push(format!("{row}: {why}"));
                    }
                }
            });
        }
    });
    wrong.into_inner().expect("no thread panics")
}

#[test]
fn a_spoilt_frame_ends_both_ends_and_its_reader_reports_the_cause() {
    let mut rows = Vec::new();
    for carrier in CARRIERS {
        for kind in KINDS {
            let whole = round(carrier, kind, Pace::AtOnce, None).expect("it ends");
            for (by, message) in kind.messages() {
                let said = whole.said[by as usize].iter().find(|said| said.name() == message);
                let bytes = framed(said.expect("it says that in such a round")).len();
                let row = |fault| Row { carrier, kind, spoilt: Spoilt { by, message, fault } };
                rows.extend(faults(carrier, by, message, bytes).into_iter().map(row));
            }
        }
    }
    let wrong = checked(&rows);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// A message cut at any byte is rejected, and no part of it is used.
#[test]
fn a_truncated_message_is_rejected_over_every_carrier() {
    let wholes = KINDS.iter().map(|kind| round(&CARRIERS[0], kind, Pace::AtOnce, None).expect("it ends"));
    // Checks each kind of message once: messages of other loads differ only in their figures.
    let said = wholes.flat_map(|whole| whole.said).flatten().map(|message| (message.name(), message));
    let frames: BTreeMap<String, Vec<u8>> = said.map(|(name, message)| (name, framed(&message))).collect();
    assert!(frames.len() >= 9, "{:?}", frames.keys());
    for (carrier, (name, frame)) in
        CARRIERS.iter().flat_map(|carrier| frames.iter().map(move |frame| (carrier, frame)))
    {
        for place in 0..frame.len() {
            let [[reads, writes], [_, other_writes]] = (carrier.join)();
            let mut channel = Limited::new([reads, writes], End::Client, false);
            File::from(other_writes).write_all(&frame[..place]).expect("it is open");
            let heard = channel.receive(Duration::from_secs(60));
            let what = format!("`{name}` cut at {place} over {}", carrier.name);
            assert!(matches!(heard, Err(ControlError::Closed)), "{what}: {heard:?}");
        }
    }
}
