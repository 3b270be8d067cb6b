//! The loop's view of the machine: the interfaces towards both ends, and a clock.

use hairpin_link::Direction;
use hairpin_model::Failure;

/// The interfaces towards the two ends, and the clock. Times are ns since the link started.
pub(super) trait Interfaces {
    /// Maximum frames that can wait at one of them.
    fn places(&self) -> usize;

    /// The current time. Between two CPUs it may go back by a few ns.
    fn now_ns(&self) -> u64;

    /// Passes the oldest arrived frame of this direction to `take`. Returns whether there was one.
    fn receive(&mut self, direction: Direction, take: impl FnOnce(&Arrival<'_>)) -> bool;

    /// Sends frames in this direction, at most [`BATCH`](crate::system::packet_socket::BATCH). Returns the number sent;
    /// the next one was refused.
    fn send(&mut self, direction: Direction, frames: &[&[u8]]) -> usize;

    /// Spins for a moment: something is due at `until_ns`, and a wait could take longer.
    fn spin(&mut self, until_ns: u64);

    /// Waits for a frame or for the end, at most `at_most_ns`, or without limit. Returns whether it is the end.
    fn wait(&mut self, at_most_ns: Option<u64>) -> Result<bool, Failure>;
}

/// An arrived frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    /// The kernel's stamp, which may be earlier than that of frames already passed on.
    pub(super) arrived_ns: u64,
    /// The frame, or its beginning.
    pub(super) bytes: &'a [u8],
    pub(super) length_bytes: usize,
    pub(super) had_tag: bool,
}
