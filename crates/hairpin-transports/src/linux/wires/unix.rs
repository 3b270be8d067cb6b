//! Unix domain sockets with names in Linux's abstract namespace. Abstract names have no file, and vanish with the
//! process (unix(7)).

use hairpin_model::options::OptionName;
use hairpin_model::{Card, Receipt, WhyNot};
use socket2::{SockAddr, Socket, Type};

use super::socket::{SocketKind, connect, connect_datagram, listen, listen_datagram};
use crate::options::Family;
use crate::wire::{Connection, Listener, Setup, Transport, TransportError};
use crate::wires::{bad_address, check, failed, minimal_setup};

/// `SO_RCVBUF` can be set and read, but has no effect: the queue is limited by the sender's buffer and, for datagrams,
/// by net.unix.max_dgram_qlen (unix(7)).
pub(crate) const OPTIONS: &[OptionName] = &[OptionName::Sndbuf, OptionName::Rcvbuf];

/// A message must be 32 bytes smaller than the send buffer (net/unix/af_unix.c), which has 212 992 bytes by default
/// (net.core.wmem_default). This limit leaves a margin.
pub(crate) const MAX_MESSAGE_BYTES: u64 = 192 * 1024;

/// A transport over one type of Unix domain socket.
pub(crate) struct UnixSocket {
    pub(crate) card: Card,
    pub(crate) socket_type: Type,
}

impl UnixSocket {
    fn kind(&self) -> SocketKind {
        let Card { name, options, .. } = self.card;
        SocketKind { transport: name, family: Family::Unix, socket_type: self.socket_type, protocol: None, options }
    }
}

impl Transport for UnixSocket {
    fn card(&self) -> Card {
        self.card.clone()
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        let why_not = |reason: String| WhyNot::new(reason, "allow Unix domain sockets in this sandbox");
        let socket = open_named(&self.kind(), &minimal_setup()).map_err(|error| why_not(error.to_string()))?;
        let bytes = socket.send_buffer_size().map_err(|error| why_not(error.to_string()))?;
        Ok(Receipt { detail: format!("abstract name, send buffer {bytes} bytes") })
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card, setup)?;
        let kind = self.kind();
        let socket = open_named(&kind, setup)?;
        if kind.is_datagram() { Ok(listen_datagram(socket, &kind, setup)) } else { listen(socket, &kind, setup) }
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card, setup)?;
        let (kind, to) = (self.kind(), parse(address)?);
        if kind.is_datagram() {
            // The client needs a name too, to receive answers.
            connect_datagram(open_named(&kind, setup)?, &to, address, &kind, setup)
        } else {
            connect(&to, address, &kind, setup)
        }
    }
}

/// Opens a socket with an unused name that the kernel chooses ("autobind").
fn open_named(kind: &SocketKind, setup: &Setup) -> Result<Socket, TransportError> {
    let socket = kind.open(setup)?;
    SockAddr::unix("")
        .and_then(|any| socket.bind(&any))
        .map_err(|source| failed("name", &format!("a {kind} socket"), source, ""))?;
    Ok(socket)
}

/// Parses an address such as `@0002f`.
fn parse(address: &str) -> Result<SockAddr, TransportError> {
    address
        .strip_prefix('@')
        .filter(|name| !name.is_empty())
        .and_then(|name| SockAddr::unix(format!("\0{name}")).ok())
        .ok_or_else(|| bad_address(address, "@NAME"))
}
