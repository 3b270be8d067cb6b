//! Why a program is slow: the answer of `hairpin explain`.

use serde::{Deserialize, Serialize};

use crate::exchange_state::{StateUnion, TimeInState};
use crate::fact::Fact;
use crate::fields::is_default;
use crate::time_sequence::TimeSequence;
use crate::words;

words! {
    /// Where the evidence comes from.
    pub enum Tier: "tier" {
        /// Samples of sockets and counters: any user, real targets.
        Samples = "samples",
        /// Packets and samples in a network namespace of the program's own.
        OwnNamespace = "own-namespace",
        /// Packets of this host's interfaces, and samples.
        Packets = "packets",
        File = "file",
    }

    /// Where packets were captured.
    pub enum VantagePoint: "vantage point" {
        Client = "client",
        Server = "server",
        Both = "both",
        Between = "between",
        Unknown = "unknown",
    }

    /// Why exchanges are slow. The words are those of findings where these name the same cause.
    pub enum Cause: "cause" {
        /// A small segment waits for the acknowledgment of earlier ones, which the receiver delays.
        NagleMeetsDelayedAck = "nagle-meets-delayed-ack",
        /// A small segment waits one round trip for the acknowledgment of earlier ones.
        NagleWaits = "nagle-waits",
        /// A sender waits for an acknowledgment that the receiver delays.
        DelayedAck = "delayed-ack",
        /// The receiver's window is full: its buffer is small.
        ReceiveWindow = "receive-window",
        /// Data waits in the sender's own socket.
        OwnSendQueue = "own-send-queue",
        /// The receiver's program reads too slowly.
        SlowReader = "slow-reader",
        /// A program waits in a write call for one slow peer, and serves no other meanwhile.
        BlockedInSend = "blocked-in-send",
        CongestionWindow = "congestion-window",
        /// The congestion window was reset after a pause (RFC 5681, section 4.1).
        SlowStartAfterIdle = "slow-start-after-idle",
        /// Lost data was sent again after acknowledgments showed its loss.
        Retransmission = "retransmission",
        /// Lost data was sent again after a timer.
        RetransmissionTimeOut = "retransmission-time-out",
        /// The protocol above TCP limits what is sent without an answer.
        ApplicationWindow = "application-window",
        /// Requests follow each other, each after the answer of the one before, over a long path.
        OneRequestPerRoundTrip = "one-request-per-round-trip",
        /// Each request opens a connection.
        ConnectionPerRequest = "connection-per-request",
        /// The first packet of connections was sent several times.
        ConnectDelayed = "connect-delayed",
        /// Connections were dropped because the server's queue of accepted ones was full.
        AcceptQueueOverflow = "accept-queue-overflow",
        /// Large packets never arrive.
        PathMtu = "path-mtu",
        /// The server's program works on the answer.
        ServerWork = "server-work",
        /// A request waits unread while the server's program does something else.
        ServerStalled = "server-stalled",
        /// Programs wait for a CPU.
        CpuContention = "cpu-contention",
        /// A limit on CPU time stops programs.
        CpuQuota = "cpu-quota",
        /// Datagrams were dropped because the receiver's buffer was full.
        UdpReceiveOverrun = "udp-receive-overrun",
        /// The client's program sends rarely.
        ClientIdle = "client-idle",
        /// Packets wait in a queue of the path, which carries all it can.
        LinkSaturated = "link-saturated",
    }
}

/// Names of the facts of a cause's evidence.
pub mod evidence {
    /// Number of exchanges in which the cause takes time, and of all exchanges.
    pub const AFFECTED: &str = "exchanges.affected";
    pub const EXCHANGES: &str = "exchanges.all";
    /// Median time that it takes in these, in ns.
    pub const WAIT_NS: &str = "exchanges.wait_ns";
    /// Median duration of an exchange, in ns.
    pub const EXCHANGE_NS: &str = "exchanges.duration_ns";
    /// The end that must change: `client` or `server`.
    pub const END: &str = "end";
    /// The program at that end, else at the server.
    pub const PROGRAM: &str = "program";
    /// Bytes of the segment that waited, and which segment of its message it is, from 1: medians.
    pub const HELD_BYTES: &str = "held.bytes";
    pub const HELD_SEGMENT: &str = "held.segment";
    /// The shortest round trip, in ns.
    pub const ROUND_TRIP_NS: &str = "round_trip_ns";
    /// The median round trip while data was sent, in ns.
    pub const LOADED_ROUND_TRIP_NS: &str = "loaded_round_trip_ns";
    /// Number of connections.
    pub const CONNECTIONS: &str = "connections";
    /// Median time to open a connection, in ns.
    pub const OPENING_NS: &str = "opening_ns";
    /// Number of packets with payload that were lost and sent again, and of all packets with payload.
    pub const SENT_AGAIN: &str = "packets.sent_again";
    pub const SENT: &str = "packets.sent";
    /// The largest window that the receiver advertised while it limited the sender, in bytes.
    pub const WINDOW_BYTES: &str = "window_bytes";
    /// Median bytes of a message.
    pub const MESSAGE_BYTES: &str = "message_bytes";
    /// Bytes that the first packets of a transfer carried, and the first ones of the transfer before.
    pub const FIRST_FLIGHT_BYTES: &str = "first_flight_bytes";
    pub const EARLIER_FLIGHT_BYTES: &str = "earlier_flight_bytes";
    /// Length of the smallest IP packet that never arrived, and of the largest one that did, in bytes.
    pub const LOST_PACKET_BYTES: &str = "packet.lost_bytes";
    pub const ARRIVED_PACKET_BYTES: &str = "packet.arrived_bytes";
    /// The largest packet that a router accepts, in bytes.
    pub const PATH_MTU_BYTES: &str = "path_mtu_bytes";
    /// Median bytes that were not sent when a message was written.
    pub const QUEUED_BYTES: &str = "queued_bytes";
    /// Bytes per second.
    pub const RATE_BYTES_PER_S: &str = "rate_bytes_per_s";
    /// Connections that the queue of a listening socket can hold.
    pub const QUEUE_LENGTH: &str = "queue_length";
    /// The address of a connection's client.
    pub const CLIENT: &str = "client";
}

/// Times in ns: a range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct RangeNs {
    pub low: f64,
    pub high: f64,
}

/// Sentences of a cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct CauseText {
    pub sentence: String,
    pub fix: String,
}

/// A cause, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ExplainedCause {
    pub code: Cause,
    /// The server's address, or a socket.
    #[serde(rename = "where")]
    pub place: String,
    /// Share of the time of the exchanges there, from 0 to 1; null if it is no time of exchanges.
    pub share: Option<f64>,
    /// Time that each exchange would save: the middle half of the exchanges. Null if unknown.
    pub saved_if_fixed_ns: Option<RangeNs>,
    /// Figures by name.
    pub evidence: Vec<Fact>,
    pub text: CauseText,
}

/// A connection, or all connections of a client to a server if there are many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ExplainedConnection {
    /// Number, from 1.
    pub id: u64,
    /// Addresses of the client and of the server, with the programs' names if they are known.
    pub ends: [String; 2],
    /// Number of connections.
    pub connections: u64,
    /// Number of requests with an answer, and of transfers in one direction.
    pub exchanges: u64,
    /// Of requests with an answer, if there are any.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// Payload from the client, and from the server.
    pub bytes: [u64; 2],
    /// The shortest round trip that the packets show; null if unknown.
    pub min_round_trip_ns: Option<u64>,
    /// The time of the exchanges in each state, longest first.
    pub states: Vec<TimeInState>,
    /// The unions among `states`.
    pub unions: Vec<StateUnion>,
    /// The longest exchange that the first cause explains; null without exchanges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<TimeSequence>,
}

/// The packets of an explanation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ExplainedPackets {
    /// Number of frames, of those without a readable TCP segment, and of those cut before the end of their TCP header.
    pub frames: u64,
    pub not_tcp: u64,
    pub cut: u64,
    /// Number of UDP datagrams.
    pub datagrams: u64,
    /// Number of second copies of packets, seen at another interface.
    pub copies: u64,
    /// Number of packets beyond the limit, which no figure includes.
    pub not_kept: u64,
    /// Number of packets that the capture lost.
    pub lost_by_capture: u64,
    pub duration_ns: u64,
    /// Number of connections, and of those whose beginning was not captured.
    pub connections: u64,
    pub without_handshake: u64,
    /// Number of exchanges of whose time no figure includes anything.
    pub exchanges_skipped: u64,
    /// Where most connections were captured.
    pub seen_at: Option<VantagePoint>,
    /// Why reading ended before the end of the file.
    pub ended_early: Option<String>,
}

/// The programs of an explanation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ExplainedPrograms {
    /// Number of programs that had sockets, and of samples of their sockets.
    pub programs: u64,
    pub samples: u64,
    pub duration_ns: u64,
    /// Time that their threads waited for a CPU, and that a CPU quota stopped them.
    pub waited_for_cpu_ns: u64,
    pub stopped_by_quota_ns: u64,
    /// CPU time that the observation took.
    pub own_cpu_ns: u64,
    /// Why packets were not captured.
    pub no_packets: Option<String>,
}

/// The answer of `hairpin explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Explanation {
    pub tier: Tier,
    /// The file, or the command.
    pub subject: String,
    pub packets: ExplainedPackets,
    /// Null for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<ExplainedPrograms>,
    /// What the evidence shows.
    pub seen: Vec<String>,
    /// What it cannot show, and what would.
    pub not_seen: Vec<String>,
    /// The one that takes most time first.
    pub causes: Vec<ExplainedCause>,
    /// By the time of their exchanges, longest first.
    pub connections: Vec<ExplainedConnection>,
    /// Exit code of the command; null for a file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exit_code: Option<u8>,
}
