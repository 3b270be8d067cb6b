//! UDP over the loopback device, IPv4 and IPv6 (udp(7)): datagrams may be lost and reordered.

use hairpin_model::card::{self, IPV4_MTU_BYTES, IPV6_MTU_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::{Card, Reach, RoughRoundTrip};
use socket2::{Protocol, Type};

use crate::options::Family;
use crate::wires::socket_transport::{self, SocketTransport};

/// `udp`.
pub(super) const UDP: SocketTransport = SocketTransport {
    card: Card {
        name: "udp",
        summary: "UDP over IPv4, through the loopback device",
        // The maximum IPv4 packet, 65535 bytes, minus the IPv4 header (20 bytes) and the UDP header (8; RFC 791, RFC 768).
        max_message_bytes: 65_507,
        min_mtu_bytes: IPV4_MTU_BYTES,
        ..CARD
    },
    family: Family::V4,
    socket_type: Type::DGRAM,
    protocol: Some(Protocol::UDP),
    can_open: || Ok(()),
    detail: |socket| format!(", receive buffer {} bytes", socket.recv_buffer_size().unwrap_or_default()),
    layer: None,
    encrypted: None,
    foreign: None,
};

/// `udp6`.
pub(super) const UDP6: SocketTransport = SocketTransport {
    card: Card {
        name: "udp6",
        summary: "UDP over IPv6, through the loopback device",
        // The maximum IPv6 payload, 65535 bytes (RFC 8200, without the IPv6 header), minus the UDP header (8 bytes).
        max_message_bytes: 65_527,
        min_mtu_bytes: IPV6_MTU_BYTES,
        ..CARD
    },
    family: Family::V6,
    ..UDP
};

const CARD: Card = Card {
    ordered: false,
    reliable: false,
    boundaries: true,
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
    waitings: socket_transport::WAITINGS,
    ..Card::LOCAL
};
