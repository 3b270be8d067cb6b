//! A Unix domain datagram socket (unix(7)): connectionless, and yet ordered and reliable, because a sender waits for
//! room in the receiver's queue.

use hairpin_model::card::{Card, Receipt, RoughRoundTrip, WhyNot};
use hairpin_model::options::OptionName;
use socket2::Type;

use crate::options::Family;
use crate::wire::{Connection, Listener, Setup, Transport, TransportError};
use crate::wires::socket::{Kind, connect_datagram, listen_datagram};
use crate::wires::{check, unix};

/// `unix-datagram`.
pub(super) struct UnixDatagram;

/// A message must fit in the send buffer less 32 bytes (net/unix/af_unix.c), which is 212 992 bytes unless somebody
/// changed net.core.wmem_default: this leaves a margin.
pub(super) const MAX_MESSAGE_BYTES: u64 = 192 * 1024;

/// `SO_RCVBUF` is granted and read back, but Unix sockets queue by the sender's buffer and by
/// net.unix.max_dgram_qlen (unix(7)).
const OPTIONS: &[OptionName] = &[OptionName::Sndbuf, OptionName::Rcvbuf];
const KIND: Kind =
    Kind { transport: "unix-datagram", family: Family::Unix, sort: Type::DGRAM, protocol: None, options: OPTIONS };

impl Transport for UnixDatagram {
    fn card(&self) -> Card {
        Card {
            name: KIND.transport,
            summary: "a Unix domain datagram socket",
            ordered: true,
            reliable: true,
            boundaries: true,
            max_message_bytes: MAX_MESSAGE_BYTES,
            rough_round_trip: RoughRoundTrip { blocking_ns: 7_800, spinning_ns: 3_400 },
            options: OPTIONS,
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        unix::can_run(&KIND)
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        Ok(listen_datagram(unix::named(&KIND, setup)?, &KIND, setup))
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        let to = unix::parse(address)?;
        // The client needs a name too, or nobody could answer it.
        connect_datagram(unix::named(&KIND, setup)?, &to, address, &KIND, setup)
    }
}
