//! The packets that wait in a queue.

use std::collections::VecDeque;

use crate::packet::InFlight;
use crate::stage::Held;

/// Packets and their arrival times, in order.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    packets: VecDeque<(InFlight, u64)>,
    bytes: u64,
}

impl Waiting {
    /// Creates an empty queue with memory for `packets`.
    pub(super) fn with_room(packets: usize) -> Self {
        Self { packets: VecDeque::with_capacity(packets), bytes: 0 }
    }

    pub(super) fn push(&mut self, packet: InFlight, now_ns: u64) {
        self.bytes += u64::from(packet.packet.size_bytes);
        self.packets.push_back((packet, now_ns));
    }

    pub(super) fn pop(&mut self) -> Option<(InFlight, u64)> {
        let (packet, came_ns) = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.packet.size_bytes);
        Some((packet, came_ns))
    }

    pub(super) fn holds(&self) -> Held {
        Held { packets: self.packets.len() as u64, bytes: self.bytes }
    }

    pub(super) fn each(&self, tell: &mut dyn FnMut(&InFlight)) {
        self.packets.iter().for_each(|(packet, _)| tell(packet));
    }
}
