//! Emulated links on this machine: two network namespaces, each with its own network stack, and a path between them.
//!
//! A [`RunningLink`] is a process (this program, started with a hidden command) that creates the namespaces, carries
//! the packets and reports their fates. The link's process does not outlive the process that started it. When it
//! ends, the namespaces and all processes in them end too.

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

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkOrder {
    pub profile: String,
    /// The text of each trace that the profile replays, by name.
    pub traces: Vec<(String, String)>,
    /// The seed of every random choice.
    pub seed: u64,
    /// The TCP congestion control of both ends.
    pub congestion_control: String,
    pub clock: RealClock,
    /// The CPU to run on; `None` to leave the process unpinned.
    pub cpu: Option<usize>,
    /// All CPUs that the process may use.
    pub allowed_cpus: Vec<usize>,
    /// How to recognize the messages of each datagram flow; empty if messages need not be recognized.
    pub messages: BTreeMap<FlowId, Numbered>,
    /// The destination of a log with one line per packet; `None` for no log.
    pub log: Option<LogTo>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogTo {
    /// A file, to be created or replaced.
    File(PathBuf),
    /// A descriptor of the ordering process. Log lines are mixed with other output to this descriptor.
    Stream(RawFd),
    /// A descriptor of the ordering process for an open file, and the file's name for users.
    Opened(RawFd, String),
}

impl LogTo {
    /// For a file that this process has open; `name` is shown to users.
    pub(crate) fn opened(file: &File, name: String) -> Self {
        Self::Opened(file.as_raw_fd(), name)
    }

    /// Whether the file behind descriptor `number` is suitable for a log.
    pub fn may_be_stream(number: RawFd) -> std::io::Result<bool> {
        stream::may_write(number)
    }
}

/// Creates a log that only the user may access. Replaces an existing file, or a symbolic link, of this name.
pub(crate) fn create_log(path: &Path) -> std::io::Result<File> {
    drop(std::fs::remove_file(path));
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// How many bytes at the start of a message, and of its answer, hold the message's number (little endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    /// Bytes in a message: 1 to 8.
    pub message_bytes: usize,
    /// Bytes in an answer: 1 to 8.
    pub answer_bytes: usize,
    /// The direction of the load if its messages have no answers, else `None`.
    pub one_way: Option<hairpin_link::Direction>,
    /// Distinguishes the flow's packets from those of other flows; `None` if there is only one flow.
    pub flow_match: Option<FlowMatch>,
}

/// How packets identify their flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowMatch {
    /// The UDP port of the far end.
    Udp(u16),
    /// The flow is the only ICMP flow.
    Icmp,
}

/// The messages of a flow whose answers the link prevented. For a one-way load, the messages that the link lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostMessages {
    /// Counts by cause (`link-loss`, `link-queue`, ..., `link-inside` for messages still in flight at the end). Each
    /// message counts once.
    pub by_cause: BTreeMap<String, u64>,
    /// Lost messages of a one-way load's warm-up, which `by_cause` excludes.
    pub in_warm_up: u64,
    /// The numbers of the first lost messages by cause; only of messages with answers.
    pub numbers: BTreeMap<String, Vec<u64>>,
}

/// The messages of the link's process, in this order: `Ready`, `Done`. `Failed` may be sent at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkWord {
    /// The link carries packets.
    Ready(Namespaces, LinkEnds),
    /// The link ended and left nothing behind.
    Done(Box<LinkEnd>),
    Failed(Failure),
}

/// The namespaces of the two ends, as files that processes can enter while the link exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    pub near: PathBuf,
    pub far: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// The record that the run keeps.
    pub record: LinkRecord,
    /// When the link started (time 0 of the record), in ns of the order's clock.
    pub started_ns: u64,
    pub lost: BTreeMap<FlowId, LostMessages>,
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_log_is_private_and_replaces_an_existing_file() {
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
