//! Bytes by time interval, in a bounded number of equal intervals.

pub const MAX_INTERVALS: usize = 1024;
pub const FIRST_WIDTH_NS: u64 = 1_000_000;

/// The bytes in each interval since the first byte. When there are too many intervals, pairs are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeLine {
    /// When the first interval begins, in ns; `None` if there were no bytes.
    pub begin_ns: Option<u64>,
    /// The length of each interval, in ns.
    pub width_ns: u64,
    pub bytes: Vec<u64>,
}

impl Default for TimeLine {
    fn default() -> Self {
        Self { begin_ns: None, width_ns: FIRST_WIDTH_NS, bytes: Vec::with_capacity(MAX_INTERVALS) }
    }
}

impl TimeLine {
    /// Counts bytes at `at_ns`. A time before the first byte counts as the time of the first byte.
    pub fn note(&mut self, at_ns: u64, bytes: u64) {
        let begin_ns = *self.begin_ns.get_or_insert(at_ns);
        let since_ns = at_ns.saturating_sub(begin_ns);
        while since_ns / self.width_ns >= MAX_INTERVALS as u64 {
            self.halve();
        }
        // The cast is safe: the index is below [`MAX_INTERVALS`].
        let place = (since_ns / self.width_ns) as usize;
        if place >= self.bytes.len() {
            self.bytes.resize(place + 1, 0);
        }
        self.bytes[place] += bytes;
    }

    fn halve(&mut self) {
        for place in 0..self.bytes.len().div_ceil(2) {
            self.bytes[place] = self.bytes[2 * place] + self.bytes.get(2 * place + 1).unwrap_or(&0);
        }
        self.bytes.truncate(self.bytes.len().div_ceil(2));
        self.width_ns = self.width_ns.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn intervals_double_when_they_are_too_many() {
        let mut line = TimeLine::default();
        for ms in 0..MAX_INTERVALS as u64 {
            line.note(5 + ms * FIRST_WIDTH_NS, ms);
        }
        assert_eq!((line.width_ns, line.bytes.len()), (FIRST_WIDTH_NS, MAX_INTERVALS));
        line.note(5 + MAX_INTERVALS as u64 * FIRST_WIDTH_NS, 7);
        assert_eq!(
            (line.begin_ns, line.width_ns, line.bytes.len()),
            (Some(5), 2 * FIRST_WIDTH_NS, MAX_INTERVALS / 2 + 1)
        );
        assert_eq!((line.bytes[0], line.bytes[1], line.bytes[MAX_INTERVALS / 2]), (1, 5, 7));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_memory_is_bounded(arrivals in proptest::collection::vec((0_u64..u64::MAX / 2, 1_u64..1 << 30), 1..50)) {
            let mut line = TimeLine::default();
            arrivals.iter().for_each(|(at_ns, bytes)| line.note(*at_ns, *bytes));
            prop_assert_eq!(line.bytes.iter().sum::<u64>(), arrivals.iter().map(|(_, bytes)| bytes).sum::<u64>());
            prop_assert!(line.bytes.len() <= MAX_INTERVALS && line.bytes.capacity() == MAX_INTERVALS);
        }
    }
}
