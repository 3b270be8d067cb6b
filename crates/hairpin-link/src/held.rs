//! A stage that holds packets until they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::packet::InFlight;
use crate::stage::{Held, Outbox, Stage};

/// Number of packets for which memory is reserved in advance.
const RESERVED_PACKETS: usize = 4096;

/// Decides when packets leave.
pub(crate) trait Due: Send {
    /// The time at which the packet leaves; `None` if the stage does not hold it.
    fn due_ns(&mut self, packet: &InFlight, now_ns: u64) -> Option<u64>;

    /// Minimum time that a packet spends in the stage, in ns.
    fn least_ns(&self) -> u64 {
        0
    }
}

/// Packets ordered by due time; packets due at the same time are in order of arrival.
pub(crate) struct Holding<D> {
    due: D,
    /// `(due time, sequence number, packet)`; sequence numbers are unique.
    heap: BinaryHeap<Reverse<(u64, u64, InFlight)>>,
    came: u64,
    bytes: u64,
}

impl<D: Due> Holding<D> {
    pub(crate) fn new(due: D) -> Self {
        Self { due, heap: BinaryHeap::with_capacity(RESERVED_PACKETS), came: 0, bytes: 0 }
    }
}

impl<D: Due> Stage for Holding<D> {
    fn arrive(&mut self, packet: InFlight, now_ns: u64, out: &mut Outbox) {
        let Some(due_ns) = self.due.due_ns(&packet, now_ns) else { return out.pass(packet) };
        self.heap.push(Reverse((due_ns, self.came, packet)));
        self.came += 1;
        self.bytes += u64::from(packet.packet.size_bytes);
    }

    fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due_ns, ..))| *due_ns)
    }

    fn act(&mut self, now_ns: u64, out: &mut Outbox) {
        if self.next_ns().is_none_or(|due_ns| due_ns > now_ns) {
            return;
        }
        if let Some(Reverse((_, _, packet))) = self.heap.pop() {
            self.bytes -= u64::from(packet.packet.size_bytes);
            out.pass(packet);
        }
    }

    fn holds(&self) -> Held {
        Held { packets: self.heap.len() as u64, bytes: self.bytes }
    }

    fn each_held(&self, tell: &mut dyn FnMut(&InFlight, Option<u64>)) {
        self.heap.iter().for_each(|Reverse((due_ns, _, packet))| tell(packet, Some(*due_ns)));
    }

    fn least_delay_ns(&self) -> u64 {
        self.due.least_ns()
    }
}
