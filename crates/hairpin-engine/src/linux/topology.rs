//! The topology of the CPUs as the kernel describes it (Documentation/admin-guide/cputopology.rst): packages, cores,
//! caches, NUMA nodes and core types.

use std::cmp::Reverse;
use std::fs;
use std::path::Path;

/// A CPU. Equal texts mean the same package, core or cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) number: usize,
    /// The package (socket); `None` if unknown.
    pub(crate) package: Option<String>,
    /// The core; `None` if unknown.
    pub(crate) core: Option<String>,
    /// The caches for data, the first level first; empty if unknown.
    pub(crate) caches: Vec<String>,
    /// The NUMA node; `None` if unknown.
    pub(crate) node: Option<usize>,
    /// `performance`, `efficiency`, or the capacity if the CPUs' capacities differ; `None` if unknown or all are alike.
    pub(crate) core_type: Option<String>,
}

impl Cpu {
    /// Whether both CPUs are threads of one core; `None` if unknown.
    pub(crate) fn shares_core(&self, other: &Self) -> Option<bool> {
        Some(self.core.as_ref()? == other.core.as_ref()?)
    }

    /// Whether both CPUs share their last-level cache; `None` if unknown.
    pub(crate) fn shares_last_cache(&self, other: &Self) -> Option<bool> {
        Some(self.caches.last()? == other.caches.last()?)
    }

    /// Whether both CPUs are on one NUMA node; `None` if unknown.
    pub(crate) fn shares_node(&self, other: &Self) -> Option<bool> {
        Some(self.node? == other.node?)
    }

    /// A key that is less for nearer CPUs: other cores before the same core, then by the number of shared caches, then
    /// by node, package and core type.
    pub(crate) fn distance(&self, other: &Self) -> impl Ord + use<> {
        let shared = self.caches.iter().filter(|cache| other.caches.contains(cache)).count();
        let is_elsewhere = (self.node != other.node, self.package != other.package);
        (self.shares_core(other), Reverse(shared), is_elsewhere, self.core_type != other.core_type, other.number)
    }
}

/// Describes the CPUs with these numbers. Reads files below `root`; omits what is absent or malformed.
pub(crate) fn read(root: &Path, numbers: &[usize]) -> Vec<Cpu> {
    let devices = root.join("sys/devices");
    let nodes = nodes(&devices.join("system/node"));
    let types = [("performance", "cpu_core/cpus"), ("efficiency", "cpu_atom/cpus")];
    let types = types.map(|(name, file)| (name, text(&devices.join(file)).unwrap_or_default()));
    let capacity = |number: &usize| text(&devices.join(format!("system/cpu/cpu{number}/cpu_capacity")));
    let capacities: Vec<_> = numbers.iter().map(capacity).collect();
    let is_alike = capacities.windows(2).all(|pair| pair[0] == pair[1]);
    let cpu = |(number, capacity): (&usize, &Option<String>)| {
        let folder = devices.join(format!("system/cpu/cpu{number}"));
        let named = types.iter().find(|(_, list)| has(list, *number)).map(|(name, _)| (*name).to_owned());
        let capacity = capacity.as_ref().filter(|_| !is_alike).map(|capacity| format!("capacity {capacity}"));
        Cpu {
            number: *number,
            package: text(&folder.join("topology/physical_package_id")),
            core: core(&folder.join("topology"), *number),
            caches: caches(&folder.join("cache"), *number),
            node: match &nodes {
                Some(nodes) => nodes.iter().find(|(_, list)| has(list, *number)).map(|(node, _)| *node),
                // A kernel without NUMA has one node.
                None => Some(0),
            },
            core_type: named.or(capacity),
        }
    };
    numbers.iter().zip(&capacities).map(cpu).collect()
}

/// Whether this machine has the CPU.
pub(crate) fn exists(number: usize) -> bool {
    Path::new(&format!("/sys/devices/system/cpu/cpu{number}")).exists()
}

/// The CPUs of the core, else its numbers.
fn core(topology: &Path, number: usize) -> Option<String> {
    let list = ["core_cpus_list", "thread_siblings_list"].into_iter().find_map(|file| text(&topology.join(file)));
    let id = |file: &str| text(&topology.join(file))?.parse::<u32>().ok();
    let ids = || Some(format!("{} {:?} {}", id("physical_package_id")?, id("die_id"), id("core_id")?));
    list.filter(|list| has(list, number)).or_else(ids)
}

/// The level of each cache for data and the CPUs that share the cache.
fn caches(folder: &Path, number: usize) -> Vec<String> {
    let cache = |index: usize| {
        let read = |file: &str| text(&folder.join(format!("index{index}/{file}")));
        let (level, list) = (read("level")?.parse::<u8>().ok()?, read("shared_cpu_list")?);
        (read("type").as_deref() != Some("Instruction") && has(&list, number)).then_some((level, list))
    };
    let mut caches: Vec<(u8, String)> = (0..MAX_CACHES).filter_map(cache).collect();
    caches.sort();
    caches.into_iter().map(|(level, list)| format!("L{level} {list}")).collect()
}

/// Maximum number of caches of a CPU that are read.
const MAX_CACHES: usize = 8;

/// Each NUMA node with the list of its CPUs; `None` if the kernel has no NUMA.
fn nodes(folder: &Path) -> Option<Vec<(usize, String)>> {
    let node = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((number, text(&entry.path().join("cpulist"))?))
    };
    Some(fs::read_dir(folder).ok()?.flatten().filter_map(node).collect())
}

/// Whether a list such as `0-3,8` has this CPU.
fn has(list: &str, number: usize) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&number))
    })
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Trees of files that describe machines, for tests.
#[cfg(test)]
pub(crate) mod trees {
    use super::*;

    /// Creates a machine's files below a temporary root. Each line has the numbers of CPUs and `FILE=TEXT` pairs below
    /// the folder of each CPU, or, without numbers, below `sys/devices`.
    pub(crate) fn tree(lines: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path().join("sys/devices");
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (numbers, files) = line.split_once(": ").unwrap();
            let folders: Vec<_> = match numbers {
                "devices" => vec![devices.clone()],
                numbers => numbers.split(' ').map(|number| devices.join(format!("system/cpu/cpu{number}"))).collect(),
            };
            for (folder, file) in folders.iter().flat_map(|folder| files.split(' ').map(move |file| (folder, file))) {
                let (path, text) = file.split_once('=').unwrap();
                let path =
                    path.strip_prefix('L').map_or_else(|| path.to_owned(), |level| format!("cache/index{level}"));
                if path.starts_with("cache/index") && !path[11..].contains('/') {
                    write(&folder.join(&path).join("level"), &path[11..]);
                    write(&folder.join(&path).join("shared_cpu_list"), text);
                } else {
                    write(&folder.join(&path), text);
                }
            }
        }
        root
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    /// Two performance cores with two threads each, and four efficiency cores that share their second-level cache.
    pub(crate) const LAPTOP: &str = "
        devices: cpu_core/cpus=0-3 cpu_atom/cpus=4-7 system/node/node0/cpulist=0-7
        0 1: topology/core_cpus_list=0-1 L1=0-1 L2=0-1
        2 3: topology/core_cpus_list=2-3 L1=2-3 L2=2-3
        4: topology/core_cpus_list=4 L1=4
        5: topology/core_cpus_list=5 L1=5
        6: topology/core_cpus_list=6 L1=6
        7: topology/core_cpus_list=7 L1=7
        4 5 6 7: L2=4-7
        0 1 2 3 4 5 6 7: topology/physical_package_id=0 L3=0-7";

    /// One socket without SMT, whose cores share one cache.
    pub(crate) const ONE_SOCKET: &str = "
        devices: system/node/node0/cpulist=0-2
        0: topology/core_cpus_list=0 L2=0
        1: topology/core_cpus_list=1 L2=1
        2: topology/core_cpus_list=2 L2=2
        0 1 2: topology/physical_package_id=0 L3=0-2 cpu_capacity=1024";

    /// Two sockets with SMT: two caches of two cores on the first node, one cache on the second. CPU 1 is on the second
    /// socket, as on many servers. Without lists of a core's CPUs, as in kernels before 5.3.
    pub(crate) const TWO_SOCKETS: &str = "
        devices: system/node/node0/cpulist=0,2,4,6,8,10,12,14 system/node/node1/cpulist=1,3
        0 8: topology/core_id=0 L3=0,2,8,10
        2 10: topology/core_id=1 L3=0,2,8,10
        4 12: topology/core_id=2 L3=4,6,12,14
        6 14: topology/core_id=3 L3=4,6,12,14
        1: topology/core_id=0
        3: topology/core_id=1
        0 2 4 6 8 10 12 14: topology/physical_package_id=0
        1 3: topology/physical_package_id=1 L3=1,3";

    /// The same two sockets with SMT off: CPUs 8 to 14 are offline.
    pub(crate) const SMT_OFF: &str = "
        devices: system/node/node0/cpulist=0,2 system/node/node1/cpulist=1,3
        0 2: topology/physical_package_id=0 L3=0,2
        1 3: topology/physical_package_id=1 L3=1,3
        0 1: topology/core_id=0
        2 3: topology/core_id=1";

    /// An ARM board: two types of cores, no caches, no NUMA, no packages.
    pub(crate) const ARM: &str = "
        0 1 2: cpu_capacity=446
        3: cpu_capacity=1024
        0: topology/thread_siblings_list=0
        1: topology/thread_siblings_list=1
        2: topology/thread_siblings_list=2
        3: topology/thread_siblings_list=3
        0 1 2 3: topology/physical_package_id=-1 topology/core_id=-1";

    /// A virtual machine whose two CPUs are threads of one core.
    pub(crate) const TWO_CPUS: &str = "
        devices: system/node/node0/cpulist=0-1
        0 1: topology/core_cpus_list=0-1 topology/physical_package_id=0 L1=0-1 L2=0-1";
}

#[cfg(test)]
mod tests {
    use super::trees::*;
    use super::*;

    fn described(machine: &str, numbers: &[usize]) -> Vec<String> {
        let words = |cpu: Cpu| {
            let word = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
            let node = word(cpu.node.map(|node| node.to_string()));
            let core_type = cpu.core_type.map_or_else(String::new, |name| format!(" {name}"));
            let caches = cpu.caches.join("; ");
            format!(
                "{}: core {} of {}, node {node}, {caches}{core_type}",
                cpu.number,
                word(cpu.core),
                word(cpu.package)
            )
        };
        read(tree(machine).path(), numbers).into_iter().map(words).collect()
    }

    #[test]
    fn six_machines_are_described() {
        assert_eq!(
            described(LAPTOP, &[0, 5]),
            [
                "0: core 0-1 of 0, node 0, L1 0-1; L2 0-1; L3 0-7 performance",
                "5: core 5 of 0, node 0, L1 5; L2 4-7; L3 0-7 efficiency"
            ]
        );
        assert_eq!(described(ONE_SOCKET, &[1]), ["1: core 1 of 0, node 0, L2 1; L3 0-2"]);
        assert_eq!(
            described(TWO_SOCKETS, &[10, 3]),
            ["10: core 0 None 1 of 0, node 0, L3 0,2,8,10", "3: core 1 None 1 of 1, node 1, L3 1,3"]
        );
        assert_eq!(described(SMT_OFF, &[1]), ["1: core 1 None 0 of 1, node 1, L3 1,3"]);
        assert_eq!(
            described(ARM, &[0, 3]),
            ["0: core 0 of -1, node 0,  capacity 446", "3: core 3 of -1, node 0,  capacity 1024"]
        );
        assert_eq!(described(ARM, &[0, 1])[0], "0: core 0 of -1, node 0, ", "these have one capacity");
        assert_eq!(described(TWO_CPUS, &[0]), ["0: core 0-1 of 0, node 0, L1 0-1; L2 0-1"]);
    }

    #[test]
    fn absent_and_malformed_files_are_unknown() {
        assert_eq!(described("", &[0, 7]), ["0: core ? of ?, node 0, ", "7: core ? of ?, node 0, "]);
        let malformed = "
            devices: cpu_core/cpus=x system/node/node0/cpulist=0-x,-,1- system/node/nodes/cpulist=0 system/node/has_cpu=0
            0: topology/core_cpus_list=1-3 topology/core_id=many topology/physical_package_id=0
            0: cache/index0/level=first cache/index1/level=1 cache/index2/shared_cpu_list=0 L3=1-99999999999999999999
            0: cache/index4/level=2 cache/index4/type=Instruction cache/index4/shared_cpu_list=0";
        assert_eq!(described(malformed, &[0]), ["0: core ? of 0, node ?, "]);
        assert!(has("0-3,8", 8) && has("0-3,8", 2) && !has("0-3,8", 4) && !has("3-0", 2) && !has("", 0));
    }
}
