//! A packet on its way, and what becomes of it.

use hairpin_model::link::Direction;

/// A packet as it comes to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    /// Its number in order of arrival in its direction, from 0. Random choices are made by it.
    pub number: u64,
    /// Its size as an IP packet in bytes: IP header and all that follows, no link header.
    pub size_bytes: u32,
    /// Whether it carries transport payload: a bare TCP acknowledgment does not.
    pub carries_data: bool,
}

/// A packet, or its copy, between two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InFlight {
    /// The packet.
    pub packet: Packet,
    /// 0 for the packet itself, 1 for its copy.
    pub copy: u8,
    /// How many outcomes its number will have: 1, or 2 once it has been copied.
    pub outcomes: u8,
    /// Its number among the packets that carry data, from 1; null for a packet that does not.
    pub data_number: Option<u64>,
    /// When it came to the link, in ns.
    pub arrived_ns: u64,
    /// The bit that was flipped, counted from the first bit of the IP header (the most significant of its byte).
    pub corrupted_bit: Option<u32>,
    /// In which order it entered the stage that has it now. Set by the path.
    pub turn: u64,
    /// When it entered that stage, in ns. Set by the path.
    pub entered_ns: u64,
}

/// What became of a packet or its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Which way it went.
    pub direction: Direction,
    /// Its number in order of arrival in its direction.
    pub number: u64,
    /// 0 for the packet itself, 1 for its copy.
    pub copy: u8,
    /// How many outcomes its number has in all. Who keeps the bytes of packet `number` may let go of them after that
    /// many.
    pub outcomes: u8,
    /// Its size as an IP packet in bytes.
    pub size_bytes: u32,
    /// Whether it carries transport payload.
    pub carries_data: bool,
    /// When it came to the link, in ns.
    pub arrived_ns: u64,
    /// What became of it.
    pub fate: Fate,
}

/// How far a packet's way through the link has come: to its end, but for those that the link is ended around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves.
    Leaves {
        /// When, in ns.
        due_ns: u64,
        /// The bit to flip before it is let go, counted from the first bit of the IP header: byte `bit / 8`, mask
        /// `0x80 >> (bit % 8)`.
        corrupted_bit: Option<u32>,
    },
    /// It is dropped.
    Dropped {
        /// When, in ns.
        at_ns: u64,
        /// By which stage.
        stage: &'static str,
        /// Why, in the stage's word.
        reason: &'static str,
    },
    /// It is still inside.
    Inside {
        /// When it will leave, in ns; null while a stage that it has yet to come to may change that.
        due_ns: Option<u64>,
    },
}

impl Fate {
    /// When the way ended, in ns: when the packet was due or was dropped. Of one that is inside, when it will be due, or
    /// the end of time where that is not known.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Leaves { due_ns, .. } => *due_ns,
            Self::Dropped { at_ns, .. } => *at_ns,
            Self::Inside { due_ns } => due_ns.unwrap_or(u64::MAX),
        }
    }
}
