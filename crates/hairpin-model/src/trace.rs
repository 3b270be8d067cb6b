//! The trace of one round: calls of each end, kernel timestamps, and packets captured on the interface.
//!
//! All times are in ns since the round's trace began (just before the connect call). Byte ranges count the payload of
//! one direction of the connection from 0; `end` bounds are exclusive. Each trace has its own file.

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
    /// Error bound of kernel timestamps mapped to the engine's clock, in ns: half the time between the two clock
    /// reads.
    pub clock_error_ns: u64,
    /// The client, `near` in format 1.
    #[serde(alias = "near")]
    pub client: EndTrace,
    /// The server, `far` in format 1.
    #[serde(alias = "far")]
    pub server: EndTrace,
    /// The server was on another host. The server's times are by its own clock, since its own trace began, and cannot
    /// be converted to the client's clock. Packets were captured only at the client.
    #[serde(default, skip_serializing_if = "is_default")]
    pub server_has_own_clock: bool,
    /// The capture, or why it is missing.
    pub capture: Capture,
    /// The connection's packets in sending order; empty without a capture.
    pub packets: Vec<Packet>,
}

/// Calls of one end, and its kernel timestamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndTrace {
    /// Calls in order of time.
    pub calls: Vec<Call>,
    /// Kernel timestamps in the order in which they were read.
    pub stamps: Vec<Stamp>,
    /// Counters (`tcp_info.*`, `netstat.*`) before the first exchange.
    pub before: Vec<Fact>,
    /// Counters after the last exchange.
    pub after: Vec<Fact>,
    /// Samples of the socket's state, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<SocketSample>,
}

/// The state of an end's TCP socket at a moment, as `TCP_INFO`, `SIOCINQ` or sock_diag(7) show it. Bytes count from 0
/// like those of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketSample {
    pub at_ns: u64,
    /// Sent bytes that the other end has acknowledged (`tcpi_bytes_acked`).
    pub acked_bytes: u64,
    /// Sent bytes that are not acknowledged.
    pub unacked_bytes: u64,
    /// Written bytes that were not sent yet (`tcpi_notsent_bytes`).
    pub not_sent_bytes: u64,
    /// Segments in flight and the congestion window, in segments (`tcpi_unacked`, `tcpi_snd_cwnd`).
    pub unacked_segments: u64,
    pub cwnd_segments: u64,
    /// The receiver's window (`tcpi_snd_wnd`).
    pub send_window_bytes: u64,
    /// Bytes that arrived in order (`tcpi_bytes_received`).
    pub received_bytes: u64,
    /// Bytes of these that the program has not read (`SIOCINQ`).
    pub unread_bytes: u64,
    /// Minimum round-trip time (`tcpi_min_rtt`); 0 if unknown.
    pub min_rtt_ns: u64,
}

words! {
    /// A program's call.
    pub enum CallKind: "call" {
        Write = "write",
        Read = "read",
        Cork = "cork",
        Uncork = "uncork",
        Quickack = "quickack",
    }
}

/// One system call of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub kind: CallKind,
    pub began_ns: u64,
    pub ended_ns: u64,
    /// First byte of the call's range.
    pub first_byte: u64,
    /// End of the call's range; `first_byte` without bytes.
    pub end_byte: u64,
}

words! {
    /// Kinds of kernel timestamps (Documentation/networking/timestamping.rst).
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

/// One kernel timestamp. The kernel merges writes, so a timestamp is for the segment that ends at `end_byte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub kind: StampKind,
    pub at_ns: u64,
    /// End of the byte range that the timestamp covers.
    pub end_byte: u64,
}

/// One packet of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// When the packet passed the interface: on a link the sender's interface, between two hosts the client's.
    pub at_ns: u64,
    /// On a link, when the packet passed the other end's interface; null if it never did. Always null on the
    /// loopback, where both ends share one interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_ns: Option<u64>,
    /// The packet's sender.
    pub from: End,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    pub psh: bool,
    /// First byte of the payload.
    pub first_byte: u64,
    /// End of the payload; `first_byte` without payload.
    pub end_byte: u64,
    /// Acknowledges all bytes of the other direction before this one; null without the ACK flag.
    pub ack_byte: Option<u64>,
    /// Bytes after `ack_byte` that the sender of the packet has room for; null if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// Bytes on the interface, with the link header.
    pub length_bytes: u64,
}

/// The capture, or why it is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Capture {
    /// The packets are in this pcapng file, relative to the run folder.
    Saved {
        file: String,
        /// Number of packets in the file.
        packets: u64,
        /// Number of packets for which the capture ring had no room.
        dropped: u64,
    },
    /// No capture was made.
    Skipped {
        /// The reason, and what would help.
        reason: String,
    },
}

impl Default for Capture {
    fn default() -> Self {
        Self::Skipped { reason: "no capture was requested".to_owned() }
    }
}
