//! The line over which a queue sends.

/// A line that sends packets one after the other.
pub(super) trait Service: Send {
    /// Sends a packet that can start at `now_ns`. Returns when its last bit is sent.
    ///
    /// The caller passes a `now_ns` that is not earlier than the time returned by the previous call.
    fn send(&mut self, size_bytes: u32, now_ns: u64) -> u64;
}
