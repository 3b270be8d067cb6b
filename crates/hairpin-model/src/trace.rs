//! The trace of one round: calls of each end, kernel time stamps, and packets captured on the interface.
//!
//! All times are ns since the round's trace began (just before the connect call). Byte ranges count the payload of one
//! direction of the connection from 0; `end` bounds are exclusive. A trace has its own file and is never part of a
//! timed round.

use serde::{Deserialize, Serialize};

use crate::fact::Fact;
use crate::fields::is_default;
use crate::words;

words! {
    /// An end of the connection.
    #[derive(Default)]
    pub enum End: "end" {
        /// The client, `near` in format 1.
        #[serde(alias = "near")]
        #[default]
        Client = "client",
        /// The server, `far` in format 1.
        #[serde(alias = "far")]
        Server = "server",
    }
}

/// Everything observed in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrace {
    /// Start of each exchange's first write, in order; the exchange ends with the read that completes its answer.
    pub exchange_began_ns: Vec<u64>,
    /// When each exchange's answer was complete.
    pub exchange_ended_ns: Vec<u64>,
    /// Bytes of a request, to assign byte ranges to exchanges.
    pub request_bytes: u64,
    /// Bytes of an answer.
    pub reply_bytes: u64,
    /// Error bound of kernel stamps mapped to the engine's clock: half the width of the bracketed reads, in ns.
    pub clock_error_ns: u64,
    /// The client, `near` in format 1.
    #[serde(alias = "near")]
    pub client: EndTrace,
    /// The server, `far` in format 1.
    #[serde(alias = "far")]
    pub server: EndTrace,
    /// The server was on another host: its times are by its own clock, since its own trace began, and cannot be placed
    /// on the client's. Packets were then captured at the client only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub server_has_own_clock: bool,
    /// What became of the capture.
    pub capture: Capture,
    /// The connection's packets in sending order; empty without a capture.
    pub packets: Vec<Packet>,
}

/// Calls of one end, and its kernel stamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndTrace {
    /// In order.
    pub calls: Vec<Call>,
    /// In the order in which they were read.
    pub stamps: Vec<Stamp>,
    /// Counters (`tcp_info.*`, `netstat.*`) before the first exchange.
    pub before: Vec<Fact>,
    /// The same after the last.
    pub after: Vec<Fact>,
}

words! {
    /// A program's call.
    pub enum CallKind: "call" {
        /// Wrote the byte range.
        Write = "write",
        /// Read the byte range.
        Read = "read",
        /// Corked the socket; no bytes.
        Cork = "cork",
        /// Released the cork; no bytes.
        Uncork = "uncork",
        /// Asked for quick acknowledgments; no bytes.
        Quickack = "quickack",
    }
}

/// One system call of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub kind: CallKind,
    pub began_ns: u64,
    pub ended_ns: u64,
    /// First byte of its range.
    pub first_byte: u64,
    /// End of its range; `first_byte` without bytes.
    pub end_byte: u64,
}

words! {
    /// Kinds of kernel time stamps (Documentation/networking/timestamping.rst).
    pub enum StampKind: "stamp" {
        /// `SCM_TSTAMP_SCHED`: a segment entered the packet scheduler.
        Scheduled = "scheduled",
        /// `SCM_TSTAMP_SND`: a segment was handed to the driver.
        Driver = "driver",
        /// `SCM_TSTAMP_ACK`: everything up to the byte was acknowledged.
        Acknowledged = "acknowledged",
        /// The last segment of a read call's data arrived.
        Received = "received",
    }
}

/// One kernel stamp. The kernel merges writes, so a stamp is about the segment that ends with its byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub kind: StampKind,
    pub at_ns: u64,
    /// End of the byte range that it covers.
    pub end_byte: u64,
}

/// One packet of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// When it passed the interface: across a link the sender's, between two hosts the client's.
    pub at_ns: u64,
    /// Across a link, when it passed the other end's interface; null if it never did. On the loopback both are one
    /// interface, and it is always null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_ns: Option<u64>,
    /// Its sender.
    pub from: End,
    /// It opens the connection.
    pub syn: bool,
    /// It closes its direction.
    pub fin: bool,
    /// It resets the connection.
    pub rst: bool,
    /// Its push flag.
    pub psh: bool,
    /// First byte of its payload.
    pub first_byte: u64,
    /// End of its payload; `first_byte` without payload.
    pub end_byte: u64,
    /// Bytes of the other direction that it acknowledges (all before this one); null without the ACK flag.
    pub ack_byte: Option<u64>,
    /// Bytes on the interface, link header included.
    pub length_bytes: u64,
}

/// What became of the capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Capture {
    /// The packets are in this pcapng file, relative to the run folder.
    Saved {
        /// The file.
        file: String,
        /// Packets in it.
        packets: u64,
        /// Packets that the ring had no room for.
        dropped: u64,
    },
    /// There is none, and this is why.
    Skipped {
        /// The reason, and what would help.
        reason: String,
    },
}

impl Default for Capture {
    fn default() -> Self {
        Self::Skipped { reason: "no capture was asked for".to_owned() }
    }
}
