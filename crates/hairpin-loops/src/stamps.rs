//! The stamps of a message.

use hairpin_model::samples::Fate;

/// One message, in ns of the engine's clock.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// Its number in the round.
    pub sequence: u64,
    /// When it was due.
    pub due_ns: u64,
    /// When its send call began.
    pub sent_ns: u64,
    /// When its answer was there; ignored where it is lost.
    pub received_ns: u64,
    /// What became of it.
    pub fate: Fate,
}
