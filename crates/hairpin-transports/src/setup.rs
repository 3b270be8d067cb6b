//! What both ends of a wire are told when they open.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use hairpin_model::binding::Binding;
use hairpin_model::case::Waiting;
use hairpin_model::options::Options;

use crate::system::random;

/// What both ends are told when they open.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What to ask of the socket. Options that the card does not list are refused.
    pub options: Options,
    /// How to wait.
    pub waiting: Waiting,
    /// How long accept, connect, send and receive may take before they time out; see [`Setup::opening_timeout`].
    pub timeout: Duration,
    /// The largest message that will be sent or received, in bytes.
    pub largest_message: usize,
    /// The port to listen on; 0 for any.
    pub port: u16,
    /// What a client must know: see [`Cookie`].
    pub cookie: Cookie,
    /// The addresses of the server; none where both ends are on this host, at the loopback address.
    pub server: Option<ServerAddresses>,
    /// Where a client's packets come from.
    pub binding: Binding,
}

/// 16 random bytes that only both ends of a round know. A connection or a datagram flow begins with a hello that has them, so that
/// whoever else comes is ignored; pipes, shared memory and what the kernel answers have no hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cookie(pub [u8; 16]);

impl Cookie {
    /// Draws one.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn draw() -> std::io::Result<Self> {
        random::bytes().map(Self)
    }
}

/// How long opening may take at least across a link: what is lost is sent again after 1, 2 and 4 s (RFC 6298, section 2).
const OPENING_ACROSS_A_LINK: Duration = Duration::from_secs(10);

impl Setup {
    /// How long accept and connect may take.
    #[must_use]
    pub fn opening_timeout(&self) -> Duration {
        if self.server.is_some() { self.timeout.max(OPENING_ACROSS_A_LINK) } else { self.timeout }
    }
}

/// Where the server of a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAddresses {
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
}
