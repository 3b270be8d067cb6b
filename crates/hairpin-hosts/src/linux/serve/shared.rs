//! State that the threads of a server share, and the events that they report.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::mpsc::Sender;

use hairpin_engine::control::frames::Frames;
use hairpin_engine::ends::Host;
use hairpin_model::limits::Limits;
use serde::Serialize;

use super::datagrams::Counts as DatagramCounts;
use super::lease::Lease;
use super::registry::Registry;
use super::sessions::Sessions;
use super::strangers::Counts as ConnectionCounts;
use crate::dial::printable;
use crate::protocol::ServerInfo;
use crate::ticket::Secret;
use crate::tls::Tls;

/// A ticket that the server accepts.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its public name.
    pub id: String,
    pub secret: Secret,
    /// Expiry, in seconds since 1970.
    pub expires_unix_s: u64,
    pub limits: Limits,
}

/// Traffic of strangers, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Strange {
    /// Connections that sent something other than a client does, or closed.
    pub connections_dropped: u64,
    /// Connections that completed no message in time, sent too much, or were the oldest of too many.
    pub connections_overdue: u64,
    /// Datagrams that were not answered.
    pub datagrams_ignored: u64,
    /// Flows with the cookie of a round that has all its flows.
    pub flows_refused: u64,
    /// Clients refused without a reason: too many at the same time.
    pub clients_untold: u64,
}

impl Strange {
    pub(super) fn of(connections: ConnectionCounts, datagrams: DatagramCounts, clients_untold: u64) -> Self {
        Self {
            connections_dropped: connections.dropped,
            connections_overdue: connections.overdue,
            datagrams_ignored: datagrams.ignored,
            flows_refused: connections.refused + datagrams.refused,
            clients_untold,
        }
    }
}

/// Why a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Ctrl-C or another signal to terminate.
    Signal,
    /// Its time is over.
    Time,
    /// It was to serve one run.
    OneRun,
    /// Its standard input has closed.
    Input,
}

/// An event at a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A client has begun a run.
    Began {
        session: u64,
        client: SocketAddr,
        /// Name and version of the client's Hairpin.
        tool: String,
        /// Public name of its ticket.
        ticket: String,
    },
    /// A flow of a round is over.
    Round {
        session: u64,
        /// Label of its case.
        case: String,
        /// Payload in both directions, in bytes.
        bytes: u64,
        /// Duration, in ns.
        lasted_ns: u64,
        /// Why it failed; null if it did not.
        failure: Option<String>,
        /// Whether another client's round ran at the same time.
        overlapped: bool,
    },
    /// A run is over.
    Ended {
        session: u64,
        rounds: u64,
        /// Payload of its rounds in both directions, in bytes.
        bytes: u64,
    },
    /// Counts of strangers since the server started.
    Strangers(Strange),
    Refused {
        client: SocketAddr,
        why: String,
    },
    Stopped {
        why: Ending,
        /// Sessions since it started: runs and checks.
        sessions: u64,
        /// Their payload in both directions, in bytes.
        bytes: u64,
    },
}

/// Reads the ticket of that name, which a stranger sent; `None` if it is not accepted.
pub type Tickets = Box<dyn Fn(&str) -> io::Result<Option<Taken>> + Send + Sync>;

pub(super) struct Shared {
    pub(super) registry: Registry,
    pub(super) sessions: Sessions,
    pub(super) lease: Lease,
    /// Reads valid tickets; a revoked one is not among them.
    pub(super) tickets: Tickets,
    pub(super) host: Host,
    pub(super) about: ServerInfo,
    pub(super) program: PathBuf,
    pub(super) at: SocketAddr,
    pub(super) events: Sender<Event>,
    /// Number of clients being refused.
    pub(super) refusing: AtomicU32,
    /// Number of clients refused without a reason.
    pub(super) untold: AtomicU64,
    /// A byte in it wakes the serving thread.
    pub(super) wake: UnixStream,
}

impl Shared {
    /// Reports an event and wakes the serving thread.
    pub(super) fn tell(&self, event: Event) {
        // If the byte does not fit, others will wake it.
        drop(self.events.send(event).map(|()| (&self.wake).write(&[0])));
    }

    /// Address of this host that the client uses, if it has several.
    pub(super) fn at_of(&self, frames: &Frames<Tls>) -> SocketAddr {
        frames.carrier().socket().local_addr().unwrap_or(self.at)
    }
}

/// Text from a client, shortened for a log.
pub(super) fn short(text: &str) -> String {
    printable(text).chars().take(100).collect()
}
