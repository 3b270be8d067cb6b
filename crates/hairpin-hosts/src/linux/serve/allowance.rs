//! Rate limit of a ticket: a token bucket for each direction.
//!
//! A bucket fills at the limit's rate and holds ten seconds' worth of bytes, so that loads with bursts or random gaps,
//! and rounds that report only at their end, are limited by their mean rate. Bytes beyond the content become a debt.

use std::time::{Duration, Instant};

/// Capacity of a bucket: the rate times this duration.
const BURST_DURATION: Duration = Duration::from_secs(10);

pub(super) struct Allowance {
    /// Bytes that may still be moved up (towards the server) and down.
    left: [f64; 2],
    at: Instant,
}

impl Allowance {
    pub(super) fn full(bits_per_s: f64, now: Instant) -> Self {
        Self { left: [bits_per_s / 8.0 * BURST_DURATION.as_secs_f64(); 2], at: now }
    }

    /// Takes the bytes moved up and down from the buckets. Returns false if either bucket is in debt.
    pub(super) fn take(&mut self, bits_per_s: f64, moved: [u64; 2], now: Instant) -> bool {
        let bytes_per_s = bits_per_s / 8.0;
        let gained = bytes_per_s * now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        for (left, moved) in self.left.iter_mut().zip(moved) {
            *left = (*left + gained).min(bytes_per_s * BURST_DURATION.as_secs_f64()) - moved as f64;
        }
        self.left.iter().all(|left| *left >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busier_direction_counts_and_a_burst_is_paid_back() {
        const RATE: f64 = 800.0;
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut allowance = Allowance::full(RATE, begin);
        assert!(allowance.take(RATE, [1000, 1000], begin), "ten seconds' worth in each direction");
        assert!(!allowance.take(RATE, [0, 1], begin));
        assert!(allowance.take(RATE, [100, 99], at(1000)));
        assert!(!allowance.take(RATE, [500, 0], at(2000)), "400 bytes are owed");
        assert!(!allowance.take(RATE, [0, 0], at(5000)));
        assert!(allowance.take(RATE, [0, 0], at(6000)));
        assert!(allowance.take(RATE, [1000, 1000], at(9_000_000)), "a bucket holds ten seconds' worth");
        assert!(!allowance.take(RATE, [1, 0], at(9_000_000)));
    }
}
