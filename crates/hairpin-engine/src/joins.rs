//! What a round knows that is one flow of several: the ends of the path are there already, and it waits for the others.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use hairpin_model::round::Failure;
use serde::{Deserialize, Serialize};

/// What its process says once its ends are connected.
pub(crate) const CONNECTED: u8 = b'+';
/// What its process is told once those of all flows are: this, and when that was, in ns of their clock (8 bytes, little endian).
pub(crate) const GO: u8 = b'>';

/// A round that is one flow of several: the network namespaces of its ends are there already.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Joins {
    /// That of the client, where it has one.
    pub(crate) client: Option<PathBuf>,
    /// That of the server.
    pub(crate) server: Option<PathBuf>,
    /// How long after all are connected its load begins, in ns.
    pub(crate) starts_after_ns: u64,
}

impl Joins {
    /// Says that the ends are connected and which process the server is, where it is one, and waits until all flows are. Answers
    /// when that was, in ns of the clock.
    ///
    /// # Errors
    /// Another flow failed before that.
    pub(crate) fn wait_for_all(&self, server: Option<u32>) -> Result<u64, Failure> {
        let mut output = io::stdout().lock();
        let mut said = vec![CONNECTED];
        said.extend(server.unwrap_or(0).to_le_bytes());
        let said = output.write_all(&said).and_then(|()| output.flush());
        match said.and_then(|()| read_go()) {
            Ok((GO, begin_ns)) => Ok(begin_ns),
            _ => Err(Failure {
                cause: "another flow of the round failed".to_owned(),
                hint: "see its own cause".to_owned(),
            }),
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
