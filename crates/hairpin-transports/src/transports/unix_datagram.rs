//! A Unix domain datagram socket (unix(7)): connectionless, but ordered and reliable, since senders wait for room.

use hairpin_model::{Card, RoughRoundTrip};
use socket2::Type;

use crate::wires::unix::{MAX_MESSAGE_BYTES, OPTIONS, UnixSocket};

/// `unix-datagram`.
pub(super) const UNIX_DATAGRAM: UnixSocket = UnixSocket {
    card: Card {
        name: "unix-datagram",
        summary: "a Unix domain datagram socket",
        boundaries: true,
        max_message_bytes: MAX_MESSAGE_BYTES,
        rough_round_trip: RoughRoundTrip { blocking_ns: 7_800, spinning_ns: 3_400 },
        options: OPTIONS,
        ..Card::LOCAL
    },
    socket_type: Type::DGRAM,
};
