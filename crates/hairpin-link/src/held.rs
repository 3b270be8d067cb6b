//! Packets held until they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::packet::InFlight;
use crate::stage::Held;

/// Packets for which memory is reserved in advance.
const ROOM: usize = 4096;

/// Packets by due time; those due at the same time in order of arrival.
#[derive(Debug)]
pub(crate) struct HeldPackets {
    /// `(due time, sequence number, packet)`; sequence numbers are unique.
    heap: BinaryHeap<Reverse<(u64, u64, InFlight)>>,
    came: u64,
    bytes: u64,
}

impl HeldPackets {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::with_capacity(ROOM), came: 0, bytes: 0 }
    }

    pub(crate) fn hold(&mut self, packet: InFlight, until_ns: u64) {
        self.heap.push(Reverse((until_ns, self.came, packet)));
        self.came += 1;
        self.bytes += u64::from(packet.packet.size_bytes);
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due_ns, ..))| *due_ns)
    }

    /// Removes the first packet that is due.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<InFlight> {
        self.next_ns().filter(|due_ns| *due_ns <= now_ns)?;
        let Reverse((_, _, packet)) = self.heap.pop()?;
        self.bytes -= u64::from(packet.packet.size_bytes);
        Some(packet)
    }

    pub(crate) fn each(&self, tell: &mut dyn FnMut(&InFlight, Option<u64>)) {
        self.heap.iter().for_each(|Reverse((due_ns, _, packet))| tell(packet, Some(*due_ns)));
    }

    pub(crate) fn holds(&self) -> Held {
        Held { packets: self.heap.len() as u64, bytes: self.bytes }
    }
}
