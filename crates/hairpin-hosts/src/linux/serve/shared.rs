//! State that the threads of a server share, and the events that they report.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::mpsc::Sender;

use hairpin_engine::control::frames::Frames;
use hairpin_engine::ends::Host;
use hairpin_model::served::Event;
use hairpin_model::{Limits, Prefix, RefusalReason};

use super::lease::Lease;
use super::registry::Registry;
use super::sessions::Sessions;
use crate::dial::printable;
use crate::protocol::ServerInfo;
use crate::ticket::Secret;
use crate::tls::Tls;

#[derive(Clone, Debug)]
pub struct AcceptedTicket {
    /// Public name of the ticket.
    pub id: String,
    pub secret: Secret,
    /// Expiry, in seconds since 1970.
    pub expires_unix_s: u64,
    pub limits: Limits,
    /// Name that the server's user gave it.
    pub name: Option<String>,
    /// Whether only a server with a file that has the name accepts it.
    pub is_of_file: bool,
    /// Addresses of its clients; empty means all.
    pub allow: Vec<Prefix>,
}

impl AcceptedTicket {
    /// The ticket in logs: its name, or else its public name.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

/// Reads the ticket of that name, which an unauthenticated client sent; `None` if the ticket is not accepted.
pub type Tickets = Box<dyn Fn(&str) -> io::Result<Option<AcceptedTicket>> + Send + Sync>;

/// What a server serves, and whom.
pub struct Service {
    /// Reads a ticket by its name.
    pub tickets: Tickets,
    /// Addresses of clients; empty means all.
    pub allow: Vec<Prefix>,
    /// Argument of the program.
    pub host: Host,
    /// Sent to clients.
    pub about: ServerInfo,
    /// Whether clients get all of `about`, or only what a run needs.
    pub describes_host: bool,
    /// Started for each round.
    pub program: PathBuf,
}

pub(super) struct Shared {
    pub(super) registry: Registry,
    pub(super) sessions: Sessions,
    pub(super) lease: Lease,
    pub(super) service: Service,
    pub(super) at: SocketAddr,
    pub(super) events: Sender<Event>,
    pub(super) refusing: AtomicU32,
    /// Number of clients that were refused without a reason.
    pub(super) refused_silently: AtomicU64,
    pub(super) refused: [AtomicU64; RefusalReason::ALL.len()],
    /// Writing a byte wakes the serving thread.
    pub(super) wake: UnixStream,
}

impl Shared {
    /// Reports an event and wakes the serving thread.
    pub(super) fn report(&self, event: Event) {
        // If the byte does not fit, earlier bytes wake the thread.
        drop(self.events.send(event).map(|()| (&self.wake).write(&[0])));
    }

    pub(super) fn allows(&self, address: IpAddr) -> bool {
        is_allowed(&self.service.allow, address)
    }

    /// Returns the local address and port that the client uses, and the client's address.
    pub(super) fn ends_of(&self, frames: &Frames<Tls>) -> (SocketAddr, IpAddr) {
        let at = self.at_of(frames);
        (at, frames.carrier().socket().peer_addr().map_or(at.ip(), |client| client.ip()))
    }

    /// Returns the local address and port that the client uses.
    pub(super) fn at_of(&self, frames: &Frames<Tls>) -> SocketAddr {
        frames.carrier().socket().local_addr().unwrap_or(self.at)
    }
}

/// Whether the list contains the address; an empty list contains all.
pub(super) fn is_allowed(allow: &[Prefix], address: IpAddr) -> bool {
    allow.is_empty() || allow.iter().any(|prefix| prefix.contains(address))
}

/// Makes text from a client safe for a log, with at most 100 characters.
pub(super) fn short(text: &str) -> String {
    printable(text).chars().take(100).collect()
}

/// Name and version of this Hairpin.
pub(super) fn tool() -> String {
    concat!("hairpin ", env!("CARGO_PKG_VERSION")).to_owned()
}
