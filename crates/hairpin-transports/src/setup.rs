//! The parameters with which both ends of a wire open.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hairpin_model::flow::Opening;
use hairpin_model::{Binding, Options, Waiting};

use crate::foreign::ForeignServer;
use crate::system::random;
use crate::wires::codes::Codes;

/// The parameters with which an end opens.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Socket options. Options that the card does not list are refused.
    pub options: Options,
    pub waiting: Waiting,
    /// Time-out of accept, connect, send and receive; see [`Setup::opening_timeout`].
    pub timeout: Duration,
    /// Size of the largest message to send or receive, in bytes.
    pub largest_message: usize,
    /// Port to listen on; 0 for any.
    pub port: u16,
    /// Identifies the client, see [`Cookie`].
    pub cookie: Cookie,
    /// Codes of the messages of a datagram flow between hosts; `None` if messages have no codes.
    pub codes: Option<Codes>,
    /// Addresses of the server; `None` if both ends are on this host, at the loopback address.
    pub server: Option<ServerAddresses>,
    /// Whether the server answers each message of the client, and sends nothing else. Protocols with requests then send each
    /// message as a request.
    pub has_answers: bool,
    /// Whether a stream of a library opens with its first message. Otherwise its opening is exchanged before.
    pub opens_with_message: bool,
    pub streams: u32,
    /// Connections of each end. Several are made one wire by [`join`](crate::join) if they wait together for answers.
    pub connections: u32,
    /// How the connections of the round open if their set-up is measured.
    pub opening: Option<Opening>,
    /// Where a client writes how long the last hello took, in ns. The client then waits until a stream's hello is acknowledged.
    pub hello_ns: Option<Arc<AtomicU64>>,
    /// Local address, ports and interface of a client.
    pub binding: Binding,
    /// The server, if it is not Hairpin's: there is no hello, and any answer counts.
    pub foreign: Option<Arc<ForeignServer>>,
}

/// 16 random bytes that only the two ends of a round know. A connection or datagram flow begins with a hello that
/// contains the cookie. Pipes, shared memory and kernel-answered transports have no hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cookie(pub [u8; 16]);

impl Cookie {
    /// Draws a random cookie.
    pub fn draw() -> std::io::Result<Self> {
        random::bytes().map(Self)
    }
}

/// Minimum opening time-out across a link: TCP retransmits a lost SYN after 1, 2 and 4 s (RFC 6298, section 2).
const MIN_OPENING_TIMEOUT_ACROSS_A_LINK: Duration = Duration::from_secs(10);

impl Setup {
    /// Both ends are on this host, at any port, with default options and an all-zero cookie.
    pub fn new(waiting: Waiting, timeout: Duration, largest_message: usize) -> Self {
        Self {
            options: Options::default(),
            waiting,
            timeout,
            largest_message,
            port: 0,
            cookie: Cookie::default(),
            codes: None,
            server: None,
            has_answers: false,
            opens_with_message: false,
            streams: 1,
            connections: 1,
            opening: None,
            hello_ns: None,
            binding: Binding::default(),
            foreign: None,
        }
    }

    /// Time-out of accept and connect.
    pub fn opening_timeout(&self) -> Duration {
        if self.server.is_some() { self.timeout.max(MIN_OPENING_TIMEOUT_ACROSS_A_LINK) } else { self.timeout }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAddresses {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}
