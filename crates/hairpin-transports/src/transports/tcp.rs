//! TCP over the loopback device, IPv4 and IPv6 (tcp(7)). Nagle's algorithm is on, as by default.

use std::net::SocketAddr;

use hairpin_model::card::{self};
use hairpin_model::options::OptionName;
use hairpin_model::{Card, Reach, Receipt, RoughRoundTrip, WhyNot};
use socket2::{Protocol, Socket, Type};

use crate::options::Family;
use crate::system::sockopt;
use crate::wire::{Connection, Listener, PassedSocket, Setup, Transport, TransportError};
use crate::wires::internet::{cannot_bind, no_loopback, parse, server_end};
use crate::wires::socket::{SocketKind, connect, listen, listen_on, loopback_detail};
use crate::wires::{check, trial};

/// `tcp` or `tcp6`.
pub(super) struct Tcp {
    name: &'static str,
    summary: &'static str,
    family: Family,
}

/// `tcp`.
pub(super) const TCP: Tcp =
    Tcp { name: "tcp", summary: "TCP over IPv4, through the loopback device", family: Family::V4 };

/// `tcp6`.
pub(super) const TCP6: Tcp =
    Tcp { name: "tcp6", summary: "TCP over IPv6, through the loopback device", family: Family::V6 };

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
            transport: self.name,
            family: self.family,
            sort: Type::STREAM,
            protocol: Some(Protocol::TCP),
            options: self.card().options,
        }
    }
}

/// A new socket bound to the address and port of the setup's server.
pub(super) fn bound(kind: &SocketKind, setup: &Setup) -> Result<Socket, TransportError> {
    let address = SocketAddr::new(server_end(kind.family, setup), setup.port);
    let socket = kind.open(setup)?;
    // Lets rounds reuse the same port although connections of the last one linger.
    socket
        .set_reuse_address(true)
        .and_then(|()| socket.bind(&address.into()))
        .map_err(|source| cannot_bind(address, source))?;
    Ok(socket)
}

/// Whether a listener of this kind can be opened here, and its congestion control.
pub(super) fn can_run(kind: &SocketKind) -> Result<Receipt, WhyNot> {
    let socket = bound(kind, &trial()).map_err(|error| no_loopback(kind.family, &error))?;
    let congestion = sockopt::get_text(&socket, sockopt::CONGESTION);
    let version = if kind.family == Family::V4 { "IPv4" } else { "IPv6" };
    let control = congestion.map_or_else(|_| String::new(), |name| format!(", congestion control {name}"));
    Ok(Receipt { detail: format!("{}{control}", loopback_detail(version)) })
}

impl Transport for Tcp {
    fn card(&self) -> Card {
        Card {
            name: self.name,
            summary: self.summary,
            min_mtu_bytes: self.family.min_mtu_bytes(),
            reach: Reach::Network,
            protocol: card::Protocol::Tcp,
            rough_round_trip: RoughRoundTrip { blocking_ns: 13_400, spinning_ns: 8_100 },
            is_reference: self.family == Family::V4,
            many_connections: true,
            sends_files: true,
            options: OPTIONS,
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        can_run(&self.kind())
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        listen(bound(&self.kind(), setup)?, &self.kind(), setup)
    }

    fn listen_on(&self, handed: PassedSocket, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        listen_on(handed, &self.kind(), setup)
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        let to = parse(address, server_end(self.family, setup))?;
        connect(&to.into(), address, &self.kind(), setup)
    }
}
