//! A trace, read in both directions.

use hairpin_model::time_sequence::Source;
use hairpin_model::trace::RoundTrace;

use super::direction::Direction;
use super::sending::Sending;

/// A wait is at least so long, in ns, and ten times what a kernel's time may be off.
pub(super) const MIN_WAIT_NS: u64 = 1_000_000;
/// The same of the messages of an open loop, which may wait for no longer than until the next of them is due.
pub(super) const MIN_MESSAGE_WAIT_NS: u64 = 20_000;
/// What happens because of an event happens within so long after it, in ns, and what a kernel's time may be off.
pub(super) const AT_ONCE_NS: u64 = 1_000_000;

/// A trace, read in both directions.
pub(super) struct Reading<'t> {
    pub(super) trace: &'t RoundTrace,
    pub(super) source: Source,
    /// From the client to the server, and back.
    pub(super) directions: [Direction<'t>; 2],
    /// How each of them sends.
    pub(super) sending: [Sending; 2],
    pub(super) autocorked: Option<u64>,
    /// Messages of an open loop; else exchanges.
    pub(super) of_messages: bool,
}
