//! UDP over the loopback device, IPv4 and IPv6 (udp(7)): datagrams may be lost and reordered.

use std::net::SocketAddr;

use hairpin_model::card::{self};
use hairpin_model::options::OptionName;
use hairpin_model::{Card, Reach, Receipt, RoughRoundTrip, WhyNot};
use socket2::{Protocol, Socket, Type};

use crate::options::Family;
use crate::wire::{Connection, Listener, PassedSocket, Setup, Transport, TransportError};
use crate::wires::internet::{cannot_bind, no_loopback, parse, server_end};
use crate::wires::socket::{SocketKind, connect_datagram, listen_datagram, listen_datagram_on, loopback_detail};
use crate::wires::{check, minimal_setup};

/// `udp` or `udp6`.
pub(super) struct Udp {
    name: &'static str,
    summary: &'static str,
    family: Family,
    max_message_bytes: u64,
}

/// `udp`.
pub(super) const UDP: Udp = Udp {
    name: "udp",
    summary: "UDP over IPv4, through the loopback device",
    family: Family::V4,
    // The maximum IPv4 packet, 65535 bytes, minus the IPv4 header (20 bytes) and the UDP header (8; RFC 791, RFC 768).
    max_message_bytes: 65_507,
};

/// `udp6`.
pub(super) const UDP6: Udp = Udp {
    name: "udp6",
    summary: "UDP over IPv6, through the loopback device",
    family: Family::V6,
    // The maximum IPv6 payload, 65535 bytes (RFC 8200, without the IPv6 header), minus the UDP header (8 bytes).
    max_message_bytes: 65_527,
};

impl Udp {
    fn kind(&self) -> SocketKind {
        SocketKind {
            transport: self.name,
            family: self.family,
            socket_type: Type::DGRAM,
            protocol: Some(Protocol::UDP),
            options: self.card().options,
        }
    }

    fn bind_socket(&self, setup: &Setup) -> Result<Socket, TransportError> {
        let address = SocketAddr::new(server_end(self.family, setup), setup.port);
        let socket = self.kind().open(setup)?;
        socket.bind(&address.into()).map_err(|source| cannot_bind(address, source))?;
        Ok(socket)
    }
}

impl Transport for Udp {
    fn card(&self) -> Card {
        Card {
            name: self.name,
            summary: self.summary,
            ordered: false,
            reliable: false,
            boundaries: true,
            max_message_bytes: self.max_message_bytes,
            min_mtu_bytes: self.family.min_mtu_bytes(),
            reach: Reach::Network,
            protocol: card::Protocol::Udp,
            many_connections: true,
            rough_round_trip: RoughRoundTrip { blocking_ns: 10_200, spinning_ns: 6_100 },
            options: &[
                OptionName::Sndbuf,
                OptionName::Rcvbuf,
                OptionName::BusyPoll,
                OptionName::Tos,
                OptionName::Dscp,
                OptionName::Priority,
                OptionName::Gso,
            ],
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        let socket = self.bind_socket(&minimal_setup()).map_err(|error| no_loopback(self.family, &error))?;
        let version = if self.family == Family::V4 { "IPv4" } else { "IPv6" };
        let buffer = socket.recv_buffer_size().unwrap_or_default();
        Ok(Receipt { detail: format!("{}, receive buffer {buffer} bytes", loopback_detail(version)) })
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        Ok(listen_datagram(self.bind_socket(setup)?, &self.kind(), setup))
    }

    fn listen_on(&self, passed: PassedSocket, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        listen_datagram_on(passed, &self.kind(), setup)
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        let to = parse(address, server_end(self.family, setup))?;
        connect_datagram(self.kind().open(setup)?, &to.into(), address, &self.kind(), setup)
    }
}
