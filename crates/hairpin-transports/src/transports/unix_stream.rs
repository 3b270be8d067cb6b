//! A Unix domain stream socket (unix(7)).

use hairpin_model::card::{Card, Receipt, RoughRoundTrip, WhyNot};
use hairpin_model::options::OptionName;
use socket2::Type;

use crate::options::Family;
use crate::wire::{Connection, Listener, Setup, Transport, TransportError};
use crate::wires::socket::{Kind, connect, listen};
use crate::wires::{check, unix};

/// `unix-stream`.
pub(super) struct UnixStream;

/// `SO_RCVBUF` is granted and read back, but Unix sockets queue by the sender's buffer alone (unix(7)).
const OPTIONS: &[OptionName] = &[OptionName::Sndbuf, OptionName::Rcvbuf];
const KIND: Kind =
    Kind { transport: "unix-stream", family: Family::Unix, sort: Type::STREAM, protocol: None, options: OPTIONS };

impl Transport for UnixStream {
    fn card(&self) -> Card {
        Card {
            name: KIND.transport,
            summary: "a Unix domain stream socket",
            ordered: true,
            reliable: true,
            boundaries: false,
            max_message_bytes: 1 << 30,
            rough_round_trip: RoughRoundTrip { blocking_ns: 9_400, spinning_ns: 3_300 },
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
