//! The interface of a stage, and its description.

use hairpin_model::link::Direction;

use crate::figures::PathProfile;
use crate::generator::Generator;
use crate::packet::InFlight;
use crate::trace::Trace;
use crate::word::Word;

/// One stage of a path. Decides what happens to each packet, and when.
///
/// Times are ns since the link started, and calls are in order of time. A stage's behaviour depends only on its
/// parameters, its generator, and the packets that arrived.
pub trait Stage: Send {
    /// Handles a packet that arrives now: passes it on, drops it or holds it.
    fn arrive(&mut self, packet: InFlight, now_ns: u64, out: &mut Outbox);

    /// Time of the stage's next event; `None` while the stage holds nothing.
    fn next_ns(&self) -> Option<u64> {
        None
    }

    /// Handles the event at `now_ns`, the time that [`Stage::next_ns`] returned.
    fn act(&mut self, now_ns: u64, out: &mut Outbox) {
        let _ = (now_ns, out);
    }

    fn holds(&self) -> Held {
        Held::default()
    }

    /// Reports each packet and copy that the stage holds and, if known, when it will leave the stage, in ns.
    fn each_held(&self, tell: &mut dyn FnMut(&InFlight, Option<u64>)) {
        let _ = tell;
    }

    /// Minimum time that a packet spends in the stage, in ns. The path uses it to predict the next departure.
    fn least_delay_ns(&self) -> u64 {
        0
    }
}

/// Packets that a stage holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of packets, including copies.
    pub packets: u64,
    /// Total size of these IP packets.
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) passed: Vec<InFlight>,
    pub(crate) dropped: Vec<(InFlight, &'static str)>,
    pub(crate) duplicated: u64,
    pub(crate) corrupted: u64,
}

impl Outbox {
    pub fn pass(&mut self, packet: InFlight) {
        self.passed.push(packet);
    }

    /// Drops the packet. `reason` is one word, for instance `full`.
    pub fn drop(&mut self, packet: InFlight, reason: &'static str) {
        self.dropped.push((packet, reason));
    }

    /// Passes the packet and a copy directly behind the packet. A copy is not copied again.
    pub fn pass_twice(&mut self, packet: InFlight) {
        if packet.outcomes > 1 {
            return self.pass(packet);
        }
        self.duplicated += 1;
        self.pass(InFlight { outcomes: 2, ..packet });
        self.pass(InFlight { outcomes: 2, copy: 1, ..packet });
    }

    pub fn pass_corrupted(&mut self, packet: InFlight, bit: u32) {
        self.corrupted += 1;
        self.pass(InFlight { corrupted_bit: Some(bit), ..packet });
    }
}

/// The context of a stage, other than its own figures.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Maximum packet size of the link in bytes.
    pub mtu_bytes: u32,
    pub trace: Option<&'a Trace>,
    pub seed: u64,
    pub direction: Direction,
}

impl Site<'_> {
    /// The generator of stage `stage`. No other stage or direction draws the same numbers.
    pub fn generator(&self, stage: &str) -> Generator {
        Generator::new(self.seed, self.direction, stage)
    }
}

/// An impossible figure, or two figures that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The word of the profile that is at fault.
    pub word: &'static str,
    pub problem: String,
    pub hint: String,
}

/// Describes a stage and how to build it from the figures of a direction.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Name in records and logs. The stage's file has the same name.
    pub name: &'static str,
    /// What the stage models, in one line.
    pub models: &'static str,
    /// The profile's words for the stage.
    pub words: &'static [Word],
    pub reasons: &'static [&'static str],
    /// Finds impossible or contradictory figures.
    pub check: fn(&PathProfile, mtu_bytes: u32) -> Option<Contradiction>,
    /// A description of the figures; `None` if the figures do not require the stage.
    pub figures: fn(&PathProfile, mtu_bytes: u32) -> Option<String>,
    /// Builds the stage; `None` if the figures do not require the stage.
    pub build: fn(&PathProfile, &Site<'_>) -> Option<Box<dyn Stage>>,
}
