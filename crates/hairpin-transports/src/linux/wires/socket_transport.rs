//! Transports over sockets: TCP, UDP and Unix domain sockets.
//!
//! Unix domain sockets have names in Linux's abstract namespace. Abstract names have no file, and vanish with the
//! process (unix(7)).

use std::io;
use std::net::SocketAddr;

use hairpin_model::{AnsweredBy, Card, Receipt, Waiting, WhyNot};
use socket2::{SockAddr, Socket};

pub(crate) use super::description::{Foreign, SocketTransport};
use super::socket::{connect, listen, listen_on, loopback_detail};
use crate::foreign::{ForeignUse, MAX_ANSWER_BYTES};
use crate::options::Family;
use crate::wire::{Connection, Listener, PassedSocket, Setup, Transport, TransportError};
use crate::wires::internet::server_end;
use crate::wires::{bad_address, check, failed, minimal_setup};

/// How a socket without a library can wait.
pub(crate) const WAITINGS: &[Waiting] =
    if cfg!(feature = "async") { Waiting::ALL } else { Waiting::ALL.split_at(Waiting::Async as usize).0 };

impl SocketTransport {
    /// Opens a socket and binds it to the server's address and port, or to an unused name that the kernel chooses
    /// ("autobind").
    fn bound(&self, setup: &Setup) -> Result<Socket, TransportError> {
        let socket = self.open(setup)?;
        if self.family == Family::Unix {
            let named = SockAddr::unix("").and_then(|any| socket.bind(&any));
            named.map_err(|source| failed("name", &format!("a {self} socket"), source, ""))?;
            return Ok(socket);
        }
        let address = SocketAddr::new(server_end(self.family, setup), setup.port);
        // Rounds can reuse the port although connections of the previous round are in TIME-WAIT.
        let shared = if self.is_datagram() { Ok(()) } else { socket.set_reuse_address(true) };
        shared.and_then(|()| socket.bind(&address.into())).map_err(|source| cannot_bind(address, source))?;
        Ok(socket)
    }

    /// Parses an address such as `@0002f`, or such as `127.0.0.1:7777` with the IP address of the server.
    fn parse(&self, address: &str, setup: &Setup) -> Result<SockAddr, TransportError> {
        if self.family == Family::Unix {
            let name = address.strip_prefix('@').filter(|name| !name.is_empty());
            let parsed = name.and_then(|name| SockAddr::unix(format!("\0{name}")).ok());
            return parsed.ok_or_else(|| bad_address(address, "@NAME"));
        }
        let at = server_end(self.family, setup);
        let parsed = address.parse::<SocketAddr>().ok().filter(|parsed| parsed.ip() == at && parsed.port() != 0);
        let host = if at.is_ipv4() { at.to_string() } else { format!("[{at}]") };
        parsed.map(SockAddr::from).ok_or_else(|| bad_address(address, &format!("{host}:PORT")))
    }
}

impl SocketTransport {
    /// Connects to the IPv4 or IPv6 address of a server that is not Hairpin's.
    fn connect_to_foreign(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        let used = self.foreign().ok_or_else(|| bad_address(address, "a Hairpin server"))?;
        check(&used.card, setup)?;
        let to: SocketAddr = address.parse().map_err(|_| bad_address(address, "ADDRESS:PORT"))?;
        let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
        let transport = Self { family, ..self.clone() };
        connect(transport.open(setup)?, &to.into(), address, &transport, setup)
    }
}

impl Transport for SocketTransport {
    fn card(&self) -> Card {
        self.card.clone()
    }

    /// Checks whether a socket can be bound.
    fn can_run(&self) -> Result<Receipt, WhyNot> {
        (self.can_open)()?;
        let (place, hint) = match self.family {
            Family::V4 => (loopback_detail("IPv4"), "bring the loopback device up: ip link set lo up"),
            Family::V6 => {
                let hint = "enable IPv6 on the loopback device: sysctl net.ipv6.conf.lo.disable_ipv6=0";
                (loopback_detail("IPv6"), hint)
            }
            Family::Unix => ("abstract name".to_owned(), "allow Unix domain sockets in this sandbox"),
        };
        let socket = self.bound(&minimal_setup()).map_err(|error| WhyNot::new(error.to_string(), hint))?;
        Ok(Receipt { detail: format!("{place}{}", (self.detail)(&socket)) })
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card, setup)?;
        listen(self.bound(setup)?, self, setup)
    }

    fn listen_on(&self, passed: PassedSocket, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        if self.family == Family::Unix {
            return Err(passed.unsupported(self.card.name));
        }
        check(&self.card, setup)?;
        listen_on(passed, self, setup)
    }

    fn foreign(&self) -> Option<ForeignUse> {
        let Foreign { schemes, may_be_empty, .. } = self.foreign?;
        let card = Card {
            answered_by: AnsweredBy::ForeignServer,
            // Each answer is one message, whatever its length.
            boundaries: true,
            min_message_bytes: u64::from(!may_be_empty),
            max_message_bytes: MAX_ANSWER_BYTES,
            ..self.card.clone()
        };
        Some(ForeignUse { schemes, card })
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        if setup.foreign.is_some() {
            return self.connect_to_foreign(address, setup);
        }
        check(&self.card, setup)?;
        let to = self.parse(address, setup)?;
        // The client of a Unix datagram socket needs a name too, to receive answers.
        let is_named = self.family == Family::Unix && self.is_datagram();
        let socket = if is_named { self.bound(setup)? } else { self.open(setup)? };
        connect(socket, &to, address, self, setup)
    }
}

fn cannot_bind(address: SocketAddr, source: io::Error) -> TransportError {
    let hint = match source.kind() {
        io::ErrorKind::AddrInUse => "the port is occupied: choose another, or 0 for any free port",
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege: choose another, or 0 for any",
        io::ErrorKind::AddrNotAvailable => "no interface in this network namespace has the address",
        _ => "",
    };
    failed("bind", &address.to_string(), source, hint)
}
