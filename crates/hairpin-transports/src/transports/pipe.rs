//! Two anonymous pipes, one per direction (pipe(7)).

use hairpin_model::{Card, Receipt, RoughRoundTrip, WhyNot};

use crate::system::pipe::{Access, Ends, capacity_bytes, open_own, pipe};
use crate::wire::{Connection, Listener, Setup, Transport, TransportError};
use crate::wires::pipe::{PipeListener, connect};
use crate::wires::{check, failed};

pub(super) struct Pipe {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) can_run: fn() -> Result<Receipt, WhyNot>,
    pub(super) create: fn() -> Result<[Ends; 2], TransportError>,
}

pub(super) const PIPE: Pipe = Pipe { name: "pipe", summary: "two anonymous pipes, one each way", can_run, create };

fn can_run() -> Result<Receipt, WhyNot> {
    let why_not = |error: std::io::Error| WhyNot {
        reason: format!("cannot open a pipe through /proc: {error}"),
        hint: "mount /proc, and allow more open files (ulimit -n)".to_owned(),
    };
    let (read_end, _write_end) = pipe().map_err(why_not)?;
    open_own(&read_end, Access::Read).map_err(why_not)?;
    let bytes = capacity_bytes(&read_end).map_err(why_not)?;
    Ok(Receipt { detail: format!("a pipe holds {bytes} bytes") })
}

fn create() -> Result<[Ends; 2], TransportError> {
    let error = |source| failed("create", "a pipe", source, "allow more open files (ulimit -n)");
    Ok([pipe().map_err(error)?, pipe().map_err(error)?])
}

impl Transport for Pipe {
    fn card(&self) -> Card {
        Card {
            name: self.name,
            summary: self.summary,
            rough_round_trip: RoughRoundTrip { blocking_ns: 5_000, spinning_ns: 4_000 },
            sends_files: true,
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        (self.can_run)()
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(&self.card(), setup)?;
        Ok(Box::new(PipeListener::new(self.name, (self.create)()?, setup)))
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        connect(self.name, address, setup)
    }
}
