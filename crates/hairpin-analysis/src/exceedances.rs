//! The probability that a message takes longer than a bound, over the rounds of a case.

use hairpin_model::rare_events::{Blocks, clustering, event_share};
use hairpin_model::{Exceeds, Figure, Samples};

const BLOCK_MESSAGES: usize = 32;

/// The messages of a case that took longer than the bound, over all its rounds: a round is not left out because something
/// delayed its messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exceedances {
    messages: u64,
    exceeded: u64,
    /// Counts in consecutive blocks of each round's raw samples.
    by_round: Vec<Vec<u64>>,
}

impl Exceedances {
    /// Adds a round. A message without an answer exceeds every bound.
    pub(crate) fn add(&mut self, samples: &Samples, bound_ns: u64) {
        let exceeds = |row: usize| samples.latency_ns(row).is_none_or(|latency_ns| latency_ns > bound_ns);
        let exceeded: Vec<bool> = (samples.warm_up.min(samples.kept())..samples.kept()).map(exceeds).collect();
        let count = |rows: &[bool]| rows.iter().filter(|exceeded| **exceeded).count();
        let (raw, in_raw) = (exceeded.len() as u64, count(&exceeded) as u64);
        // Messages beyond the raw samples are only in the histogram, whose buckets are up to 0.1 % wide.
        let in_all = samples.latency.len() - samples.latency.count_between(0, bound_ns);
        self.messages += raw.max(samples.measured);
        self.exceeded += if raw < samples.measured { in_all.max(in_raw) } else { in_raw };
        self.by_round.push(exceeded.chunks_exact(BLOCK_MESSAGES).map(|block| count(block) as u64).collect());
    }

    /// Returns the probability; `None` without messages.
    pub(crate) fn exceeds(&self, bound_ns: u64, alpha: f64) -> Option<Exceeds> {
        let blocks = self.by_round.iter().map(|round| Blocks { trials: BLOCK_MESSAGES as u64, events: round });
        let share = event_share(self.exceeded, self.messages, clustering(blocks), alpha);
        let probability = Figure::new(share.value, share.low, share.high);
        (self.messages > 0).then_some(Exceeds { bound_ns, probability, effective_samples: share.effective_trials })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::back_to_back;

    #[test]
    fn lost_messages_exceed_every_bound() {
        let mut samples = back_to_back(&[9_000; 10], &[[1_000; 99].as_slice(), &[5_000]].concat());
        samples.fate[20] = hairpin_model::samples::Fate::Lost;
        let mut exceedances = Exceedances::default();
        assert_eq!(exceedances.exceeds(1_000, 0.05), None);
        exceedances.add(&samples, 1_000);
        let exceeds = exceedances.exceeds(1_000, 0.05).unwrap();
        assert_eq!((exceeds.bound_ns, exceeds.probability.value, exceeds.effective_samples), (1_000, 0.02, 100.0));
    }

    #[test]
    fn messages_beyond_the_raw_samples_count() {
        let mut samples = back_to_back(&[], &[1_000; 64]);
        (0..36).for_each(|_| samples.latency.saturating_record(2_000_000));
        samples.measured = 100;
        let mut exceedances = Exceedances::default();
        exceedances.add(&samples, 1_000_000);
        assert_eq!(exceedances.exceeds(1_000_000, 0.05).unwrap().probability.value, 0.36);
    }

    #[test]
    fn exceedances_in_clusters_widen_the_interval() {
        let interval = |latencies: Vec<u64>| {
            let mut exceedances = Exceedances::default();
            (0..10).for_each(|_| exceedances.add(&back_to_back(&[], &latencies), 1_000));
            exceedances.exceeds(1_000, 0.05).unwrap()
        };
        let spread = interval((0..3_200).map(|row| if row % 160 == 5 { 2_000 } else { 500 }).collect());
        let clustered = interval((0..3_200).map(|row| if row < 20 { 2_000 } else { 500 }).collect());
        assert_eq!(spread.probability.value, clustered.probability.value);
        assert_eq!(spread.effective_samples, 32_000.0);
        assert!(clustered.effective_samples < 32_000.0 / 15.0, "{clustered:?}");
        assert!(clustered.probability.high > spread.probability.high);
    }
}
