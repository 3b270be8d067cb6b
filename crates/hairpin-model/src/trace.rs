//! The trace of one round: what each end called, what the kernel stamped, and what was captured on the interface.
//!
//! All times are ns since the round's trace began (just before the connect call). Byte ranges count the payload of one
//! direction of the connection from 0; `end` bounds are exclusive. A trace is saved in a file of its own and is never
//! part of a timed round.

use serde::{Deserialize, Serialize};

use crate::fact::Fact;
use crate::fields::is_default;
use crate::words;

words! {
    /// Which end of the connection.
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

/// Everything that was seen of one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrace {
    /// When each exchange's first write began, in order; the exchange ends with the read that completes its answer.
    pub exchange_began_ns: Vec<u64>,
    /// When each exchange's answer was there.
    pub exchange_ended_ns: Vec<u64>,
    /// Bytes of a request, so that byte ranges can be told apart by exchange.
    pub request_bytes: u64,
    /// Bytes of an answer.
    pub reply_bytes: u64,
    /// How far a kernel stamp may be off once it is mapped to the engine's clock: half the width of the bracketed
    /// reads, in ns.
    pub clock_error_ns: u64,
    /// The client, `near` in format 1.
    #[serde(alias = "near")]
    pub client: EndTrace,
    /// The server, `far` in format 1.
    #[serde(alias = "far")]
    pub server: EndTrace,
    /// The server was on another host: its times are of its own clock, since its own trace began, and say nothing of when
    /// anything was by the client's. Packets were then captured at the client only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub server_has_own_clock: bool,
    /// What became of the capture.
    pub capture: Capture,
    /// The connection's packets in the order in which they were sent; empty without a capture.
    pub packets: Vec<Packet>,
}

/// What one end did and what the kernel stamped for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndTrace {
    /// Calls in order.
    pub calls: Vec<Call>,
    /// Kernel stamps in the order in which they were read.
    pub stamps: Vec<Stamp>,
    /// Counters (`tcp_info.*`, `netstat.*`) before the first exchange.
    pub before: Vec<Fact>,
    /// The same after the last.
    pub after: Vec<Fact>,
}

words! {
    /// What a program called.
    pub enum CallKind: "call" {
        /// It wrote the byte range.
        Write = "write",
        /// It read the byte range.
        Read = "read",
        /// It corked the socket; no bytes.
        Cork = "cork",
        /// It released the cork; no bytes.
        Uncork = "uncork",
        /// It asked for quick acknowledgments; no bytes.
        Quickack = "quickack",
    }
}

/// One system call of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Which.
    pub kind: CallKind,
    /// When it began.
    pub began_ns: u64,
    /// When it returned.
    pub ended_ns: u64,
    /// First byte of its range.
    pub first_byte: u64,
    /// End of its range; `first_byte` where the call carries no bytes.
    pub end_byte: u64,
}

words! {
    /// What the kernel stamped (Documentation/networking/timestamping.rst).
    pub enum StampKind: "stamp" {
        /// `SCM_TSTAMP_SCHED`: a segment entered the packet scheduler.
        Scheduled = "scheduled",
        /// `SCM_TSTAMP_SND`: a segment was handed to the driver.
        Driver = "driver",
        /// `SCM_TSTAMP_ACK`: everything up to the byte was acknowledged.
        Acknowledged = "acknowledged",
        /// The last segment of what a read call took arrived.
        Received = "received",
    }
}

/// One kernel stamp. The kernel merges writes, so a stamp speaks of the segment whose last byte it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Of what.
    pub kind: StampKind,
    /// When.
    pub at_ns: u64,
    /// End of the byte range that it covers.
    pub end_byte: u64,
}

/// One packet of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// When it passed the interface; across a link that of its sender, between two hosts that of the client.
    pub at_ns: u64,
    /// Across a link, when it passed the interface of the other end: null where it never did. On the loopback both are one
    /// interface, and it is null for every packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_ns: Option<u64>,
    /// Who sent it.
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
    /// End of its payload; `first_byte` where it has none.
    pub end_byte: u64,
    /// Bytes of the other direction that it acknowledges (all before this one); null without the ACK flag.
    pub ack_byte: Option<u64>,
    /// Bytes on the interface, link header included.
    pub length_bytes: u64,
}

/// What became of the capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
