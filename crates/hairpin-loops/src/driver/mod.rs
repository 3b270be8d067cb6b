//! One-way loads over many wires: an event-driven loop for the sender and one for the receiver.
//!
//! With [`hairpin_model::case::Waiting::Poll`] each end waits for all its wires at once and never inside a call on a
//! single wire, so that no wire starves another. With `Spin` each end tries one wire after another and never waits.
//! With `Block` there is one wire, and each end waits inside its calls. Wires must be opened with the same `Waiting`.
//!
//! The bytes themselves distinguish warm-up and measurement ([`phase`]), so the ends need no common clock. Each end
//! counts its own bytes; goodput is computed from the receiver's counts.

mod end;
mod gaps;
pub mod messages;
pub mod observing;
pub mod offering;
mod orders;
pub mod phase;
mod receiving;
mod schedule;
mod sending;
pub mod states;
mod streamed;
mod streams;
#[cfg(test)]
mod tests;
pub mod time_line;
pub mod times;
pub mod window;

use hairpin_model::{FailureKind, PacingError, SenderState};
use hairpin_transports::WireError;

pub use offering::{Offering, offer};
pub use orders::{Receiving, Sending};
pub use receiving::receive;
pub use sending::send;
use time_line::TimeLine;
use times::TimesOfMessages;

/// The counts of one end, for one wire or for all wires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent completely; on a byte stream, complete writes.
    pub messages_sent: u64,
    /// Bytes sent, including those of an incomplete message.
    pub bytes_sent: u64,
    /// Messages received, without duplicates; on a byte stream, the number of complete writes received.
    pub messages_received: u64,
    pub bytes_received: u64,
    /// Repeated arrivals of a message.
    pub duplicated: u64,
    /// Received messages that arrived after a message that was sent later.
    pub reordered: u64,
    /// Messages at least [`window::MESSAGES`] behind the newest message. They may be duplicates.
    pub too_old: u64,
    /// Messages that do not belong to this load.
    pub unreadable: u64,
    /// Sent messages that the kernel dropped ([`WireError::Refused`]).
    pub refused: u64,
    /// Calls that found no room in the send buffer.
    pub full: u64,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
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

/// Counts and times of one wire, or of all wires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    pub measured: Counts,
    pub warm_up: Counts,
    /// When the first measured bytes were sent or received, or when the receiver learned that they were sent, in ns
    /// of this end's clock.
    pub first_ns: Option<u64>,
    /// When the last bytes were sent or received, in ns of this end's clock.
    pub last_ns: Option<u64>,
    /// All bytes after `first_ns`, including the bytes of wires still in warm-up, because all wires share the path.
    /// Excludes the bytes of the first call, because the duration of that call is unknown.
    pub bytes_after_first: u64,
}

impl Transfer {
    /// Counts bytes sent or received at `at_ns`, once measured bytes have moved.
    pub fn moved(&mut self, at_ns: u64, bytes: u64) {
        if self.first_ns.is_some() {
            self.bytes_after_first += bytes;
        }
        self.first_ns = self.first_ns.or(Some(at_ns));
        self.last_ns = Some(at_ns);
    }

    /// Goodput in bytes per second: the bytes after the first call, divided by the time from the first to the last
    /// call. `None` if fewer than two calls moved measured bytes.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let elapsed_ns = self.last_ns?.checked_sub(self.first_ns?).filter(|elapsed_ns| *elapsed_ns > 0)?;
        Some(self.bytes_after_first as f64 / (elapsed_ns as f64 / 1e9))
    }

    pub fn count(&mut self, is_measured: bool, counts: Counts) {
        if is_measured { &mut self.measured } else { &mut self.warm_up }.add(counts);
    }

    /// The sum of warm-up and measurement.
    pub fn all(&self) -> Counts {
        let mut all = self.measured;
        all.add(self.warm_up);
        all
    }
}

/// The result of one end.
#[derive(Debug)]
pub struct Outcome {
    pub wires: Vec<Transfer>,
    pub total: Transfer,
    /// Bytes of all wires by time interval, including the warm-up.
    pub time_line: TimeLine,
    /// Times of measured messages: at a receiver from due to received, at a paced sender from due to sent.
    pub times: TimesOfMessages,
    /// Accuracy of the send times; `None` if this end cannot measure it.
    pub pacing: Option<PacingError>,
    /// Number of system calls made to wait. The wires count the calls that send and receive.
    pub waits: u64,
    /// The state of a sender's first wire over time; empty if not requested.
    pub states: Vec<SenderState>,
    /// Messages recorded by the observer, warm-up included; `None` without an observer that records messages.
    pub observed: Option<u64>,
    pub ended: StreamEnd,
}

#[derive(Debug)]
pub enum StreamEnd {
    /// A sender sent everything, or a receiver received everything that was sent.
    Complete,
    /// Some sent data was lost: nothing arrived during the quiet time.
    Quiet,
    DeadlinePassed,
    /// The user ended the run.
    Stopped,
    Failed(DriverError),
}

#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A wire failed or closed before everything had arrived.
    #[error("wire {wire}: {source}")]
    Wire { wire: usize, source: WireError },
    /// Blocking calls cannot wait for several wires.
    #[error("blocking calls cannot wait for {wires} wires")]
    Blocks { wires: usize },
    /// Bytes were received that do not belong to this load.
    #[error("wire {wire}: received bytes that do not belong to this load")]
    Unreadable { wire: usize },
    /// Waiting for the wires failed.
    #[error("cannot wait for the wires: {0}")]
    Wait(#[from] std::io::Error),
    /// The observer cannot begin.
    #[error("cannot observe messages: {0}")]
    Observe(std::io::Error),
    /// Messages have no room for their numbers.
    #[error("messages of {bytes} bytes are too short: this load needs at least {least}")]
    TooShort { bytes: usize, least: usize },
}

impl From<&DriverError> for FailureKind {
    fn from(error: &DriverError) -> Self {
        match error {
            DriverError::Wire { source, .. } => source.into(),
            DriverError::Blocks { .. } | DriverError::TooShort { .. } => Self::Unsupported,
            DriverError::Unreadable { .. } => Self::Unexpected,
            DriverError::Wait(error) | DriverError::Observe(error) => error.into(),
        }
    }
}

/// Totals of all wires, including the warm-up, because a connection can still be in warm-up when others have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub messages: u64,
    pub bytes: u64,
}

/// Notifications between an end and its caller during the load. The methods must not block.
pub trait Marks {
    /// Called at a sender before the first measured message, and at a receiver when it starts timing arrivals.
    fn begin(&mut self) {}

    /// Returns whether the sender's warm-up is over. Called at the receiver, after each [`Marks::sent`]. Warm-up
    /// bytes may still be in flight for seconds, and share the path with the measured bytes.
    fn measures(&mut self) -> bool {
        false
    }

    /// Called at the receiver when data arrives after the sender has ended. This may be the last data.
    fn came_late(&mut self) {}

    /// Called at intervals of at least [`LOOK_NS`], with the current time.
    fn look(&mut self, _now_ns: u64) {}

    /// Called every [`PROGRESS_NS`] with the counts of all wires so far and, at a receiver, the last nonce received.
    fn progress(&mut self, _so_far: &Transfer, _nonce: u64) {}

    /// Returns the next nonce for messages with boundaries; the receiver quotes it. Called at the sender, at the
    /// beginning and after each [`Marks::progress`].
    fn nonce(&mut self) -> u64 {
        0
    }

    /// Whether the sender may send more than [`UNGRANTED_BYTES`]. Called at the sender until it returns true.
    fn is_granted(&mut self) -> bool {
        true
    }

    /// Returns the sender's totals once the sender has ended. Called at the receiver, at least every [`LOOK_NS`].
    fn sent(&mut self) -> Option<Totals> {
        None
    }
}

/// Longest single wait of an end, and minimum interval of [`Marks::look`] calls, in ns.
pub const LOOK_NS: u64 = 50_000_000;
/// Bytes that a sender may send before it is known that they arrive.
pub const UNGRANTED_BYTES: u64 = 1 << 20;
pub const PROGRESS_NS: u64 = 100_000_000;
