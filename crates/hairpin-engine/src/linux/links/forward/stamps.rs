//! Arrival times of packets on the link's clock, from the kernel's timestamps.

use crate::realtime::{Bracket, RealtimeMap};
use hairpin_loops::clock::Clock;

/// How long a comparison of the clocks is valid, in ns. In this time the clocks drift by at most a few microseconds.
const COMPARED_FOR_NS: u64 = 100_000_000;

/// Maps CLOCK_REALTIME to ns since the link started. Compares the clocks regularly, to correct for drift and steps of
/// CLOCK_REALTIME.
pub(super) struct Stamps<C> {
    clock: C,
    started_ns: u64,
    map: RealtimeMap,
    compared_ns: u64,
}

impl<C: Clock> Stamps<C> {
    /// Starts the link's time.
    pub(super) fn new(clock: C) -> Self {
        let bracket = Bracket::read(&clock);
        let started_ns = clock.now_ns();
        Self { clock, started_ns, map: RealtimeMap::between(bracket, bracket, started_ns), compared_ns: 0 }
    }

    /// When the link started, in ns of the clock.
    pub(super) fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Time since the link started.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.started_ns)
    }

    /// Compares the clocks again if the last comparison is no longer valid.
    pub(super) fn refresh(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.compared_ns) >= COMPARED_FOR_NS {
            let bracket = Bracket::read(&self.clock);
            self.map = RealtimeMap::between(bracket, bracket, self.started_ns);
            self.compared_ns = now_ns;
        }
    }

    /// The arrival time of a packet that is available at `now_ns`.
    pub(super) fn arrived_ns(&self, realtime_ns: u64, now_ns: u64) -> u64 {
        self.map.engine_ns(realtime_ns).min(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_loops::clock::ManualClock;
    use hairpin_loops::time::realtime_ns;

    #[test]
    fn a_packet_arrives_after_the_link_started_and_not_in_the_future() {
        let clock = ManualClock::default();
        clock.advance(1_000);
        let mut stamps = Stamps::new(clock.clone());
        assert_eq!((stamps.started_ns(), stamps.now_ns()), (1_000, 0));
        clock.advance(COMPARED_FOR_NS);
        assert_eq!(stamps.arrived_ns(0, 7), 0);
        assert_eq!(stamps.arrived_ns(u64::MAX, 7), 7);
        // The manual clock advanced and CLOCK_REALTIME did not: the next comparison corrects the difference.
        let now_ns = stamps.now_ns();
        stamps.refresh(now_ns);
        assert_eq!(stamps.arrived_ns(realtime_ns(), now_ns), now_ns);
    }
}
