//! When a packet came, on the link's own time, from the kernel's stamp.

use crate::realtime::{Bracket, RealtimeMap};
use hairpin_loops::clock::Clock;

/// How long one comparison of the clocks holds: they drift apart by a few microseconds in that time at most.
const COMPARED_FOR_NS: u64 = 100_000_000;

/// Maps CLOCK_REALTIME to ns since the link started. It compares the clocks again and again, so that neither drift nor
/// a step of CLOCK_REALTIME lasts.
pub(super) struct Stamps<C> {
    clock: C,
    started_ns: u64,
    map: RealtimeMap,
    compared_ns: u64,
}

impl<C: Clock> Stamps<C> {
    /// The link starts now.
    pub(super) fn new(clock: C) -> Self {
        let bracket = Bracket::read(&clock);
        let started_ns = clock.now_ns();
        Self { clock, started_ns, map: RealtimeMap::between(bracket, bracket, started_ns), compared_ns: 0 }
    }

    /// When the link started, on the clock.
    pub(super) fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Now.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.started_ns)
    }

    /// Compares the clocks anew, where it is time.
    pub(super) fn refresh(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.compared_ns) >= COMPARED_FOR_NS {
            let bracket = Bracket::read(&self.clock);
            self.map = RealtimeMap::between(bracket, bracket, self.started_ns);
            self.compared_ns = now_ns;
        }
    }

    /// When a packet came that is there at `now_ns`.
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
    fn a_packet_never_comes_before_the_link_started_nor_later_than_it_is_there() {
        let clock = ManualClock::default();
        clock.advance(1_000);
        let mut stamps = Stamps::new(clock.clone());
        assert_eq!((stamps.started_ns(), stamps.now_ns()), (1_000, 0));
        clock.advance(COMPARED_FOR_NS);
        assert_eq!(stamps.arrived_ns(0, 7), 0);
        assert_eq!(stamps.arrived_ns(u64::MAX, 7), 7);
        // The manual clock went on and CLOCK_REALTIME did not: the next comparison sees it.
        let now_ns = stamps.now_ns();
        stamps.refresh(now_ns);
        assert_eq!(stamps.arrived_ns(realtime_ns(), now_ns), now_ns);
    }
}
