//! Emulated links on this machine: two network namespaces with kernel stacks, and a path between them.
//!
//! A [`RunningLink`] is a process of its own (this program, started again with a hidden command) that makes the
//! namespaces, carries the packets and tells what became of them. It never outlives the process that started it, and
//! with it go the namespaces and whatever still runs in them.

pub mod addresses;
pub mod echo_server;
mod forward;
pub mod guest;
pub mod known;
pub mod namespace;
pub mod process;
mod sweep;
pub mod tcp;
pub mod traces;
mod wiring;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;

use hairpin_model::link::LinkRecord;
use hairpin_model::link_ends::LinkEnds;
use hairpin_model::round::Failure;
use serde::{Deserialize, Serialize};

use crate::system::stream;
use hairpin_loops::clock::RealClock;

#[cfg(any(test, fuzzing))]
pub use forward::fuzzing;
pub use process::RunningLink;
pub(crate) use wiring::END_INTERFACE;

/// What the link's process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkOrder {
    /// The profile in one line.
    pub profile: String,
    /// The text of each trace that it replays, by name.
    pub traces: Vec<(String, String)>,
    /// The seed of every random choice.
    pub seed: u64,
    /// The congestion control of TCP at both ends.
    pub congestion_control: String,
    /// The clock of the process that orders.
    pub clock: RealClock,
    /// The CPU to run on; `None` leaves it free.
    pub cpu: Option<usize>,
    /// All CPUs that may be used.
    pub allowed_cpus: Vec<usize>,
    /// How to know the messages of each flow of datagrams; of none where none are told apart.
    pub messages: Vec<Numbered>,
    /// Where a line about each packet goes; `None` keeps no log.
    pub log: Option<LogTo>,
}

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogTo {
    /// A file, made anew.
    File(PathBuf),
    /// What is open under that number in the process that orders: what others write there and the log follow each other.
    Stream(RawFd),
    /// A file that is open under that number in the process that orders, and its name for users.
    Opened(RawFd, String),
}

impl LogTo {
    /// A file that is open here, and its name for users.
    pub(crate) fn opened(file: &File, name: String) -> Self {
        Self::Opened(file.as_raw_fd(), name)
    }

    /// Whether a log may be written to what is open under that number.
    ///
    /// # Errors
    /// Nothing is.
    pub fn may_be_stream(number: RawFd) -> std::io::Result<bool> {
        stream::may_write(number)
    }
}

/// How many of the first bytes of a message, and of its answer, hold the message's number (little endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    /// In a message, 1 to 8.
    pub message_bytes: usize,
    /// In an answer, 1 to 8.
    pub answer_bytes: usize,
    /// There are no answers, and messages go this way; null where there are.
    pub one_way: Option<hairpin_link::Direction>,
    /// What tells the flow from others; null where it is the only one.
    pub told_by: Option<ToldBy>,
}

/// How a flow is told from others by its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToldBy {
    /// The UDP port of the far end.
    Udp(u16),
    /// It is the only one of ICMP.
    Icmp,
}

/// The messages of a flow that the link kept from being answered or, of a one-way load, from arriving.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostMessages {
    /// Each counted once, by cause (`link-loss`, `link-queue`, ..., `link-inside` for those that were still on their way at the
    /// end).
    pub by_cause: BTreeMap<String, u64>,
    /// Of a one-way load's warm-up, which are not among those.
    pub in_warm_up: u64,
    /// The numbers of the first of them by cause, where they have answers.
    pub numbers: BTreeMap<String, Vec<u64>>,
}

/// What the link's process says, in this order: `Ready`, `Done`; or `Failed` at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkWord {
    /// Packets are carried.
    Ready(Namespaces, LinkEnds),
    /// It has ended; nothing of it is left.
    Done(Box<LinkEnd>),
    /// It could not go on.
    Failed(Failure),
}

/// The namespaces of the two ends, as files that can be entered for as long as the link lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// Where the near end is.
    pub near: PathBuf,
    /// Where the far end is.
    pub far: PathBuf,
}

/// What a link leaves behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// What the run keeps.
    pub record: LinkRecord,
    /// When it started: the record's time 0, on the clock of the order.
    pub started_ns: u64,
    /// What was lost of each flow whose messages the order told apart, in its order.
    pub lost: Vec<LostMessages>,
}
