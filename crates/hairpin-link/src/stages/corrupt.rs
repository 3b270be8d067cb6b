//! One random bit of the packet is flipped, with a given probability.
//!
//! Every bit of the IP packet is equally likely, its headers included: a bit in the IP header or under a checksum makes
//! the receiver's kernel drop the packet, which is what becomes of such a packet in the world. The link itself counts
//! it as out. Source: netem's `corrupt` (Linux net/sched/sch_netem.c), which flips one bit of the first fragment.

use crate::dice::Dice;
use crate::packet::InFlight;
use crate::profile::quantity::{Share, share, shown_share};
use crate::profile::word::Word;
use crate::stage::{Card, Outbox, Stage};

/// Its entry in the list.
pub const CARD: Card = Card {
    name: "corrupt",
    models: "a medium that damages packets",
    words: &[Word {
        name: "corrupt",
        example: "corrupt=0.01%",
        says: "the share of packets in which one random bit is flipped",
        read: |path, value| {
            path.corrupt = share(value)?;
            Ok(())
        },
        shown: |path| (path.corrupt > Share::NONE).then(|| shown_share(path.corrupt)),
        about: None,
    }],
    reasons: &[],
    check: |_, _| None,
    figures: |path, _| {
        (path.corrupt > Share::NONE).then(|| format!("one bit flipped in {} of packets", shown_share(path.corrupt)))
    },
    build: |blueprint| {
        let corrupt = Corrupt { share: blueprint.path.corrupt, dice: blueprint.dice("corrupt") };
        (corrupt.share > Share::NONE).then(|| Box::new(corrupt) as Box<dyn Stage>)
    },
};

/// The stage.
#[derive(Clone, Copy, Debug)]
struct Corrupt {
    share: Share,
    dice: Dice,
}

impl Stage for Corrupt {
    fn arrive(&mut self, packet: InFlight, _now_ns: u64, out: &mut Outbox) {
        let mut throw = self.dice.throw(&packet);
        if throw.happens(self.share) {
            let bits = u64::from(packet.packet.size_bytes) * 8;
            let bit = u32::try_from(throw.below(bits)).unwrap_or(0);
            out.pass_corrupted(packet, bit);
        } else {
            out.pass(packet);
        }
    }
}
