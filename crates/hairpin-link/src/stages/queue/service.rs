//! What the packets of a queue wait for.

/// A line that packets leave over, one after the other.
pub(super) trait Service: Send {
    /// Begins to send a packet at `now_ns`, or as soon after as it can, and says when its last bit is through.
    ///
    /// Calls come in order of time, and never before the packet of the last call was through.
    fn send(&mut self, size_bytes: u32, now_ns: u64) -> u64;
}
