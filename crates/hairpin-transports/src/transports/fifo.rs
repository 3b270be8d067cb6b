//! Two named pipes, one per direction (fifo(7)).

use hairpin_model::{Receipt, WhyNot};

use super::pipe::Pipe;
use crate::system::pipe::{Access, Ends, open_own, two_fifos};
use crate::wire::TransportError;
use crate::wires::failed;

pub(super) const FIFO: Pipe = Pipe { name: "fifo", summary: "two named pipes, one each way", can_run, create };

fn can_run() -> Result<Receipt, WhyNot> {
    let folder = std::env::temp_dir();
    let why_not = |error: std::io::Error| WhyNot {
        reason: format!("cannot create a named pipe in {}: {error}", folder.display()),
        hint: "set TMPDIR to a folder on a writable file system that allows named pipes".to_owned(),
    };
    let [(read_end, _write_end), _] = two_fifos().map_err(why_not)?;
    open_own(&read_end, Access::Read).map_err(why_not)?;
    Ok(Receipt { detail: format!("named pipes in {}", folder.display()) })
}

fn create() -> Result<[Ends; 2], TransportError> {
    let folder = std::env::temp_dir().display().to_string();
    two_fifos().map_err(|source| failed("create named pipes in", &folder, source, "set TMPDIR to a writable folder"))
}
