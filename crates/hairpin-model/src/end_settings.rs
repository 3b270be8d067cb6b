//! How the two ends of a flow are set up: what they are, how they wait and where they run.

use serde::{Deserialize, Serialize};

use crate::fields::is_default;
use crate::words;

words! {
    /// How an end waits for the next message.
    pub enum Waiting: "waiting" {
        /// The receive call sleeps until there is data: one system call.
        Block = "block",
        /// `poll` sleeps until there is data, then a receive call takes it: two system calls.
        Poll = "poll",
        /// The end repeats a receive call that never sleeps.
        Spin = "spin",
        /// `epoll_wait` sleeps until there is data, then a receive call takes it: two system calls.
        Epoll = "epoll",
        /// The end repeats a receive call for up to 50 us, then the call sleeps.
        SpinThenBlock = "spin-then-block",
        /// One `io_uring_enter` submits the answer and the next receive, and sleeps until both are complete.
        Uring = "uring",
        /// `uring`, with a kernel thread at each end that takes submissions without a system call (SQPOLL).
        UringSqpoll = "uring-sqpoll",
        /// A receive call sleeps, and the kernel busy-polls the network device in it (`SO_BUSY_POLL`).
        BusyPoll = "busy-poll",
        /// A thread for each connection sleeps in a receive call, and runs the loop for the messages that it receives.
        ThreadPerConnection = "thread-per-connection",
        /// A task of a tokio runtime on the end's own thread.
        Async = "async",
        /// Tasks of a tokio runtime with several threads.
        AsyncThreads = "async-threads",
    }

    /// Where the two ends run.
    pub enum Placement: "placement" {
        SameCpu = "same-cpu",
        /// Pinned to two different CPUs: the nearest of two cores, if possible.
        CrossCpu = "cross-cpu",
        /// Pinned to two threads of one core.
        SameCore = "same-core",
        /// Pinned to two cores that share their last-level cache.
        SameCache = "same-cache",
        /// Pinned to two cores of one NUMA node that share no cache.
        SameNode = "same-node",
        /// Pinned to CPUs of two NUMA nodes.
        CrossNode = "cross-node",
        /// Left to the scheduler; the CPUs used are recorded.
        Unpinned = "unpinned",
        /// Between two hosts: each end is pinned to a CPU of its host.
        Pinned = "pinned",
    }

    /// What the two ends are.
    pub enum EndKind: "ends" {
        Processes = "processes",
        Threads = "threads",
    }

    /// Depth of the idle states that CPUs may enter during a round.
    pub enum CpuIdle: "CPU idle state" {
        /// As the machine is configured.
        Deep = "deep",
        /// Holds `/dev/cpu_dma_latency` at 0 during the round, so that idle CPUs keep polling.
        Shallow = "shallow",
    }

    /// Which of a host's CPUs a placement uses.
    #[derive(Default)]
    pub enum WhichCpus: "CPUs" {
        /// The CPUs that all cases use by default.
        #[default]
        Same = "same",
        /// Other CPUs; if there are only two, the same two swapped.
        Other = "other",
    }

    /// Scheduling policy of the threads of both ends (sched(7)).
    #[derive(Default)]
    pub enum Scheduling: "scheduling" {
        /// `SCHED_OTHER`, the default.
        #[default]
        Other = "other",
        /// `SCHED_FIFO` with priority 80: runs before all threads of `SCHED_OTHER`.
        Fifo = "fifo",
        /// `SCHED_DEADLINE`: the kernel reserves a quarter of each period of the load for each end. Needs ends that are not pinned.
        Deadline = "deadline",
    }
}

/// Timer slack of a thread that does not set it, in ns (prctl(2)).
pub const KERNEL_TIMER_SLACK_NS: u64 = 50_000;

/// How both ends are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct EndSettings {
    /// Processes or threads.
    pub kind: EndKind,
    /// How both ends wait.
    pub waiting: Waiting,
    /// Where both ends run.
    pub placement: Placement,
    /// Which CPUs the placement uses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpus: WhichCpus,
    /// Depth of the idle states.
    pub cpu_idle: CpuIdle,
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheduling: Scheduling,
    /// Timer slack of the threads of both ends, in ns (`PR_SET_TIMERSLACK`, prctl(2)); null: 1 ns at the client, and what the
    /// server's thread has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<u64>,
    /// Whether both ends lock their memory (mlockall(2)).
    #[serde(default, skip_serializing_if = "is_default")]
    pub lock_memory: bool,
}

/// Memory of an end for a connection and for a thread, in bytes. Measured with 1000 TCP connections: 5 and 14 KiB (Linux 6.18,
/// x86-64, 2026-11-28).
const CONNECTION_BYTES: u64 = 6 << 10;
const THREAD_BYTES: u64 = 16 << 10;
/// Maximum size of a buffer for the receives of a connection.
const MAX_BUFFER_BYTES: u64 = 64 << 10;
/// Worker threads of [`Waiting::AsyncThreads`].
const RUNTIME_THREADS: u32 = 2;

impl Placement {
    /// The placements of ends on one host.
    pub const ON_ONE_HOST: &'static [Self] = Self::ALL.split_at(Self::Pinned as usize).0;

    pub fn in_words(self) -> &'static str {
        match self {
            Self::SameCpu => "same CPU",
            Self::CrossCpu => "two CPUs",
            Self::SameCore => "same core",
            Self::SameCache => "same cache",
            Self::SameNode => "same node",
            Self::CrossNode => "two nodes",
            Self::Unpinned => "not pinned",
            Self::Pinned => "each pinned",
        }
    }

    pub fn has_own_cpus(self) -> bool {
        !matches!(self, Self::SameCpu | Self::Unpinned)
    }
}

impl Waiting {
    /// The modes of every load and of every transport with a descriptor. The others are for round trips over sockets.
    pub const BASIC: &'static [Self] = Self::ALL.split_at(Self::Epoll as usize).0;

    pub fn in_words(self) -> &'static str {
        match self {
            Self::Block => "blocking",
            Self::Poll => "polling",
            Self::Spin => "busy-polling",
            Self::Epoll => "epoll",
            Self::SpinThenBlock => "spin, then block",
            Self::Uring => "io_uring",
            Self::UringSqpoll => "io_uring SQPOLL",
            Self::BusyPoll => "kernel-polling",
            Self::ThreadPerConnection => "thread per connection",
            Self::Async => "tokio",
            Self::AsyncThreads => "tokio threads",
        }
    }

    /// The basic mode of the calls on a socket, beside receives of round trips.
    pub fn basic(self) -> Self {
        match self {
            Self::Block | Self::SpinThenBlock | Self::BusyPoll => Self::Block,
            Self::Spin => Self::Spin,
            _ => Self::Poll,
        }
    }

    /// Whether an end keeps its CPU busy while it waits, at least at first.
    pub fn spins(self) -> bool {
        matches!(self, Self::Spin | Self::SpinThenBlock)
    }

    /// Descriptors of an end for each connection: runtimes and threads wait for a copy.
    pub fn descriptors_per_connection(self) -> u64 {
        if matches!(self, Self::ThreadPerConnection | Self::Async | Self::AsyncThreads) { 2 } else { 1 }
    }

    /// Memory of an end's process for each connection, in bytes, with messages of this size. Without the kernel's buffers.
    pub fn bytes_per_connection(self, message_bytes: u64) -> u64 {
        let buffer_bytes = message_bytes.min(MAX_BUFFER_BYTES);
        match self {
            Self::Uring | Self::UringSqpoll => CONNECTION_BYTES + buffer_bytes,
            Self::ThreadPerConnection => CONNECTION_BYTES + THREAD_BYTES + buffer_bytes,
            _ => CONNECTION_BYTES,
        }
    }

    /// Threads of an end in addition to its own: of the kernel, of a runtime, or of its connections.
    pub fn more_threads(self, connections: u32) -> u32 {
        match self {
            Self::UringSqpoll => 1,
            Self::ThreadPerConnection => connections,
            Self::AsyncThreads => RUNTIME_THREADS,
            _ => 0,
        }
    }
}

impl EndSettings {
    /// Waiting and placement: `busy-polling, two CPUs`.
    pub fn in_words(&self) -> String {
        format!("{}, {}", self.waiting.in_words(), self.placement.in_words())
    }
}
