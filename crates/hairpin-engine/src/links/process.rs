//! The link's process, and the handle on it.

use std::path::Path;

use hairpin_model::round::Failure;

use super::{LinkEnd, LinkOrder, Namespaces};

/// The hidden command that makes the program a link.
pub const COMMAND: &str = "__link";

/// A link that carries packets.
pub struct RunningLink {
    namespaces: Namespaces,
}

impl RunningLink {
    /// Starts `program` as the link and waits until packets are carried.
    ///
    /// # Errors
    /// The program cannot be started, or the link cannot be made.
    pub fn start(_program: &Path, _order: &LinkOrder) -> Result<Self, Failure> {
        Err(Failure { cause: "emulated links are not in this build".to_owned(), hint: String::new() })
    }

    /// The namespaces of its two ends.
    #[must_use]
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Ends the link, and says what it leaves.
    ///
    /// # Errors
    /// It failed meanwhile, or is gone.
    pub fn finish(self) -> Result<LinkEnd, Failure> {
        Err(Failure { cause: "emulated links are not in this build".to_owned(), hint: String::new() })
    }
}

/// The program as a link: reads its order, carries packets until its standard input closes, says its words.
///
/// # Errors
/// There is no readable order.
pub fn serve_as_process(_parent: u32) -> Result<(), String> {
    Err("emulated links are not in this build".to_owned())
}
