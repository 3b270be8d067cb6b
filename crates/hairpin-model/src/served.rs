//! What `hairpin serve` and `hairpin check` print as JSON, as plain data.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::refused::Refused;

/// A client's run at a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Session {
    pub session: u64,
    pub client: SocketAddr,
    /// Name and version of the client's Hairpin.
    pub tool: String,
    /// Public name of its ticket.
    pub ticket: String,
    /// Start, in seconds since 1970.
    pub began_unix_s: u64,
    /// End, in seconds since 1970; null while in progress.
    pub ended_unix_s: Option<u64>,
    pub rounds: u64,
    /// Payload of its rounds in both directions, in bytes.
    pub bytes: u64,
}

/// Bytes that a ticket used on one day (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Used {
    /// Days since 1970-01-01.
    pub day: u64,
    /// Payload in both directions.
    pub bytes: u64,
}

impl Used {
    /// The usage that counts on day `today`. A clock set back over midnight does not reset it; a larger error does.
    pub fn on(self, today: u64) -> Self {
        if self.day == today || self.day == today + 1 { self } else { Self { day: today, bytes: 0 } }
    }
}

/// Traffic of strangers, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct StrangerCounts {
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

/// Why a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
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

/// An event at a server: a line of `hairpin serve --json`.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The server accepts clients; always the first event.
    Listening {
        address: SocketAddr,
        /// The ticket for clients. It has a secret: any client with the ticket may connect.
        ticket: String,
        /// Public name of the ticket.
        ticket_id: String,
        expires_unix_s: u64,
        limits: Limits,
    },
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
    Strangers(StrangerCounts),
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

/// `hairpin serve --list --json`.
#[derive(Serialize, crate::JsonSchema)]
pub struct Servers<'a> {
    pub tickets: Vec<ListedTicket<'a>>,
    pub servers: Vec<ListedServer<'a>>,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedTicket<'a> {
    /// Its public name.
    pub ticket_id: &'a str,
    pub expires_unix_s: u64,
    pub limits: Limits,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedServer<'a> {
    /// Listening address.
    pub address: SocketAddr,
    pub is_running: bool,
    /// Sessions in progress and the last ones that ended.
    pub sessions: &'a [Session],
    /// Usage of each ticket, by its public name.
    pub used: &'a BTreeMap<String, Used>,
}

/// `hairpin check --json`.
#[derive(Serialize, crate::JsonSchema)]
pub struct Check {
    /// 0: TCP and UDP reach the server.
    pub exit_code: u8,
    /// Why the server refuses, or that the ticket has expired.
    pub refused: Option<Refused>,
    /// Why no server was found, or not that of the ticket.
    pub failed: Option<Failure>,
    #[serde(flatten)]
    pub server: Option<CheckedServer>,
}

/// A server that accepted the ticket.
#[derive(Serialize, crate::JsonSchema)]
pub struct CheckedServer {
    /// Name of its host.
    pub host: String,
    /// Its Hairpin.
    pub tool: String,
    /// Time to connect.
    pub round_trip_ns: u64,
    pub expires_unix_s: u64,
    /// Sessions in progress, including this one.
    pub sessions: u64,
    pub limits: Limits,
    /// Bytes that the ticket has used today (UTC).
    pub used_bytes: u64,
    pub datagrams: CheckedDatagrams,
    pub refusals: Vec<RefusedTransport>,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct CheckedDatagrams {
    /// Whether UDP reaches the server and its answers come back.
    pub is_through: bool,
    /// The counts, in words.
    pub evidence: String,
}

/// A transport that cannot be measured there.
#[derive(Serialize, crate::JsonSchema)]
pub struct RefusedTransport {
    pub transport: &'static str,
    pub reason: String,
}

impl Document for Event {
    const SCHEMA: &'static str = "hairpin:serve";
}

impl Document for Servers<'_> {
    const SCHEMA: &'static str = "hairpin:serve-list";
}

impl Document for Check {
    const SCHEMA: &'static str = "hairpin:check";
}
