//! The machine of a run. `hairpin compare` reports differences between the machines of two runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// Network namespace of a run's loopback rounds.
    #[derive(Default)]
    pub enum NetworkNamespace: "network namespace" {
        /// The network namespace in which the program was started.
        #[default]
        Original = "original",
        /// A new network namespace: an ordinary user's program that has made links cannot return to the original.
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
    /// The CPUs of ends with the placements `cross-cpu` (first the client's, then the server's) and `same-cpu` (the
    /// server's). Each round has the CPUs of its ends.
    pub cpus_used: Vec<usize>,
    /// Whether the two CPUs are threads of one core; null if unknown.
    pub cpus_share_core: Option<bool>,
    /// CPUs that the control groups of this process may use; null without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<f64>,
    /// The scheduling policy and the nice value of this process (sched(7)), for instance `SCHED_OTHER, nice 10`; null for
    /// the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<String>,
    /// The highest CPU frequency that the kernel may use / the highest of the hardware; null if unlimited or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_limit: Option<f64>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The memory limit of this process's control groups, in bytes; null without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// The kind of container, for instance `docker`; null if none was detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// `none`, or the hypervisor's name if known.
    pub hypervisor: Option<String>,
    pub clock: ClockFacts,
    /// CPU frequency governor; null without a governor.
    pub governor: Option<String>,
    /// Idle states by name, shallowest first.
    pub idle_states: Vec<String>,
    /// Vulnerability mitigations in effect (name to state); vulnerabilities that do not affect the CPU are omitted.
    pub mitigations: BTreeMap<String, String>,
    /// Kernel settings that affect transports, for instance `net.ipv4.tcp_congestion_control`.
    pub settings: BTreeMap<String, String>,
    /// Network namespace of rounds over the loopback, with its `net.*` settings and its loopback device.
    #[serde(default)]
    pub network_namespace: NetworkNamespace,
    /// The loopback device: MTU, qdisc, offloads.
    pub loopback: BTreeMap<String, String>,
    /// The network interface with this host's address on the path to the other host; null for runs on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// Load averages over 1, 5 and 15 minutes when the run began.
    pub load: Vec<f64>,
    /// Load averages when the run ended; empty before the end.
    #[serde(default)]
    pub load_after: Vec<f64>,
    /// Boot id of the kernel (random(4)). Hosts with the same boot id are one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Whether the effective user is root; null if the host does not say.
    pub root: Option<bool>,
}

impl Environment {
    /// The facts without those that help an attacker and that no figure needs: the kernel's exact version, its boot id,
    /// mitigations, the user and the load.
    #[must_use]
    pub fn without_details(self) -> Self {
        let release = self.kernel.split(['-', '+', '#']).next().unwrap_or_default().trim_end();
        let kernel =
            release.rsplit_once('.').filter(|(main, _)| main.contains('.')).map_or(release, |(main, _)| main);
        Self {
            kernel: kernel.to_owned(),
            boot_id: None,
            mitigations: BTreeMap::new(),
            // Earlier clients need a value.
            root: Some(false),
            load: Vec::new(),
            container: None,
            ..self
        }
    }
}

/// A network interface, as reported by the kernel and the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Interface {
    /// Name of the interface, for instance `eth0`.
    pub name: String,
    /// The driver; null for interfaces without one, such as the loopback.
    pub driver: Option<String>,
    /// Link speed, in Mbit/s.
    pub speed_mbit_per_s: Option<u64>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// Maximum size of a sent packet.
    pub mtu_bytes: Option<u64>,
    /// The queue discipline for sent packets.
    pub qdisc: Option<String>,
    /// Offloads by name, `on` or `off`.
    pub offloads: BTreeMap<String, String>,
}

/// The clock of all timestamps.
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
    /// What the recorder takes for a message, two clock reads and a row, in ns; null in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder_cost_ns: Option<f64>,
    /// Nanoseconds per tick; 1 if the clock counts nanoseconds.
    pub ns_per_tick: f64,
    /// Bound on the error of `ns_per_tick`, in parts per million.
    pub calibration_error_ppm: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_description_has_the_main_version_of_the_kernel_only() {
        for (kernel, least) in [
            ("Linux 6.18.44-fc-v769 #1 SMP PREEMPT_DYNAMIC @0", "Linux 6.18"),
            ("Linux 6.1.0", "Linux 6.1"),
            ("Linux 6.18", "Linux 6.18"),
            ("", ""),
        ] {
            let full =
                Environment { kernel: kernel.to_owned(), boot_id: Some("7".to_owned()), ..Environment::default() };
            let described = full.without_details();
            assert_eq!((described.kernel.as_str(), described.boot_id), (least, None));
        }
    }
}
