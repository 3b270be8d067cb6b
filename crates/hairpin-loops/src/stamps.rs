//! The stamps of a message.

use hairpin_model::samples::Fate;

/// One message, in ns of the engine's clock.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// Number in the round.
    pub sequence: u64,
    /// When it was due.
    pub due_ns: u64,
    /// Start of the send call.
    pub sent_ns: u64,
    /// When the answer was complete; ignored if it is lost.
    pub received_ns: u64,
    pub fate: Fate,
}
