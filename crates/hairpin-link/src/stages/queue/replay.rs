//! Replays a [`Trace`]. A packet leaves at the opportunity that carries its last byte. The rest of this opportunity
//! carries the next packet if that packet is already waiting; otherwise the rest is lost.
//!
//! An opportunity carries 1500 bytes of IP packets. In mahimahi an opportunity carries 1504 bytes, because mahimahi's
//! packets include a TUN header of four bytes.

use super::service::Service;
use crate::trace::{OPPORTUNITY_BYTES, Trace};

const NS_PER_MS: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub(super) struct Replay {
    trace: Trace,
    /// Number of times that the trace was restarted.
    repeats: u64,
    /// Index of the current opportunity.
    at: usize,
    /// Number of bytes that the current opportunity can still carry.
    left_bytes: u32,
}

impl Replay {
    /// Starts the trace at time 0.
    pub(super) fn new(trace: &Trace) -> Self {
        Self { trace: trace.clone(), repeats: 0, at: 0, left_bytes: OPPORTUNITY_BYTES }
    }

    fn at_ns(&self) -> u64 {
        let ms =
            self.repeats.saturating_mul(self.trace.period_ms()).saturating_add(self.trace.opportunities_ms[self.at]);
        ms.saturating_mul(NS_PER_MS)
    }

    fn next(&mut self) {
        self.left_bytes = OPPORTUNITY_BYTES;
        self.at += 1;
        if self.at == self.trace.opportunities_ms.len() {
            self.at = 0;
            self.repeats += 1;
        }
    }

    fn skip_to(&mut self, now_ns: u64) {
        let now_ms = now_ns.div_ceil(NS_PER_MS);
        let period_ms = self.trace.period_ms();
        self.repeats = now_ms.div_ceil(period_ms).saturating_sub(1);
        let in_period_ms = now_ms - self.repeats * period_ms;
        self.at = self.trace.opportunities_ms.partition_point(|at_ms| *at_ms < in_period_ms);
        self.left_bytes = OPPORTUNITY_BYTES;
    }
}

impl Service for Replay {
    fn send(&mut self, size_bytes: u32, now_ns: u64) -> u64 {
        if self.at_ns() < now_ns {
            self.skip_to(now_ns);
        }
        let mut unsent = size_bytes;
        loop {
            if self.left_bytes == 0 {
                self.next();
            }
            let sent = unsent.min(self.left_bytes);
            self.left_bytes -= sent;
            unsent -= sent;
            if unsent == 0 {
                return self.at_ns();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::link::Link;
    use crate::simulate::simulate;
    use crate::tests::fixture::{SEED, departures, packets};

    fn left(trace: &str, arrivals: &[(u64, u32)]) -> Vec<(u64, u64)> {
        let profile = "replay=made-up queue=1000packets".parse().unwrap();
        let traces = [("made-up".to_owned(), Trace::parse(trace).unwrap())];
        let mut link = Link::new(&profile, SEED, &traces).unwrap();
        let outcomes: Vec<_> =
            simulate(&mut link, &packets(arrivals.iter().copied())).into_iter().map(|line| line.outcome).collect();
        departures(&outcomes)
    }

    #[test]
    fn a_packet_leaves_at_the_opportunity_that_carries_its_last_byte() {
        const MS: u64 = 1_000_000;
        // Two opportunities at 3 ms. The trace restarts at 5 ms, so its first opportunity repeats at 6 ms.
        let trace = "1\n3\n3\n5\n";
        let arrivals = [(0, 1500), (0, 1000), (0, 1000), (0, 1000), (0, 1500), (0, 1500)];
        let expected = [(0, MS), (1, 3 * MS), (2, 3 * MS), (3, 3 * MS), (4, 5 * MS), (5, 6 * MS)];
        assert_eq!(left(trace, &arrivals), expected);
    }

    #[test]
    fn the_rest_of_an_opportunity_is_lost_when_nothing_waits() {
        assert_eq!(left("1\n2\n", &[(0, 100), (1_000_001, 100)]), [(0, 1_000_000), (1, 2_000_000)]);
    }

    proptest! {
        /// An independent model, like mahimahi: each opportunity in turn carries bytes of waiting packets.
        #[test]
        fn equals_a_walk_through_every_opportunity(
            gaps_ms in prop::collection::vec(0_u64..4, 1..20),
            arriving in prop::collection::vec((0_u64..6_000_000, 1_u32..=1500), 1..30),
        ) {
            let mut at_ms = 1;
            let stamps: Vec<u64> = gaps_ms.iter().map(|gap| { at_ms += gap; at_ms }).collect();
            let mut at_ns = 0;
            let arrivals: Vec<(u64, u32)> = arriving.iter().map(|(gap, size)| { at_ns += gap; (at_ns, *size) }).collect();
            let mut waiting: std::collections::VecDeque<(u64, u64, u32)> =
                (0..).zip(&arrivals).map(|(number, (at_ns, size))| (number, *at_ns, *size)).collect();
            let mut expected = Vec::new();
            let period = *stamps.last().unwrap();
            for opportunity_ms in (0..).flat_map(|turn| stamps.iter().map(move |stamp| turn * period + stamp)) {
                let now_ns = opportunity_ms * 1_000_000;
                let mut budget = 1500;
                while let Some((number, _, unsent)) = waiting.front_mut().filter(|(_, came_ns, _)| *came_ns <= now_ns) {
                    let sent = budget.min(*unsent);
                    *unsent -= sent;
                    budget -= sent;
                    if *unsent > 0 { break }
                    expected.push((*number, now_ns));
                    waiting.pop_front();
                }
                if waiting.is_empty() { break }
            }
            let text: String = stamps.iter().map(|stamp| format!("{stamp}\n")).collect();
            prop_assert_eq!(left(&text, &arrivals), expected);
        }
    }
}
