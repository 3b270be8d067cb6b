//! A connected Unix domain socket that keeps message boundaries (unix(7), `SOCK_SEQPACKET`).

use hairpin_model::{Card, RoughRoundTrip};
use socket2::Type;

use crate::wires::unix::{MAX_MESSAGE_BYTES, OPTIONS, UnixSocket};

/// `unix-seqpacket`.
pub(super) const UNIX_SEQPACKET: UnixSocket = UnixSocket {
    card: Card {
        name: "unix-seqpacket",
        summary: "a Unix domain socket that keeps message boundaries",
        boundaries: true,
        max_message_bytes: MAX_MESSAGE_BYTES,
        rough_round_trip: RoughRoundTrip { blocking_ns: 7_800, spinning_ns: 3_400 },
        many_connections: true,
        options: OPTIONS,
        ..Card::LOCAL
    },
    socket_type: Type::SEQPACKET,
};
