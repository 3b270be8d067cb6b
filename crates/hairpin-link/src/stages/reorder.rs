//! A packet is held back for a time, with a given probability, so that those behind it overtake it.
//!
//! It stands for a detour: a second route, or a retransmission by the link layer below IP. A packet is counted as
//! reordered when it leaves after one that came later (RFC 4737, section 3.3), so one that is held back while nothing
//! follows is not. netem's `reorder` is the other way round: there the chosen packets skip the delay.

use crate::dice::Dice;
use crate::held::HeldPackets;
use crate::packet::InFlight;
use crate::profile::PathProfile;
use crate::profile::quantity::{BadValue, Share, share, shown_share, shown_time, time_ns};
use crate::profile::word::Word;
use crate::stage::{Card, Contradiction, Held, Outbox, Stage};

/// Its entry in the list.
pub const CARD: Card = Card {
    name: "reorder",
    models: "a second, longer way",
    words: &[Word {
        name: "reorder",
        example: "reorder=1%/5ms",
        says: "the share of packets that are held back, and for how long",
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
    build: |blueprint| {
        let reorder = blueprint.path.reorder?;
        Some(Box::new(HoldBack { reorder, dice: blueprint.dice("reorder"), held: HeldPackets::new() }))
    },
};

/// Which packets are held back, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// The probability.
    pub share: Share,
    /// For how long, in ns.
    pub by_ns: u64,
}

fn read(path: &mut PathProfile, value: &str) -> Result<(), BadValue> {
    let Some((part, time)) = value.split_once('/') else {
        let problem = format!("`{value}` does not say both how many packets are held back and for how long");
        return Err(BadValue::new(problem, "for instance 1%/5ms"));
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

/// The stage.
struct HoldBack {
    reorder: Reorder,
    dice: Dice,
    held: HeldPackets,
}

impl Stage for HoldBack {
    fn arrive(&mut self, packet: InFlight, now_ns: u64, out: &mut Outbox) {
        if self.dice.throw(&packet).happens(self.reorder.share) {
            self.held.hold(packet, now_ns.saturating_add(self.reorder.by_ns));
        } else {
            out.pass(packet);
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.held.next_ns()
    }

    fn act(&mut self, now_ns: u64, out: &mut Outbox) {
        if let Some(packet) = self.held.take(now_ns) {
            out.pass(packet);
        }
    }

    fn holds(&self) -> Held {
        self.held.holds()
    }
}
