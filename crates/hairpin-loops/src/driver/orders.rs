//! The parameters of the two ends of a one-way load.

use std::sync::atomic::AtomicBool;

use hairpin_model::flow::{Observer, Source};
use hairpin_model::{Extent, Waiting};

/// The parameters of an end that sends as fast as its wires accept, see [`super::send`].
pub struct Sending<'a, C> {
    pub clock: &'a C,
    /// Whether the transport keeps message boundaries.
    pub boundaries: bool,
    /// How to wait for room. With [`Waiting::Block`] there is only one wire.
    pub waiting: Waiting,
    /// Size of a message, or of a write on a byte stream.
    pub write_size_bytes: usize,
    /// Maximum number of messages per call, 1 to [`hairpin_transports::Batch::MAX_MESSAGES`].
    pub batch: usize,
    pub observer: Observer,
    /// Source of the bytes. Only bytes from memory carry timestamps.
    pub source: Source,
    /// The kernel may read a stream's bytes after the send call, so they never change and carry no timestamps.
    pub unchanging: bool,
    pub warm_up: Extent,
    /// The measured messages on each wire. A message that was partly sent when a duration ends is completed.
    pub amount: Extent,
    /// Whether to record the state of the first wire over time.
    pub keep_states: bool,
    /// Total time limit, in ns.
    pub within_ns: u64,
    /// Set when the user ends the run.
    pub stop: &'a AtomicBool,
}

/// The parameters of the end that receives, see [`super::receive`].
pub struct Receiving<'a, C> {
    pub clock: &'a C,
    /// Whether the transport keeps message boundaries.
    pub boundaries: bool,
    /// How to wait for messages. With [`Waiting::Block`] there is only one wire.
    pub waiting: Waiting,
    /// Whether the transport is reliable. If so, quiet time does not end the load.
    pub reliable: bool,
    /// Size of a message, or of a write on a byte stream.
    pub write_size_bytes: usize,
    /// Maximum messages per call if there are boundaries, 1 to [`hairpin_transports::Batch::MAX_MESSAGES`].
    pub batch: usize,
    /// Maximum bytes per read of a byte stream.
    pub read_size_bytes: usize,
    /// What is done for each message; the recorder's are timestamped and recorded.
    pub observer: Observer,
    /// Intended gap between arrivals in ns, to measure how even the gaps are; `None` to not measure them.
    pub gaps_of_ns: Option<f64>,
    /// Maximum number of messages whose times are kept individually.
    pub keep_times: usize,
    /// Quiet time in ns: once the amount sent is known, missing data counts as lost after this time without arrivals.
    pub quiet_ns: u64,
    /// Total time limit, in ns.
    pub within_ns: u64,
    /// Set when the user ends the run.
    pub stop: &'a AtomicBool,
}
