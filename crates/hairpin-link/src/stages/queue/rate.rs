//! Transmission at a rate: a packet of S bytes takes 8 S / rate seconds to send.
//!
//! While the line stays busy, the end of each packet is exact to a fraction of a nanosecond: the remainder of the
//! division by the rate is carried over to the next packet, so rounding errors do not accumulate.

use super::service::Service;

/// Bits per byte times ns per second.
const BIT_NS: u64 = 8_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    bits_per_s: u64,
    /// End of the last packet, rounded down to ns.
    through_ns: u64,
    /// The part that was rounded off from `through_ns`: `remainder / bits_per_s` ns.
    remainder: u64,
}

impl Rate {
    /// Creates an idle line.
    pub(super) fn new(bits_per_s: u64) -> Self {
        Self { bits_per_s: bits_per_s.max(1), through_ns: 0, remainder: 0 }
    }
}

impl Service for Rate {
    fn send(&mut self, size_bytes: u32, now_ns: u64) -> u64 {
        if now_ns > self.through_ns {
            self.remainder = 0;
        }
        let work = u64::from(size_bytes).saturating_mul(BIT_NS).saturating_add(self.remainder);
        self.remainder = work % self.bits_per_s;
        self.through_ns = now_ns.saturating_add(work / self.bits_per_s);
        self.through_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::tests::fixture::{departures, fates, packets};

    #[test]
    fn simultaneous_packets_leave_one_transmission_time_apart() {
        // 1500 B take 1 ms at 12 Mbit/s.
        let left = departures(&fates("rate=12mbit", &packets([(7, 1500); 4])));
        assert_eq!(left, [(0, 1_000_007), (1, 2_000_007), (2, 3_000_007), (3, 4_000_007)]);
    }

    #[test]
    fn a_million_packets_do_not_drift() {
        // 1500 B take 1714285.714... ns at 7 Mbit/s.
        let mut arrivals = (0..1_000_000_u64).map(|number| number * 1_714_285);
        let mut rate = super::Rate::new(7_000_000);
        let mut through_ns = 0;
        for _ in 0..1_000_000 {
            let now_ns = arrivals.next().unwrap().max(through_ns);
            through_ns = super::Service::send(&mut rate, 1500, now_ns);
        }
        assert_eq!(through_ns, 12_000 * 1_000_000 * 1_000_000_000 / 7_000_000);
    }

    proptest! {
        /// The closed form, in exact fractions of a ns: sending of a packet starts at its arrival or at the end of the
        /// previous packet, whichever is later, and takes its transmission time.
        #[test]
        fn departures_follow_lindleys_recursion(
            bits_per_s in 1_000_u64..2_000_000_000,
            packets_in in prop::collection::vec((0_u64..3_000_000, 1_u32..=1500), 1..80),
        ) {
            let mut at_ns = 0;
            let arrivals: Vec<(u64, u32)> = packets_in.iter().map(|(gap_ns, size)| { at_ns += gap_ns; (at_ns, *size) }).collect();
            // In units of 1 / rate ns, times are integers.
            let rate = u128::from(bits_per_s);
            let mut end = 0_u128;
            let expected: Vec<(u64, u64)> = (0..).zip(&arrivals).map(|(number, (at_ns, size))| {
                end = end.max(u128::from(*at_ns) * rate) + u128::from(*size) * 8 * 1_000_000_000;
                (number, u64::try_from(end / rate).unwrap())
            }).collect();
            let line = format!("rate={bits_per_s}bit");
            prop_assert_eq!(departures(&fates(&line, &packets(arrivals))), expected);
        }
    }
}
