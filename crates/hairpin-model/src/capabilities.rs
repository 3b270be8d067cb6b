//! Host capabilities: what can run here. The binary detects the capabilities; experiments get plain data.

use crate::card::{Card, Receipt, SavedCards, WhyNot};
use crate::case::{Placement, Scheduling};
use crate::limits::Limits;

/// A transport and whether it can run here.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub card: Card,
    pub can_run: Result<Receipt, WhyNot>,
}

/// A placement on two CPUs, with the CPUs of client and server of up to two pairs of ends, or why this machine lacks the
/// placement.
pub type Level = (Placement, Result<Vec<[usize; 2]>, WhyNot>);

#[derive(Clone, Debug)]
pub struct HostCapabilities {
    /// All transports, in ladder order (fastest kind first).
    pub candidates: Vec<Candidate>,
    /// Features that this build lacks, and the transports that need each.
    pub omitted: &'static [(&'static str, &'static [&'static str])],
    /// CPUs this process may use.
    pub cpus: Vec<usize>,
    /// Tasks of other programs that are running or ready to run, per CPU.
    pub busy_per_cpu: f64,
    /// CPUs that the control groups of this process may use together; `None` without a quota.
    pub cpu_quota: Option<f64>,
    /// The placements by topology; those not listed are possible.
    pub levels: Vec<Level>,
    /// The CPUs of client and server, if the user chose both.
    pub given_cpus: Option<[usize; 2]>,
    /// Whether this process may hold `/dev/cpu_dma_latency` open.
    pub may_keep_cpus_awake: Result<(), WhyNot>,
    /// Congestion controls that this process may set.
    pub congestion_controls: Vec<String>,
    /// Measures a round trip that wakes another CPU each way, in ns; takes some ms.
    pub waking_round_trip_ns: fn() -> u64,
    /// Measures the time to start a process, in ns; takes some ms.
    pub process_start_ns: fn() -> u64,
    /// Emulated links between the ends.
    pub links: LinkCapabilities,
    /// The servers' host, if it is not this host.
    pub far: Option<FarHost>,
    /// Tests whether a round can have its own value of the named kernel setting.
    pub may_set: fn(&str) -> Result<(), WhyNot>,
    /// Tests whether this process may capture packets.
    pub may_capture: fn() -> Result<(), WhyNot>,
    /// Whether ends may use a scheduling policy, and lock their memory.
    pub may_schedule: fn(Scheduling, bool) -> Result<(), WhyNot>,
    /// Whether this process may use io_uring.
    pub may_use_io_uring: fn() -> Result<(), WhyNot>,
}

/// Another host on which servers run.
#[derive(Clone, Debug, PartialEq)]
pub struct FarHost {
    /// As given by the user.
    pub name: String,
    /// Reached over IPv6.
    pub is_ipv6: bool,
    /// Approximate round-trip time, in ns.
    pub round_trip_ns: u64,
    /// Names of the transports that can run there.
    pub transports: Vec<String>,
    /// Congestion controls that can be set there.
    pub congestion_controls: Vec<String>,
    /// Limits of the ticket.
    pub limits: Limits,
    /// The transport used instead of datagrams, and the evidence that datagrams do not get through.
    pub fallback: Option<(String, String)>,
    /// Whether the server is not Hairpin's; `name` is then its URL.
    pub is_foreign: bool,
}

/// Known emulated links and whether they can run here.
#[derive(Clone, Debug)]
pub struct LinkCapabilities {
    /// Names of the built-in profiles, `loopback` first.
    pub names: Vec<&'static str>,
    /// Parses the argument of `--link`: a name, a line of figures, or a name and figures that change its profile. The
    /// error quotes the wrong word.
    pub read: fn(&str) -> Result<KnownLink, WhyNot>,
    /// Tests whether the relay can run here. Called only for plans with links: the test makes a network namespace,
    /// which the kernel would still be removing while the run measures.
    pub relay: fn() -> Result<Receipt, WhyNot>,
}

/// A parsed link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLink {
    /// The text as the user wrote it, if it begins with the name of a built-in profile.
    pub name: Option<String>,
    /// Canonical line of the link's figures; `loopback` if there is no link.
    pub line: String,
    /// Sum of the delays of both directions, in ns, without jitter, queueing and serialization. Scales plans.
    pub round_trip_ns: u64,
    /// Rates up and down, in bits of IP packets per second; for a replayed trace, the mean rate; `None` if unlimited.
    pub bits_per_s: [Option<u64>; 2],
    pub mtu_bytes: u32,
    /// Time to drain the full queues of both directions, in ns; 0 if no rate is known.
    pub queue_ns: u64,
    /// The link may lose, damage or hold back packets, so a transport may lose messages although the loopback loses
    /// none.
    pub may_lose: bool,
}

impl HostCapabilities {
    pub fn names(&self) -> Vec<&'static str> {
        self.candidates.iter().map(|candidate| candidate.card.name).collect()
    }

    pub fn saved_cards(&self) -> SavedCards {
        self.candidates.iter().map(|candidate| (candidate.card.name, candidate.card.saved())).collect()
    }

    /// The pairs of CPUs with this placement by topology; `None` for other placements.
    pub fn level(&self, placement: Placement) -> Option<&Result<Vec<[usize; 2]>, WhyNot>> {
        self.levels.iter().find(|(level, _)| *level == placement).map(|(_, pairs)| pairs)
    }

    pub fn candidate(&self, name: &str) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.card.name == name)
    }
}
