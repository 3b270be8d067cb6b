//! Times of messages at one end: a histogram of all messages, and the first messages individually.

use hairpin_model::Times;
use hairpin_model::samples::{MAX_LATENCY_NS, latency_histogram};
use hdrhistogram::Histogram;

/// Maximum number of rows that an end keeps. The server sends its rows to the client in one message.
pub const MAX_ROWS: usize = 10_000;

/// Collects the times of one end. Memory is bounded and reserved before the load.
#[derive(Debug)]
pub struct TimesOfMessages {
    counts: Histogram<u64>,
    rows: Vec<[u64; 3]>,
    /// The wire of each row.
    wires: Vec<usize>,
    capacity: usize,
}

impl TimesOfMessages {
    /// Reserves room for `capacity` rows, at most [`MAX_ROWS`].
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.min(MAX_ROWS);
        // Filled and cleared, so that the pages exist before the first message.
        let mut rows = vec![[0; 3]; capacity];
        rows.clear();
        let mut wires = vec![0; capacity];
        wires.clear();
        Self { counts: latency_histogram(), rows, wires, capacity }
    }

    /// Records when a message was due, and when it was sent or received. The clock of another CPU may be some ns
    /// behind, so a time before the due time counts as 1 ns.
    #[inline]
    pub fn note(&mut self, wire: usize, sequence: u64, due_ns: u64, at_ns: u64) {
        self.counts.saturating_record(at_ns.saturating_sub(due_ns).clamp(1, MAX_LATENCY_NS));
        if self.rows.len() < self.capacity {
            self.rows.push([sequence, due_ns, at_ns]);
            self.wires.push(wire);
        }
    }

    /// The wire, the due time and the time of each row, in the order in which they were recorded.
    pub fn by_wire(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        self.wires.iter().zip(&self.rows).map(|(wire, [_, due_ns, at_ns])| (*wire, *due_ns, *at_ns))
    }

    pub fn reported(self) -> Times {
        let counts = self.counts.iter_recorded();
        Times {
            counts: counts.map(|value| (value.value_iterated_to(), value.count_since_last_iteration())).collect(),
            rows: self.rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_messages_are_counted_and_the_first_are_kept() {
        let mut times = TimesOfMessages::new(2);
        for (sequence, due_ns, at_ns) in [(0, 100, 400), (1, 200, 500), (2, 300, 290), (3, 400, 700)] {
            times.note(0, sequence, due_ns, at_ns);
        }
        let reported = times.reported();
        assert_eq!(reported.counts, [(1, 1), (300, 3)]);
        assert_eq!(reported.rows, [[0, 100, 400], [1, 200, 500]]);
    }
}
