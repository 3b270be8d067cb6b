//! Maps the kernel's CLOCK_REALTIME timestamps to the engine's clock.
//!
//! A bracket is a reading of CLOCK_REALTIME between two readings of the engine's clock. Two brackets, one before and
//! one after the timestamps, define the map. The map is linear between the brackets. All processes of a machine share
//! CLOCK_REALTIME, so one map serves the timestamps of both ends.

use serde::{Deserialize, Serialize};

use hairpin_loops::clock::Clock;
use hairpin_loops::time::realtime_ns;

/// Number of attempts to read a bracket; the narrowest bracket is kept.
const READINGS: usize = 64;
/// The kernel adjusts the rate of CLOCK_REALTIME by at most 500 ppm (adjtimex(2)), 1 ns in this many, without a step.
const MAX_SLEW: u64 = 2000;

/// A reading of CLOCK_REALTIME between two readings of the engine's clock, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bracket {
    pub engine_before_ns: u64,
    /// CLOCK_REALTIME, in ns since 1970-01-01 UTC.
    pub realtime_ns: u64,
    pub engine_after_ns: u64,
}

impl Bracket {
    /// Reads both clocks several times and keeps the narrowest bracket.
    pub fn read(clock: &impl Clock) -> Self {
        Self::read_with(clock, realtime_ns)
    }

    /// Like [`Bracket::read`], with a function that reads CLOCK_REALTIME.
    pub fn read_with(clock: &impl Clock, realtime_ns: impl Fn() -> u64) -> Self {
        let one = || {
            let engine_before_ns = clock.now_ns();
            let realtime_ns = realtime_ns();
            Self { engine_before_ns, realtime_ns, engine_after_ns: clock.now_ns() }
        };
        (0..READINGS).map(|_| one()).min_by_key(Self::width_ns).expect("readings were made")
    }

    /// By how much CLOCK_REALTIME was set since the bracket `earlier`, in ns; `None` if the two clocks agree within the
    /// brackets' widths and the maximum slew.
    pub fn step_since(&self, earlier: &Self) -> Option<i64> {
        let offset = |bracket: &Self| i128::from(bracket.realtime_ns) - i128::from(bracket.middle_ns());
        let step_ns = offset(self) - offset(earlier);
        let slewed_ns = self.middle_ns().saturating_sub(earlier.middle_ns()) / MAX_SLEW;
        let known_to_ns = self.width_ns().saturating_add(earlier.width_ns()).saturating_add(slewed_ns);
        (step_ns.unsigned_abs() > known_to_ns.into()).then(|| i64::try_from(step_ns).unwrap_or(i64::MAX))
    }

    fn width_ns(&self) -> u64 {
        self.engine_after_ns.saturating_sub(self.engine_before_ns)
    }

    fn middle_ns(&self) -> u64 {
        self.engine_before_ns + self.width_ns() / 2
    }
}

/// Maps CLOCK_REALTIME to ns of the engine's clock since an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealtimeMap {
    before: Bracket,
    after: Bracket,
    origin_ns: u64,
}

impl RealtimeMap {
    /// The map through two brackets. Its results count from `origin_ns`, a time of the engine's clock.
    pub fn between(before: Bracket, after: Bracket, origin_ns: u64) -> Self {
        Self { before, after, origin_ns }
    }

    /// Converts a CLOCK_REALTIME in ns to engine time in ns since the origin; 0 for times before the origin.
    ///
    /// The map is linear between the brackets, which spreads a drift evenly. Outside the brackets, and if
    /// CLOCK_REALTIME was set back between them, the map uses the offset of the nearer bracket.
    pub fn engine_ns(&self, realtime_ns: u64) -> u64 {
        let (low, high) = (&self.before, &self.after);
        let engine_ns = if (low.realtime_ns..high.realtime_ns).contains(&realtime_ns) {
            let realtime_span = i128::from(high.realtime_ns) - i128::from(low.realtime_ns);
            let engine_span = i128::from(high.middle_ns()) - i128::from(low.middle_ns());
            let since_low = i128::from(realtime_ns) - i128::from(low.realtime_ns);
            i128::from(low.middle_ns()) + since_low * engine_span / realtime_span
        } else {
            let nearer = if realtime_ns.abs_diff(low.realtime_ns) < realtime_ns.abs_diff(high.realtime_ns) {
                low
            } else {
                high
            };
            i128::from(nearer.middle_ns()) + i128::from(realtime_ns) - i128::from(nearer.realtime_ns)
        };
        let since_origin = engine_ns - i128::from(self.origin_ns);
        u64::try_from(since_origin.max(0)).unwrap_or(u64::MAX)
    }

    /// Maximum error of a mapped time, in ns: half the width of the wider bracket plus the difference between the two
    /// offsets, because CLOCK_REALTIME may have been set at any time between the brackets.
    pub fn error_ns(&self) -> u64 {
        let half_width = self.before.width_ns().max(self.after.width_ns()).div_ceil(2);
        let offset = |bracket: &Bracket| i128::from(bracket.middle_ns()) - i128::from(bracket.realtime_ns);
        let disagreement = offset(&self.before).abs_diff(offset(&self.after));
        half_width.saturating_add(u64::try_from(disagreement).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_loops::clock::{ManualClock, RealClock};

    fn bracket(engine_before_ns: u64, realtime_ns: u64, engine_after_ns: u64) -> Bracket {
        Bracket { engine_before_ns, realtime_ns, engine_after_ns }
    }

    #[test]
    fn clocks_that_agree_are_mapped_by_their_offset() {
        let map = RealtimeMap::between(bracket(990, 5_000, 1_010), bracket(1_995, 6_000, 2_005), 0);
        assert_eq!(
            [4_500, 5_000, 5_500, 6_000, 7_000].map(|realtime| map.engine_ns(realtime)),
            [500, 1_000, 1_500, 2_000, 3_000]
        );
        assert_eq!(map.error_ns(), 10, "half of the wider bracket");
    }

    #[test]
    fn a_drift_is_spread_evenly_and_is_part_of_the_error() {
        let map = RealtimeMap::between(bracket(1_000, 5_000, 1_000), bracket(3_100, 7_000, 3_101), 0);
        assert_eq!([5_000, 6_000, 7_000].map(|realtime| map.engine_ns(realtime)), [1_000, 2_050, 3_100]);
        assert_eq!((map.engine_ns(4_000), map.engine_ns(8_000)), (0, 4_100), "the nearer offset applies");
        assert_eq!(map.error_ns(), 101);
    }

    #[test]
    fn the_error_covers_a_clock_that_was_set_back() {
        let map = RealtimeMap::between(bracket(1_000, 9_000, 1_000), bracket(2_000, 7_000, 2_000), 0);
        assert_eq!((map.engine_ns(9_500), map.engine_ns(6_900)), (1_500, 1_900));
        assert_eq!(map.error_ns(), 3_000);
        let same = RealtimeMap::between(bracket(1_000, 9_000, 1_000), bracket(2_000, 9_000, 2_000), 0);
        assert_eq!((same.engine_ns(9_000), same.error_ns()), (2_000, 1_000), "an empty span does not divide by zero");
    }

    #[test]
    fn times_count_from_the_origin_and_earlier_times_are_zero() {
        let map = RealtimeMap::between(bracket(1_000, 5_000, 1_000), bracket(2_000, 6_000, 2_000), 1_200);
        assert_eq!([5_199, 5_200, 5_201].map(|realtime| map.engine_ns(realtime)), [0, 0, 1]);
        let server = RealtimeMap::between(bracket(u64::MAX, 0, u64::MAX), bracket(u64::MAX, 1, u64::MAX), 0);
        assert_eq!(server.engine_ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_step_is_told_from_the_adjustment_of_the_rate() {
        let before = bracket(990, 5_000_000, 1_010);
        let step = |realtime_ns| bracket(10_000_990, realtime_ns, 10_001_010).step_since(&before);
        assert_eq!([step(15_000_000), step(15_005_040), step(14_994_960)], [None; 3], "10 ms at 500 ppm, and 40 ns");
        assert_eq!([step(15_005_041), step(14_994_959)], [Some(5_041), Some(-5_041)]);
        assert_eq!(step(0), Some(-15_000_000));
    }

    #[test]
    fn the_real_clocks_are_bracketed() {
        let clock = RealClock::calibrated();
        let (before, after) = (Bracket::read(&clock), Bracket::read(&clock));
        assert!(before.engine_before_ns <= before.engine_after_ns, "{before:?}");
        let map = RealtimeMap::between(before, after, before.engine_before_ns);
        let text = serde_json::to_string(&map).unwrap();
        assert_eq!(serde_json::from_str::<RealtimeMap>(&text).unwrap(), map);
        let manual = ManualClock::default();
        manual.advance(7);
        let read = Bracket::read(&manual);
        assert_eq!((read.engine_before_ns, read.engine_after_ns), (7, 7));
    }
}
