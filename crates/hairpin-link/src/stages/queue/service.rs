//! The line over which a queue sends.

/// A line that sends packets one after the other.
pub(super) trait Service: Send {
    /// Starts to send a packet at `now_ns` or as soon as possible afterwards. Returns when its last bit is sent.
    ///
    /// Calls are in order of time, and not before the previous packet was sent.
    fn send(&mut self, size_bytes: u32, now_ns: u64) -> u64;
}
