//! A packet is followed by a copy of itself, with a given probability.
//!
//! The copy goes on right behind the packet, at the same time, with random numbers of its own in the stages that
//! follow. It is not copied again. Source: netem's `duplicate` (Linux net/sched/sch_netem.c); what a duplicate is to a
//! receiver is defined in RFC 5560.

use crate::dice::Dice;
use crate::packet::InFlight;
use crate::profile::quantity::{Share, share, shown_share};
use crate::profile::word::Word;
use crate::stage::{Card, Outbox, Stage};

/// Its entry in the list.
pub const CARD: Card = Card {
    name: "duplicate",
    models: "a medium that repeats packets",
    words: &[Word {
        name: "duplicate",
        example: "duplicate=1%",
        says: "the share of packets that are followed by a copy",
        read: |path, value| {
            path.duplicate = share(value)?;
            Ok(())
        },
        shown: |path| (path.duplicate > Share::NONE).then(|| shown_share(path.duplicate)),
        about: None,
    }],
    reasons: &[],
    check: |_, _| None,
    figures: |path, _| {
        (path.duplicate > Share::NONE).then(|| format!("{} of packets sent twice", shown_share(path.duplicate)))
    },
    build: |blueprint| {
        let duplicate = Duplicate { share: blueprint.path.duplicate, dice: blueprint.dice("duplicate") };
        (duplicate.share > Share::NONE).then(|| Box::new(duplicate) as Box<dyn Stage>)
    },
};

/// The stage.
#[derive(Clone, Copy, Debug)]
struct Duplicate {
    share: Share,
    dice: Dice,
}

impl Stage for Duplicate {
    fn arrive(&mut self, packet: InFlight, _now_ns: u64, out: &mut Outbox) {
        if self.dice.throw(&packet).happens(self.share) {
            out.pass_twice(packet);
        } else {
            out.pass(packet);
        }
    }
}
