//! What a stage is: the interface, and its card.

use hairpin_model::link::Direction;

use crate::figures::PathProfile;
use crate::generator::Generator;
use crate::packet::InFlight;
use crate::trace::Trace;
use crate::word::Word;

/// One stage of a path: it decides what becomes of each packet, and when.
///
/// Times are ns since the link started, and calls come in order of time. What a stage does depends on nothing but its
/// parameters, its generator, and the packets that came.
pub trait Stage: Send {
    /// Takes a packet that comes now: passes it on, drops it, or holds it.
    fn arrive(&mut self, packet: InFlight, now_ns: u64, out: &mut Outbox);

    /// When the stage next has something to do by itself; null while it holds nothing.
    fn next_ns(&self) -> Option<u64> {
        None
    }

    /// Does what is to be done at `now_ns`, which is what [`Stage::next_ns`] said.
    fn act(&mut self, now_ns: u64, out: &mut Outbox) {
        let _ = (now_ns, out);
    }

    /// What it holds now.
    fn holds(&self) -> Held {
        Held::default()
    }

    /// Tells of each packet and copy that it holds, with when it passes that on where this is settled, in ns.
    fn each_held(&self, tell: &mut dyn FnMut(&InFlight, Option<u64>)) {
        let _ = tell;
    }

    /// The least time that any packet spends in it, in ns. Lets a path say how long nothing can leave.
    fn least_delay_ns(&self) -> u64 {
        0
    }
}

/// What a stage holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Packets and copies.
    pub packets: u64,
    /// Their bytes as IP packets.
    pub bytes: u64,
}

/// Where a stage puts what it is done with.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) passed: Vec<InFlight>,
    pub(crate) dropped: Vec<(InFlight, &'static str)>,
    pub(crate) duplicated: u64,
    pub(crate) corrupted: u64,
}

impl Outbox {
    /// The packet goes on to the next stage.
    pub fn pass(&mut self, packet: InFlight) {
        self.passed.push(packet);
    }

    /// The packet is dropped, for a reason in one word (`full`).
    pub fn drop(&mut self, packet: InFlight, reason: &'static str) {
        self.dropped.push((packet, reason));
    }

    /// The packet goes on, and a copy of it right behind. A copy is not copied again.
    pub fn pass_twice(&mut self, packet: InFlight) {
        if packet.outcomes > 1 {
            return self.pass(packet);
        }
        self.duplicated += 1;
        self.pass(InFlight { outcomes: 2, ..packet });
        self.pass(InFlight { outcomes: 2, copy: 1, ..packet });
    }

    /// The packet goes on with one bit flipped.
    pub fn pass_corrupted(&mut self, packet: InFlight, bit: u32) {
        self.corrupted += 1;
        self.pass(InFlight { corrupted_bit: Some(bit), ..packet });
    }
}

/// What a stage is made from besides its own figures.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The largest packet that the link takes, in bytes.
    pub mtu_bytes: u32,
    /// The trace that the direction replays, if any.
    pub trace: Option<&'a Trace>,
    /// The seed of the link.
    pub seed: u64,
    /// Which direction.
    pub direction: Direction,
}

impl Site<'_> {
    /// The generator of the stage of that name: no other stage and no other direction draws the same.
    #[must_use]
    pub fn generator(&self, stage: &str) -> Generator {
        Generator::new(self.seed, self.direction, stage)
    }
}

/// A figure that cannot be, or two that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The word of the profile at fault.
    pub word: &'static str,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub hint: String,
}

/// What a stage is, and how it is made from the figures of a direction.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Its name, in ledgers and logs. Its file is named after it.
    pub name: &'static str,
    /// What it models, in one line.
    pub models: &'static str,
    /// The words by which a profile asks for it.
    pub words: &'static [Word],
    /// The reasons for which it drops.
    pub reasons: &'static [&'static str],
    /// What is impossible or contradictory in the figures.
    pub check: fn(&PathProfile, mtu_bytes: u32) -> Option<Contradiction>,
    /// The figures in words; null where they ask for no such stage.
    pub figures: fn(&PathProfile, mtu_bytes: u32) -> Option<String>,
    /// The stage itself; null where the figures ask for none.
    pub build: fn(&PathProfile, &Site<'_>) -> Option<Box<dyn Stage>>,
}
