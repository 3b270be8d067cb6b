//! The host capabilities that a plan needs: what can run here. Read by the binary, given to the experiments as plain data.

use crate::card::{Card, Receipt, SavedCards, WhyNot};
use crate::limits::Limits;

/// A transport and whether it can run here.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its promises.
    pub card: Card,
    /// Whether it can run.
    pub can_run: Result<Receipt, WhyNot>,
}

/// What can run here.
#[derive(Clone, Debug)]
pub struct HostCapabilities {
    /// Every transport, in the order of the ladder (fastest kind first).
    pub candidates: Vec<Candidate>,
    /// CPUs this process may use.
    pub cpus: Vec<usize>,
    /// Whether `/dev/cpu_dma_latency` may be held.
    pub may_keep_cpus_awake: Result<(), WhyNot>,
    /// Congestion controls that an unprivileged or this process may set.
    pub congestion_controls: Vec<String>,
    /// The congestion control in force.
    pub default_congestion_control: String,
    /// How long a round trip takes that wakes another CPU each way, in ns. It is measured when it is asked, in some ms.
    pub waking_round_trip_ns: fn() -> u64,
    /// The links that can be between the ends.
    pub links: LinkCapabilities,
    /// The host of the servers, where that is another one.
    pub far: Option<FarHost>,
    /// Whether a round can have its own value of the kernel setting of that name. It is tried when it is asked.
    pub may_set: fn(&str) -> Result<(), WhyNot>,
}

/// Another host on which servers run.
#[derive(Clone, Debug, PartialEq)]
pub struct FarHost {
    /// As the user names it.
    pub name: String,
    /// Whether it is reached over IPv6.
    pub is_ipv6: bool,
    /// How long a round trip there takes about, in ns.
    pub round_trip_ns: u64,
    /// The names of the transports that can run there.
    pub transports: Vec<String>,
    /// The congestion controls that can be set there.
    pub congestion_controls: Vec<String>,
    /// What the ticket allows.
    pub limits: Limits,
    /// The transport that takes the place of those over datagrams, and the evidence that these do not come through.
    pub fallback: Option<(String, String)>,
}

/// Which emulated links there are, and whether they can run here.
#[derive(Clone, Debug)]
pub struct LinkCapabilities {
    /// The names of the built-in profiles, `loopback` first.
    pub names: Vec<&'static str>,
    /// Reads what a user writes behind `--link`: a name, a line of figures, or a name and figures that change it. The
    /// error points at the word.
    pub read: fn(&str) -> Result<KnownLink, WhyNot>,
    /// Whether the relay can run here. It is tried when it is asked: the trial makes a network namespace, and a plan
    /// without links must not leave the kernel one to take down while it measures.
    pub relay: fn() -> Result<Receipt, WhyNot>,
}

/// A link that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownLink {
    /// What it is called: as the user wrote it, where that begins with the name of a built-in profile.
    pub name: Option<String>,
    /// The canonical line of its figures; `loopback` where there is no link.
    pub line: String,
    /// The round trip that its delays make, in ns, without jitter, queues and sizes: what plans are scaled by.
    pub round_trip_ns: u64,
    /// How many bits of IP packets go up and down a second; a replayed trace's
    /// mean; null where nothing limits them.
    pub bits_per_s: [Option<u64>; 2],
    /// The largest packet, in bytes.
    pub mtu_bytes: u32,
    /// How long the full queues of both directions take to empty, in ns; 0 where no rate is known.
    pub queue_ns: u64,
    /// Whether it may lose, damage or hold back packets, so that a transport that is reliable on the loopback is not.
    pub may_lose: bool,
}

impl HostCapabilities {
    /// The names of all transports.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.candidates.iter().map(|candidate| candidate.card.name).collect()
    }

    /// What a run keeps of the cards of all transports.
    #[must_use]
    pub fn saved_cards(&self) -> SavedCards {
        self.candidates.iter().map(|candidate| (candidate.card.name, candidate.card.saved())).collect()
    }

    /// The candidate of that name.
    #[must_use]
    pub fn candidate(&self, name: &str) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.card.name == name)
    }
}
