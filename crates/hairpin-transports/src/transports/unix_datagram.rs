//! A Unix domain datagram socket (unix(7)): connectionless, but ordered and reliable, since senders wait for room.

use hairpin_model::Card;
use socket2::Type;

use super::unix_seqpacket::UNIX_SEQPACKET;
use crate::wires::socket_transport::SocketTransport;

pub(super) const UNIX_DATAGRAM: SocketTransport = SocketTransport {
    card: Card {
        name: "unix-datagram",
        summary: "a Unix domain datagram socket",
        many_connections: false,
        ..UNIX_SEQPACKET.card
    },
    socket_type: Type::DGRAM,
    ..UNIX_SEQPACKET
};
