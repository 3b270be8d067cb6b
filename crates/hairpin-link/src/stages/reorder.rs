//! Holds back packets with a given probability, so that later packets overtake them.
//!
//! This models a detour: a second route, or a retransmission by the link layer below IP. A packet counts as reordered
//! if it leaves after a packet that arrived later (RFC 4737, section 3.3); a held packet that no packet overtakes
//! does not count. netem's `reorder` is the opposite: its chosen packets skip the delay.

use hairpin_model::Refused;

pub use crate::figures::Reorder;

use crate::figures::PathProfile;
use crate::generator::Generator;
use crate::held::{Due, Holding};
use crate::packet::InFlight;
use crate::quantity::{Share, share, shown_share, shown_time, time_ns};
use crate::stage::{Card, Contradiction};
use crate::word::Word;

pub const CARD: Card = Card {
    name: "reorder",
    models: "a second, longer route",
    words: &[Word {
        name: "reorder",
        example: "reorder=1%/5ms",
        says: "the share of packets that are held back, and for how long (netem instead sends that share early)",
        read,
        shown: |path| {
            path.reorder.map(|reorder| format!("{}/{}", shown_share(reorder.share), shown_time(reorder.by_ns)))
        },
        about: None,
    }],
    reasons: &[],
    check,
    figures: |path, _| {
        let reorder = path.reorder?;
        Some(format!("{} of packets held back {}", shown_share(reorder.share), shown_time(reorder.by_ns)))
    },
    build: |path, site| {
        let reorder = path.reorder?;
        Some(Box::new(Holding::new(HoldBack { reorder, generator: site.generator("reorder") })))
    },
};

fn read(path: &mut PathProfile, value: &str) -> Result<(), Refused> {
    let Some((part, time)) = value.split_once('/') else {
        let problem = format!("`{value}` does not give both a share and a time");
        return Err(Refused::new(problem, "for instance 1%/5ms"));
    };
    let reorder = Reorder { share: share(part)?, by_ns: time_ns(time)? };
    path.reorder = (reorder.share > Share::NONE).then_some(reorder);
    Ok(())
}

fn check(path: &PathProfile, _mtu_bytes: u32) -> Option<Contradiction> {
    path.reorder.filter(|reorder| reorder.by_ns == 0).map(|_| Contradiction {
        word: "reorder",
        problem: "packets held back for no time are not reordered".to_owned(),
        hint: "give a time longer than the gap between two packets, for instance 1%/5ms".to_owned(),
    })
}

struct HoldBack {
    reorder: Reorder,
    generator: Generator,
}

impl Due for HoldBack {
    fn due_ns(&mut self, packet: &InFlight, now_ns: u64) -> Option<u64> {
        let is_held = self.generator.draws_for(packet).happens(self.reorder.share);
        is_held.then(|| now_ns.saturating_add(self.reorder.by_ns))
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::link::Direction;

    use crate::simulate::simulate;
    use crate::tests::fixture::{assert_binomial, departures, fates, link, stream};

    const GAP_NS: u64 = 1000;
    const COUNT: u64 = 20_000;

    #[test]
    fn a_packet_leaves_at_once_or_is_held_back_for_exactly_the_time() {
        let left = departures(&fates("reorder=10%/2500ns", &stream(COUNT, GAP_NS)));
        let held = left.iter().filter(|(number, due_ns)| *due_ns == number * GAP_NS + 2500).count();
        let at_once = left.iter().filter(|(number, due_ns)| *due_ns == number * GAP_NS).count();
        assert_eq!(u64::try_from(held + at_once).unwrap(), COUNT);
        assert_binomial(held, COUNT, 0.1);
    }

    /// A packet that is held back for 2.5 gaps is overtaken unless the next two packets are held back too.
    #[test]
    fn overtaken_packets_count_as_reordered() {
        let left = departures(&fates("reorder=40%/2500ns", &stream(COUNT, GAP_NS)));
        let held: std::collections::BTreeSet<u64> = left
            .iter()
            .filter(|(number, due_ns)| due_ns - number * GAP_NS == 2500)
            .map(|(number, _)| *number)
            .collect();
        let overtaken = held
            .iter()
            .filter(|number| (*number + 1..=*number + 2).any(|later| later < COUNT && !held.contains(&later)));
        let mut link = link("reorder=40%/2500ns");
        let _ = simulate(&mut link, &stream(COUNT, GAP_NS));
        let record = link.record(None);
        let expected = u64::try_from(overtaken.count()).unwrap();
        assert_eq!((record.packets.reordered, record.up.stages[1].packets.reordered), (expected, expected));
        assert!(link.path(Direction::Up).inside() == 0 && expected > 5000);
    }
}
