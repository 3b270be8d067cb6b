//! QUIC datagrams (RFC 9221) with quinn: encrypted and under congestion control, but unreliable.

use hairpin_model::Card;
use hairpin_model::card::Library;

use super::quic::{LIBRARY, QUIC};
use crate::library::quic::{Carrier, MAX_DATAGRAM_BYTES, open};
use crate::wires::socket_transport::SocketTransport;

pub(super) const QUIC_DATAGRAM: SocketTransport = SocketTransport {
    card: Card {
        name: "quic-datagram",
        summary: "QUIC datagrams over UDP and IPv4 (quinn)",
        ordered: false,
        reliable: false,
        boundaries: true,
        max_message_bytes: MAX_DATAGRAM_BYTES as u64,
        many_streams: false,
        library: Some(Library {
            message: "one DATAGRAM frame, sent at once; lost if the receiver has no room",
            stream: "the datagrams of one connection",
            ..LIBRARY
        }),
        ..QUIC.card
    },
    layer: Some(|connected| open(connected, Carrier::Datagrams)),
    foreign: None,
    ..QUIC
};
