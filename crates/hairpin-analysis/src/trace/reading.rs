//! The prepared data of a trace, for both directions.

use hairpin_model::RoundTrace;
use hairpin_model::time_sequence::Source;

use super::direction::Direction;
use super::sending::Sending;

/// Minimum wait to report, in ns; also at least ten times the clock error.
pub(super) const MIN_WAIT_NS: u64 = 1_000_000;
/// Minimum wait of messages in an open loop, in ns. Such a wait ends at the latest when the next message is due.
pub(super) const MIN_MESSAGE_WAIT_NS: u64 = 20_000;
/// Maximum time between an event and its immediate effect, in ns, plus the clock error.
pub(super) const MAX_EFFECT_DELAY_NS: u64 = 1_000_000;

pub(super) struct Reading<'t> {
    pub(super) trace: &'t RoundTrace,
    pub(super) source: Source,
    /// From the client to the server, and back.
    pub(super) directions: [Direction<'t>; 2],
    pub(super) sending: [Sending; 2],
    pub(super) autocorked: Option<u64>,
    /// Whether the messages come from an open loop rather than from exchanges.
    pub(super) is_open_loop: bool,
    /// Whether the traffic is of another program, of which only packets and samples are known.
    pub(super) is_foreign: bool,
}
