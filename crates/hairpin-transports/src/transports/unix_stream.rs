//! A Unix domain stream socket (unix(7)).

use hairpin_model::{Card, RoughRoundTrip};
use socket2::Type;

use crate::wires::unix::{OPTIONS, UnixSocket};

/// `unix-stream`.
pub(super) const UNIX_STREAM: UnixSocket = UnixSocket {
    card: Card {
        name: "unix-stream",
        summary: "a Unix domain stream socket",
        rough_round_trip: RoughRoundTrip { blocking_ns: 9_400, spinning_ns: 3_300 },
        many_connections: true,
        sends_files: true,
        options: OPTIONS,
        ..Card::LOCAL
    },
    socket_type: Type::STREAM,
};
