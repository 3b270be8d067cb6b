//! The machine of a run; compared before two runs are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// Network namespace of a run's loopback rounds.
    #[derive(Default)]
    pub enum NetworkNamespace: "network namespace" {
        /// The one in which the program was started.
        #[default]
        Original = "original",
        /// A fresh one: an ordinary user's program that has made links cannot return to the original.
        Own = "own",
    }
}

/// The machine and its settings, read once before the first round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Environment {
    /// Kernel name, release and version.
    pub kernel: String,
    /// Architecture, for instance `x86_64`.
    pub architecture: String,
    /// The CPU's model name.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus_online: usize,
    /// CPUs this process may use.
    pub cpus_allowed: Vec<usize>,
    /// The CPUs that the ends use: client and echo when apart.
    pub cpus_used: Vec<usize>,
    /// Whether the two CPUs are threads of one core; null where unknown.
    pub cpus_share_core: Option<bool>,
    /// CPUs that the control groups of this process may use; null without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<f64>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The memory limit of its control groups, in bytes; null without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// The kind of container, for instance `docker`; null if none shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// `none`, or the hypervisor's name where it tells.
    pub hypervisor: Option<String>,
    /// The clock.
    pub clock: ClockFacts,
    /// CPU frequency governor, or null where there is none.
    pub governor: Option<String>,
    /// Idle states by name, shallowest first.
    pub idle_states: Vec<String>,
    /// Vulnerability mitigations that are in force (name to state); unaffected ones are left out.
    pub mitigations: BTreeMap<String, String>,
    /// Kernel settings that shape transports, for instance `net.ipv4.tcp_congestion_control`.
    pub settings: BTreeMap<String, String>,
    /// Where rounds over the loopback take place: what follows, and the `net.*` settings, are of that network namespace.
    #[serde(default)]
    pub network_namespace: NetworkNamespace,
    /// The loopback device: MTU, qdisc, offloads.
    pub loopback: BTreeMap<String, String>,
    /// The network interface that has this host's address on the path to the other host; null where there is one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// Load averages over 1, 5 and 15 minutes when the run began.
    pub load: Vec<f64>,
    /// Load averages when it ended; empty while it runs.
    #[serde(default)]
    pub load_after: Vec<f64>,
    /// Random number of this start of the kernel (random(4)): hosts that have the same are one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Effective user is root.
    pub root: bool,
}

/// A network interface, as far as the kernel and its driver tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Interface {
    /// Its name, for instance `eth0`.
    pub name: String,
    /// The driver; null of interfaces without one, as the loopback is.
    pub driver: Option<String>,
    /// The speed of its link, in Mbit/s.
    pub speed_mbit_per_s: Option<u64>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// The largest packet that it sends.
    pub mtu_bytes: Option<u64>,
    /// The queue discipline for what it sends.
    pub qdisc: Option<String>,
    /// Its offloads, `on` or `off`.
    pub offloads: BTreeMap<String, String>,
}

/// The one clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ClockFacts {
    /// `tsc` or `clock_monotonic`.
    pub source: String,
    /// The kernel's clock source.
    pub kernel_source: String,
    /// Smallest step seen between two reads, in ns.
    pub resolution_ns: f64,
    /// Median cost of a read, in ns.
    pub read_cost_ns: f64,
    /// Nanoseconds a tick; 1 where the clock counts ns itself.
    pub ns_per_tick: f64,
    /// Bound on the error of that, in parts per million.
    pub calibration_error_ppm: f64,
}
