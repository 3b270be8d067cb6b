//! The sockets of a transport, and the facts that all sockets have.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use hairpin_model::options::OptionName;
use hairpin_model::trace::End;
use hairpin_model::{Card, Fact, Options, WhyNot, fact_names};
use socket2::{Domain, Protocol, Socket, Type};

use super::hello::Handshake;
use crate::foreign::{ForeignServer, Scheme};
use crate::options::{self, Family, Moment};
use crate::system::sockopt;
use crate::wire::{Connection, Setup, TransportError};
use crate::wires::failed;

pub(crate) type Layer = fn(Connected<'_>) -> Result<Box<dyn Connection>, TransportError>;

/// Opens the protocol to a foreign server on a connected socket, without a hello.
pub(crate) type ForeignLayer = fn(Connected<'_>, &Arc<ForeignServer>) -> Result<Box<dyn Connection>, TransportError>;

/// A connected socket whose hello is complete, unless the server is foreign.
pub(crate) struct Connected<'s> {
    pub(crate) socket: Socket,
    pub(crate) transport: SocketTransport,
    pub(crate) setup: &'s Setup,
    pub(crate) handshake: Handshake,
    pub(crate) end: End,
}

impl Connected<'_> {
    /// Sets `TCP_NODELAY`, if the socket has it, unless the option `nodelay` was given, as most programs with such a library do.
    pub(crate) fn set_nodelay(&self) -> Result<(), TransportError> {
        let has_option = self.transport.card.options.contains(&OptionName::Nodelay);
        if !has_option || self.setup.options.get(OptionName::Nodelay).is_some() {
            return Ok(());
        }
        let set = options::switch(self.socket.as_fd(), self.transport.family, OptionName::Nodelay, true);
        set.map_err(|source| failed("set TCP_NODELAY of", "the socket", source, ""))
    }
}

#[derive(Clone)]
pub(crate) struct SocketTransport {
    pub(crate) card: Card,
    pub(crate) family: Family,
    pub(crate) socket_type: Type,
    pub(crate) protocol: Option<Protocol>,
    /// Checks whether the kernel supports the protocol.
    pub(crate) can_open: fn() -> Result<(), WhyNot>,
    /// The part of the receipt that describes a bound socket; empty if unknown.
    pub(crate) detail: fn(&Socket) -> String,
    /// The protocol on the socket, if any.
    pub(crate) layer: Option<Layer>,
    /// If this protocol is over TLS, its name in the handshake (ALPN).
    pub(crate) encrypted: Option<&'static [u8]>,
    /// How it measures a server that is not Hairpin's, if it can.
    pub(crate) foreign: Option<Foreign>,
}

/// How a transport measures a server that is not Hairpin's.
#[derive(Clone, Copy)]
pub(crate) struct Foreign {
    pub(crate) schemes: &'static [Scheme],
    /// Whether a request may have no body.
    pub(crate) may_be_empty: bool,
    pub(crate) open: ForeignLayer,
}

impl SocketTransport {
    /// Opens a socket and sets its options, before it is bound or connected.
    pub(crate) fn open(&self, setup: &Setup) -> Result<Socket, TransportError> {
        let socket = Socket::new(self.domain(), self.socket_type, self.protocol)
            .map_err(|source| failed("open", &format!("a {self} socket"), source, ""))?;
        self.set_options(&socket, setup, Moment::Opened)?;
        Ok(socket)
    }

    /// Sets the options that the kernel implements.
    pub(super) fn set_options(&self, on: &Socket, setup: &Setup, moment: Moment) -> Result<(), TransportError> {
        let of_library = |options: Options, name: &OptionName| options.without(*name);
        let options = self.library_options().iter().fold(setup.options.clone(), of_library);
        options::apply(on.as_fd(), self.family, &options, moment)
    }

    /// The facts of a socket, without the options of the library.
    pub(crate) fn facts(&self, socket: &Socket) -> Vec<Fact> {
        let is_kernel = |name: &OptionName| !self.library_options().contains(name);
        let names: Vec<OptionName> = self.card.options.iter().copied().filter(is_kernel).collect();
        facts(socket, self.family, &names)
    }

    /// Takes ownership of a passed socket, and sets its options.
    pub(super) fn adopt(&self, socket: OwnedFd, setup: &Setup) -> Result<Socket, TransportError> {
        let socket = Socket::from(socket);
        let error = |source| failed("take over", &format!("a socket for {}", self.card.name), source, "");
        let fits = |socket: &Socket| -> io::Result<bool> {
            // The accepted end of a Multipath TCP connection that fell back is a TCP socket.
            let protocol = socket.protocol()?;
            let is_protocol = protocol == self.protocol || self.is_mptcp() && protocol == Some(Protocol::TCP);
            Ok(is_protocol && socket.domain()? == self.domain() && socket.r#type()? == self.socket_type)
        };
        if !fits(&socket).map_err(error)? {
            return Err(error(io::Error::new(io::ErrorKind::InvalidInput, "wrong type or protocol")));
        }
        socket.set_nonblocking(false).map_err(error)?;
        self.set_options(&socket, setup, Moment::Opened)?;
        Ok(socket)
    }

    /// The options that the library on the socket implements.
    fn library_options(&self) -> &'static [OptionName] {
        self.card.library.map_or(&[], |library| library.options)
    }

    fn domain(&self) -> Domain {
        match self.family {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
            Family::Unix => Domain::UNIX,
        }
    }

    pub(crate) fn is_datagram(&self) -> bool {
        self.socket_type == Type::DGRAM
    }

    /// Whether the kernel has `TCP_INFO` for this socket: for TCP, and for the first subflow of Multipath TCP.
    pub(crate) fn has_tcp_info(&self) -> bool {
        self.socket_type == Type::STREAM && self.family != Family::Unix
    }

    /// Whether the kernel's time stamps can be read. Multipath TCP stamps only the subflows, which are hidden.
    pub(super) fn has_stamps(&self) -> bool {
        self.protocol == Some(Protocol::TCP) || self.is_datagram() && self.family != Family::Unix
    }

    pub(super) fn is_mptcp(&self) -> bool {
        self.protocol == Some(Protocol::MPTCP)
    }
}

impl std::fmt::Display for SocketTransport {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let family = match self.family {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
            Family::Unix => "Unix",
        };
        let socket_type = match self.socket_type {
            Type::STREAM => "stream",
            Type::SEQPACKET => "seqpacket",
            Type::DGRAM => "datagram",
            _ => "raw",
        };
        write!(out, "{family} {socket_type}")
    }
}

/// Returns `127.0.0.1:7`, `[::1]:7`, or `@name` for a name in Linux's abstract namespace, which has no file and
/// vanishes with the socket (unix(7)).
pub(crate) fn local_address(socket: &Socket) -> String {
    let Ok(address) = socket.local_addr() else { return "a socket".to_owned() };
    match (address.as_socket(), address.as_abstract_namespace()) {
        (Some(address), _) => address.to_string(),
        (None, Some(name)) => format!("@{}", String::from_utf8_lossy(name)),
        (None, None) => "unnamed".to_owned(),
    }
}

pub(crate) fn facts(socket: &Socket, family: Family, names: &[OptionName]) -> Vec<Fact> {
    let mut facts = options::effective(socket.as_fd(), family, names);
    facts.extend(sockopt::drops(socket.as_fd()).map(|drops| Fact::number(fact_names::SOCKET_DROPS, drops.into())));
    facts.push(Fact::word(fact_names::LOCAL_ADDRESS, local_address(socket)));
    facts
}
