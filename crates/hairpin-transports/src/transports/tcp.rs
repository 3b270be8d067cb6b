//! TCP over the loopback device, IPv4 and IPv6 (tcp(7)), with Nagle's algorithm on by default.

use std::net::SocketAddr;

use hairpin_model::card::{self, IPV4_MTU_BYTES, IPV6_MTU_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::{Card, Reach, Receipt, RoughRoundTrip, WhyNot};
use socket2::{Protocol, Socket, Type};

use crate::options::Family;
use crate::system::sockopt;
use crate::wire::{Connection, Listener, PassedSocket, Setup, Transport, TransportError};
use crate::wires::internet::{cannot_bind, no_loopback, parse, server_end};
use crate::wires::socket::{SocketKind, connect, listen, listen_on, loopback_detail};
use crate::wires::{check, minimal_setup};

/// `tcp`, `tcp6` or `mptcp`.
pub(super) struct Tcp {
    pub(super) card: Card,
    pub(super) family: Family,
    pub(super) protocol: Protocol,
    /// Checks whether the kernel supports the protocol.
    pub(super) can_open: fn() -> Result<(), WhyNot>,
}

/// `tcp`.
pub(super) const TCP: Tcp = Tcp {
    card: Card {
        name: "tcp",
        summary: "TCP over IPv4, through the loopback device",
        min_mtu_bytes: IPV4_MTU_BYTES,
        is_reference: true,
        ..CARD
    },
    family: Family::V4,
    protocol: Protocol::TCP,
    can_open: || Ok(()),
};

/// `tcp6`.
pub(super) const TCP6: Tcp = Tcp {
    card: Card {
        name: "tcp6",
        summary: "TCP over IPv6, through the loopback device",
        min_mtu_bytes: IPV6_MTU_BYTES,
        ..CARD
    },
    family: Family::V6,
    ..TCP
};

const CARD: Card = Card {
    reach: Reach::Network,
    protocol: card::Protocol::Tcp,
    rough_round_trip: RoughRoundTrip { blocking_ns: 13_400, spinning_ns: 8_100 },
    many_connections: true,
    sends_files: true,
    options: OPTIONS,
    ..Card::LOCAL
};

const OPTIONS: &[OptionName] = &[
    OptionName::Nodelay,
    OptionName::Cork,
    OptionName::Quickack,
    OptionName::Sndbuf,
    OptionName::Rcvbuf,
    OptionName::BusyPoll,
    OptionName::Tos,
    OptionName::Dscp,
    OptionName::Congestion,
    OptionName::NotsentLowat,
    OptionName::Priority,
    OptionName::Zerocopy,
    OptionName::PacingRate,
];

impl Tcp {
    fn kind(&self) -> SocketKind {
        SocketKind {
            transport: self.card.name,
            family: self.family,
            socket_type: Type::STREAM,
            protocol: Some(self.protocol),
            options: self.card.options,
        }
    }
}

/// Returns a new socket, bound to the server's address and port.
fn bound(kind: &SocketKind, setup: &Setup) -> Result<Socket, TransportError> {
    let address = SocketAddr::new(server_end(kind.family, setup), setup.port);
    let socket = kind.open(setup)?;
    // Rounds can reuse the port although connections of the previous round are in TIME-WAIT.
    socket
        .set_reuse_address(true)
        .and_then(|()| socket.bind(&address.into()))
        .map_err(|source| cannot_bind(address, source))?;
    Ok(socket)
}

impl Transport for Tcp {
    fn card(&self) -> Card {
        self.card.clone()
    }

    /// Checks whether a socket can be bound. The receipt names its congestion control.
    fn can_run(&self) -> Result<Receipt, WhyNot> {
        (self.can_open)()?;
        let socket = bound(&self.kind(), &minimal_setup()).map_err(|error| no_loopback(self.family, &error))?;
        let congestion = sockopt::get_text(&socket, sockopt::CONGESTION);
        let version = if self.family == Family::V4 { "IPv4" } else { "IPv6" };
        let control = congestion.map_or_else(|_| String::new(), |name| format!(", congestion control {name}"));
        Ok(Receipt { detail: format!("{}{control}", loopback_detail(version)) })
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card, setup)?;
        listen(bound(&self.kind(), setup)?, &self.kind(), setup)
    }

    fn listen_on(&self, handed: PassedSocket, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card, setup)?;
        listen_on(handed, &self.kind(), setup)
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card, setup)?;
        let to = parse(address, server_end(self.family, setup))?;
        connect(&to.into(), address, &self.kind(), setup)
    }
}
