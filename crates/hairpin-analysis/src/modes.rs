//! The modes of a latency distribution: one peak or several?
//!
//! The histogram is converted to bins whose width grows by 3 %, smoothed over five of them. Two neighbouring peaks are
//! separate modes if all of these conditions hold; otherwise they are merged:
//!
//! - each has at least 1 % of the messages, and at least 5 messages, between the valleys next to it;
//! - the valley between them is lower than half the smaller peak, and by more than chance: the smoothed counts of
//!   peak and valley differ by three standard deviations of Poisson counts;
//! - they are at least 20 % apart, and at least three steps of the clock (the smallest gap between two observed
//!   latencies): a coarse clock creates peaks.

use hairpin_model::Mode;
use hdrhistogram::Histogram;

/// Ratio of a bin's upper edge to its lower one.
const BIN_RATIO: f64 = 1.03;
/// Bins on either side used for smoothing.
const SMOOTHING_REACH: usize = 2;
const SMOOTHING: [f64; 2 * SMOOTHING_REACH + 1] = [1.0, 2.0, 3.0, 2.0, 1.0];
/// Ratio of a smoothed Poisson count's variance to its mean: sum of the squared weights / sum of the weights.
const SMOOTHED_VARIANCE_RATIO: f64 = 19.0 / 9.0;
const MIN_SHARE: f64 = 0.01;
const MIN_MESSAGES: f64 = 5.0;
const MIN_MODE_RATIO: f64 = 1.2;
const MIN_MODE_STEPS: f64 = 3.0;

/// Returns the modes of `latency`, largest share first; the shares add up to 1. Empty for an empty histogram.
pub fn modes(latency: &Histogram<u64>) -> Vec<Mode> {
    let bins = Bins::count(latency);
    let mut segments = bins.segments();
    while let Some(weakest) = bins.weakest_boundary(&segments) {
        let right = segments.remove(weakest + 1);
        let left = &mut segments[weakest];
        left.end = right.end;
        if bins.smooth[right.peak] > bins.smooth[left.peak] {
            left.peak = right.peak;
        }
    }
    let total = latency.len() as f64;
    let mut modes: Vec<Mode> = segments
        .iter()
        .map(|segment| Mode { latency_ns: bins.location(segment.peak), share: bins.mass(segment) / total })
        .collect();
    modes.sort_by(|a, b| b.share.total_cmp(&a.share));
    modes
}

/// Messages by bin, with `SMOOTHING_REACH` empty bins at either end.
struct Bins {
    /// The sum of the messages' latencies, by bin.
    sums: Vec<f64>,
    counts: Vec<f64>,
    smooth: Vec<f64>,
    step_ns: f64,
}

/// A peak and the bins up to the valleys next to it, `start..end`.
struct Segment {
    start: usize,
    end: usize,
    peak: usize,
}

impl Bins {
    fn count(latency: &Histogram<u64>) -> Self {
        let bin_of = |value: f64| (value.max(1.0).ln() / BIN_RATIO.ln()) as usize;
        if latency.is_empty() {
            return Self { sums: Vec::new(), counts: Vec::new(), smooth: Vec::new(), step_ns: 1.0 };
        }
        let first = bin_of(latency.min() as f64);
        let bins = bin_of(latency.max() as f64) - first + 1 + 2 * SMOOTHING_REACH;
        let (mut counts, mut sums) = (vec![0.0; bins], vec![0.0; bins]);
        let (mut before, mut step_ns) = (None::<f64>, f64::INFINITY);
        for recorded in latency.iter_recorded() {
            let value = latency.median_equivalent(recorded.value_iterated_to()) as f64;
            let count = recorded.count_at_value() as f64;
            let bin = (bin_of(value).saturating_sub(first) + SMOOTHING_REACH).min(bins - 1);
            counts[bin] += count;
            sums[bin] += value * count;
            if let Some(before) = before.replace(value) {
                step_ns = step_ns.min(value - before);
            }
        }
        let at = |bin: usize, offset: usize| {
            (bin + offset).checked_sub(SMOOTHING_REACH).and_then(|bin| counts.get(bin)).copied().unwrap_or(0.0)
        };
        let smooth = (0..bins)
            .map(|bin| SMOOTHING.iter().enumerate().map(|(offset, weight)| weight * at(bin, offset)).sum())
            .collect();
        Self { sums, counts, smooth, step_ns: if step_ns.is_finite() { step_ns } else { 1.0 } }
    }

    /// Returns one segment per local maximum of the smoothed counts, cut at the lowest bins between the maxima.
    fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let (mut rising, mut lowest) = (true, 0);
        for bin in 0..self.smooth.len() {
            let next = self.smooth.get(bin + 1).copied().unwrap_or(0.0);
            if self.smooth[bin] < self.smooth[lowest] {
                lowest = bin;
            }
            if rising && next < self.smooth[bin] {
                let start = if segments.is_empty() { 0 } else { lowest };
                if let Some(last) = segments.last_mut() {
                    last.end = start;
                }
                segments.push(Segment { start, end: self.smooth.len(), peak: bin });
                (rising, lowest) = (false, bin);
            } else if !rising && next > self.smooth[bin] {
                rising = true;
            }
        }
        segments
    }

    /// Returns the boundary (after segment `k`) with the shallowest valley among those that do not separate modes.
    fn weakest_boundary(&self, segments: &[Segment]) -> Option<usize> {
        (0..segments.len().saturating_sub(1))
            .filter(|k| !self.are_separate(&segments[*k], &segments[*k + 1]))
            .max_by(|a, b| self.valley_ratio(segments, *a).total_cmp(&self.valley_ratio(segments, *b)))
    }

    /// Returns the height of the valley after segment `k`, relative to the smaller peak next to it.
    fn valley_ratio(&self, segments: &[Segment], k: usize) -> f64 {
        let smaller = self.smooth[segments[k].peak].min(self.smooth[segments[k + 1].peak]);
        self.smooth[segments[k].end] / smaller
    }

    fn are_separate(&self, left: &Segment, right: &Segment) -> bool {
        let smaller = if self.smooth[left.peak] < self.smooth[right.peak] { left.peak } else { right.peak };
        let (peak, valley) = (self.smooth[smaller], self.smooth[right.start]);
        let (left_ns, right_ns) = (self.location(left.peak), self.location(right.peak));
        let total: f64 = self.counts.iter().sum();
        let min_messages = MIN_MESSAGES.max(MIN_SHARE * total);
        valley < 0.5 * peak
            && peak - valley > 3.0 * (SMOOTHED_VARIANCE_RATIO * (peak + valley)).sqrt()
            && right_ns >= left_ns * MIN_MODE_RATIO
            && right_ns - left_ns >= MIN_MODE_STEPS * self.step_ns
            && self.mass(left).min(self.mass(right)) >= min_messages
    }

    fn mass(&self, segment: &Segment) -> f64 {
        self.counts[segment.start..segment.end].iter().sum()
    }

    fn window(&self, bin: usize) -> std::ops::Range<usize> {
        bin.saturating_sub(SMOOTHING_REACH)..(bin + SMOOTHING_REACH + 1).min(self.counts.len())
    }

    fn location(&self, bin: usize) -> f64 {
        let messages: f64 = self.counts[self.window(bin)].iter().sum();
        self.sums[self.window(bin)].iter().sum::<f64>() / messages.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::samples::latency_histogram;
    use proptest::prelude::*;

    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng as _;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = latency_histogram();
        values.into_iter().for_each(|value| histogram.saturating_record(value));
        histogram
    }

    /// `count` values around `centre` with a standard deviation of about `spread` (sums of uniform numbers).
    fn cloud(centre: f64, spread: f64, count: usize, seed: u64) -> Vec<u64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut one = || centre * (1.0 + spread * (0..4).map(|_| random.random_range(-0.5..0.5)).sum::<f64>());
        (0..count).map(|_| one() as u64).collect()
    }

    #[test]
    fn two_clouds_are_two_modes_with_their_shares() {
        let values = cloud(66_000.0, 0.1, 700, 1).into_iter().chain(cloud(13_000.0, 0.1, 300, 2));
        let found = modes(&histogram(values));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].share - 0.7).abs() < 1e-9 && (found[1].share - 0.3).abs() < 1e-9, "{found:?}");
        assert!((found[0].latency_ns / 66_000.0 - 1.0).abs() < 0.05, "{found:?}");
        assert!((found[1].latency_ns / 13_000.0 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn one_cloud_with_a_long_tail_is_one_mode_however_few_its_messages() {
        for seed in 0..200 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let tail = (0..30).map(|_| (20_000.0 * (1.0 + 20.0 * random.random_range(0.0..1.0_f64).powi(3))) as u64);
            let values: Vec<u64> = cloud(20_000.0, 0.2, 300, seed).into_iter().chain(tail).collect();
            assert_eq!(modes(&histogram(values)).len(), 1, "seed {seed}");
        }
    }

    #[test]
    fn a_peak_with_too_few_messages_or_too_near_is_not_a_mode() {
        let few = cloud(10_000.0, 0.05, 2000, 1).into_iter().chain(cloud(50_000.0, 0.05, 15, 2));
        assert_eq!(modes(&histogram(few)).len(), 1, "0.75 % of the messages");
        for first in (10_000..20_000).step_by(100) {
            // Three values: with only two, the gap between them would be taken for the clock's step.
            let values = |second: u64| [[first; 250], [first + 32; 250], [second; 250], [second; 250]].concat();
            let pair = |second: u64| modes(&histogram(values(second))).len();
            assert_eq!((pair(first * 118 / 100), pair(first * 130 / 100)), (1, 2), "18 % and 30 % above {first} ns");
        }
    }

    #[test]
    fn a_coarse_clock_creates_no_modes() {
        let values = (0..1000).map(|k| 120 + 40 * (k % 3));
        assert_eq!(modes(&histogram(values)).len(), 1);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_one(values in proptest::collection::vec(0_u64..u64::MAX, 1..300)) {
            let total: f64 = modes(&histogram(values)).iter().map(|mode| mode.share).sum();
            prop_assert!((total - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn an_empty_histogram_has_no_modes() {
        assert!(modes(&latency_histogram()).is_empty());
    }
}
