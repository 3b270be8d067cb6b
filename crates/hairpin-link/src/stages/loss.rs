//! A medium that loses packets: at random, in bursts, or by their numbers.
//!
//! - `loss=P`: each packet is lost with probability P, independently.
//! - `burst-loss=p/r/b/g`: the model of Gilbert and Elliott (Gilbert, BSTJ 39(5), 1960; Elliott, BSTJ 42(5), 1963).
//!   The medium is good or bad, and starts good. A packet is lost with probability b in the bad state and with
//!   probability g in the good state. After each packet the state changes from good to bad with probability p, and
//!   from bad to good with probability r. netem's `loss gemodel p r 1-h 1-k` has the same order (tc-netem(8)). In the
//!   long run, p / (p + r) of the packets meet the bad state, and a bad state lasts 1 / r packets on average.
//! - `drop=3,10-12`: the packets with these numbers, counted from 0 in order of arrival in their direction.
//! - `drop-data=1`: the packets with these numbers, counted from 1 among the packets that carry transport payload.

use hairpin_model::Refused;

pub use crate::figures::{GilbertElliott, Loss};

use crate::figures::PathProfile;
use crate::generator::Generator;
use crate::numbers::Numbers;
use crate::packet::InFlight;
use crate::quantity::{Share, share, shown_share};
use crate::stage::{Card, Contradiction, Outbox, Stage};
use crate::word::Word;

pub const CARD: Card = Card {
    name: "loss",
    models: "a medium that loses packets",
    words: &[RANDOM, BURST, LISTED, DATA],
    reasons: &["random", "burst", "listed", "data-packet"],
    check,
    figures,
    build: |path, site| {
        let stage = Medium { generator: site.generator("loss"), bad: false, loss: path.loss.clone() };
        (stage.loss != Loss::default()).then(|| Box::new(stage) as Box<dyn Stage>)
    },
};

const RANDOM: Word = Word {
    name: "loss",
    example: "loss=0.1%",
    says: "the share of packets that are lost, each independently",
    read: |path, value| share(value).map(|random| path.loss.random = random),
    shown: |path| (path.loss.random > Share::NONE).then(|| shown_share(path.loss.random)),
    about: None,
};

const BURST: Word = Word {
    name: "burst-loss",
    example: "burst-loss=1%/20%/100%/0%",
    says: "burst losses (Gilbert-Elliott), four probabilities: good to bad, bad to good, loss when bad (default 100%), \
           loss when good (default 0%)",
    read: |path, value| read_burst(value).map(|burst| path.loss.burst = Some(burst)),
    shown: |path| path.loss.burst.map(shown_burst),
    about: None,
};

const LISTED: Word = Word {
    name: "drop",
    example: "drop=3,10-12",
    says: "numbers of the lost packets, counted from 0 in order of arrival",
    read: |path, value| Numbers::read(value, 0).map(|packets| path.loss.packets = packets),
    shown: |path| path.loss.packets.shown(),
    about: None,
};

const DATA: Word = Word {
    name: "drop-data",
    example: "drop-data=1,5",
    says: "numbers of the lost packets, counted from 1 among the packets with payload",
    read: |path, value| Numbers::read(value, 1).map(|packets| path.loss.data_packets = packets),
    shown: |path| path.loss.data_packets.shown(),
    about: None,
};

fn read_burst(text: &str) -> Result<GilbertElliott, Refused> {
    let parts = text.split('/').map(share).collect::<Result<Vec<_>, _>>()?;
    let (turns_bad, turns_good, lost_when_bad, lost_when_good) = match parts[..] {
        [p, r] => (p, r, Share::ALL, Share::NONE),
        [p, r, bad] => (p, r, bad, Share::NONE),
        [p, r, bad, good] => (p, r, bad, good),
        _ => {
            let problem = format!("`{text}` has {} shares instead of two to four", parts.len());
            return Err(Refused::new(problem, "for instance 1%/20%/100%/0%"));
        }
    };
    Ok(GilbertElliott { turns_bad, turns_good, lost_when_bad, lost_when_good })
}

fn shown_burst(burst: GilbertElliott) -> String {
    let GilbertElliott { turns_bad, turns_good, lost_when_bad, lost_when_good } = burst;
    [turns_bad, turns_good, lost_when_bad, lost_when_good].map(shown_share).join("/")
}

fn check(path: &PathProfile, _mtu_bytes: u32) -> Option<Contradiction> {
    let burst = path.loss.burst?;
    if path.loss.random > Share::NONE {
        return Some(Contradiction {
            word: "burst-loss",
            problem: "`loss` and `burst-loss` are two models of one medium".to_owned(),
            hint: "keep one; the last of the four shares is the loss while the medium is good".to_owned(),
        });
    }
    (burst.turns_good == Share::NONE && burst.turns_bad > Share::NONE).then(|| Contradiction {
        word: "burst-loss",
        problem: "the medium turns bad and never good again".to_owned(),
        hint: "set the second share, the chance to turn good, above 0%; for a path that is down use `outage=2s-5s`"
            .to_owned(),
    })
}

fn figures(path: &PathProfile, _mtu_bytes: u32) -> Option<String> {
    let Loss { random, burst, packets, data_packets } = &path.loss;
    let random = (*random > Share::NONE).then(|| format!("{} at random", shown_share(*random)));
    let burst = burst.map(|burst| format!("in bursts {}", shown_burst(burst)));
    let packets = packets.shown().map(|shown| format!("packets {shown}"));
    let data_packets = data_packets.shown().map(|shown| format!("data packets {shown}"));
    let parts: Vec<String> = [random, burst, packets, data_packets].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[derive(Clone, Debug)]
struct Medium {
    loss: Loss,
    generator: Generator,
    bad: bool,
}

impl Stage for Medium {
    fn arrive(&mut self, packet: InFlight, _now_ns: u64, out: &mut Outbox) {
        match self.reason(&packet) {
            Some(reason) => out.drop(packet, reason),
            None => out.pass(packet),
        }
    }
}

impl Medium {
    /// Why the packet is lost; `None` if it passes. Any packet may change the medium's state, even if lost by number.
    fn reason(&mut self, packet: &InFlight) -> Option<&'static str> {
        let mut draws = self.generator.draws_for(packet);
        let burst = self.loss.burst.is_some_and(|burst| {
            let lost = draws.happens(if self.bad { burst.lost_when_bad } else { burst.lost_when_good });
            self.bad ^= draws.happens(if self.bad { burst.turns_good } else { burst.turns_bad });
            lost
        });
        if self.loss.packets.contains(packet.packet.number) {
            Some("listed")
        } else if packet.data_number.is_some_and(|number| self.loss.data_packets.contains(number)) {
            Some("data-packet")
        } else if burst {
            Some("burst")
        } else {
            draws.happens(self.loss.random).then_some("random")
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::fixture::{assert_binomial, drops, fates, packets, stream};

    const COUNT: u64 = 100_000;

    fn lost(line: &str) -> Vec<u64> {
        drops(&fates(line, &stream(COUNT, 1000))).into_iter().map(|(number, ..)| number).collect()
    }

    #[test]
    fn independent_single_and_consecutive_losses_are_binomial() {
        let lost = lost("loss=3%");
        assert_binomial(lost.len(), COUNT, 0.03);
        let pairs = lost.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert_binomial(pairs, COUNT - 1, 0.0009);
    }

    #[test]
    fn all_packets_or_none() {
        assert_eq!(lost("loss=100%").len(), 100_000);
        assert_eq!(lost("loss=0%"), [0; 0]);
    }

    #[test]
    fn listed_packets_are_lost_exactly() {
        assert_eq!(lost("drop=0,3,10-12,99999,100000-200000"), [0, 3, 10, 11, 12, 99_999]);
    }

    #[test]
    fn data_packets_are_counted_from_one_without_pure_acks() {
        let sizes = [52, 1500, 52, 52, 1500, 600, 52, 1500];
        let outcomes = fates("drop-data=1,3-4", &packets(sizes.map(|size| (0, size))));
        assert_eq!(drops(&outcomes), [(1, 0, "data-packet"), (5, 0, "data-packet"), (7, 0, "data-packet")]);
    }

    /// The closed form of the chain: p / (p + r) of the packets are lost. The variance of the count is that of
    /// independent losses times (1 + c) / (1 - c), where c = 1 - p - r is the correlation of successive packets.
    #[test]
    fn bursts_have_the_frequency_and_length_of_the_markov_chain() {
        let (p, r) = (0.01, 0.2);
        let lost = lost("burst-loss=1%/20%");
        let bad = p / (p + r);
        let correlation = 1.0 - p - r;
        let trials = f64::from(u32::try_from(COUNT).unwrap());
        let deviation = (trials * bad * (1.0 - bad) * (1.0 + correlation) / (1.0 - correlation)).sqrt();
        let count = f64::from(u32::try_from(lost.len()).unwrap());
        assert!((count - trials * bad).abs() < 5.0 * deviation, "{count} of {}", trials * bad);

        // A burst continues after each packet with probability 1 - r, so its length is geometrically distributed.
        let going_on = lost.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert_binomial(going_on, u64::try_from(lost.len()).unwrap() - 1, 1.0 - r);
    }

    #[test]
    fn the_four_shares_are_parsed_in_the_documented_order() {
        // A medium that is always good uses only the fourth share. A medium that stays bad uses only the third.
        assert_binomial(lost("burst-loss=0%/100%/90%/4%").len(), COUNT, 0.04);
        let turned = fates("burst-loss=100%/0.0000001%/100%/0%", &stream(1000, 1));
        assert_eq!(drops(&turned).len(), 999);
        assert_eq!(drops(&turned)[0], (1, 1, "burst"));
        // The state changes after every packet, so every second packet is lost.
        assert!(lost("burst-loss=100%/100%/100%/0%").iter().all(|number| number % 2 == 1));
    }

    #[test]
    fn other_stages_and_earlier_drops_do_not_change_the_fate_of_other_packets() {
        let alone = lost("loss=3%");
        assert_eq!(lost("loss=3% delay=5ms±1ms duplicate=2% corrupt=1% reorder=1%/1ms"), alone);
        let without_some: Vec<u64> = alone.iter().copied().filter(|number| *number >= 1000).collect();
        let outage = fates("loss=3% outage=0ms-1ms", &stream(COUNT, 1000));
        let lost: Vec<u64> = drops(&outage)
            .into_iter()
            .filter(|(.., reason)| *reason == "random")
            .map(|(number, ..)| number)
            .collect();
        assert_eq!(lost, without_some);
    }
}
