//! Sums of intervals of time.

use std::ops::Range;

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::trace::End;

use super::connection::{Connection, Exchange};

/// Intervals of time, which may overlap, with the sums of the beginnings and the ends before each.
pub(super) struct Times {
    began: Vec<(u64, i128)>,
    ended: Vec<(u64, i128)>,
}

impl Times {
    pub(super) fn of<'p>(
        exchanges: impl Iterator<Item = (&'p Connection, &'p Exchange)>,
        states: &[ExchangeState],
        end: End,
    ) -> Self {
        let (mut began, mut ended) = (Vec::new(), Vec::new());
        for (_, exchange) in exchanges {
            for span in exchange.spans_in(states).filter(|span| span.who.end() == Some(end)) {
                began.push(exchange.extent.began_ns + span.from_ns);
                ended.push(exchange.extent.began_ns + span.until_ns);
            }
        }
        Self::new(began, ended)
    }

    fn new(began: Vec<u64>, ended: Vec<u64>) -> Self {
        let [began, ended] = [began, ended].map(|mut all| {
            all.sort_unstable();
            let mut sum = 0;
            let with_sum = |at_ns| {
                sum += i128::from(at_ns);
                (at_ns, sum)
            };
            all.into_iter().map(with_sum).collect()
        });
        Self { began, ended }
    }

    pub(super) fn within(&self, during: Range<u64>) -> f64 {
        let before = |all: &[(u64, i128)], ns: u64| {
            let count = all.partition_point(|(at_ns, _)| *at_ns < ns);
            let sum = count.checked_sub(1).map_or(0, |last| all[last].1);
            i128::try_from(count).unwrap_or(i128::MAX).saturating_mul(ns.into()) - sum
        };
        let until = |ns: u64| before(&self.began, ns) - before(&self.ended, ns);
        (until(during.end) - until(during.start)).max(0) as f64
    }

    pub(super) fn total_ns(&self) -> f64 {
        let sum = |all: &[(u64, i128)]| all.last().map_or(0, |(_, sum)| *sum);
        (sum(&self.ended) - sum(&self.began)) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_times_are_added() {
        let two = Times::new(vec![20, 10], vec![40, 30]);
        let all = [0..10, 10..20, 20..30, 25..100, 0..100].map(|during| two.within(during));
        assert_eq!((all, two.total_ns()), ([0.0, 10.0, 20.0, 20.0, 40.0], 40.0));
    }
}
