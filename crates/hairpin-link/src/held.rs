//! Packets held until they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::packet::InFlight;
use crate::stage::Held;

/// How many packets there is room for before anything must grow.
const ROOM: usize = 4096;

/// Packets by the time at which they are due; those due at one time in the order in which they came.
#[derive(Debug)]
pub(crate) struct HeldPackets {
    heap: BinaryHeap<Reverse<(u64, u64, Entry)>>,
    came: u64,
    bytes: u64,
}

/// A packet in the heap. The key before it decides the order, and no two keys are equal.
#[derive(Clone, Copy, Debug)]
struct Entry(InFlight);

impl PartialEq for Entry {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl HeldPackets {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::with_capacity(ROOM), came: 0, bytes: 0 }
    }

    pub(crate) fn hold(&mut self, packet: InFlight, until_ns: u64) {
        self.heap.push(Reverse((until_ns, self.came, Entry(packet))));
        self.came += 1;
        self.bytes += u64::from(packet.packet.size_bytes);
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due_ns, ..))| *due_ns)
    }

    /// The first packet that is due by now.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<InFlight> {
        self.next_ns().filter(|due_ns| *due_ns <= now_ns)?;
        let Reverse((_, _, Entry(packet))) = self.heap.pop()?;
        self.bytes -= u64::from(packet.packet.size_bytes);
        Some(packet)
    }

    pub(crate) fn each(&self, tell: &mut dyn FnMut(&InFlight, Option<u64>)) {
        self.heap.iter().for_each(|Reverse((due_ns, _, Entry(packet)))| tell(packet, Some(*due_ns)));
    }

    pub(crate) fn holds(&self) -> Held {
        Held { packets: self.heap.len() as u64, bytes: self.bytes }
    }
}
