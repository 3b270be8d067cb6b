//! One-way loads over many wires: an event-driven loop for the sender and one for the receiver.
//!
//! With [`hairpin_model::case::Waiting::Poll`] both wait for all their wires at once and never in a call on one of
//! them, so that no wire starves another; with `Spin` they try one after another and never wait; with `Block` there is
//! one wire, and each end waits in its calls. The wires must be opened with the same waiting.
//!
//! The bytes themselves distinguish warm-up and measurement ([`phase`]), so the ends need no common clock. Each end
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

use hairpin_model::{FailureKind, PacingError, SenderState};
use hairpin_transports::WireError;

pub use offering::Offering;
pub use receiving::Receiving;
pub use sending::Sending;
use time_line::TimeLine;
use times::TimesOfMessages;

/// The amount to send on each wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Number of messages.
    Count(u64),
    /// As many as possible in this time, in ns. A message that has begun is sent completely.
    DurationNs(u64),
}

/// The counts of an end, for one wire or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent completely; on a byte stream, writes.
    pub messages_sent: u64,
    /// Bytes sent, including those of a partially sent message.
    pub bytes_sent: u64,
    /// Messages received, without duplicates; on a byte stream, the number of complete writes.
    pub messages_received: u64,
    pub bytes_received: u64,
    /// Repeated arrivals of a message.
    pub duplicated: u64,
    /// Received messages that arrived after one sent later.
    pub reordered: u64,
    /// Messages more than [`window::MESSAGES`] behind the newest, which may be duplicates.
    pub too_old: u64,
    /// Messages that do not belong to this load.
    pub unreadable: u64,
    /// Sent messages that the kernel refused ([`WireError::Refused`]).
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

/// Counts and times of one wire, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    pub measured: Counts,
    pub warm_up: Counts,
    /// When the first measured bytes were sent or received, or the receiver learned that they were sent, in ns of this
    /// end's clock.
    pub first_ns: Option<u64>,
    /// When the last bytes were sent or received.
    pub last_ns: Option<u64>,
    /// All bytes after `first_ns`, including those of wires still in warm-up, which share the path. Excludes the bytes
    /// of the first call, whose duration is unknown.
    pub bytes_after_first: u64,
}

impl Transfer {
    /// Counts bytes sent or received by `at_ns`, from the first measured ones on.
    pub(crate) fn moved(&mut self, at_ns: u64, bytes: u64) {
        if self.first_ns.is_some() {
            self.bytes_after_first += bytes;
        }
        self.first_ns = self.first_ns.or(Some(at_ns));
        self.last_ns = Some(at_ns);
    }

    /// Bytes per second between the first and the last call: the bytes after the first call over the time that they
    /// took. `None` with fewer than two calls with measured bytes.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let elapsed_ns = self.last_ns?.checked_sub(self.first_ns?).filter(|elapsed_ns| *elapsed_ns > 0)?;
        Some(self.bytes_after_first as f64 / (elapsed_ns as f64 / 1e9))
    }

    pub(crate) fn count(&mut self, is_measured: bool, counts: Counts) {
        if is_measured { &mut self.measured } else { &mut self.warm_up }.add(counts);
    }

    /// Warm-up and measurement together.
    pub fn all(&self) -> Counts {
        let mut all = self.measured;
        all.add(self.warm_up);
        all
    }
}

/// The result of an end.
#[derive(Debug)]
pub struct Outcome {
    pub wires: Vec<Transfer>,
    pub total: Transfer,
    /// Bytes of all wires over time, including the warm-up.
    pub time_line: TimeLine,
    /// Times of measured messages: at a receiver from due to received, at a paced sender from due to sent.
    pub times: TimesOfMessages,
    /// Accuracy of the send times, if this end can measure it.
    pub pacing: Option<PacingError>,
    /// System calls for waiting; the wires count those for sending and receiving.
    pub waits: u64,
    /// The state of a sender's first wire over time; empty if not requested.
    pub states: Vec<SenderState>,
    pub ended: StreamEnd,
}

#[derive(Debug)]
pub enum StreamEnd {
    /// Everything was sent; or everything that was sent arrived.
    Complete,
    /// Part of what was sent is lost: nothing arrived during the quiet time.
    Quiet,
    DeadlinePassed,
    /// The user ended the run.
    Stopped,
    Failed(DriverError),
}

#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A wire failed, or was closed before everything had arrived.
    #[error("wire {wire}: {source}")]
    Wire { wire: usize, source: WireError },
    /// Calls cannot wait for several wires.
    #[error("{wires} wires cannot be waited for in the calls of one")]
    Blocks { wires: usize },
    /// The bytes of a stream do not belong to this load.
    #[error("wire {wire}: bytes that the other end's load does not send")]
    Unreadable { wire: usize },
    /// The wires cannot be waited for.
    #[error("cannot wait for the wires: {0}")]
    Wait(#[from] std::io::Error),
    /// Messages have no room for their number.
    #[error("messages of {bytes} bytes; this load needs at least {least}")]
    TooShort { bytes: usize, least: usize },
}

impl From<&DriverError> for FailureKind {
    fn from(error: &DriverError) -> Self {
        match error {
            DriverError::Wire { source, .. } => source.into(),
            DriverError::Blocks { .. } | DriverError::TooShort { .. } => Self::Unsupported,
            DriverError::Unreadable { .. } => Self::Unexpected,
            DriverError::Wait(error) => error.into(),
        }
    }
}

/// Totals of all wires, including the warm-up: a connection can still be warming up when others have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub messages: u64,
    pub bytes: u64,
}

/// Notifications between an end and its caller during the load. No method may block.
pub trait Marks {
    /// The first measured message is about to be sent; the receiver starts to time what arrives.
    fn begin(&mut self) {}

    /// Whether the sender's warm-up is over. Called on the receiver's marks, like [`Marks::sent`] and after it. Bytes
    /// still in flight may be seconds of warm-up, which share the path with the measurement.
    fn measures(&mut self) -> bool {
        false
    }

    /// The receiver got something after the sender had ended: from now on it may wait for nothing.
    fn came_late(&mut self) {}

    /// Called every [`LOOK_NS`] or later, with the time.
    fn look(&mut self, _now_ns: u64) {}

    /// Called every [`PROGRESS_NS`], with the counts of all wires so far, and at a receiver the last nonce received.
    fn progress(&mut self, _so_far: &Transfer, _nonce: u64) {}

    /// The next nonce of messages with boundaries, for their receiver to quote. Called on a sender's marks at the
    /// beginning and after each [`Marks::progress`].
    fn nonce(&mut self) -> u64 {
        0
    }

    /// The amount sent, once the sender has ended. Called on the receiver's marks, at least every [`LOOK_NS`].
    fn sent(&mut self) -> Option<Totals> {
        None
    }
}

/// Maximum wait of an end before it checks whether to end, in ns.
pub const LOOK_NS: u64 = 50_000_000;
/// Interval of progress reports, in ns.
pub const PROGRESS_NS: u64 = 100_000_000;
