//! TCP over the loopback device, IPv4 and IPv6 (tcp(7)), with Nagle's algorithm on by default.

use hairpin_model::card::{self, IPV4_MTU_BYTES, IPV6_MTU_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::{Card, Reach, RoughRoundTrip, Waiting};
use socket2::{Protocol, Type};

use crate::options::Family;
use crate::system::sockopt;
use crate::wires::socket_transport::{self, SocketTransport};

/// `tcp`.
pub(super) const TCP: SocketTransport = SocketTransport {
    card: Card {
        name: "tcp",
        summary: "TCP over IPv4, through the loopback device",
        min_mtu_bytes: IPV4_MTU_BYTES,
        is_reference: true,
        ..CARD
    },
    family: Family::V4,
    socket_type: Type::STREAM,
    protocol: Some(Protocol::TCP),
    can_open: || Ok(()),
    detail: |socket| {
        let congestion = sockopt::get_text(socket, sockopt::CONGESTION);
        congestion.map_or_else(|_| String::new(), |name| format!(", congestion control {name}"))
    },
    layer: None,
    encrypted: None,
    foreign: None,
};

/// `tcp6`.
pub(super) const TCP6: SocketTransport = SocketTransport {
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
    waitings: socket_transport::WAITINGS,
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

/// A protocol over TCP whose library moves the bytes; transports' cards override some of the fields.
pub(super) const LAYERED: Card = Card {
    is_reference: false,
    in_survey: false,
    sends_files: false,
    waitings: Waiting::BASIC,
    options: LAYERED_OPTIONS,
    ..TCP.card
};

const LAYERED_OPTIONS: &[OptionName] = &[
    OptionName::Nodelay,
    OptionName::Cork,
    OptionName::Sndbuf,
    OptionName::Rcvbuf,
    OptionName::Tos,
    OptionName::Dscp,
    OptionName::Congestion,
    OptionName::NotsentLowat,
    OptionName::Priority,
    OptionName::PacingRate,
];
