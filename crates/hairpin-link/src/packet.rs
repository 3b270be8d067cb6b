//! Packets in a link, and their fates.

use hairpin_model::link::Direction;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    /// Number in order of arrival in its direction, from 0. Random choices depend on it.
    pub number: u64,
    /// Size of the IP packet in bytes, including the IP header but no link header.
    pub size_bytes: u32,
    /// Whether the packet carries transport payload; a pure TCP ACK does not.
    pub carries_data: bool,
}

/// A packet or its copy, between two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InFlight {
    pub packet: Packet,
    /// 0 for the packet itself, 1 for its copy.
    pub copy: u8,
    /// Number of outcomes with this packet number: 1, or 2 once the packet was copied.
    pub outcomes: u8,
    /// Number among the packets that carry data, from 1; `None` for other packets.
    pub data_number: Option<u64>,
    /// Arrival at the link, in ns.
    pub arrived_ns: u64,
    /// The flipped bit, if any, counted from the first bit of the IP header (the most significant bit of its byte).
    pub corrupted_bit: Option<u32>,
    /// Order of entry into the current stage. Set by the path.
    pub turn: u64,
    /// Time of entry into the current stage, in ns. Set by the path.
    pub entered_ns: u64,
}

/// The fate of a packet or its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub direction: Direction,
    /// Number in order of arrival in its direction.
    pub number: u64,
    /// 0 for the packet itself, 1 for its copy.
    pub copy: u8,
    /// Number of outcomes with this packet number. After the last one, the bytes of the packet are no longer needed.
    pub outcomes: u8,
    pub size_bytes: u32,
    pub carries_data: bool,
    /// Arrival at the link, in ns.
    pub arrived_ns: u64,
    pub fate: Fate,
}

/// What happened to a packet. `Inside` means that the packet had not left the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Leaves {
        due_ns: u64,
        /// The bit to flip before release, if any, counted from the first bit of the IP header: byte `bit / 8`, mask
        /// `0x80 >> (bit % 8)`.
        corrupted_bit: Option<u32>,
    },
    Dropped {
        at_ns: u64,
        stage: &'static str,
        /// One of the reasons on the stage's card.
        reason: &'static str,
    },
    Inside {
        /// When the packet will leave, in ns; `None` while a later stage may change that time.
        due_ns: Option<u64>,
    },
}

impl Fate {
    /// When the packet left or was dropped, in ns. For a packet inside: when it will leave, or `u64::MAX` if unknown.
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Leaves { due_ns, .. } => *due_ns,
            Self::Dropped { at_ns, .. } => *at_ns,
            Self::Inside { due_ns } => due_ns.unwrap_or(u64::MAX),
        }
    }
}
