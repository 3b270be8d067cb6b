//! Measures how even the gaps between messages are.

use hairpin_model::samples::{MAX_LATENCY_NS, latency_histogram};
use hairpin_model::{GapPercentiles, PacingError};
use hdrhistogram::Histogram;

/// Gaps between messages that were due at different times.
#[derive(Debug)]
pub(super) struct Gaps {
    pub(super) nominal_ns: f64,
    gaps: Histogram<u64>,
    below_half: u64,
    last_ns: Option<u64>,
}

impl Gaps {
    pub(super) fn new(nominal_ns: f64) -> Self {
        Self { nominal_ns, gaps: latency_histogram(), below_half: 0, last_ns: None }
    }

    /// Records a message and its intended gap. Skips a message that was due at the same time as the previous one.
    #[inline]
    pub(super) fn note(&mut self, at_ns: u64, due_apart_ns: f64) {
        if due_apart_ns <= 0.0 {
            return;
        }
        if let Some(last_ns) = self.last_ns {
            let gap_ns = at_ns.saturating_sub(last_ns);
            self.gaps.saturating_record(gap_ns.clamp(1, MAX_LATENCY_NS));
            self.below_half += u64::from((gap_ns as f64) < due_apart_ns / 2.0);
        }
        self.last_ns = Some(at_ns);
    }

    pub(super) fn error(self) -> PacingError {
        let gaps = self.gaps.len();
        let at = |quantile| if gaps == 0 { 0.0 } else { self.gaps.value_at_quantile(quantile) as f64 };
        PacingError {
            gaps,
            nominal_ns: self.nominal_ns,
            gap_ns: GapPercentiles { p50: at(0.5), p99: at(0.99), p999: at(0.999) },
            share_below_half: if gaps == 0 { 0.0 } else { self.below_half as f64 / gaps as f64 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_compared_with_the_intended_gaps_and_ignored_within_bursts() {
        let mut gaps = Gaps::new(100.0);
        for (at_ns, due_apart_ns) in
            [(1000, 100.0), (1100, 100.0), (1101, 0.0), (1102, 0.0), (1149, 100.0), (1249, 250.0)]
        {
            gaps.note(at_ns, due_apart_ns);
        }
        let error = gaps.error();
        assert_eq!((error.gaps, error.gap_ns.p50, error.gap_ns.p999), (3, 100.0, 100.0));
        assert_eq!(error.share_below_half, 2.0 / 3.0, "49 ns instead of 100 ns, and 100 ns instead of 250 ns");
    }

    #[test]
    fn without_gaps_the_share_of_short_gaps_is_zero() {
        let mut gaps = Gaps::new(100.0);
        gaps.note(5, 100.0);
        assert_eq!(gaps.error(), PacingError { nominal_ns: 100.0, ..PacingError::default() });
    }
}
