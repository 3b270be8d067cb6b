//! A captured packet.

use crate::system::packet_ring::Received;

/// Maximum bytes captured of a packet, including the link header. The kernel needs 66 bytes of each slot for its own
/// header, the sender's link address and padding.
pub(super) const SNAP_BYTES: u32 = 440;

/// A packet of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// When the packet passed the interface: CLOCK_REALTIME, in ns.
    pub(super) realtime_ns: u64,
    pub(super) length_bytes: u32,
    /// The captured bytes, from the start of the link header.
    pub(super) bytes: Vec<u8>,
}

impl Frame {
    pub(super) fn of(received: Received<'_>) -> Self {
        let Received { realtime_ns, length_bytes, bytes, .. } = received;
        Self { realtime_ns, length_bytes, bytes: bytes.to_vec() }
    }
}
