//! What was observed of programs that Hairpin did not write: the evidence that an explanation is computed from.

use std::net::SocketAddr;
use std::ops::Range;

use crate::trace::RoundTrace;

/// A TCP connection. Times are in ns since the observation began.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedConnection {
    /// The end that opened the connection.
    pub client: SocketAddr,
    pub server: SocketAddr,
    /// The programs at the ends, if they are known.
    pub programs: [Option<ObservedProgram>; 2],
    /// Packets, and samples of sockets. It has no exchanges: the analysis finds them.
    pub trace: RoundTrace,
    /// Whether the packets show the beginning of the connection.
    pub has_handshake: bool,
    /// The largest payload of a segment that the handshake allows.
    pub mss_bytes: Option<u64>,
    /// Length of the header before the IP packet of each frame.
    pub link_header_bytes: u64,
    /// When a thread of the program at each end waited in a send call, in order.
    pub blocked_sends: [Vec<Range<u64>>; 2],
    /// The largest packet that a router on the path accepts, by its ICMP message.
    pub path_mtu_bytes: Option<u64>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedProgram {
    pub process: u32,
    pub name: String,
}

/// The time that a thread of a process waited for a CPU between two moments, in ns since the observation began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuWait {
    pub from_ns: u64,
    pub until_ns: u64,
    pub process: u32,
    pub waited_ns: u64,
}

/// All that was observed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub packets: ObservedPackets,
    /// Null for a capture file.
    pub programs: Option<ObservedPrograms>,
}

/// What was seen of running programs beside their packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedPrograms {
    /// Waits of their threads for a CPU, in order of time and process.
    pub cpu_waits: Vec<CpuWait>,
    /// Time that a CPU quota stopped them, in ns.
    pub stopped_by_quota_ns: u64,
    /// Time of the observation, in ns.
    pub duration_ns: u64,
    /// UDP sockets that dropped datagrams: the address, the program, and how many.
    pub udp_drops: Vec<(SocketAddr, String, u64)>,
    /// Connections that the accept queues of this network namespace had no room for (`TcpExtListenOverflows`).
    pub listen_overflows: u64,
    /// Listening sockets whose accept queue was full when it was looked at: the address, and the length of the queue.
    pub full_queues: Vec<(SocketAddr, u64)>,
    /// CPU time that the observation took, in ns.
    pub own_cpu_ns: u64,
    /// Number of programs, and of samples of sockets.
    pub programs: u64,
    pub samples: u64,
    /// Why packets were not captured.
    pub no_packets: Option<String>,
}

/// What a capture shows as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedPackets {
    pub connections: Vec<ObservedConnection>,
    /// Number of frames.
    pub frames: u64,
    /// Number of frames without a readable TCP segment.
    pub not_tcp: u64,
    /// Number of frames of which so little was captured that their TCP header is incomplete.
    pub cut: u64,
    /// Number of UDP datagrams.
    pub datagrams: u64,
    /// Number of second copies of a packet, as captures of several interfaces have them.
    pub copies: u64,
    /// Number of packets beyond the limit of what is kept.
    pub not_kept: u64,
    /// Number of packets that the capture itself lost, if it says so.
    pub lost_by_capture: u64,
    /// Time from the first to the last frame, in ns.
    pub duration_ns: u64,
    /// Why reading ended before the end of the file.
    pub ended_early: Option<String>,
}
