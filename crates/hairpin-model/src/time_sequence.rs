//! The time sequence of one exchange, for the ladder diagram: every write, segment, acknowledgment and read of both
//! ends, and the waits with their causes. `hairpin-analysis` computes it from a trace.

use serde::{Deserialize, Serialize};

use crate::exchange_state::{ExchangeState, StateSpan, StateUnion, TimeInState};
use crate::fields::is_default;
use crate::figure::Figure;
use crate::trace::{Capture, End};
use crate::words;

words! {
    /// Source of the events.
    pub enum Source: "source" {
        Capture = "capture",
        KernelTimestamps = "kernel-timestamps",
    }
}

/// One exchange, preceded by its connection's handshake. Times are in ns since the exchange's first write began, so
/// times of the handshake are negative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TimeSequence {
    /// The exchange's number in its connection, from 1.
    pub exchange: u64,
    /// Where the events come from.
    pub source: Source,
    /// Maximum error of a kernel timestamp relative to the time of a call, in ns.
    pub clock_error_ns: u64,
    /// Between two hosts, the events contain only what the client's host observed, by its clock, because the offset of
    /// the server's clock is unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub of_client_alone: bool,
    /// Time from the first write to the answer, in ns.
    pub duration_ns: i64,
    /// Events in order of time.
    pub events: Vec<Event>,
    /// Waits, longest first.
    pub waits: Vec<Wait>,
    /// The states of the exchange in order of time, without gaps; empty in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<StateSpan>,
}

/// One line or arrow of the ladder diagram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Event {
    /// When the event began at `end`.
    pub at_ns: i64,
    /// When the event ended: the return of a call, or the arrival at the other end; null if unknown.
    pub until_ns: Option<i64>,
    /// The end at which the event began.
    pub end: End,
    pub kind: EventKind,
    /// First byte of the event's range, counted from the exchange's first byte in this direction.
    pub first_byte: i64,
    /// End of the event's range; `first_byte` if the event carries no bytes. For an acknowledgment, all bytes before
    /// it have arrived.
    pub end_byte: i64,
}

words! {
    pub enum EventKind: "event" {
        Syn = "syn",
        SynAck = "syn-ack",
        Write = "write",
        /// A read call that returned bytes to the program.
        Read = "read",
        Cork = "cork",
        Uncork = "uncork",
        Quickack = "quickack",
        /// A segment with payload was sent to the other end.
        Segment = "segment",
        PureAck = "pure-ack",
        Fin = "fin",
        Reset = "reset",
    }
}

/// A wait, with its position in the diagram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Wait {
    pub cause: ExchangeState,
    /// The end at which the wait happened.
    pub end: End,
    pub from_ns: i64,
    pub until_ns: i64,
    /// First byte that waited (or was not acknowledged).
    pub first_byte: i64,
    /// End of the bytes that waited.
    pub end_byte: i64,
    /// When a late acknowledgment arrived at the other end, which may have waited for it; null for other causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_ns: Option<i64>,
}

impl Wait {
    /// When the wait ended for the waiting end: the arrival of a late acknowledgment, else `until_ns`.
    pub fn over_ns(&self) -> i64 {
        self.came_ns.unwrap_or(self.until_ns)
    }
}

/// Figures of a case's traced rounds, over all their exchanges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TraceFigures {
    /// One entry for each traced exchange, in order.
    pub exchanges: Vec<TracedExchange>,
    /// The time sequence of a late exchange of the round; null if no exchange ended.
    pub sequence: Option<TimeSequence>,
    /// `TCPAutoCorking` of /proc/net/netstat over the round; null if the kernel does not report it.
    pub autocorked: Option<u64>,
    /// The capture, or why it is missing.
    pub capture: Capture,
    /// The time in each state, over all exchanges, longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<TimeInState>,
}

/// One traced exchange in figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TracedExchange {
    /// Time from the first write to the answer, in ns.
    pub duration_ns: u64,
    /// Number of write calls.
    pub writes: u64,
    /// Number of segments with payload of the request.
    pub segments: u64,
    /// Waits, longest first.
    pub waits: Vec<Wait>,
    /// Time until the request's last byte was acknowledged after it left the client's host, in ns; null if unknown.
    pub last_ack_ns: Option<u64>,
    /// Time from the read that completed the request to the first write of the answer, by the clock of a server on
    /// another host, in ns; null on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_server_ns: Option<u64>,
}

/// The part of a case's traces that a run saves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TraceSummary {
    /// The time sequence of one exchange of the last traced round.
    pub sequence: Option<TimeSequence>,
    /// The last capture, or why it is missing.
    pub capture: Capture,
    /// Time that tracing adds to an exchange, from interleaved traced and untraced rounds of equal length, in ns.
    pub cost_ns: Option<Figure>,
    /// Ratio of the exchange times, traced / untraced.
    pub cost_ratio: Option<Figure>,
    /// Number of traced exchanges, over all traced rounds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exchanges: u64,
    /// The time of these exchanges in each state, longest first; the shares sum to 1. Empty without traces, and in runs
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<TimeInState>,
    /// The unions among `states`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unions: Vec<StateUnion>,
}
