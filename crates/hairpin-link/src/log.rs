//! The log of a link: one line per packet or copy.
//!
//! Columns: direction, number, copy, size in bytes, arrived, due, released, fate. Times are in ns since the link
//! started; `-` means no time. Packets still inside at the end come last, by number, `up` before `down`. For example:
//!
//! ```text
//! up 17 0 1500 1000000 24500000 24500013 left
//! up 18 0 1500 1200000 24700000 24700009 left:bit=4711
//! down 3 0 1500 1300000 - - dropped:queue:full@1300000
//! up 19 0 1500 30000000 53500000 - inside
//! ```

use std::fmt;

use hairpin_model::link::Direction;

use crate::packet::{Fate, Outcome};

/// The first line of a log file, with the names of the columns.
pub const HEADER: &str = "# direction number copy size_bytes arrived_ns due_ns released_ns fate";

/// One log line: the fate of a packet or copy. `Display` writes no newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub outcome: Outcome,
    /// Actual release time in ns; `None` if the packet was dropped, not released, or is still inside.
    pub released_ns: Option<u64>,
}

impl LogLine {
    /// The line of an outcome that happened exactly when it was due.
    pub fn exact(outcome: Outcome) -> Self {
        let released_ns = match outcome.fate {
            Fate::Leaves { due_ns, .. } => Some(due_ns),
            Fate::Dropped { .. } | Fate::Inside { .. } => None,
        };
        Self { outcome, released_ns }
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { direction, number, copy, size_bytes, arrived_ns, fate, .. } = self.outcome;
        write!(out, "{} {number} {copy} {size_bytes} {arrived_ns} ", Direction::word(direction))?;
        match fate {
            Fate::Leaves { due_ns, .. } | Fate::Inside { due_ns: Some(due_ns) } => write!(out, "{due_ns} ")?,
            Fate::Dropped { .. } | Fate::Inside { due_ns: None } => out.write_str("- ")?,
        }
        match self.released_ns {
            Some(released_ns) => write!(out, "{released_ns} ")?,
            None => out.write_str("- ")?,
        }
        match fate {
            Fate::Leaves { corrupted_bit: None, .. } => out.write_str("left"),
            Fate::Leaves { corrupted_bit: Some(bit), .. } => write!(out, "left:bit={bit}"),
            Fate::Dropped { at_ns, stage, reason } => write!(out, "dropped:{stage}:{reason}@{at_ns}"),
            Fate::Inside { .. } => out.write_str("inside"),
        }
    }
}
