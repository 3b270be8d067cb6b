//! Emulated links on this machine: two network namespaces with kernel stacks, and a path between them.
//!
//! A [`RunningLink`] is a process (this program, started with a hidden command) that creates the namespaces, carries
//! the packets and reports their fates. It never outlives the process that started it; the namespaces and all processes
//! in them end with it.

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
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hairpin_model::{Failure, FlowId, LinkEnds, LinkRecord};
use serde::{Deserialize, Serialize};

use crate::system::stream;
use hairpin_loops::clock::RealClock;

#[cfg(any(test, fuzzing))]
pub use forward::fuzzing;
pub use process::RunningLink;
pub(crate) use wiring::END_INTERFACE;

/// The order to the link's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkOrder {
    pub profile: String,
    /// The text of each trace that it replays, by name.
    pub traces: Vec<(String, String)>,
    /// The seed of every random choice.
    pub seed: u64,
    /// The congestion control of TCP at both ends.
    pub congestion_control: String,
    pub clock: RealClock,
    /// The CPU to run on; `None` leaves it unpinned.
    pub cpu: Option<usize>,
    /// All CPUs that may be used.
    pub allowed_cpus: Vec<usize>,
    /// How to recognise the messages of each datagram flow; empty if messages are not distinguished.
    pub messages: BTreeMap<FlowId, Numbered>,
    /// The destination of a log with a line per packet; `None` for no log.
    pub log: Option<LogTo>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogTo {
    /// A file, created or replaced.
    File(PathBuf),
    /// A descriptor of the ordering process. The log is interleaved with other output to it.
    Stream(RawFd),
    /// A file that is open under that descriptor in the ordering process, and its name for users.
    Opened(RawFd, String),
}

impl LogTo {
    /// A file that is open here, and its name for users.
    pub(crate) fn opened(file: &File, name: String) -> Self {
        Self::Opened(file.as_raw_fd(), name)
    }

    /// Whether the file behind that descriptor is suitable for a log.
    pub fn may_be_stream(number: RawFd) -> std::io::Result<bool> {
        stream::may_write(number)
    }
}

/// Creates a log that only the user may access. It replaces a file of that name, or a link to one elsewhere.
pub(crate) fn create_log(path: &Path) -> std::io::Result<File> {
    drop(std::fs::remove_file(path));
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Number of first bytes of a message, and of its answer, that hold the message's number (little endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    /// In a message, 1 to 8.
    pub message_bytes: usize,
    /// In an answer, 1 to 8.
    pub answer_bytes: usize,
    /// The direction of messages without answers; `None` if they have answers.
    pub one_way: Option<hairpin_link::Direction>,
    /// What distinguishes the flow from others; `None` if it is the only one.
    pub flow_match: Option<FlowMatch>,
}

/// How packets identify their flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowMatch {
    /// The UDP port of the far end.
    Udp(u16),
    /// It is the only ICMP flow.
    Icmp,
}

/// The messages of a flow that the link kept from being answered or, for a one-way load, from arriving.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostMessages {
    /// Counts by cause (`link-loss`, `link-queue`, ..., `link-inside` for those still in flight at the end), each
    /// message once.
    pub by_cause: BTreeMap<String, u64>,
    /// Lost messages of a one-way load's warm-up, not included above.
    pub in_warm_up: u64,
    /// The first message numbers by cause, for messages with answers.
    pub numbers: BTreeMap<String, Vec<u64>>,
}

/// The messages of the link's process, in this order: `Ready`, `Done`; or `Failed` at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkWord {
    /// It carries packets.
    Ready(Namespaces, LinkEnds),
    /// It ended and left nothing behind.
    Done(Box<LinkEnd>),
    Failed(Failure),
}

/// The namespaces of the two ends, as files that can be entered while the link lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    pub near: PathBuf,
    pub far: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// The record that the run keeps.
    pub record: LinkRecord,
    /// When it started: the record's time 0, on the clock of the order.
    pub started_ns: u64,
    /// The lost messages of each flow of the order.
    pub lost: BTreeMap<FlowId, LostMessages>,
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_log_is_private_and_replaces_what_was_there() {
        let place = tempfile::tempdir().unwrap();
        let [log, canary] = ["log", "canary"].map(|name| place.path().join(name));
        std::fs::write(&canary, "canary").unwrap();
        symlink(&canary, &log).unwrap();
        for _ in 0..2 {
            create_log(&log).unwrap();
            let found = std::fs::symlink_metadata(&log).unwrap();
            assert_eq!((found.is_file(), found.permissions().mode() & 0o777), (true, 0o600));
        }
        assert_eq!(std::fs::read_to_string(&canary).unwrap(), "canary");
    }
}
