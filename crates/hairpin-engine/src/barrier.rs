//! A round that carries one flow of several: the ends of the path exist already, and it waits for the other flows.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use hairpin_model::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

pub(crate) const CONNECTED: u8 = b'+';
/// Sent to its process once all flows are connected, followed by the time of that, in ns of their clock (8 bytes,
/// little endian).
pub(crate) const GO: u8 = b'>';

/// How a round that carries one flow of several barrier the others. The network namespaces of its ends exist already.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Barrier {
    /// The client's network namespace, if it has one.
    pub(crate) client: Option<PathBuf>,
    /// The server's, if it has one.
    pub(crate) server: Option<PathBuf>,
    /// Time from all flows being connected to the beginning of its load, in ns.
    pub(crate) starts_after_ns: u64,
}

impl Barrier {
    /// Reports that the ends are connected and the server's process, if it is one, and waits until all flows are
    /// connected. Returns the time of that, in ns of the clock.
    pub(crate) fn wait_for_all(&self, server: Option<u32>) -> Result<u64, Failure> {
        let mut output = io::stdout().lock();
        let mut said = vec![CONNECTED];
        said.extend(server.unwrap_or(0).to_le_bytes());
        let said = output.write_all(&said).and_then(|()| output.flush());
        match said.and_then(|()| read_go()) {
            Ok((GO, begin_ns)) => Ok(begin_ns),
            _ => Err(Failure::new(FailureKind::Closed, "another flow of the round failed", "see its own cause")),
        }
    }
}

fn read_go() -> io::Result<(u8, u64)> {
    let (mut byte, mut begin_ns) = ([0], [0; 8]);
    let mut input = io::stdin().lock();
    input.read_exact(&mut byte)?;
    input.read_exact(&mut begin_ns)?;
    Ok((byte[0], u64::from_le_bytes(begin_ns)))
}
