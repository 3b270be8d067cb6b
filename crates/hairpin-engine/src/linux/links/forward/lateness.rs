//! The lateness of sent packets, and the margins for waking up in time.

use hairpin_model::LatenessNs;
use hairpin_model::samples::{MAX_LATENCY_NS, latency_histogram};
use hdrhistogram::Histogram;

/// Lateness above which the relay counts as stalled.
const MIN_STALL_NS: u64 = 100_000;

/// Release time minus due time of every packet, and the total time of stalls.
pub(super) struct Lateness {
    histogram: Histogram<u64>,
    round_trip_ns: u64,
    stalled_ns: u64,
    /// End of the last stall.
    stalled_until_ns: u64,
}

impl Lateness {
    pub(super) fn new(round_trip_ns: u64) -> Self {
        Self { histogram: latency_histogram(), round_trip_ns, stalled_ns: 0, stalled_until_ns: 0 }
    }

    /// Records a packet that was sent at `released_ns`, `late_ns` after it was due.
    pub(super) fn record(&mut self, late_ns: u64, released_ns: u64) {
        self.histogram.saturating_record(late_ns.clamp(1, MAX_LATENCY_NS));
        if late_ns > MIN_STALL_NS {
            // One stall delays several packets.
            let began_ns = released_ns.saturating_sub(late_ns).max(self.stalled_until_ns);
            let share = late_ns as f64 / late_ns.saturating_add(self.round_trip_ns) as f64;
            self.stalled_ns += (released_ns.saturating_sub(began_ns) as f64 * share) as u64;
            self.stalled_until_ns = self.stalled_until_ns.max(released_ns);
        }
    }

    /// The time that stalls can take from a rate. The stages keep their schedule, so a stall of `L` lengthens the round
    /// trip `R` of the packets in it, which lowers the rate by at most `L / (L + R)` for that time.
    pub(super) fn stalled_ns(&self) -> u64 {
        self.stalled_ns
    }

    /// The figures; `None` if no packet was sent.
    pub(super) fn figures(&self) -> Option<LatenessNs> {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        (!self.histogram.is_empty()).then(|| LatenessNs { p50: at(0.5), p99: at(0.99), max: self.histogram.max() })
    }
}

/// Waits of at least this length let the CPU enter deeper sleep states, which take longer to leave.
const LONG_NS: u64 = 5_000_000;
/// Number of wake-ups within the margin for each wake-up later than the margin: one in twenty is late.
const LATE_STEPS: u64 = 19;
/// Decrease of a margin after a wake-up in time. A late wake-up raises the margin by [`LATE_STEPS`] steps.
const STEP_NS: u64 = 1_000;
/// Limits of the margins: smaller margins save nothing, and larger ones would use too much CPU for spinning.
const MARGINS_NS: std::ops::RangeInclusive<u64> = 20_000..=300_000;

/// The times before a due packet at which the relay stops waiting and spins, for short waits and for long waits. The
/// margins adapt to the lateness of wake-ups.
pub(super) struct Margins {
    short_ns: u64,
    long_ns: u64,
}

impl Margins {
    /// Starting values, measured on one machine.
    pub(super) fn new() -> Self {
        Self { short_ns: 100_000, long_ns: 250_000 }
    }

    /// How long to wait for an event due in `ahead_ns`; 0 to spin.
    pub(super) fn wait_ns(&self, ahead_ns: u64) -> u64 {
        let margin_ns = if ahead_ns < LONG_NS { self.short_ns } else { self.long_ns };
        ahead_ns.saturating_sub(margin_ns)
    }

    /// Adapts the margin after a wait of `asked_ns` for an event due in `ahead_ns` that took `took_ns`. Ignores waits
    /// that a packet ended early, and wake-ups later than any margin, because the CPU was busy.
    pub(super) fn on_wake(&mut self, ahead_ns: u64, asked_ns: u64, took_ns: u64) {
        let over_ns = took_ns.checked_sub(asked_ns).filter(|over_ns| asked_ns > 0 && over_ns <= MARGINS_NS.end());
        let Some(over_ns) = over_ns else { return };
        let margin_ns = if ahead_ns < LONG_NS { &mut self.short_ns } else { &mut self.long_ns };
        let next_ns =
            if over_ns > *margin_ns { *margin_ns + LATE_STEPS * STEP_NS } else { margin_ns.saturating_sub(STEP_NS) };
        *margin_ns = next_ns.clamp(*MARGINS_NS.start(), *MARGINS_NS.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_recorded() {
        let mut lateness = Lateness::new(0);
        assert_eq!(lateness.figures(), None, "no packet was sent");
        (1..=100).for_each(|late_ns| lateness.record(late_ns, 0));
        lateness.record(0, 0);
        assert_eq!(lateness.figures(), Some(LatenessNs { p50: 50, p99: 99, max: 100 }));
        lateness.record(u64::MAX, 0);
        assert!(lateness.figures().unwrap().max >= MAX_LATENCY_NS);
    }

    #[test]
    fn a_stall_takes_less_from_a_rate_over_a_longer_round_trip() {
        let stalled_ns = |round_trip_ns: u64| {
            let mut lateness = Lateness::new(round_trip_ns);
            lateness.record(90_000, 1_000_000);
            // One stall of 600 us delays two packets.
            lateness.record(600_000, 2_000_000);
            lateness.record(500_000, 2_000_000);
            lateness.stalled_ns()
        };
        assert_eq!([0, 600_000, 5_400_000].map(stalled_ns), [600_000, 300_000, 60_000]);
    }

    #[test]
    fn a_margin_settles_so_that_one_wake_up_in_twenty_is_later() {
        let mut margins = Margins::new();
        assert_eq!(margins.wait_ns(100_000), 0);
        assert_eq!(margins.wait_ns(101_000), 1_000);
        assert_eq!(margins.wait_ns(LONG_NS), LONG_NS - 250_000);
        // Wake-ups late by 0, 1, ... 199 us, in a scattered order.
        for turn in 0..10_000_u64 {
            margins.on_wake(1_000_000, 900_000, 900_000 + turn * 77 % 200 * 1_000);
        }
        assert!((150_000..220_000).contains(&margins.short_ns), "{}", margins.short_ns);
        margins.on_wake(LONG_NS, 1_000, 999);
        margins.on_wake(LONG_NS, 0, 1_000_000);
        assert_eq!(margins.long_ns, 250_000, "these wake-ups are ignored");
    }

    #[test]
    fn margins_stay_within_their_bounds() {
        let mut margins = Margins::new();
        (0..1_000).for_each(|_| margins.on_wake(1_000_000, 900_000, 900_000));
        (0..1_000).for_each(|_| margins.on_wake(LONG_NS, 1, u64::MAX));
        assert_eq!((margins.short_ns, margins.long_ns), (20_000, 250_000), "the CPU was busy");
        (0..1_000).for_each(|_| margins.on_wake(LONG_NS, 1, 300_001));
        assert_eq!((margins.short_ns, margins.long_ns), (20_000, 299_000), "the margin oscillates at its limit");
    }
}
