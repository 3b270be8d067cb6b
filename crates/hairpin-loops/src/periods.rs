//! Counts the periods of a control loop and their misses, without allocating.

use hairpin_model::PeriodicCounts;
use hairpin_model::periodic::MAX_MISS_BLOCKS;

#[derive(Debug)]
pub(crate) struct PeriodCounter {
    counts: PeriodicCounts,
    /// Consecutive misses up to now.
    miss_run: u64,
}

impl PeriodCounter {
    pub(crate) fn new() -> Self {
        Self { counts: PeriodicCounts::with_room(), miss_run: 0 }
    }

    /// Counts a period in which a cycle ran.
    pub(crate) fn ran(&mut self, missed: bool) {
        self.count(1, missed);
    }

    /// Counts omitted releases. Each is a miss.
    pub(crate) fn skipped(&mut self, releases: u64) {
        self.counts.skipped += releases;
        self.count(releases, true);
    }

    pub(crate) fn finish(self) -> PeriodicCounts {
        self.counts
    }

    fn count(&mut self, mut periods: u64, missed: bool) {
        if missed {
            self.miss_run += periods;
            self.counts.misses += periods;
            self.counts.longest_miss_run = self.counts.longest_miss_run.max(self.miss_run);
        } else {
            self.miss_run = 0;
        }
        while periods > 0 {
            let in_block = self.counts.periods % self.counts.block_periods;
            if in_block == 0 {
                self.begin_block();
            }
            let some = periods.min(self.counts.block_periods - self.counts.periods % self.counts.block_periods);
            self.counts.periods += some;
            periods -= some;
            if let Some(block) = self.counts.misses_by_block.last_mut().filter(|_| missed) {
                *block += some;
            }
        }
    }

    /// Begins a block. If there is no room, first joins every two blocks into one of twice the length.
    fn begin_block(&mut self) {
        let blocks = &mut self.counts.misses_by_block;
        if blocks.len() == MAX_MISS_BLOCKS {
            for place in 0..MAX_MISS_BLOCKS / 2 {
                blocks[place] = blocks[2 * place] + blocks[2 * place + 1];
            }
            blocks.truncate(MAX_MISS_BLOCKS / 2);
            self.counts.block_periods *= 2;
        }
        blocks.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_counted_by_block_and_by_run() {
        let mut counter = PeriodCounter::new();
        for missed in [false, true, true, false, true] {
            counter.ran(missed);
        }
        counter.skipped(3);
        counter.ran(false);
        let counts = counter.finish();
        assert_eq!((counts.periods, counts.misses, counts.skipped, counts.longest_miss_run), (9, 6, 3, 4));
        assert_eq!(counts.misses_by_block, [0, 1, 1, 0, 1, 1, 1, 1, 0]);
        assert_eq!(counts.miss_share(), 6.0 / 9.0);
    }

    #[test]
    fn blocks_are_joined_when_there_are_too_many() {
        let mut counter = PeriodCounter::new();
        (0..1000).for_each(|number| counter.ran(number % 10 == 0));
        counter.skipped(37);
        let counts = counter.finish();
        assert_eq!((counts.block_periods, counts.misses_by_block.len()), (8, 130));
        assert_eq!(counts.misses_by_block.iter().sum::<u64>(), 137);
        assert_eq!(counts.misses_by_block[..5], [1, 1, 1, 1, 0], "periods 0, 10, 20, 30 and 40");
        assert_eq!(counts.misses_by_block[125..], [8, 8, 8, 8, 5]);
        assert!(counts.misses_by_block.capacity() <= MAX_MISS_BLOCKS, "nothing was allocated");
    }
}
