//! One stage of a link.

/// A packet on its way: what a stage may look at, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its number in order of arrival at the link, from 0.
    pub number: u64,
    /// Its size in bytes, headers of the emulated layer included.
    pub size_bytes: u64,
}

/// What becomes of a packet in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves the stage at this time, in ns on the clock of the caller. Never before it came.
    LeavesAt(u64),
    /// It is dropped; the cause is a word of the ledger, for instance `queue-full`.
    Dropped(&'static str),
}

/// A stage's answer: the fate of the packet and, where the stage duplicates, that of its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The packet's own fate.
    pub fate: Fate,
    /// When its copy leaves, in ns; null where there is none.
    pub copy_leaves_at: Option<u64>,
}

impl Verdict {
    /// It leaves at that time, and there is no copy.
    #[must_use]
    pub fn leaves_at(now_ns: u64) -> Self {
        Self { fate: Fate::LeavesAt(now_ns), copy_leaves_at: None }
    }
}

/// One stage of a link: it decides what becomes of each packet, and when.
///
/// The same packets at the same times always meet the same fates: a stage that makes random choices is built with a
/// seed.
pub trait Stage {
    /// Takes a packet that arrives now. Calls come in order of `now_ns`.
    fn pass(&mut self, packet: Packet, now_ns: u64) -> Verdict;
}
