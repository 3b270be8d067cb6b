//! A connected Unix domain socket that keeps message boundaries (unix(7), `SOCK_SEQPACKET`).

use hairpin_model::card::{Card, Receipt, RoughRoundTrip, WhyNot};
use hairpin_model::options::OptionName;
use socket2::Type;

use crate::options::Family;
use crate::wire::{Connection, Listener, Setup, Transport, TransportError};
use crate::wires::socket::{Kind, connect, listen};
use crate::wires::{check, unix};

/// `unix-seqpacket`.
pub(super) struct UnixSeqpacket;

/// `SO_RCVBUF` is granted and read back, but Unix sockets queue by the sender's buffer alone (unix(7)).
const OPTIONS: &[OptionName] = &[OptionName::Sndbuf, OptionName::Rcvbuf];
const KIND: Kind = Kind {
    transport: "unix-seqpacket",
    family: Family::Unix,
    sort: Type::SEQPACKET,
    protocol: None,
    options: OPTIONS,
};

impl Transport for UnixSeqpacket {
    fn card(&self) -> Card {
        Card {
            name: KIND.transport,
            summary: "a Unix domain socket that keeps message boundaries",
            ordered: true,
            reliable: true,
            boundaries: true,
            max_message_bytes: super::unix_datagram::MAX_MESSAGE_BYTES,
            rough_round_trip: RoughRoundTrip { blocking_ns: 7_800, spinning_ns: 3_400 },
            many_connections: true,
            options: OPTIONS,
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        unix::can_run(&KIND)
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        listen(unix::named(&KIND, setup)?, &KIND, setup)
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        connect(&unix::parse(address)?, address, &KIND, setup)
    }
}
