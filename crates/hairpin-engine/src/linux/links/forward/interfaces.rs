//! What the loop sees of the machine: the interfaces towards both ends, and a clock.

use hairpin_link::Direction;
use hairpin_model::round::Failure;

/// The interfaces towards the two ends, and the clock. Times are ns since the link started.
pub(super) trait Interfaces {
    /// The most frames that can wait at one of them.
    fn places(&self) -> usize;

    /// Now. Between two CPUs it may go back by a few ns.
    fn now_ns(&self) -> u64;

    /// Hands over the oldest frame that goes this way and has come, and says whether there was one.
    fn receive(&mut self, direction: Direction, take: impl FnOnce(&Arrival<'_>)) -> bool;

    /// Lets frames go this way, at most [`BATCH`](crate::system::packet_socket::BATCH) of them; says how many went. The one after these is refused.
    fn send(&mut self, direction: Direction, frames: &[&[u8]]) -> usize;

    /// Passes some time on the CPU: something is due at that time, and waiting could take longer.
    fn spin(&mut self, until_ns: u64);

    /// Waits until a frame has come or the end, at most so long, for ever without; says whether it is the end.
    ///
    /// # Errors
    /// The interfaces are of no more use.
    fn wait(&mut self, at_most_ns: Option<u64>) -> Result<bool, Failure>;
}

/// A frame as it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    /// When: the kernel's stamp, which may be earlier than what was already handed over.
    pub(super) arrived_ns: u64,
    /// The frame, or its beginning.
    pub(super) bytes: &'a [u8],
    /// Its length on the interface.
    pub(super) length_bytes: usize,
    /// Whether it had a VLAN tag.
    pub(super) had_tag: bool,
}
