//! Two named pipes, one each way (fifo(7)).

use hairpin_model::{Card, Receipt, RoughRoundTrip, WhyNot};

use crate::system::pipe::{Access, open_own, two_fifos};
use crate::wire::{Connection, Listener, Setup, Transport, TransportError};
use crate::wires::pipe::{PipeListener, connect};
use crate::wires::{check, failed};

/// `fifo`.
pub(super) struct Fifo;

const NAME: &str = "fifo";

impl Transport for Fifo {
    fn card(&self) -> Card {
        Card {
            name: NAME,
            summary: "two named pipes, one each way",
            rough_round_trip: RoughRoundTrip { blocking_ns: 5_000, spinning_ns: 4_000 },
            sends_files: true,
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        let folder = std::env::temp_dir();
        let why_not = |error: std::io::Error| {
            WhyNot::new(
                format!("cannot make a named pipe in {}: {error}", folder.display()),
                "set TMPDIR to a folder on a writable file system that allows named pipes",
            )
        };
        let [(read_end, _write_end), _] = two_fifos().map_err(why_not)?;
        open_own(&read_end, Access::Read).map_err(why_not)?;
        Ok(Receipt { detail: format!("named pipes in {}", folder.display()) })
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        let folder = std::env::temp_dir().display().to_string();
        let pipes = two_fifos()
            .map_err(|source| failed("make named pipes in", &folder, source, "set TMPDIR to a writable folder"))?;
        Ok(Box::new(PipeListener::new(NAME, pipes, setup)))
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        connect(NAME, address, setup)
    }
}
