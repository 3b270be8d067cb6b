//! What was observed of programs that Hairpin did not write: the evidence that an explanation is computed from.

use std::net::SocketAddr;
use std::ops::Range;

use crate::explanation::{ExplainedPackets, ExplainedPrograms};
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
    /// All but the time that threads waited for a CPU.
    pub figures: ExplainedPrograms,
    /// Waits of their threads for a CPU, in order of time and process.
    pub cpu_waits: Vec<CpuWait>,
    /// UDP sockets that dropped datagrams: the address, the program, and how many.
    pub udp_drops: Vec<(SocketAddr, String, u64)>,
    /// Connections that the accept queues of this network namespace had no room for (`TcpExtListenOverflows`).
    pub listen_overflows: u64,
    /// Listening sockets whose accept queue was full when it was looked at: the address, and the length of the queue.
    pub full_queues: Vec<(SocketAddr, u64)>,
}

/// What a capture shows as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedPackets {
    /// All but the figures of connections.
    pub figures: ExplainedPackets,
    pub connections: Vec<ObservedConnection>,
}
