//! Serves a round of a client on another host: starts a process and forwards messages between client and process.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hairpin_engine::child::TICKET_VARIABLE;
use hairpin_engine::child::leave;
use hairpin_engine::control::channel::Channel;
use hairpin_engine::control::frames::Frames;
use hairpin_engine::control::{Control, ControlError, MAX_ORDER_BYTES, MAX_REPORT_BYTES, Message};
use hairpin_engine::ends::digest::has_value;
use hairpin_engine::ends::start::COMMAND;
use hairpin_engine::ends::{EndOrder, Host};
use hairpin_engine::wait::wait_any;
use hairpin_model::fact::{self};
use hairpin_model::flow::{ConnectionUse, Direction, Flow};
use hairpin_model::served::Event;
use hairpin_model::{Case, EndReport, Failure, FailureKind, Limits, Protocol, fact_names};
use hairpin_transports::Cookie;
use rustix::event::PollFlags;
use serde_json::{Value, json};

use super::lease::{Running, SETUP_TIME};
use super::shared::{AcceptedTicket, Shared, short, tool};
use crate::dial::printable;
use crate::tls::Tls;

/// Longest wait for a message before the deadline is checked.
const MAX_WAIT: Duration = Duration::from_millis(200);
/// Time-out for the rest of a message that has begun to arrive.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
const ORDER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest round, regardless of the deadline in its order.
const MAX_ROUND: Duration = Duration::from_hours(2);
/// Time for a round to end after the deadline in its order.
const DEADLINE_GRACE: Duration = Duration::from_secs(90);
/// Longest time-out of a client that the limit on rounds without bytes allows for.
const MAX_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which a round's ticket is read again: it may be revoked.
const TICKET_INTERVAL: Duration = Duration::from_millis(500);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Serves one flow of a round until it ends or fails, then reports the round as an event.
pub(super) fn serve(
    mut client: Frames<Tls>,
    shared: &Shared,
    session: u64,
    ticket: &AcceptedTicket,
    tool: &str,
    running: Running<'_>,
) {
    client.take_up_to(MAX_ORDER_BYTES);
    let began = Instant::now();
    let at = shared.at_of(&client);
    let mut relay = Relay {
        client: &mut client,
        shared,
        session,
        ticket,
        tool,
        at,
        order: None,
        case: String::new(),
        missing: None,
        bits_per_s: 0.0,
        moved: [0; 2],
        is_reported: false,
        failure: None,
        until: began + ORDER_TIMEOUT,
        ticket_read: began,
        began,
        running: &running,
        reported: [0; 2],
        uncounted: 0,
    };
    let started = Process::start(&shared.service.program, &Host { across: Some(at), ..shared.service.host.clone() });
    let outcome = started.and_then(|mut process| relay.run(&mut process));
    relay.end_round();
    let case = std::mem::take(&mut relay.case);
    let bytes = relay.moved[0].saturating_add(relay.moved[1]);
    let process_failure = relay.failure.take();
    let failure = outcome.err();
    if let Some(failure) = &failure {
        // The client may have closed.
        drop(client.send(&Message::Failed(failure.clone())));
    }
    shared.report(Event::Round {
        session,
        case: short(&case),
        bytes,
        lasted_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        failure: failure.map(|failure| failure.cause).or(process_failure).map(|cause| printable(&cause)),
    });
    // The next round need not wait until this client closes its connection.
    drop(running);
    client.carrier_mut().close(CLOSE_TIMEOUT);
}

/// The process that serves a round. Dropping this ends the process.
struct Process {
    child: Child,
    channel: Channel,
    sockets: UnixStream,
}

impl Process {
    fn start(program: &Path, host: &Host) -> Result<Self, Failure> {
        Self::try_start(program, host).map_err(|error| {
            Failure::new(
                &error,
                format!("the server: cannot start a process for the round: {error}"),
                "is a limit on processes or open files reached there?",
            )
        })
    }

    fn try_start(program: &Path, host: &Host) -> io::Result<Self> {
        let (own, child_end) = UnixStream::pair()?;
        let (sockets, child_sockets) = UnixStream::pair()?;
        let host = serde_json::to_string(host).expect("a host has only string keys");
        let child = Command::new(program)
            .env_remove(TICKET_VARIABLE)
            .args([COMMAND, &std::process::id().to_string(), &host])
            .stdin(Stdio::from(OwnedFd::from(child_end)))
            .stdout(Stdio::from(OwnedFd::from(child_sockets)))
            .spawn()?;
        let channel = Channel::new(own.try_clone()?.into(), own.into(), MAX_REPORT_BYTES);
        Ok(Self { child, channel, sockets })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Closes the channel first: a process that is not in a blocking call then exits by itself.
        drop(self.sockets.shutdown(std::net::Shutdown::Both));
        let _ = rustix::net::shutdown(&self.channel.carrier().input, rustix::net::Shutdown::Both);
        leave(&mut self.child, EXIT_TIMEOUT);
    }
}

struct Relay<'r> {
    client: &'r mut Frames<Tls>,
    shared: &'r Shared,
    session: u64,
    ticket: &'r AcceptedTicket,
    /// Name and version of the client's Hairpin.
    tool: &'r str,
    /// Local address and port that the client uses.
    at: SocketAddr,
    /// `None` until the client has sent its order.
    order: Option<Box<EndOrder>>,
    case: String,
    /// Transport of a datagram flow that has not arrived yet.
    missing: Option<&'static str>,
    /// Rate of the ordered load; the session counts it against the ticket's limit.
    bits_per_s: f64,
    /// Payload moved up and down so far, in bytes.
    moved: [u64; 2],
    /// Whether the process has sent its report or failure, which is its last message.
    is_reported: bool,
    failure: Option<String>,
    until: Instant,
    began: Instant,
    /// When the ticket was last found to be valid.
    ticket_read: Instant,
    running: &'r Running<'r>,
    /// Payload that the client says it has moved.
    reported: [u64; 2],
    /// Bytes that the session does not count yet, because no limit needs them.
    uncounted: u64,
}

impl Relay<'_> {
    /// Forwards messages until the client or the process closes.
    fn run(&mut self, process: &mut Process) -> Result<(), Failure> {
        loop {
            let (from_client, from_process) = (self.client.is_ready(), process.channel.is_ready());
            if from_client && !self.forward(process)? || from_process && !self.forward_back(process)? {
                return Ok(());
            }
            if Instant::now() > self.until || self.running.ends_at().is_some_and(|end| Instant::now() > end) {
                return Err(self.overdue_failure());
            }
            self.refuse_revoked()?;
            if let Some(idle) = self.running.overlong_idle() {
                if self.is_reported {
                    return Ok(());
                }
                let by = format!("the round moved no bytes for {} s, and others wait", idle.as_secs());
                return Err(limit_reached("of a turn", &by, "was the client stopped, or is the path down?"));
            }
            if self.shared.sessions.idle(self.session).is_none() {
                return Err(Failure::new(
                    FailureKind::Closed,
                    "the server: the session of the round has ended",
                    "start the run again",
                ));
            }
            if !from_client && !from_process {
                self.wait(process);
            }
        }
    }

    fn overdue_failure(&self) -> Failure {
        let most = self.ticket.limits.turn_ns.map(Duration::from_nanos);
        if most.is_some_and(|most| self.began.elapsed() > most) {
            let limit = self.ticket.limits.words_of("turn");
            return limit_reached(&limit, "the round has lasted longer", "measure less per round");
        }
        Failure::new(
            FailureKind::TimedOut,
            "the server: the round did not end before its deadline",
            "was the client stopped?",
        )
    }

    /// Fails if the ticket was revoked since it was read.
    fn refuse_revoked(&mut self) -> Result<(), Failure> {
        if self.ticket_read.elapsed() < TICKET_INTERVAL {
            return Ok(());
        }
        self.ticket_read = Instant::now();
        match (self.shared.service.tickets)(&self.ticket.id) {
            Ok(None) => {
                let hint = "get a new one from `hairpin serve`";
                Err(Failure::new(FailureKind::Refused, "the server: the ticket was revoked", hint))
            }
            // Tickets that cannot be read now were valid before.
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// Receives the client's next message. Refuses an order with a field that this version does not know: the server would ignore it,
    /// and the client would not notice.
    fn receive(&mut self) -> Result<Result<Message, ControlError>, Failure> {
        if self.order.is_some() {
            return Ok(self.client.receive(MESSAGE_TIMEOUT));
        }
        let said: Value = match self.client.receive_any(MESSAGE_TIMEOUT) {
            Ok(said) => said,
            Err(error) => return Ok(Err(error)),
        };
        let unknown = |what: &str| {
            Failure::new(
                FailureKind::Unsupported,
                format!(
                    "the server ({}) does not know what the client ({}) orders: {what}",
                    tool(),
                    short(self.tool)
                ),
                "use the same version of Hairpin at both ends",
            )
        };
        let message =
            serde_json::from_value(said.clone()).map_err(|error| unknown(&printable(&error.to_string())))?;
        match first_unknown(&said, &json!(message)) {
            Some(path) => Err(unknown(&format!("`{}`", short(&path)))),
            None => Ok(Ok(message)),
        }
    }

    /// Forwards the client's next message to the process. Returns false if the client has closed.
    fn forward(&mut self, process: &mut Process) -> Result<bool, Failure> {
        let mut message = match self.receive()? {
            Ok(message) => message,
            Err(ControlError::Closed) if self.is_reported => return Ok(false),
            Err(error) => return Err(error.failure("the client")),
        };
        if let Message::Progress(progress) = &message {
            // What a receiving client reports moves too. The length of the turn is limited in any case.
            let reported = [progress.bytes_received, progress.bytes_sent];
            if reported != std::mem::replace(&mut self.reported, reported) {
                self.running.on_moved();
            }
        }
        if let Message::Order(order) = &mut message {
            if self.order.is_some() {
                return Err(ControlError::Unexpected(message.name()).failure("the client"));
            }
            order.reports_progress = true;
            self.accept_order(order, process)?;
        }
        match process.channel.send(&message) {
            // A process that has ended has sent its failure or report, which `run` reads next.
            Ok(()) | Err(ControlError::Closed) => Ok(true),
            Err(error) => Err(error.failure("the server")),
        }
    }

    /// Checks an order against the ticket's limits, and registers its flows as expected.
    fn accept_order(&mut self, order: &EndOrder, process: &Process) -> Result<(), Failure> {
        self.case = order.round.case.label();
        if let Some(why) = unsupported_reason(&order.round.case) {
            return Err(Failure::new(
                FailureKind::Unsupported,
                format!("the server does not serve such a round: {why}"),
                "",
            ));
        }
        let limits = &self.ticket.limits;
        let allowed =
            limits.allow_round(&order.round, self.shared.sessions.used_bytes(&self.ticket.id)).and_then(|()| {
                // With the maximum round-trip time, the rate of a closed loop is 0. Its bytes are counted and limited
                // during the round.
                let bits_per_s = Limits::case_bits_per_s(&order.round.case, u64::MAX).unwrap_or(0.0);
                let allow = |beside| limits.allow_case(&order.round.case, u64::MAX, beside);
                self.shared.sessions.add_flow(self.session, &self.ticket.id, bits_per_s, allow)?;
                self.bits_per_s = bits_per_s;
                Ok(())
            });
        allowed.map_err(|exceeded| limit_reached(&exceeded.limit, &exceeded.by, &exceeded.hint))?;
        self.charge_rate([0; 2])?;
        let flow = order.round.case.primary();
        let flows = match flow.connection_use {
            ConnectionUse::PerMessage => u32::MAX,
            ConnectionUse::Own | ConnectionUse::Shared => flow.connections,
        };
        let sockets = process.sockets.try_clone().map_err(|error| ControlError::from(error).failure("the server"))?;
        let card = hairpin_transports::find(&flow.transport).map(|transport| transport.card());
        self.missing = card.filter(|card| card.protocol == Protocol::Udp).map(|card| card.name);
        self.shared.registry.expect(Cookie(order.cookie), self.shared.ends_of(self.client), sockets, flows);
        let pauses = order.round.case.flows.iter().map(Flow::longest_pause_ns).max();
        let pause = Duration::from_nanos(pauses.unwrap_or(0));
        self.running.may_pause(pause.max(Duration::from_nanos(order.round.timeout_ns).min(MAX_TIMEOUT)));
        let lasts = Duration::from_nanos(order.round.deadline_ns).saturating_add(DEADLINE_GRACE).min(MAX_ROUND);
        // Set-up and teardown are not part of the load.
        let most = limits.turn_ns.map_or(MAX_ROUND, |most| Duration::from_nanos(most).saturating_add(SETUP_TIME));
        self.until = Instant::now() + lasts.min(most);
        self.began = Instant::now();
        self.order = Some(Box::new(order.clone()));
        Ok(())
    }

    /// Forwards the process's next message to the client. Returns false if the process has closed.
    fn forward_back(&mut self, process: &mut Process) -> Result<bool, Failure> {
        let mut message = match process.channel.receive(MESSAGE_TIMEOUT) {
            Ok(message) => message,
            Err(ControlError::Closed) => return Ok(false),
            Err(error) => return Err(error.failure("the server")),
        };
        match &mut message {
            Message::Progress(progress) => {
                self.count([progress.bytes_received, progress.bytes_sent])?;
                if self
                    .order
                    .as_ref()
                    .is_some_and(|order| order.round.case.primary().direction == Direction::RoundTrip)
                {
                    // The client of a round-trip flow accepts no progress messages.
                    return Ok(true);
                }
            }
            Message::Ready => self.missing = None,
            Message::Failed(failure) => {
                self.is_reported = true;
                if let (Some(transport), Some(order)) = (self.missing, &self.order) {
                    let hellos = self.shared.registry.datagrams_seen(Cookie(order.cookie)).hellos;
                    *failure = with_hello_count(failure, transport, self.at, hellos);
                }
                self.failure = Some(failure.cause.clone());
            }
            Message::Report(report) => {
                if let Some(order) = &self.order {
                    let moved = moved_bytes(report, &order.round.case);
                    // A report is forwarded even if it exceeds a limit.
                    drop(self.count(moved));
                }
                self.is_reported = true;
            }
            _ => {}
        }
        self.client.send(&message).map(|()| true).map_err(|error| error.failure("the client"))
    }

    /// Counts the bytes that the flow has moved up and down so far. Fails if they exceed a limit of the ticket.
    fn count(&mut self, so_far: [u64; 2]) -> Result<(), Failure> {
        let more = [0, 1].map(|way| so_far[way].saturating_sub(self.moved[way]));
        if more != [0; 2] {
            self.running.on_moved();
        }
        self.moved = [0, 1].map(|way| self.moved[way] + more[way]);
        let limits = &self.ticket.limits;
        let bytes = more[0].saturating_add(more[1]);
        if limits.daily_bytes.is_none() {
            self.uncounted = self.uncounted.saturating_add(bytes);
            self.shared.sessions.touch(self.session, &self.ticket.id);
            return self.charge_rate(more);
        }
        let used = self.shared.sessions.count_bytes(self.session, &self.ticket.id, bytes);
        let is_within = self.charge_rate(more);
        if limits.daily_bytes.is_some_and(|most| used > most) {
            return Err(limit_reached(
                &limits.words_of("daily-bytes"),
                "today's bytes are used up",
                "wait until the next day (UTC)",
            ));
        }
        is_within
    }

    /// Charges the moved bytes to the ticket's rate limit. Fails if the limit is exceeded.
    fn charge_rate(&self, moved: [u64; 2]) -> Result<(), Failure> {
        let limits = &self.ticket.limits;
        match limits.rate_bits_per_s {
            Some(most) if !self.shared.sessions.charge_rate(&self.ticket.id, most, moved) => Err(limit_reached(
                &limits.words_of("rate"),
                "more was sent in the last seconds",
                "use a smaller --rate, or smaller messages",
            )),
            _ => Ok(()),
        }
    }

    /// Removes the round's flows from the registry and its rate from the session.
    fn end_round(&self) {
        if let Some(order) = &self.order {
            self.shared.registry.forget(Cookie(order.cookie));
        }
        self.shared.sessions.count_bytes(self.session, &self.ticket.id, self.uncounted);
        self.shared.sessions.remove_flow(self.session, self.bits_per_s);
    }

    fn wait(&self, process: &Process) {
        let both = [self.client.carrier().socket().as_fd(), process.channel.carrier().input.as_fd()];
        // If the wait fails, `run` checks for messages again.
        drop(wait_any(both.into_iter().map(|file| (file, PollFlags::IN)), Some(MAX_WAIT)));
    }
}

/// Adds the number of datagram hellos, which the round's process does not know, to a failure during set-up.
fn with_hello_count(failure: &Failure, transport: &str, at: SocketAddr, hellos: u64) -> Failure {
    let cause = &failure.cause;
    let arrived = match hellos {
        0 => format!("none of the client's datagrams arrived over {transport} to {at}"),
        _ => format!("{hellos} of the client's datagrams arrived over {transport} to {at} and were answered"),
    };
    let blocked = match hellos {
        0 => format!("a firewall may drop UDP to the server: open port {} for UDP too", at.port()),
        _ => "a firewall may drop UDP to the client, or a path with a smaller MTU larger datagrams".to_owned(),
    };
    let hint = format!("{blocked}; `hairpin check` tries UDP alone, and --fallback tcp does without it");
    Failure::new(failure.kind, format!("{cause}, {arrived}"), hint)
}

/// Returns the path of the first field of `said` that `known` lacks. A field without a value changes nothing: null, false, 0 or
/// empty, which a client may omit.
fn first_unknown(said: &Value, known: &Value) -> Option<String> {
    let join = |at: String, rest: String| if rest.is_empty() { at } else { format!("{at}.{rest}") };
    match (said, known) {
        (Value::Object(said), Value::Object(known)) => said.iter().find_map(|(key, value)| match known.get(key) {
            Some(known) => first_unknown(value, known).map(|rest| join(key.clone(), rest)),
            None => has_value(value).then(|| key.clone()),
        }),
        (Value::Array(said), Value::Array(known)) => {
            let pairs = said.iter().zip(known).enumerate();
            let nested = pairs.filter_map(|(place, (said, known))| Some((place, first_unknown(said, known)?))).next();
            nested.map(|(place, rest)| join(place.to_string(), rest))
        }
        _ => None,
    }
}

/// Why a server on another host does not serve a case. No client of this version orders such a case.
fn unsupported_reason(case: &Case) -> Option<&'static str> {
    if case.path.across.is_none() || case.is_emulated() {
        return Some("its path is not between two hosts");
    }
    if case.injected_fault.is_some_and(|fault| fault.every == 0) {
        return Some("its fault is injected every 0 messages");
    }
    (!case.sysctls.is_empty()).then_some("it changes kernel settings")
}

fn limit_reached(limit: &str, by: &str, hint: &str) -> Failure {
    Failure::new(FailureKind::Refused, format!("the server: limit {limit}: {by}"), hint)
}

/// Returns the payload moved up and down according to the report, in bytes, including the warm-up if counted.
fn moved_bytes(report: &EndReport, case: &Case) -> [u64; 2] {
    if let [streamed] = report.streamed.as_slice() {
        // A single load shares the connection of the probe, which is the primary flow.
        let flow = if let [load] = case.loads()[..] { load } else { case.primary() };
        let size = flow.load.size_bytes();
        let bytes = |counts: [u64; 2]| counts.into_iter().fold(0, u64::saturating_add).saturating_mul(size);
        let received = bytes([streamed.received, streamed.warm_up_received]);
        let received = streamed.arrivals.as_ref().map_or(received, |arrivals| arrivals.bytes.max(received));
        return [received, bytes([streamed.sent, streamed.warm_up_sent])];
    }
    let answered = fact::number(&report.facts, fact_names::ANSWERED).unwrap_or(0.0) as u64;
    let load = &case.primary().load;
    [load.size_bytes(), load.reply_size_bytes()].map(|size| answered.saturating_mul(size))
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Flow, RoundOrder};

    use super::*;

    #[test]
    fn a_field_that_this_version_does_not_know_is_found_and_its_absence_is_not() {
        let round = RoundOrder::of(Case::of(Flow::ping_pong("tcp")), 5);
        let order = json!(Message::Order(Box::new(EndOrder {
            round,
            cookie: [3; 16],
            reports_progress: false,
            datagram_key: None
        })));
        let read = |said: &Value| json!(serde_json::from_value::<Message>(said.clone()).unwrap());
        assert_eq!(first_unknown(&order, &read(&order)), None);
        for (place, path) in [
            ("/order", "order.later"),
            ("/order/round/case", "order.round.case.later"),
            ("/order/round/case/flows/0", "order.round.case.flows.0.later"),
        ] {
            let mut newer = order.clone();
            newer.pointer_mut(place).unwrap_or_else(|| panic!("{place}: {order:#}"))["later"] = json!(7);
            assert_eq!(first_unknown(&newer, &read(&newer)).as_deref(), Some(path));
            newer.pointer_mut(place).unwrap()["later"] = Value::Null;
            assert_eq!(first_unknown(&newer, &read(&newer)), None, "no value");
        }
    }
}
