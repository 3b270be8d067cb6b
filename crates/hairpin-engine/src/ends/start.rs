//! The client's handle to its server. On this machine the server is started as a thread of this process or as a child
//! process; elsewhere it is reached through an existing control channel.
//!
//! The child process is this program, started with a hidden command. It cannot outlive its parent: the kernel kills it
//! when the thread that started it ends, and it exits when its control channel closes.

use std::path::Path;
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hairpin_model::round::Purpose;
use hairpin_model::{EndKind, EndReport, Failure, RoundOrder};
use hairpin_transports::{Cookie, Wire};

use super::codes::DatagramKey;
use super::digest::order_digest;
use super::driving::Driving;
use super::{EndOrder, Host, PINGS, UNCOUNTED_PINGS, server};
use crate::child::{failure, leave, spawn};
use crate::control::channel::Channel;
use crate::control::{Control, ControlError, MAX_ORDER_BYTES, MAX_REPORT_BYTES, Message, agree, receive_past};
use crate::system::process;
use hairpin_loops::clock::Clock;

/// The hidden command that runs the program as the server of one round.
pub const COMMAND: &str = "__server";

/// Time for a server to exit after its channel is closed. At that time, no call of the server waits for a time-out.
const EXIT_TIMEOUT: Duration = Duration::from_millis(20);
/// Time for a failed server to report its cause after its wire broke.
const CAUSE_TIMEOUT: Duration = Duration::from_millis(100);

/// The client's handle to its server. Dropping it ends the server.
pub struct Server {
    /// `None` once closed. Dropping the channel closes it.
    channel: Option<Box<dyn Control>>,
    runs: Runs,
    /// Time-out for the server's next message.
    patience: Duration,
    /// Whether the server reported a failure or its channel broke, so that no further explanation can follow.
    has_failed: bool,
}

enum Runs {
    Process(Child),
    Thread(Option<JoinHandle<()>>),
    /// A server on another host. It ends when its channel closes.
    Elsewhere,
}

impl Server {
    /// Starts the server of a round, from the executable `program` if the server is a process.
    pub fn start(program: &Path, order: &RoundOrder, host: &Host) -> Result<Self, Failure> {
        let (channel, runs) = match order.case.ends.kind {
            EndKind::Processes => in_a_process(program, host)?,
            EndKind::Threads => in_a_thread(host.clone())?,
        };
        Ok(Self::new(Box::new(channel), runs, order))
    }

    /// A handle to a server that waits for its order at the other end of `control`.
    pub fn behind(control: Box<dyn Control>, order: &RoundOrder) -> Self {
        Self::new(control, Runs::Elsewhere, order)
    }

    fn new(channel: Box<dyn Control>, runs: Runs, order: &RoundOrder) -> Self {
        Self { channel: Some(channel), runs, patience: patience(order), has_failed: false }
    }

    /// The server's process id, if it is a process.
    pub fn id(&self) -> Option<u32> {
        match &self.runs {
            Runs::Process(child) => Some(child.id()),
            Runs::Thread(_) | Runs::Elsewhere => None,
        }
    }

    /// Sends the order and returns the address on which the server listens.
    pub fn listening(
        &mut self,
        round: &RoundOrder,
        cookie: Cookie,
        datagram_key: Option<DatagramKey>,
    ) -> Result<String, Failure> {
        let patience = self.patience;
        let agreed = agree(self.channel()?, patience);
        agreed.map_err(|error| self.with_exit_status(&error))?;
        let mut order = round.clone();
        if order.purpose == Purpose::Stamped {
            // `sample_every` asks for the samples, and a server of an earlier version ignores it.
            order.purpose = Purpose::Untraced;
        }
        let digest = order_digest(&order);
        let order = EndOrder { round: order, cookie: cookie.0, reports_progress: false, datagram_key };
        self.send(&Message::Order(Box::new(order)))?;
        match self.receive()? {
            Message::Listening(listening) => match listening.split_once(' ') {
                Some((_, understood)) if understood != digest => Err(Failure::new(
                    hairpin_model::FailureKind::Unsupported,
                    "the server understood another order than the client gave",
                    "use the same version of Hairpin at both ends",
                )),
                found => Ok(found.map_or(listening.as_str(), |(address, _)| address).to_owned()),
            },
            other => Err(unexpected(&other)),
        }
    }

    /// Waits for `expected`, a message without content.
    pub fn expect(&mut self, expected: &Message) -> Result<(), Failure> {
        match self.receive()? {
            message if message == *expected => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Measures the median round-trip time of a control message, in ns.
    pub fn waking_ns(&mut self, clock: &impl Clock) -> Result<u64, Failure> {
        let mut took_ns = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let began_ns = clock.now_ns();
            self.send(&Message::Ping)?;
            self.expect(&Message::Ping)?;
            took_ns.push(clock.now_ns().saturating_sub(began_ns));
        }
        let counted = &mut took_ns[UNCOUNTED_PINGS..];
        counted.sort_unstable();
        Ok(counted[counted.len() / 2])
    }

    /// Waits until the server is ready, and drives the wires meanwhile.
    pub(super) fn ready(&mut self, wires: &mut [Box<dyn Wire>]) -> Result<(), Failure> {
        let patience = self.patience;
        let heard = Driving { control: self.channel()?, wires }.receive(patience);
        match self.checked(heard)? {
            Message::Ready => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Receives the server's report, after the load is over, and drives the wires meanwhile.
    pub fn report(&mut self, wires: &mut [Box<dyn Wire>]) -> Result<EndReport, Failure> {
        let patience = self.patience;
        // `Measuring` may arrive here, if the client stopped waiting for it.
        let heard = receive_past(&mut Driving { control: self.channel()?, wires }, patience, is_of_the_load);
        match self.checked(heard)? {
            Message::Report(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    fn channel(&mut self) -> Result<&mut dyn Control, Failure> {
        let channel = self.channel.as_deref_mut();
        channel.map(|channel| channel as _).ok_or_else(|| ControlError::Closed.failure("the server"))
    }

    pub fn send(&mut self, message: &Message) -> Result<(), Failure> {
        let sent = self.channel()?.send(message);
        sent.map_err(|error| self.with_exit_status(&error))
    }

    pub fn receive(&mut self) -> Result<Message, Failure> {
        let patience = self.patience;
        self.receive_within(patience)
    }

    fn receive_within(&mut self, patience: Duration) -> Result<Message, Failure> {
        let heard = self.channel()?.receive(patience);
        self.checked(heard)
    }

    fn checked(&mut self, heard: Result<Message, ControlError>) -> Result<Message, Failure> {
        // No message follows a reported failure or an unreadable message.
        self.has_failed |= match &heard {
            Ok(message) => matches!(message, Message::Failed(_)),
            Err(error) => !matches!(error, ControlError::TimedOut(_) | ControlError::OnlyProgress(_)),
        };
        match heard {
            Ok(Message::Failed(failure)) => Err(failure),
            Ok(message) => Ok(message),
            Err(error) => Err(self.with_exit_status(&error)),
        }
    }

    /// Whether [`Server::receive`] would return at once.
    pub fn is_ready(&mut self) -> bool {
        self.channel.as_mut().is_none_or(|channel| channel.is_ready())
    }

    /// The server's own failure, if any. It explains why the client's wire broke.
    pub fn own_cause(&mut self) -> Option<Failure> {
        if self.has_failed {
            return None;
        }
        let deadline = Instant::now() + CAUSE_TIMEOUT;
        while Instant::now() < deadline {
            if self.is_ready() {
                match self.receive_within(CAUSE_TIMEOUT) {
                    // The server sent this message before it failed.
                    Ok(message) if is_of_the_load(&message) => continue,
                    Ok(_) => return None,
                    // A time-out explains nothing.
                    Err(failure) => return self.has_failed.then_some(failure),
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Converts a control error to a failure. Adds the exit status of the server's process if it has exited.
    fn with_exit_status(&mut self, error: &ControlError) -> Failure {
        match &mut self.runs {
            Runs::Process(child) => failure(error, "the server", child),
            Runs::Thread(_) | Runs::Elsewhere => error.failure("the server"),
        }
    }
}

fn is_of_the_load(message: &Message) -> bool {
    matches!(message, Message::Measuring | Message::Progress(_) | Message::Sent(_))
}

fn unexpected(message: &Message) -> Failure {
    ControlError::Unexpected(message.name()).failure("the server")
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.channel.take());
        match &mut self.runs {
            Runs::Process(child) => leave(child, EXIT_TIMEOUT),
            // The server's wire is closed or times out, so the thread ends. A panic was already reported.
            Runs::Thread(thread) => drop(thread.take().map(JoinHandle::join)),
            Runs::Elsewhere => {}
        }
    }
}

/// Time-out for a message. The wire's own time-outs are shorter, so this one expires only if an end hangs. Over a
/// network, opening and closing need additional round trips, and packets may be lost.
fn patience(order: &RoundOrder) -> Duration {
    let links = Duration::from_secs(if order.case.crosses_a_network() { 60 } else { 0 });
    Duration::from_nanos(order.timeout_ns) * 2 + Duration::from_secs(5) + links
}

fn in_a_process(program: &Path, host: &Host) -> Result<(Channel, Runs), Failure> {
    let host = serde_json::to_string(host).expect("a host has only string keys");
    let (child, output, input) = spawn("the server", program, COMMAND, Some(&host))?;
    Ok((Channel::new(input.into(), output.into(), MAX_REPORT_BYTES), Runs::Process(child)))
}

fn in_a_thread(host: Host) -> Result<(Channel, Runs), Failure> {
    let failed = |what: &str, error: std::io::Error| {
        Failure::new(
            &error,
            format!("cannot start the server's {what}: {error}"),
            "is a limit on threads (ulimit -u) or open files (ulimit -n) reached?",
        )
    };
    let pair = Channel::pair([MAX_REPORT_BYTES, MAX_ORDER_BYTES]);
    let [own, mut its] = pair.map_err(|error| failed("control channel", error))?;
    let serve = move || server::run(&mut its, &host, None);
    let thread = std::thread::Builder::new().name("hairpin-server".to_owned()).spawn(serve);
    Ok((own, Runs::Thread(Some(thread.map_err(|error| failed("thread", error))?))))
}

/// Runs the program as the server of one round. `parent` is the id of the process that started this one, and `host`
/// is a [`Host`] as JSON.
pub fn serve_as_process(parent: u32, host: &str) -> Result<(), String> {
    if !process::die_with_parent(parent) {
        return Err("the process that started this server has exited".to_owned());
    }
    process::ignore_interrupts();
    let host: Host = serde_json::from_str(host).map_err(|error| format!("cannot read the host: {error}"))?;
    let unusable = |error: std::io::Error| format!("cannot use the standard streams: {error}");
    if host.across.is_some() {
        let (mut control, sockets) = Channel::of_a_server_on_two_hosts(MAX_ORDER_BYTES).map_err(unusable)?;
        server::run(&mut control, &host, Some(sockets));
    } else {
        server::run(&mut Channel::of_this_process(MAX_ORDER_BYTES).map_err(unusable)?, &host, None);
    }
    Ok(())
}
