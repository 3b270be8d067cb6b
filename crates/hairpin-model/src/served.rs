//! The JSON documents of `hairpin serve` and `hairpin check`, as plain data.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

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
    /// Public name of the client's ticket.
    pub ticket: String,
    /// Start, in seconds since 1970.
    pub began_unix_s: u64,
    /// End, in seconds since 1970; null while in progress.
    pub ended_unix_s: Option<u64>,
    pub rounds: u64,
    /// Payload of the run's rounds in both directions, in bytes.
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
    /// The usage that counts on day `today`. A clock set back by less than a day does not reset the usage.
    pub fn on(self, today: u64) -> Self {
        if self.day == today || self.day == today + 1 { self } else { Self { day: today, bytes: 0 } }
    }
}

crate::words! {
    /// Why a server refuses a client.
    pub enum RefusalReason: "reason" {
        /// The ticket is unknown, or was revoked.
        Ticket = "unknown-ticket",
        Expired = "expired-ticket",
        /// The ticket is not for the client's address.
        Address = "address",
        /// The client speaks another version of the protocol.
        Version = "version",
        /// Too many sessions, of the ticket or in all.
        Sessions = "sessions",
        /// Too many flows of a session.
        Flows = "flows",
        /// The wait for the round's turn timed out.
        Turn = "turn",
        /// The session of a round has ended.
        Ended = "session-ended",
        /// The server cannot read its tickets, or its connection failed.
        Failure = "failure",
    }
}

crate::words! {
    /// What happened to a named ticket.
    pub enum TicketChange: "change" {
        Added = "added",
        Changed = "changed",
        Removed = "removed",
    }
}

/// Counts of connections and datagrams from programs that are not clients of this server, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct StrangerCounts {
    /// Connections that sent unexpected bytes, or closed early.
    pub connections_dropped: u64,
    /// Connections without a complete message in time, with too much data, or the oldest when the server had too
    /// many.
    pub connections_overdue: u64,
    /// Connections from addresses that the server does not allow.
    pub connections_not_allowed: u64,
    /// Datagrams that the server did not answer.
    pub datagrams_ignored: u64,
    /// Flows with the cookie of a round that already has all its flows.
    pub flows_refused: u64,
    /// Clients that the server refused without a reason, because it refused too many at the same time.
    pub clients_untold: u64,
}

/// Why a server stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Ctrl-C or another termination signal.
    Signal,
    /// The server's time limit expired.
    Time,
    /// The server served its only run.
    OneRun,
    /// The server's standard input closed.
    Input,
}

/// An event at a server: a line of `hairpin serve --json`.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The server accepts clients; always the first event.
    Listening {
        address: SocketAddr,
        #[serde(flatten)]
        ticket: Option<IssuedTicket>,
    },
    /// A named ticket is accepted, has new limits or addresses, or is no longer accepted.
    Ticket {
        change: TicketChange,
        name: String,
        /// Ranges of addresses for which the ticket is; empty means all.
        allow: Vec<String>,
        #[serde(flatten)]
        ticket: IssuedTicket,
    },
    /// A client has begun a run.
    Began {
        session: u64,
        client: SocketAddr,
        /// Name and version of the client's Hairpin.
        tool: String,
        /// Name of the client's ticket; its public name if it has no other.
        ticket: String,
    },
    /// A flow of a round has ended.
    Round {
        session: u64,
        /// Label of the round's case.
        case: String,
        /// Payload in both directions, in bytes.
        bytes: u64,
        /// Duration, in ns.
        lasted_ns: u64,
        /// Why the flow failed; null if it did not.
        failure: Option<String>,
    },
    /// A run has ended.
    Ended {
        session: u64,
        rounds: u64,
        /// Payload of the run's rounds in both directions, in bytes.
        bytes: u64,
    },
    /// Counts of connections and datagrams that are not from clients, since the server started.
    Strangers(StrangerCounts),
    /// Clients were refused. An event counts the refusals of one address for one reason in a minute.
    Refused {
        /// The last of the clients.
        client: SocketAddr,
        reason: RefusalReason,
        /// The last refusal in words.
        why: String,
        /// Number of refusals.
        times: u64,
    },
    Stopped {
        why: Ending,
        /// Number of sessions since the server started: runs and checks.
        sessions: u64,
        /// Payload of these sessions in both directions, in bytes.
        bytes: u64,
    },
}

/// A ticket that the server prints.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct IssuedTicket {
    /// The ticket for clients. It contains a secret that allows any client to connect.
    pub ticket: String,
    /// Public name of the ticket.
    pub ticket_id: String,
    pub expires_unix_s: u64,
    pub limits: Limits,
}

/// `hairpin serve --list --json`.
#[derive(Serialize, crate::JsonSchema)]
pub struct Servers<'a> {
    pub tickets: Vec<ListedTicket<'a>>,
    pub servers: Vec<ListedServer<'a>>,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedTicket<'a> {
    /// The ticket's public name.
    pub ticket_id: &'a str,
    /// Name that the server's user gave it; null without one.
    pub name: Option<&'a str>,
    pub expires_unix_s: u64,
    pub limits: Limits,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedServer<'a> {
    /// Listening address.
    pub address: SocketAddr,
    pub is_running: bool,
    /// Sessions in progress and the most recent ended sessions.
    pub sessions: &'a [Session],
    /// Usage of each ticket, by the ticket's public name.
    pub used: &'a BTreeMap<String, Used>,
}

/// `hairpin check --json`.
#[derive(Serialize, crate::JsonSchema)]
pub struct Check {
    /// 0 if TCP and UDP reach the server.
    pub exit_code: u8,
    /// Why the server refuses the client; also set if the ticket has expired.
    pub refused: Option<Refused>,
    /// Why the ticket's server was not found.
    pub failed: Option<Failure>,
    #[serde(flatten)]
    pub server: Option<CheckedServer>,
}

/// A server that accepted the ticket.
#[derive(Serialize, crate::JsonSchema)]
pub struct CheckedServer {
    /// Name of the server's host.
    pub host: String,
    /// Name and version of the server's Hairpin.
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
    /// Whether UDP datagrams reach the server and its answers reach the client.
    pub is_through: bool,
    /// The counts, in words.
    pub evidence: String,
}

/// A transport that cannot be measured with this server.
#[derive(Serialize, crate::JsonSchema)]
pub struct RefusedTransport {
    pub transport: &'static str,
    pub reason: String,
}
