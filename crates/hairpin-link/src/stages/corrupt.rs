//! Flips one random bit of the packet, with a given probability.
//!
//! Every bit of the IP packet is equally likely, including headers. The receiver's kernel drops a packet whose
//! checksum is wrong, as in real networks; the link itself counts the packet as out. Source: netem's `corrupt` (Linux
//! net/sched/sch_netem.c), which flips one bit of the first fragment.

use crate::generator::Generator;
use crate::packet::InFlight;
use crate::quantity::{Share, share, shown_share};
use crate::stage::{Card, Outbox, Stage};
use crate::word::Word;

pub const CARD: Card = Card {
    name: "corrupt",
    models: "a medium that damages packets",
    words: &[Word {
        name: "corrupt",
        example: "corrupt=0.01%",
        says: "the share of packets in which one random bit is flipped",
        read: |path, value| share(value).map(|share| path.corrupt = share),
        shown: |path| (path.corrupt > Share::NONE).then(|| shown_share(path.corrupt)),
        about: None,
    }],
    reasons: &[],
    check: |_, _| None,
    figures: |path, _| {
        (path.corrupt > Share::NONE).then(|| format!("one bit flipped in {} of packets", shown_share(path.corrupt)))
    },
    build: |path, site| {
        let corrupt = Corrupt { share: path.corrupt, generator: site.generator("corrupt") };
        (corrupt.share > Share::NONE).then(|| Box::new(corrupt) as Box<dyn Stage>)
    },
};

#[derive(Clone, Copy, Debug)]
struct Corrupt {
    share: Share,
    generator: Generator,
}

impl Stage for Corrupt {
    fn arrive(&mut self, packet: InFlight, _now_ns: u64, out: &mut Outbox) {
        let mut draws = self.generator.draws_for(&packet);
        if draws.happens(self.share) {
            let bits = u64::from(packet.packet.size_bytes) * 8;
            let bit = u32::try_from(draws.below(bits)).unwrap_or(0);
            out.pass_corrupted(packet, bit);
        } else {
            out.pass(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::packet::Fate;
    use crate::tests::fixture::{assert_binomial, fates, packets, stream};

    fn bits(line: &str, arrivals: &[crate::simulate::Arrival]) -> Vec<u32> {
        let bit = |outcome: crate::packet::Outcome| match outcome.fate {
            Fate::Leaves { corrupted_bit, .. } => corrupted_bit,
            Fate::Dropped { .. } | Fate::Inside { .. } => None,
        };
        fates(line, arrivals).into_iter().filter_map(bit).collect()
    }

    #[test]
    fn the_share_is_binomial_and_every_bit_of_the_packet_is_equally_likely() {
        let bits = bits("corrupt=20%", &stream(50_000, 1000));
        assert_binomial(bits.len(), 50_000, 0.2);
        let hits = u64::try_from(bits.len()).unwrap();
        // The headers of TCP over IPv4 are 40 of 1500 bytes. All eight bits of a byte are equally likely.
        assert_binomial(bits.iter().filter(|bit| **bit < 40 * 8).count(), hits, 40.0 / 1500.0);
        assert_binomial(bits.iter().filter(|bit| **bit % 8 == 7).count(), hits, 0.125);
        assert!(bits.iter().all(|bit| *bit < 1500 * 8));
    }

    #[test]
    fn shares_of_0_and_100_percent_and_the_smallest_packets() {
        assert_eq!(bits("corrupt=100%", &packets([(0, 1), (1, 1)])).len(), 2);
        assert!(bits("corrupt=100%", &packets((0..100).map(|at| (at, 1)))).iter().all(|bit| *bit < 8));
        assert_eq!(bits("corrupt=100%", &packets([(0, 0)])), [0]);
        assert_eq!(bits("corrupt=0%", &stream(100, 1)), [0; 0]);
    }
}
