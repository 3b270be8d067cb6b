//! Due times of the messages of an open loop.

use hairpin_model::Arrivals;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// An endless sequence of due times.
pub(super) struct Schedule {
    arrivals: Arrivals,
    gap_ns: f64,
    /// Number of times returned so far.
    count: u64,
    last_ns: f64,
    random: Xoshiro256PlusPlus,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Due {
    /// Time since the start, in ns.
    pub(super) at_ns: u64,
    /// Gap to the previous message, in ns.
    pub(super) apart_ns: f64,
}

impl Schedule {
    /// `seed` is only used for random arrivals.
    pub(super) fn new(per_s: f64, arrivals: Arrivals, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { arrivals, gap_ns: 1e9 / per_s, count: 0, last_ns: 0.0, random }
    }

    /// Mean gap between bursts, or between messages if there are no bursts.
    pub(super) fn nominal_ns(&self) -> f64 {
        self.gap_ns * f64::from(self.arrivals.at_once())
    }

    /// The due time of the next message.
    // Times are positive, and saturate beyond 584 years.
    pub(super) fn next(&mut self) -> Due {
        let before_ns = self.last_ns;
        self.last_ns = match self.arrivals {
            // A multiplication, because the rounding errors of a sum would accumulate.
            Arrivals::Fixed => self.count as f64 * self.gap_ns,
            Arrivals::Burst(count) => (self.count / u64::from(count)) as f64 * self.nominal_ns(),
            Arrivals::Poisson => before_ns + self.exponential() * self.gap_ns,
        };
        self.count += 1;
        Due { at_ns: self.last_ns as u64, apart_ns: self.last_ns - before_ns }
    }

    /// An exponentially distributed number with mean 1, by inversion (Devroye, Non-Uniform Random Variate Generation,
    /// 1986, section II.2).
    fn exponential(&mut self) -> f64 {
        // 53 random bits give a number above 0 and at most 1.
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(per_s: f64, arrivals: Arrivals, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(per_s, arrivals, 42);
        (0..count).map(|_| schedule.next().at_ns).collect()
    }

    #[test]
    fn fixed_arrivals_do_not_drift() {
        assert_eq!(times(1e6, Arrivals::Fixed, 4), [0, 1000, 2000, 3000]);
        assert_eq!(times(3.0, Arrivals::Fixed, 3001).last(), Some(&1_000_000_000_000));
    }

    #[test]
    fn a_burst_is_due_at_once_and_keeps_the_rate() {
        assert_eq!(times(1e6, Arrivals::Burst(3), 7), [0, 0, 0, 3000, 3000, 3000, 6000]);
        assert_eq!(Schedule::new(1e6, Arrivals::Burst(3), 0).nominal_ns(), 3000.0);
    }

    #[test]
    fn gaps_of_poisson_arrivals_have_the_mean_and_the_deviation_of_an_exponential_distribution() {
        let times = times(1e6, Arrivals::Poisson, 100_001);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
        assert_ne!(Schedule::new(1e6, Arrivals::Poisson, 1).next(), Schedule::new(1e6, Arrivals::Poisson, 2).next());
    }
}
