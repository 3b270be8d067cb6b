//! A round of a client elsewhere: a process of its own serves it, and this thread carries what both tell each other.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hairpin_engine::control::channel::Channel;
use hairpin_engine::control::frames::Frames;
use hairpin_engine::control::{Control, ControlError, MOST_BYTES_OF_A_REPORT, MOST_BYTES_OF_AN_ORDER, Message};
use hairpin_engine::ends::Host;
use hairpin_engine::ends::start::COMMAND;
use hairpin_model::card::Protocol;
use hairpin_model::flow::ConnectionUse;
use hairpin_model::round::Failure;
use hairpin_transports::Cookie;

use super::registry::Registry;
use crate::linux::wait::{Wants, wait_any};
use crate::tls::Tls;

/// How long one look lasts.
const LOOK: Duration = Duration::from_millis(200);
/// How long the rest of a message may take whose beginning has come.
const PART: Duration = Duration::from_secs(5);
/// How long a client may take for its order.
const ORDER: Duration = Duration::from_secs(30);
/// The longest that a round may last, whatever its order says.
const LONGEST: Duration = Duration::from_hours(2);
/// Beyond its own deadline a round has so long for its end.
const ENDING: Duration = Duration::from_secs(90);
/// How long a client has to close its connection at the end.
const CLOSING: Duration = Duration::from_secs(5);
/// How long a process has for its end.
const LEAVE: Duration = Duration::from_millis(500);

/// Serves one round, and returns when it is over, for whatever reason.
pub(super) fn serve(mut client: Frames<Tls>, at: SocketAddr, host: &Host, program: &Path, registry: &Registry) {
    client.take_up_to(MOST_BYTES_OF_AN_ORDER);
    let started = Process::start(program, &Host { across: Some(at), ..host.clone() });
    let outcome = started.and_then(|mut process| {
        let mut relay = Relay {
            client: &mut client,
            process: &mut process,
            registry,
            at,
            cookie: None,
            missing: None,
            until: Instant::now() + ORDER,
        };
        let outcome = relay.run();
        if let Some(cookie) = relay.cookie {
            registry.forget(cookie);
        }
        outcome
    });
    if let Err(failure) = outcome {
        // A client that is gone hears nothing more.
        drop(client.send(&Message::Failed(failure)));
    }
    client.carrier_mut().close(CLOSING);
}

/// The process that serves a round. Dropping it ends it.
struct Process {
    child: Child,
    channel: Channel,
    /// A copy of the channel's descriptor, to watch.
    watched: OwnedFd,
    /// Where its sockets are handed to.
    sockets: UnixStream,
}

impl Process {
    fn start(program: &Path, host: &Host) -> Result<Self, Failure> {
        Self::try_start(program, host).map_err(|error| Failure {
            cause: format!("the server: cannot start a process for the round: {error}"),
            hint: "is a limit on processes or open files reached there?".to_owned(),
        })
    }

    fn try_start(program: &Path, host: &Host) -> io::Result<Self> {
        let (own, its) = UnixStream::pair()?;
        let (sockets, its_sockets) = UnixStream::pair()?;
        let host = serde_json::to_string(host).expect("a host has only string keys");
        let child = Command::new(program)
            .args([COMMAND, &std::process::id().to_string(), &host])
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::from(OwnedFd::from(its_sockets)))
            .spawn()?;
        let watched = own.as_fd().try_clone_to_owned()?;
        let channel = Channel::new(own.try_clone()?.into(), own.into(), MOST_BYTES_OF_A_REPORT);
        Ok(Self { child, channel, watched, sockets })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its channel is closed first: one that is not in a call ends by itself.
        drop(self.sockets.shutdown(std::net::Shutdown::Both));
        let _ = rustix::net::shutdown(&self.watched, rustix::net::Shutdown::Both);
        let deadline = Instant::now() + LEAVE;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(_)) | Err(_) => return,
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Relay<'r> {
    client: &'r mut Frames<Tls>,
    process: &'r mut Process,
    registry: &'r Registry,
    /// The port.
    at: SocketAddr,
    /// Of the order, once it has come.
    cookie: Option<Cookie>,
    /// The transport of a flow of datagrams, until it is there.
    missing: Option<&'static str>,
    until: Instant,
}

impl Relay<'_> {
    /// Carries messages until either end has closed.
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            let (from_client, from_process) = (self.client.is_ready(), self.process.channel.is_ready());
            if from_client && !self.forward()? || from_process && !self.back()? {
                return Ok(());
            }
            if Instant::now() > self.until {
                return Err(Failure {
                    cause: "the server: the round did not end before its deadline".to_owned(),
                    hint: "was the client stopped?".to_owned(),
                });
            }
            if !from_client && !from_process {
                self.wait();
            }
        }
    }

    /// What the client says next, to the process; false where it has closed.
    fn forward(&mut self) -> Result<bool, Failure> {
        let message = match self.client.receive(PART) {
            Ok(message) => message,
            Err(ControlError::Closed) => return Ok(false),
            Err(error) => return Err(error.failure("the client")),
        };
        if let Message::Order(order) = &message {
            if self.cookie.is_some() {
                return Err(ControlError::Unexpected(message.name()).failure("the client"));
            }
            let cookie = Cookie(order.cookie);
            let flow = order.round.case.flow();
            let flows = match flow.connection_use {
                ConnectionUse::PerMessage => u32::MAX,
                ConnectionUse::Own | ConnectionUse::Shared => flow.connections,
            };
            let sockets =
                self.process.sockets.try_clone().map_err(|error| ControlError::from(error).failure("the server"))?;
            let card = hairpin_transports::find(&flow.transport).map(|transport| transport.card());
            self.missing = card.filter(|card| card.protocol == Protocol::Udp).map(|card| card.name);
            self.registry.expect(cookie, self.at, sockets, flows);
            self.cookie = Some(cookie);
            let lasts = Duration::from_nanos(order.round.deadline_ns).saturating_add(ENDING);
            self.until = Instant::now() + lasts.min(LONGEST);
        }
        match self.process.channel.send(&message) {
            // One that has ended has said why, or reported: that is still to be taken.
            Ok(()) | Err(ControlError::Closed) => Ok(true),
            Err(error) => Err(error.failure("the server")),
        }
    }

    /// What the process says next, to the client; false where it has closed.
    fn back(&mut self) -> Result<bool, Failure> {
        match self.process.channel.receive(PART) {
            Ok(message) => {
                let message = self.with_what_came(message);
                self.client.send(&message).map(|()| true).map_err(|error| error.failure("the client"))
            }
            Err(ControlError::Closed) => Ok(false),
            Err(error) => Err(error.failure("the server")),
        }
    }

    /// Adds to a failure before all datagram flows were there what came of them, which this process alone has seen.
    fn with_what_came(&mut self, message: Message) -> Message {
        match (message, self.missing, self.cookie) {
            (Message::Failed(failure), Some(transport), Some(cookie)) => {
                let (hellos, port) = (self.registry.hellos(cookie), self.at.port());
                let hint = match hellos {
                    0 => format!("a firewall may drop UDP on its way to the server: open port {port} for UDP too"),
                    _ => "a firewall may drop UDP on its way back to the client".to_owned(),
                };
                let cause = failure.cause;
                Message::Failed(Failure {
                    cause: format!("{cause}, {hellos} hellos came over {transport} to {} and were answered", self.at),
                    hint,
                })
            }
            (message, ..) => {
                if message == Message::Ready {
                    self.missing = None;
                }
                message
            }
        }
    }

    fn wait(&self) {
        let both = [self.client.carrier().socket().as_fd(), self.process.watched.as_fd()];
        // A wait that fails is one more look.
        drop(wait_any(both.into_iter().map(|file| (file, Wants::Input)), LOOK));
    }
}
