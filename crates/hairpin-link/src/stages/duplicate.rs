//! Sends a copy after a packet, with a given probability.
//!
//! The copy leaves directly behind the packet, at the same time, and has its own random numbers in later stages. A
//! copy is not copied again. Source: netem's `duplicate` (Linux net/sched/sch_netem.c); RFC 5560 defines which
//! packets a receiver counts as duplicates.

use crate::generator::Generator;
use crate::packet::InFlight;
use crate::quantity::{Share, share, shown_share};
use crate::stage::{Card, Outbox, Stage};
use crate::word::Word;

pub const CARD: Card = Card {
    name: "duplicate",
    models: "a medium that repeats packets",
    words: &[Word {
        name: "duplicate",
        example: "duplicate=1%",
        says: "the share of packets that are followed by a copy",
        read: |path, value| share(value).map(|share| path.duplicate = share),
        shown: |path| (path.duplicate > Share::NONE).then(|| shown_share(path.duplicate)),
        about: None,
    }],
    reasons: &[],
    check: |_, _| None,
    figures: |path, _| {
        (path.duplicate > Share::NONE).then(|| format!("{} of packets sent twice", shown_share(path.duplicate)))
    },
    build: |path, site| {
        let duplicate = Duplicate { share: path.duplicate, generator: site.generator("duplicate") };
        (duplicate.share > Share::NONE).then(|| Box::new(duplicate) as Box<dyn Stage>)
    },
};

#[derive(Clone, Copy, Debug)]
struct Duplicate {
    share: Share,
    generator: Generator,
}

impl Stage for Duplicate {
    fn arrive(&mut self, packet: InFlight, _now_ns: u64, out: &mut Outbox) {
        if self.generator.draws_for(&packet).happens(self.share) {
            out.pass_twice(packet);
        } else {
            out.pass(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::fixture::{assert_binomial, fates, stream};

    #[test]
    fn a_copy_follows_right_behind_its_packet_and_the_share_is_binomial() {
        let outcomes = fates("duplicate=5%", &stream(50_000, 1000));
        let copies = outcomes.iter().filter(|outcome| outcome.copy == 1).count();
        assert_binomial(copies, 50_000, 0.05);
        assert_eq!(outcomes.len(), 50_000 + copies);
        for pair in outcomes.windows(2).filter(|pair| pair[1].copy == 1) {
            assert_eq!((pair[0].number, pair[0].copy, pair[0].fate), (pair[1].number, 0, pair[1].fate));
            assert_eq!((pair[0].outcomes, pair[1].outcomes), (2, 2));
        }
        let single = outcomes.iter().filter(|outcome| outcome.outcomes == 1).count();
        assert_eq!(single, 50_000 - copies);
    }

    #[test]
    fn a_copy_has_its_own_delay_and_is_not_copied_again() {
        let outcomes = fates("duplicate=100% delay=10ms±5ms order=free", &stream(1000, 20_000_000));
        assert_eq!(outcomes.len(), 2000);
        let mut times: Vec<u64> = outcomes.iter().map(|outcome| outcome.fate.at_ns()).collect();
        times.dedup();
        assert!(times.len() > 1990, "copies and packets leave at different times");
    }
}
