//! Two anonymous pipes, one each way (pipe(7)).

use hairpin_model::{Card, Receipt, RoughRoundTrip, WhyNot};

use crate::system::pipe::{Access, capacity_bytes, open_own, pipe};
use crate::wire::{Connection, Listener, Setup, Transport, TransportError};
use crate::wires::pipe::{PipeListener, connect};
use crate::wires::{check, failed};

/// `pipe`.
pub(super) struct Pipe;

const NAME: &str = "pipe";

impl Transport for Pipe {
    fn card(&self) -> Card {
        Card {
            name: NAME,
            summary: "two anonymous pipes, one each way",
            rough_round_trip: RoughRoundTrip { blocking_ns: 5_000, spinning_ns: 4_000 },
            sends_files: true,
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        let why_not = |error: std::io::Error| {
            WhyNot::new(
                format!("cannot open a pipe through /proc: {error}"),
                "mount /proc, and allow more open files (ulimit -n)",
            )
        };
        let (read_end, _write_end) = pipe().map_err(why_not)?;
        open_own(&read_end, Access::Read).map_err(why_not)?;
        let bytes = capacity_bytes(&read_end).map_err(why_not)?;
        Ok(Receipt { detail: format!("a pipe holds {bytes} bytes") })
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        let error = |source| failed("make", "a pipe", source, "allow more open files (ulimit -n)");
        Ok(Box::new(PipeListener::new(NAME, [pipe().map_err(error)?, pipe().map_err(error)?], setup)))
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        connect(NAME, address, setup)
    }
}
