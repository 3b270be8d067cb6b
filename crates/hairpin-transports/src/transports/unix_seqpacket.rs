//! A connected Unix domain socket that keeps message boundaries (unix(7), `SOCK_SEQPACKET`).

use hairpin_model::{Card, RoughRoundTrip};
use socket2::Type;

use super::unix_stream::UNIX_STREAM;
use crate::wires::socket_transport::SocketTransport;

pub(super) const UNIX_SEQPACKET: SocketTransport = SocketTransport {
    card: Card {
        name: "unix-seqpacket",
        summary: "a Unix domain socket that keeps message boundaries",
        boundaries: true,
        // A message must be 32 bytes smaller than the send buffer (net/unix/af_unix.c), which has 212 992 bytes by default
        // (net.core.wmem_default). This limit leaves a margin.
        max_message_bytes: 192 * 1024,
        rough_round_trip: RoughRoundTrip { blocking_ns: 7_800, spinning_ns: 3_400 },
        sends_files: false,
        ..UNIX_STREAM.card
    },
    socket_type: Type::SEQPACKET,
    ..UNIX_STREAM
};
