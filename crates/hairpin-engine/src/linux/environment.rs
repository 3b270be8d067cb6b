//! Describes the machine on which a run is made.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::Path;

use hairpin_loops::recorder;
use hairpin_model::environment::{ClockFacts, NetworkNamespace};
use hairpin_model::{Environment, Interface};

use crate::engine::Engine;
use crate::netlink::{LOOPBACK_INDEX, Netlink};
use crate::system::{device, interface};
use crate::{cgroup, cpu_quota};

/// Kernel settings under `/proc/sys` that affect transports.
const SETTINGS: &str = "net/core/default_qdisc net/core/busy_poll net/core/busy_read net/core/rmem_default net/core/rmem_max \
     net/core/wmem_default net/core/wmem_max net/core/netdev_max_backlog net/ipv4/tcp_autocorking \
     net/ipv4/tcp_available_congestion_control net/ipv4/tcp_congestion_control net/ipv4/tcp_rmem \
     net/ipv4/tcp_wmem net/ipv4/tcp_slow_start_after_idle net/ipv4/tcp_timestamps fs/pipe-max-size \
     kernel/sched_autogroup_enabled kernel/numa_balancing";

/// Reads the machine's facts that METHODOLOGY.md lists. Omits facts that this kernel does not report. The caller sets
/// the kind of the network namespace.
pub fn read(engine: &Engine) -> Environment {
    let cpu_info = text("/proc/cpuinfo").unwrap_or_default();
    let mut cpus_used: Vec<usize> = [Some(engine.cpus.client), engine.cpus.server].into_iter().flatten().collect();
    // With `--cpu` both CPUs are the same.
    cpus_used.dedup();
    Environment {
        boot_id: boot_id(),
        kernel: kernel(),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu_model: cpu_model(&cpu_info).unwrap_or_else(|| "unknown".to_owned()),
        cpus_online: cpu_info.lines().filter(|line| line.starts_with("processor")).count().max(1),
        cpus_allowed: engine.cpus.allowed.clone(),
        cpus_used,
        cpus_share_core: engine.cpus.share_core,
        cpu_quota: cpu_quota::cpus(),
        scheduling: text("/proc/self/stat").and_then(|stat| scheduling(&stat)),
        frequency_limit: frequency_limit(Path::new("/sys/devices/system/cpu/cpu0/cpufreq")),
        memory_bytes: memory_bytes(),
        memory_limit_bytes: cgroup::memory_limit_bytes(Path::new("/")),
        container: cgroup::container(Path::new("/")),
        hypervisor: hypervisor(&cpu_info),
        clock: ClockFacts { recorder_cost_ns: Some(recorder::cost_ns(&engine.clock)), ..engine.clock.facts() },
        governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        idle_states: idle_states(),
        mitigations: mitigations(),
        settings: settings(),
        network_namespace: NetworkNamespace::default(),
        loopback: loopback(),
        interface: None,
        load: load(),
        load_after: Vec::new(),
        root: Some(is_root()),
    }
}

pub fn boot_id() -> Option<String> {
    text("/proc/sys/kernel/random/boot_id")
}

/// Describes the network interface with `address`, as far as the kernel and the driver report it; `None` if no
/// interface has the address.
pub fn interface(address: IpAddr) -> Option<Interface> {
    let name = interface::name_of(address)?;
    let (speed_mbit_per_s, duplex) = interface::speed_and_duplex(&name);
    Some(Interface {
        driver: interface::driver(&name),
        speed_mbit_per_s,
        duplex: duplex.map(str::to_owned),
        mtu_bytes: interface::mtu_bytes(&name),
        qdisc: interface_index(&name).and_then(|index| qdisc(index.get())),
        offloads: device::offloads(&name).into_iter().collect(),
        name,
    })
}

/// The index of the network interface `name`; `None` if no such interface exists.
pub fn interface_index(name: &str) -> Option<NonZeroU32> {
    NonZeroU32::new(device::index(name).ok()?)
}

pub fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Some(name).filter(|name| !name.is_empty() && name != "(none)")
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Load averages over 1, 5 and 15 minutes.
pub fn load() -> Vec<f64> {
    let text = text("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).filter_map(|field| field.parse().ok()).collect()
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn kernel() -> String {
    let part = |name: &str| text(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    format!("{} {} {}", part("ostype"), part("osrelease"), part("version"))
}

/// The value of the first line `NAME : VALUE`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// On ARM, `/proc/cpuinfo` identifies the model only by numbers.
fn cpu_model(cpu_info: &str) -> Option<String> {
    let arm = || Some(format!("ARM {} part {}", field(cpu_info, "CPU implementer")?, field(cpu_info, "CPU part")?));
    field(cpu_info, "model name").or_else(arm)
}

fn memory_bytes() -> u64 {
    let info = text("/proc/meminfo").unwrap_or_default();
    let kib = field(&info, "MemTotal").and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn hypervisor(cpu_info: &str) -> Option<String> {
    let flagged = field(cpu_info, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let product = || text("/sys/class/dmi/id/product_name").filter(|name| !name.is_empty());
    flagged.then(|| product().unwrap_or_else(|| "an unknown hypervisor".to_owned()))
}

/// Returns the scheduling policy and the nice value from a text such as /proc/self/stat (proc_pid_stat(5)); `None` for the
/// default.
fn scheduling(stat: &str) -> Option<String> {
    const POLICIES: [&str; 7] =
        ["SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "", "SCHED_IDLE", "SCHED_DEADLINE"];
    // The name of the program, in parentheses, may have spaces. The state, field 3, follows it.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let (nice, policy): (i32, usize) = (fields.get(19 - 3)?.parse().ok()?, fields.get(41 - 3)?.parse().ok()?);
    ((nice, policy) != (0, 0)).then(|| format!("{}, nice {nice}", POLICIES.get(policy).unwrap_or(&"unknown policy")))
}

fn frequency_limit(folder: &Path) -> Option<f64> {
    let khz = |name: &str| text(folder.join(name))?.parse::<f64>().ok().filter(|khz| *khz > 0.0);
    Some(khz("scaling_max_freq")? / khz("cpuinfo_max_freq")?).filter(|share| *share < 0.995)
}

fn sorted_names(folder: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

fn idle_states() -> Vec<String> {
    let folder = "/sys/devices/system/cpu/cpu0/cpuidle";
    let states = sorted_names(folder).into_iter().filter_map(|state| text(format!("{folder}/{state}/name")));
    let governor = text("/sys/devices/system/cpu/cpuidle/current_governor").map(|name| format!("governor {name}"));
    states.chain(governor).collect()
}

fn mitigations() -> BTreeMap<String, String> {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let states =
        sorted_names(folder).into_iter().filter_map(|name| Some((name.clone(), text(format!("{folder}/{name}"))?)));
    states.filter(|(_, state)| state != "Not affected").collect()
}

fn settings() -> BTreeMap<String, String> {
    let read = |path: &str| Some((path.replace('/', "."), text(format!("/proc/sys/{path}"))?.replace('\t', " ")));
    SETTINGS.split_whitespace().filter_map(read).collect()
}

/// The queueing discipline of an interface; `None` if the kernel does not report it.
fn qdisc(interface: u32) -> Option<String> {
    Netlink::open().ok()?.qdisc_kind(interface).ok()?
}

/// The loopback device: values from sysfs, its offloads and its queueing discipline.
fn loopback() -> BTreeMap<String, String> {
    let keys = ["mtu", "tx_queue_len", "gro_flush_timeout", "operstate"];
    let facts = keys.iter().filter_map(|key| Some(((*key).to_owned(), text(format!("/sys/class/net/lo/{key}"))?)));
    let qdisc = qdisc(LOOPBACK_INDEX).map(|kind| ("qdisc".to_owned(), kind));
    facts.chain(qdisc).chain(device::offloads("lo")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_full_name() {
        let text = "model\t\t: 17\nmodel name\t: AMD EPYC\nflags : a hypervisor b\n";
        assert_eq!(cpu_model(text).as_deref(), Some("AMD EPYC"));
        assert_eq!(field(text, "name"), None);
        assert!(hypervisor(text).is_some());
        assert!(hypervisor("flags : a b\n").is_none());
        let arm = "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("ARM 0x41 part 0xd0c"));
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn a_policy_or_nice_value_other_than_the_default_is_read() {
        let stat = |nice: i32, policy: u32| {
            let zeros = |count| vec!["0"; count].join(" ");
            format!("1 (a b) c) R {} {nice} {} {policy} 0 0", zeros(15), zeros(21))
        };
        assert_eq!(scheduling(&stat(0, 0)), None);
        assert_eq!(scheduling(&stat(10, 0)).as_deref(), Some("SCHED_OTHER, nice 10"));
        assert_eq!(scheduling(&stat(0, 5)).as_deref(), Some("SCHED_IDLE, nice 0"));
        assert_eq!(scheduling(&stat(0, 9)).as_deref(), Some("unknown policy, nice 0"));
        assert_eq!(["", "1 (a) R 0", "1 (a) R x"].map(scheduling), [const { None }; 3]);
        assert!(text("/proc/self/stat").is_some_and(|own| own.split(' ').count() > 41));
    }

    #[test]
    fn a_frequency_below_that_of_the_hardware_is_a_limit() {
        let folder = tempfile::TempDir::new().unwrap();
        let of = |max: &str, hardware: &str| {
            std::fs::write(folder.path().join("scaling_max_freq"), max).unwrap();
            std::fs::write(folder.path().join("cpuinfo_max_freq"), hardware).unwrap();
            frequency_limit(folder.path())
        };
        assert_eq!([of("2000000\n", "4000000\n"), of("4000000\n", "4000000\n")], [Some(0.5), None]);
        assert_eq!([of("x", "4000000"), of("1", "0"), frequency_limit(Path::new("/nonexistent"))], [None; 3]);
    }

    #[test]
    fn the_interface_of_an_address_is_described_like_the_loopback() {
        let interface = interface("127.0.0.1".parse().unwrap()).expect("lo has the address");
        let of_loopback = loopback();
        assert_eq!((interface.name.as_str(), interface.qdisc.as_ref()), ("lo", of_loopback.get("qdisc")));
        assert_eq!(interface.mtu_bytes.map(|bytes| bytes.to_string()).as_ref(), of_loopback.get("mtu"));
        assert!(interface.offloads.contains_key("tcp_segmentation_offload"), "{interface:?}");
        assert!(interface.offloads.iter().all(|(name, state)| of_loopback.get(name) == Some(state)));
    }

    #[test]
    fn this_machine_has_the_settings_that_shape_tcp() {
        assert!(settings().contains_key("net.ipv4.tcp_congestion_control"));
        assert_eq!(load().len(), 3);
    }
}
