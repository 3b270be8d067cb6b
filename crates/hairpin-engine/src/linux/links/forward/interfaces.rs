//! The relay loop's view of the machine: the interfaces towards both ends, and a clock.

use hairpin_link::Direction;
use hairpin_model::Failure;

/// The interfaces towards the two ends, and the clock. Times are ns since the link started.
pub(super) trait Interfaces {
    /// Maximum number of frames that can wait at one interface.
    fn places(&self) -> usize;

    /// The current time. It may decrease by a few ns when the thread changes its CPU.
    fn now_ns(&self) -> u64;

    /// Passes the oldest frame that arrived in this direction to `take`. Returns whether there was a frame.
    fn receive(&mut self, direction: Direction, take: impl FnOnce(&Arrival<'_>)) -> bool;

    /// Sends frames in this direction, at most [`BATCH`](crate::system::packet_socket::BATCH). Returns the number of
    /// frames sent. If it is less than requested, the next frame was refused.
    fn send(&mut self, direction: Direction, frames: &[&[u8]]) -> usize;

    /// Spins briefly. Used when a packet is due at `until_ns` and a wait could take longer.
    fn spin(&mut self, until_ns: u64);

    /// Waits for a frame or for the end, at most `at_most_ns` if given. Returns whether the end was requested.
    fn wait(&mut self, at_most_ns: Option<u64>) -> Result<bool, Failure>;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    /// The kernel's timestamp. It may be earlier than the timestamp of a previous frame.
    pub(super) arrived_ns: u64,
    /// The captured bytes, from the start of the frame.
    pub(super) bytes: &'a [u8],
    pub(super) length_bytes: usize,
    pub(super) had_tag: bool,
}
