//! The CPU quota of this process's control groups, and how often the kernel throttled them during a round.
//!
//! A group may use its quota of CPU time in each period (100 ms by default); then its threads stop until the next
//! period (Documentation/scheduler/sched-bwc.rst). The quotas of all ancestors apply too. Version 2 has `cpu.max`,
//! version 1 has `cpu.cfs_quota_us` and `cpu.cfs_period_us`; both versions count throttling in `cpu.stat`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hairpin_model::{Fact, fact_names};

use crate::cgroup;
use crate::observer::{Context, Mark, Observations, Observer};

/// Throttling at one end, while it handles measured messages.
pub(crate) struct CpuQuota {
    limited: Vec<Group>,
    cpus: f64,
    before: Throttled,
    after: Option<Throttled>,
}

impl Observer for CpuQuota {
    fn begin(_: Context<'_>) -> Option<Self> {
        let limited = limited(Path::new("/"), "self");
        let cpus = limited.iter().map(|group| group.cpus).reduce(f64::min)?;
        let before = throttled(&limited);
        Some(Self { limited, cpus, before, after: None })
    }

    fn mark(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::Load(_) | Mark::First => self.before = throttled(&self.limited),
            Mark::Last => self.end(),
            _ => {}
        }
    }

    fn end(&mut self) {
        self.after.get_or_insert_with(|| throttled(&self.limited));
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        let after = self.after.unwrap_or(self.before);
        let since = |after: u64, before: u64| after.saturating_sub(before) as f64;
        to.report.facts.extend([
            Fact::number(fact_names::CPU_QUOTA, self.cpus),
            Fact::number(fact_names::THROTTLED_PERIODS, since(after.periods, self.before.periods)),
            Fact::number(fact_names::THROTTLED_NS, since(after.ns, self.before.ns)),
        ]);
    }
}

/// The CPUs that this process's control groups may use together; `None` without a quota.
pub(crate) fn cpus() -> Option<f64> {
    limited(Path::new("/"), "self").iter().map(|group| group.cpus).reduce(f64::min)
}

/// Throttling of the control groups of processes, each from when it is first seen.
#[derive(Default)]
pub(crate) struct Throttling {
    /// Of each group with a quota, the throttled time of all CPUs in ns: first and latest. A group may be deleted.
    groups: BTreeMap<PathBuf, (u64, u64)>,
}

impl Throttling {
    /// Adds the groups of a process: `self` or its id.
    pub(crate) fn add(&mut self, process: &str) {
        for group in limited(Path::new("/"), process) {
            let first_ns = read(&group.folder).map_or(0, |first| first.ns);
            self.groups.entry(group.folder).or_insert((first_ns, first_ns));
        }
    }

    /// Time of all CPUs, in ns; 0 without a quota. Call it from time to time while the programs run.
    pub(crate) fn ns(&mut self) -> u64 {
        for (folder, (_, latest_ns)) in &mut self.groups {
            *latest_ns = read(folder).map_or(*latest_ns, |latest| latest.ns);
        }
        self.groups.values().map(|(first_ns, latest_ns)| latest_ns.saturating_sub(*first_ns)).sum()
    }
}

fn read(folder: &Path) -> Option<Throttled> {
    Some(parse(&fs::read_to_string(folder.join("cpu.stat")).ok()?))
}

#[derive(Debug, PartialEq)]
struct Group {
    folder: PathBuf,
    /// CPU time that the group may use, divided by elapsed time.
    cpus: f64,
}

/// Sums over groups, since their creation: throttled periods, and throttled time of all CPUs in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Throttled {
    periods: u64,
    ns: u64,
}

/// The groups with a quota among a process's own and its ancestors, read below `root`.
fn limited(root: &Path, process: &str) -> Vec<Group> {
    let with_quota = |folder: PathBuf| Some(Group { cpus: quota(&folder)?, folder });
    cgroup::groups(root, process, "cpu").into_iter().filter_map(with_quota).collect()
}

/// The CPUs that a group may use; `None` without a readable quota.
fn quota(folder: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let (quota_us, period_us): (f64, f64) = match read("cpu.max") {
        Some(line) => {
            let (quota, period) = line.trim().split_once(' ')?;
            (quota.parse().ok()?, period.parse().ok()?)
        }
        None => (read("cpu.cfs_quota_us")?.trim().parse().ok()?, read("cpu.cfs_period_us")?.trim().parse().ok()?),
    };
    (quota_us > 0.0 && period_us > 0.0).then_some(quota_us / period_us)
}

fn throttled(groups: &[Group]) -> Throttled {
    groups.iter().filter_map(|group| read(&group.folder)).fold(Throttled::default(), |sum, one| Throttled {
        periods: sum.periods.saturating_add(one.periods),
        ns: sum.ns.saturating_add(one.ns),
    })
}

/// Reads `cpu.stat`; absent lines count as 0.
fn parse(text: &str) -> Throttled {
    let value = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        values.next().unwrap_or(0)
    };
    let ns = value("throttled_usec ").saturating_mul(1000).max(value("throttled_time "));
    Throttled { periods: value("nr_throttled "), ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNT: &str = "33 32 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
    const V2_MOUNT: &str = "31 24 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    /// A tree below a temporary root: files by path, with their text.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn quotas(files: &[(&str, &str)]) -> Vec<f64> {
        limited(tree(files).path(), "self").iter().map(|group| group.cpus).collect()
    }

    #[test]
    fn the_quotas_of_the_own_group_and_its_ancestors_are_read() {
        let mounts = ("proc/self/mountinfo", V2_MOUNT);
        let own = ("proc/self/cgroup", "0::/pod/app\n");
        let pod = ("sys/fs/cgroup/unified/pod/cpu.max", "150000 100000\n");
        let app = ("sys/fs/cgroup/unified/pod/app/cpu.max", "30000 50000\n");
        let other = ("sys/fs/cgroup/unified/pod/other/cpu.max", "1000 100000\n");
        assert_eq!(quotas(&[mounts, own, pod, app, other]), [0.6, 1.5]);
        let unlimited = ("sys/fs/cgroup/unified/pod/app/cpu.max", "max 100000\n");
        assert_eq!(quotas(&[mounts, own, pod, unlimited]), [1.5]);
        assert_eq!(quotas(&[mounts, own]), [0.0; 0]);
    }

    #[test]
    fn another_process_has_the_quota_of_its_own_group() {
        let mounts = ("proc/self/mountinfo", V2_MOUNT);
        let groups = [("proc/self/cgroup", "0::/\n"), ("proc/7/cgroup", "0::/job\n")];
        let quota = ("sys/fs/cgroup/unified/job/cpu.max", "50000 100000\n");
        let root = tree(&[mounts, groups[0], groups[1], quota]);
        let cpus = |process: &str| limited(root.path(), process).iter().map(|group| group.cpus).collect::<Vec<f64>>();
        assert_eq!((cpus("self"), cpus("7")), (vec![], vec![0.5]));
    }

    #[test]
    fn version_1_is_used_if_it_has_the_controller() {
        let mounts = ("proc/self/mountinfo", &*format!("{V2_MOUNT}{V1_MOUNT}"));
        let own = ("proc/self/cgroup", "4:memory:/m\n2:cpu,cpuacct:/jobs/7\n0::/unified\n");
        let quota = ("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_quota_us", "120000\n");
        let period = ("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_period_us", "100000\n");
        let v2 = ("sys/fs/cgroup/unified/unified/cpu.max", "10000 100000\n");
        assert_eq!(quotas(&[mounts, own, quota, period, v2]), [1.2]);
        let unlimited = ("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_quota_us", "-1\n");
        assert_eq!(quotas(&[mounts, own, unlimited, period]), [0.0; 0]);
    }

    #[test]
    fn a_container_that_sees_only_its_own_group_gets_the_quota_of_this_group() {
        let quota = ("sys/fs/cgroup/cpu.max", "60000 100000\n");
        let mount = |visible: &str| format!("31 24 0:27 {visible} /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
        for (visible, own) in [("/", "0::/\n"), ("/docker/a1", "0::/docker/a1\n"), ("/docker/a1", "0::/elsewhere\n")]
        {
            let files = [("proc/self/mountinfo", &*mount(visible)), ("proc/self/cgroup", own), quota];
            assert_eq!(quotas(&files), [0.6], "{visible} {own}");
        }
    }

    #[test]
    fn invalid_files_give_no_quota() {
        let mounts = ("proc/self/mountinfo", V2_MOUNT);
        let own = ("proc/self/cgroup", "0::/\n");
        for line in ["", "max", "5000", "x 100000", "60000 0", "-1 100000", "60000 \n"] {
            assert_eq!(quotas(&[mounts, own, ("sys/fs/cgroup/unified/cpu.max", line)]), [0.0; 0], "{line}");
        }
        let quota = ("sys/fs/cgroup/unified/cpu.max", "60000 100000");
        for (own, mounts) in [("", V2_MOUNT), ("0::/\n", ""), ("garbage", "garbage"), ("0:", "- cgroup2")] {
            let files = [("proc/self/mountinfo", mounts), ("proc/self/cgroup", own), quota];
            assert_eq!(quotas(&files), [0.0; 0], "{own} {mounts}");
        }
    }

    #[test]
    fn both_versions_of_the_counts_are_read() {
        let v2 = "usage_usec 9\nnr_periods 303\nnr_throttled 302\nthrottled_usec 12300000\n";
        let v1 = "nr_periods 303\nnr_throttled 302\nthrottled_time 12300000000\n";
        for text in [v1, v2] {
            assert_eq!(parse(text), Throttled { periods: 302, ns: 12_300_000_000 });
        }
        assert_eq!(parse("nr_throttled many\n"), Throttled::default());
        let group = |folder: &tempfile::TempDir| Group { folder: folder.path().into(), cpus: 1.0 };
        let (one, two, none) = (tree(&[("cpu.stat", v1)]), tree(&[("cpu.stat", v2)]), tree(&[]));
        let all = throttled(&[group(&one), group(&two), group(&none)]);
        assert_eq!(all, Throttled { periods: 604, ns: 24_600_000_000 });
    }
}
