//! A Unix domain stream socket (unix(7)).

#[cfg(any(feature = "http", feature = "websocket"))]
use hairpin_model::card::Library;
use hairpin_model::options::OptionName;
use hairpin_model::{Card, RoughRoundTrip};
use socket2::Type;

use crate::options::Family;
use crate::wires::socket_transport::{self, SocketTransport};

/// `SO_RCVBUF` can be set and read, but has no effect: the queue is limited by the sender's buffer and, for datagrams,
/// by net.unix.max_dgram_qlen (unix(7)).
const OPTIONS: &[OptionName] = &[OptionName::Sndbuf, OptionName::Rcvbuf];

/// `unix-stream`.
pub(super) const UNIX_STREAM: SocketTransport = SocketTransport {
    card: Card {
        name: "unix-stream",
        summary: "a Unix domain stream socket",
        rough_round_trip: RoughRoundTrip { blocking_ns: 9_400, spinning_ns: 3_300 },
        many_connections: true,
        sends_files: true,
        options: OPTIONS,
        waitings: socket_transport::WAITINGS,
        ..Card::LOCAL
    },
    family: Family::Unix,
    socket_type: Type::STREAM,
    protocol: None,
    can_open: || Ok(()),
    detail: |socket| format!(", send buffer {} bytes", socket.send_buffer_size().unwrap_or_default()),
    layer: None,
    encrypted: None,
    foreign: None,
};

#[cfg(any(feature = "http", feature = "websocket"))]
impl SocketTransport {
    /// This protocol of TCP over a Unix domain socket.
    pub(super) const fn over_unix(self, name: &'static str, summary: &'static str, defaults: &'static str) -> Self {
        let library = match self.card.library {
            Some(own) => Some(Library { defaults, ..own }),
            None => None,
        };
        let Card { reach, protocol, min_mtu_bytes, options, .. } = UNIX_STREAM.card;
        Self {
            card: Card { name, summary, library, reach, protocol, min_mtu_bytes, options, ..self.card },
            layer: self.layer,
            ..UNIX_STREAM
        }
    }
}
