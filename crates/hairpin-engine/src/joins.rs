//! What a round knows that is one flow of several: the ends of the path are there already, and it waits for the others.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use hairpin_model::round::Failure;
use serde::{Deserialize, Serialize};

/// What its process says once its ends are connected.
pub(crate) const CONNECTED: u8 = b'+';
/// What its process is told once those of all flows are.
pub(crate) const GO: u8 = b'>';

/// A round that is one flow of several: the network namespaces of its ends are there already.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Joins {
    /// That of the client, where it has one.
    pub(crate) client: Option<PathBuf>,
    /// That of the server.
    pub(crate) server: Option<PathBuf>,
}

impl Joins {
    /// Says that the ends are connected, and waits until all flows are.
    ///
    /// # Errors
    /// Another flow failed before that.
    pub(crate) fn wait_for_all(&self) -> Result<(), Failure> {
        let mut output = io::stdout().lock();
        let said = output.write_all(&[CONNECTED]).and_then(|()| output.flush());
        match said.and_then(|()| read_byte()) {
            Ok(GO) => Ok(()),
            _ => Err(Failure {
                cause: "another flow of the round failed".to_owned(),
                hint: "see its own cause".to_owned(),
            }),
        }
    }
}

fn read_byte() -> io::Result<u8> {
    let mut byte = [0];
    io::stdin().lock().read_exact(&mut byte)?;
    Ok(byte[0])
}
