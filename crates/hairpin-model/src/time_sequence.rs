//! The time sequence of one exchange, as the ladder draws it: both ends, every write, segment, acknowledgment and read,
//! and the named waits. `hairpin-analysis` makes it from a trace.

use serde::{Deserialize, Serialize};

use crate::fields::is_default;
use crate::figure::Figure;
use crate::trace::{Capture, End};
use crate::words;

words! {
    /// Source of the events.
    pub enum Source: "source" {
        /// Packets captured on the interface.
        Capture = "capture",
        /// Kernel time stamps of both ends.
        KernelTimestamps = "kernel-timestamps",
    }
}

/// One exchange, its connection's handshake before it. Times are ns since the exchange's first write began, so those
/// of the handshake are negative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TimeSequence {
    /// The exchange's number in its connection, from 1.
    pub exchange: u64,
    /// Where the events come from.
    pub source: Source,
    /// How far a kernel's time may be off against a call's, in ns.
    pub clock_error_ns: u64,
    /// Of two hosts only what the client's saw, by its clock: nothing bounds how far the clock of the server's is off.
    #[serde(default, skip_serializing_if = "is_default")]
    pub of_client_alone: bool,
    /// From the first write to the answer, in ns.
    pub duration_ns: i64,
    /// What happened, in order of time.
    pub events: Vec<Event>,
    /// What was waited for, the longest first.
    pub waits: Vec<Wait>,
}

/// One line or arrow of the ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Event {
    /// When it began at `end`.
    pub at_ns: i64,
    /// When it ended: a call's return, an arrival at the other end; null where it is not known.
    pub until_ns: Option<i64>,
    /// Where it began.
    pub end: End,
    /// What it is.
    pub kind: EventKind,
    /// First byte of its range, counted from the exchange's first byte in this direction.
    pub first_byte: i64,
    /// End of its range; `first_byte` where it carries none. Of an acknowledgment: all before it have arrived.
    pub end_byte: i64,
}

words! {
    pub enum EventKind: "event" {
        /// The connection's first packet.
        Syn = "syn",
        /// Its answer.
        SynAck = "syn-ack",
        /// A write call of the program.
        Write = "write",
        /// A read call that returned bytes to the program.
        Read = "read",
        /// A corking call.
        Cork = "cork",
        /// The release of a cork.
        Uncork = "uncork",
        /// A call for quick acknowledgments.
        Quickack = "quickack",
        /// A segment with payload left for the other end.
        Segment = "segment",
        /// An acknowledgment without payload.
        PureAck = "pure-ack",
        /// A segment that closes its direction.
        Fin = "fin",
        /// A reset.
        Reset = "reset",
    }
}

words! {
    /// Cause of a wait.
    pub enum WaitCause: "wait" {
        /// Written bytes waited until earlier ones were acknowledged: Nagle's algorithm.
        Nagle = "nagle",
        /// Written bytes waited because the socket was corked.
        Cork = "cork",
        /// Written bytes waited for an earlier packet in the device's queue: autocorking.
        Autocork = "autocork",
        /// An acknowledgment was late although the data had arrived.
        DelayedAck = "delayed-ack",
        /// The server program held the request after reading it.
        ServerProgram = "server-program",
        /// Written bytes waited, and no evidence says why.
        Unexplained = "unexplained",
    }
}

/// A wait, with where it is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Wait {
    /// Why.
    pub cause: WaitCause,
    /// The end at which it happened.
    pub end: End,
    /// From when.
    pub from_ns: i64,
    /// Until when.
    pub until_ns: i64,
    /// First byte that waited (or was not acknowledged).
    pub first_byte: i64,
    /// End of the bytes that waited.
    pub end_byte: i64,
    /// Of an acknowledgment that was late: when it came to the other end, which may wait for it; null of all else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_ns: Option<i64>,
}

impl Wait {
    /// When it ended for the end that may wait for it.
    pub fn over_ns(&self) -> i64 {
        self.came_ns.unwrap_or(self.until_ns)
    }
}

/// Figures of a case's traced rounds, over all their exchanges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TraceFigures {
    /// One entry for each traced exchange, in order.
    pub exchanges: Vec<TracedExchange>,
    /// A late exchange of the round, drawn; null if none ended.
    pub sequence: Option<TimeSequence>,
    /// `TCPAutoCorking` of /proc/net/netstat over the round; null if the kernel does not report it.
    pub autocorked: Option<u64>,
    /// What became of the capture.
    pub capture: Capture,
}

/// One traced exchange in figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TracedExchange {
    /// From the first write to the answer, in ns.
    pub duration_ns: u64,
    /// Write calls.
    pub writes: u64,
    /// Segments with payload of the request.
    pub segments: u64,
    /// Longest first.
    pub waits: Vec<Wait>,
    /// From the request's last byte leaving the client's host to its acknowledgment, in ns; null if unknown.
    pub last_ack_ns: Option<u64>,
    /// From the read that completed the request to the first write of the answer, at a server on another host by its
    /// own clock, in ns; null on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_server_ns: Option<u64>,
}

/// What a run keeps of a case's traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TraceSummary {
    /// One exchange of the last traced round, drawn.
    pub sequence: Option<TimeSequence>,
    /// What became of the last capture.
    pub capture: Capture,
    /// What tracing adds to an exchange: traced against untraced rounds of equal length, interleaved, in ns.
    pub cost_ns: Option<Figure>,
    /// The same as a ratio, traced / untraced.
    pub cost_ratio: Option<Figure>,
}
