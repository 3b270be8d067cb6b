//! Synchronization of a round that carries one of several flows: it waits until all flows are connected.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use hairpin_model::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

pub(crate) const CONNECTED: u8 = b'+';

/// What a round that carries one of several flows needs: the existing network namespaces and its start time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Barrier {
    /// The client's network namespace, if it has one.
    pub(crate) client: Option<PathBuf>,
    /// The server's network namespace, if it has one.
    pub(crate) server: Option<PathBuf>,
    /// Delay from the time when all flows are connected to the start of this flow's load, in ns.
    pub(crate) starts_after_ns: u64,
}

impl Barrier {
    /// Reports that the ends are connected, with the server's process id (0 if the server is no process), and waits
    /// until all flows are connected. Returns the time of this event in ns of the clock.
    pub(crate) fn wait_for_all(&self, server: Option<u32>) -> Result<u64, Failure> {
        let mut output = io::stdout().lock();
        let mut said = vec![CONNECTED];
        said.extend(server.unwrap_or(0).to_le_bytes());
        let said = output.write_all(&said).and_then(|()| output.flush());
        let mut begin_ns = [0; 8];
        match said.and_then(|()| io::stdin().lock().read_exact(&mut begin_ns)) {
            Ok(()) => Ok(u64::from_le_bytes(begin_ns)),
            Err(_) => {
                Err(Failure::new(FailureKind::Closed, "another flow of the round failed", "see its own failure"))
            }
        }
    }
}
