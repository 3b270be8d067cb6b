//! One-way loads over many wires: an event-driven loop for the end that sends and one for the end that receives.
//!
//! By [`hairpin_model::case::Waiting::Poll`] both wait for all of their wires at once and never in a call on one of them, so that
//! no wire starves another; by `Spin` they try one after another and never wait; by `Block` there is one wire, and each end waits
//! in its calls. Open the wires by the same waiting.
//!
//! What is measured is told from the warm-up by the bytes themselves ([`phase`]), so that the ends need no common clock. Each end
//! counts what it saw; goodput is the receiver's.

mod end;
mod gaps;
pub mod messages;
pub mod offering;
pub mod phase;
mod receiving;
mod schedule;
mod sending;
pub mod states;
mod streamed;
#[cfg(test)]
mod tests;
pub mod time_line;
pub mod times;
pub mod window;

use hairpin_model::one_way::PacingError;
use hairpin_model::phases::SenderState;
use hairpin_transports::WireError;

pub use offering::Offering;
pub use receiving::Receiving;
pub use sending::Sending;
use time_line::TimeLine;
use times::TimesOfMessages;

/// How much is sent on each wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many messages.
    Count(u64),
    /// As many as go in this time, in ns. A message that has begun is sent whole.
    DurationNs(u64),
}

/// What an end has counted, on one wire or on all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent whole; on a byte stream, writes.
    pub messages_sent: u64,
    /// Bytes sent, also those of a message that was cut short.
    pub bytes_sent: u64,
    /// Messages received, each once; on a byte stream, as many writes as the bytes make.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Messages that came once more.
    pub duplicated: u64,
    /// Messages, of those received, that came after one that was sent later.
    pub reordered: u64,
    /// Messages older than [`window::MESSAGES`] before the newest, which may have come before.
    pub too_old: u64,
    /// Messages that are none of this load.
    pub unreadable: u64,
    /// Messages, of those sent, that the kernel refused ([`WireError::Refused`]).
    pub refused: u64,
    /// Calls that found no room in the send buffer.
    pub full: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.messages_sent += other.messages_sent;
        self.bytes_sent += other.bytes_sent;
        self.messages_received += other.messages_received;
        self.bytes_received += other.bytes_received;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.too_old += other.too_old;
        self.unreadable += other.unreadable;
        self.refused += other.refused;
        self.full += other.full;
    }
}

/// What one wire carried, or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Of the measured messages.
    pub measured: Counts,
    /// Of the warm-up.
    pub warm_up: Counts,
    /// When the first measured bytes had been sent or received, or the receiver heard that they were sent, in ns of this end's
    /// clock.
    pub first_ns: Option<u64>,
    /// When the last bytes had.
    pub last_ns: Option<u64>,
    /// All bytes after `first_ns`: also those of wires that still warm up, which take a share of the path. Without those of the
    /// call that gave the first, since the time that they took is not known.
    pub bytes_after_first: u64,
}

impl Tally {
    /// Bytes that were sent or received by then, from the first measured ones on.
    pub(crate) fn moved(&mut self, at_ns: u64, bytes: u64) {
        if self.first_ns.is_some() {
            self.bytes_after_first += bytes;
        }
        self.first_ns = self.first_ns.or(Some(at_ns));
        self.last_ns = Some(at_ns);
    }

    /// Bytes per s between the first and the last call: what came after the first, over the time that it took. `None` where
    /// less than two calls had measured bytes.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        let elapsed_ns = self.last_ns?.checked_sub(self.first_ns?).filter(|elapsed_ns| *elapsed_ns > 0)?;
        Some(self.bytes_after_first as f64 / (elapsed_ns as f64 / 1e9))
    }

    /// What that much more did of one wire, for the sum of all.
    pub(crate) fn count(&mut self, is_measured: bool, counts: Counts) {
        if is_measured { &mut self.measured } else { &mut self.warm_up }.add(counts);
    }

    /// Warm-up and measurement together.
    #[must_use]
    pub fn all(&self) -> Counts {
        let mut all = self.measured;
        all.add(self.warm_up);
        all
    }
}

/// The result of an end.
#[derive(Debug)]
pub struct Outcome {
    /// By wire.
    pub wires: Vec<Tally>,
    /// Of all wires.
    pub total: Tally,
    /// Bytes over time, of all wires, from the first on, the warm-up's among them.
    pub time_line: TimeLine,
    /// Times of measured messages: of a receiver from due to received, of a sender that is paced from due to sent.
    pub times: TimesOfMessages,
    /// How well the times at which messages were due were kept, where this end can tell.
    pub pacing: Option<PacingError>,
    /// System calls of waiting; those of sending and receiving are counted by the wires.
    pub waits: u64,
    /// The state of a sender's first wire over time; empty where it was not wanted.
    pub states: Vec<SenderState>,
    /// Why it ended.
    pub ended: Ended,
}

/// Why an end ended.
#[derive(Debug)]
pub enum Ended {
    /// All was sent; or all that was sent has come.
    Complete,
    /// Some of what was sent is lost: nothing came for the quiet time.
    Quiet,
    /// The deadline passed before.
    DeadlinePassed,
    /// The user ended the run.
    Stopped,
    /// It could not go on.
    Failed(DriverError),
}

/// Why an end could not go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A wire failed, or was closed before all had come.
    #[error("wire {wire}: {source}")]
    Wire {
        /// Its place among the wires.
        wire: usize,
        /// Its error.
        source: WireError,
    },
    /// Several wires cannot be waited for in the calls on one.
    #[error("{wires} wires cannot be waited for in the calls of one")]
    Blocks {
        /// How many there are.
        wires: usize,
    },
    /// The bytes of a stream are not those of a load.
    #[error("wire {wire}: bytes that the other end's load does not send")]
    Unreadable {
        /// Its place among the wires.
        wire: usize,
    },
    /// The wires cannot be waited for.
    #[error("cannot wait for the wires: {0}")]
    Wait(#[from] std::io::Error),
    /// Messages have no room for their number.
    #[error("messages of {bytes} bytes; this load needs at least {least}")]
    TooShort {
        /// Their size.
        bytes: usize,
        /// The least.
        least: usize,
    },
}

/// What was sent, in sum over all wires and with the warm-up: a connection can still be warming up when others have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What an end tells and hears meanwhile, beside the wires. Nothing in it may wait.
pub trait Marks {
    /// The first measured message is about to be sent; the receiver times what comes from now on.
    fn begin(&mut self) {}

    /// Whether the sender's warm-up is over. Asked of the receiver's marks, as [`Marks::sent`] is and after it: what is on
    /// its way by then may be the warm-up of seconds, and takes the path from what is measured.
    fn measures(&mut self) -> bool {
        false
    }

    /// A receiver got something after the sender had ended: what it does from now on may be waiting for nothing.
    fn came_late(&mut self) {}

    /// Every [`LOOK_NS`] or later: the time.
    fn look(&mut self, _now_ns: u64) {}

    /// Every [`PROGRESS_NS`]: what all wires carried so far, and at a receiver the number that the last message carried.
    fn progress(&mut self, _so_far: &Tally, _nonce: u64) {}

    /// The number that messages with boundaries carry from now on, for their receiver to quote. Asked of a sender's marks at the
    /// begin and after each [`Marks::progress`].
    fn nonce(&mut self) -> u64 {
        0
    }

    /// What was sent, once the sender has ended. Asked of the receiver's marks, at least every [`LOOK_NS`].
    fn sent(&mut self) -> Option<Totals> {
        None
    }
}

/// How long an end waits at most before it looks whether it is to end, in ns.
pub const LOOK_NS: u64 = 50_000_000;
/// How long between two reports of progress, in ns.
pub const PROGRESS_NS: u64 = 100_000_000;
