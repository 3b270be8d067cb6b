//! What the threads of a server share, and what they tell of it.

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
use crate::protocol::About;
use crate::ticket::Secret;
use crate::tls::Tls;

/// A ticket that the server takes.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its name.
    pub id: String,
    /// Its secret.
    pub secret: Secret,
    /// When it expires, in seconds since 1970.
    pub expires_unix_s: u64,
    /// What it allows.
    pub limits: Limits,
}

/// What strangers sent, by what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Strange {
    /// Connections that said something else than a client does, or left.
    pub connections_dropped: u64,
    /// Connections that said nothing whole in time or too much, or were the oldest of too many.
    pub connections_overdue: u64,
    /// Datagrams that were not answered.
    pub datagrams_ignored: u64,
    /// Flows with the cookie of a round that has all its flows.
    pub flows_refused: u64,
    /// Clients that were refused without being told why: too many were at once.
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
    /// Ctrl-C, or another signal that asks it to.
    Signal,
    /// Its time is over.
    Time,
    /// It was to serve one run.
    OneRun,
    /// Its standard input has closed.
    Input,
}

/// What happens at a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A client has begun a run.
    Began {
        /// The session.
        session: u64,
        /// Where the client is.
        client: SocketAddr,
        /// Its Hairpin.
        tool: String,
        /// The name of its ticket.
        ticket: String,
    },
    /// A flow of a round is over.
    Round {
        /// The session.
        session: u64,
        /// Its case in words.
        case: String,
        /// Payload in both directions, in bytes.
        bytes: u64,
        /// How long it took, in ns.
        lasted_ns: u64,
        /// Why it failed; null where it did not.
        failure: Option<String>,
        /// Whether a round of another client ran at the same time.
        overlapped: bool,
    },
    /// A run is over.
    Ended {
        /// The session.
        session: u64,
        /// Its rounds.
        rounds: u64,
        /// Their payload in both directions, in bytes.
        bytes: u64,
    },
    /// What came of those who did not say who they are, since the server started.
    Strangers(Strange),
    /// A client was refused.
    Refused {
        /// Where it is.
        client: SocketAddr,
        /// Why.
        why: String,
    },
    /// The server ends.
    Stopped {
        /// Why.
        why: Ending,
        /// Sessions that began since it started: runs and checks.
        sessions: u64,
        /// Their payload in both directions, in bytes.
        bytes: u64,
    },
}

/// Reads the ticket of that name, which a stranger has sent; none where it is not taken.
pub type Tickets = Box<dyn Fn(&str) -> io::Result<Option<Taken>> + Send + Sync>;

/// What its threads share.
pub(super) struct Shared {
    pub(super) registry: Registry,
    pub(super) sessions: Sessions,
    pub(super) lease: Lease,
    /// Those that are taken now: a ticket that was revoked is not among them.
    pub(super) tickets: Tickets,
    pub(super) host: Host,
    pub(super) about: About,
    pub(super) program: PathBuf,
    pub(super) at: SocketAddr,
    pub(super) events: Sender<Event>,
    /// Clients that are being refused.
    pub(super) refusing: AtomicU32,
    /// Those that were not told why, so far.
    pub(super) untold: AtomicU64,
    /// A byte in it ends the wait of the thread that serves.
    pub(super) wake: UnixStream,
}

impl Shared {
    /// Tells an event, and wakes who serves.
    pub(super) fn tell(&self, event: Event) {
        // Without room for the byte there are others to wake it.
        drop(self.events.send(event).map(|()| (&self.wake).write(&[0])));
    }

    /// The address of this host that the client knows, where there are several.
    pub(super) fn at_of(&self, frames: &Frames<Tls>) -> SocketAddr {
        frames.carrier().socket().local_addr().unwrap_or(self.at)
    }
}

/// What a client says of itself, for a log.
pub(super) fn short(text: &str) -> String {
    printable(text).chars().take(100).collect()
}
