//! Starts and ends a link many times. Measures the time, and checks that no namespace, interface, process or file
//! remains.
//!
//! Network namespaces are counted in two ways. Namespaces that a process, a descriptor or a mount uses are listed by
//! inode in /proc. All namespaces, even unused ones, are objects in the kernel's memory (`net_namespace` in
//! /proc/slabinfo, which only root may read). The kernel destroys unused namespaces in the background, so the check
//! waits. The kernel frees the objects of some namespaces only when it destroys another namespace (`net_complete_free`,
//! net/core/net_namespace.c), so the check creates and destroys one more namespace before each count. The counts are
//! exact, so no other process on the machine may create namespaces during the check.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{figures, process};

/// Maximum time to start and end a link, including the program that runs across it, in ms.
const MAX_START_MS: f64 = 150.0;

const DESTROY_TIMEOUT: Duration = Duration::from_secs(20);

/// Time that the kernel needs to destroy one unused namespace.
const DESTROY_TIME: Duration = Duration::from_millis(500);

/// File that makes the kernel release free namespace objects, since it counts some of these as used.
const SHRINK: &str = "/sys/kernel/slab/net_namespace/shrink";

const MARK_VARIABLE: &str = "HAIRPIN_XTASK_MARK";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Census {
    /// Network namespaces in use, as `net:[INODE]`.
    held: BTreeSet<String>,
    /// Number of network namespaces in the kernel's memory; `None` if not readable.
    in_memory: Option<usize>,
    interfaces: usize,
    processes: usize,
    files: usize,
}

impl Census {
    fn take(mark: &str, folder: &Path) -> Result<Self> {
        let files = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?.count();
        let devices = fs::read_to_string("/proc/net/dev").context("cannot read /proc/net/dev")?;
        Ok(Self {
            held: held_namespaces()?,
            in_memory: namespaces_in_memory(),
            interfaces: devices.lines().skip(2).count(),
            processes: count_marked(mark),
            files,
        })
    }

    /// Describes the items that were added since `before`.
    fn beyond(&self, before: &Self) -> Vec<String> {
        let in_memory = self.in_memory.zip(before.in_memory);
        let counts = [
            ("namespaces in use", self.held.difference(&before.held).count()),
            ("namespaces in the kernel's memory", in_memory.map_or(0, |(now, then)| now.saturating_sub(then))),
            ("interfaces", self.interfaces.saturating_sub(before.interfaces)),
            ("processes", self.processes.saturating_sub(before.processes)),
            ("files", self.files.saturating_sub(before.files)),
        ];
        counts.iter().filter(|(_, more)| *more > 0).map(|(what, more)| format!("{more} {what}")).collect()
    }

    fn told(&self) -> String {
        let in_memory = self.in_memory.map_or_else(
            || "not counted (needs root, /proc/slabinfo and /sys/kernel/slab)".to_owned(),
            |count| count.to_string(),
        );
        let Self { interfaces, processes, files, .. } = self;
        format!(
            "namespaces in use {}, in the kernel's memory {in_memory}, interfaces {interfaces}, processes {processes}, \
             files {files}",
            self.held.len()
        )
    }
}

/// Returns the network namespaces of all threads, descriptors and mounts of the readable processes.
fn held_namespaces() -> Result<BTreeSet<String>> {
    let mut held = BTreeSet::new();
    let is_network = |name: &String| name.starts_with("net:[");
    let target = |link: PathBuf| Some(fs::read_link(link).ok()?.to_string_lossy().into_owned()).filter(is_network);
    let is_process =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
    for process in entries(Path::new("/proc")).into_iter().filter(is_process) {
        held.extend(entries(&process.join("task")).into_iter().filter_map(|thread| target(thread.join("ns/net"))));
        held.extend(entries(&process.join("fd")).into_iter().filter_map(target));
        let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        held.extend(mounts.split_whitespace().map(str::to_owned).filter(is_network));
    }
    ensure!(!held.is_empty(), "cannot count network namespaces (hint: is /proc mounted, with ns/net?)");
    Ok(held)
}

/// Counts running processes with the mark. Zombies have no environment, so they are not counted.
fn count_marked(mark: &str) -> usize {
    let entry = format!("{MARK_VARIABLE}={mark}");
    let environments = entries(Path::new("/proc")).into_iter().filter_map(|path| fs::read(path.join("environ")).ok());
    environments.filter(|text| text.split(|byte| *byte == 0).any(|one| one == entry.as_bytes())).count()
}

/// Returns the entries of a folder; none if it does not exist or this user may not read it.
fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Returns the number of namespaces in the kernel's memory; `None` if they cannot be counted exactly.
fn namespaces_in_memory() -> Option<usize> {
    Command::new("unshare").args(["--net", "true"]).status().ok().filter(ExitStatus::success)?;
    sleep(DESTROY_TIME);
    fs::write(SHRINK, "1").ok()?;
    active_namespaces(&fs::read_to_string("/proc/slabinfo").ok()?)
}

/// Parses the number of network namespaces from /proc/slabinfo.
fn active_namespaces(slabs: &str) -> Option<usize> {
    slabs.lines().find_map(|line| line.strip_prefix("net_namespace ")?.split_whitespace().next()?.parse().ok())
}

/// Starts and ends a link `starts` times, as the user `uid` if given. Returns whether the p99 is within the limit.
pub(crate) fn run(root: &Path, starts: usize, uid: Option<u32>) -> Result<bool> {
    ensure!(starts > 0, "needs at least 1 start (hint: 1000)");
    let [built] = process::build_release(root, [("hairpin", "hairpin")])?;
    let folder = process::scratch("leaks")?;
    // The user may not have access to the build's folder.
    let hairpin = folder.join("hairpin");
    fs::copy(&built, &hairpin).with_context(|| format!("cannot copy {}", built.display()))?;
    let temporary = folder.join("tmp");
    fs::create_dir(&temporary).context("cannot create a folder for temporary files")?;
    if uid.is_some() {
        chown(&temporary, uid, uid).context("cannot give a folder to another user (hint: --as-user is for root)")?;
    }
    let judged = judge(&hairpin, &temporary, starts, uid);
    process::remove(&folder)?;
    judged
}

fn judge(hairpin: &Path, folder: &Path, starts: usize, uid: Option<u32>) -> Result<bool> {
    let mark = format!("leaks-{}", std::process::id());
    let start = || {
        let mut command = Command::new(hairpin);
        command.args(["link", "run", "--link", "delay=0ms", "--", "true"]).current_dir(folder);
        command.env(MARK_VARIABLE, &mark).env("TMPDIR", folder).stdin(Stdio::null());
        if let Some(uid) = uid {
            command.gid(uid).uid(uid);
        }
        process::run(&mut command, Duration::from_mins(1))?.succeeded()
    };
    let before = Census::take(&mark, folder)?;
    println!("before: {}", before.told());
    let mut walls_ms = Vec::with_capacity(starts);
    for number in 0..starts {
        let ran = start().with_context(|| format!("start {number}"))?;
        walls_ms.push(ran.wall.as_secs_f64() * 1e3);
    }
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| figures::quantile(&walls_ms, share));
    let kept = |ms: f64| if ms < MAX_START_MS { "within" } else { "above" };
    println!("{starts} starts: p50 {p50:.1} ms, p99 {p99:.1} ms, max {max:.1} ms");
    println!("p99 is {} the limit of {MAX_START_MS} ms", kept(p99));
    let until = Instant::now() + DESTROY_TIMEOUT;
    let mut after = Census::take(&mark, folder)?;
    while !after.beyond(&before).is_empty() && Instant::now() < until {
        after = Census::take(&mark, folder)?;
    }
    println!("after: {}", after.told());
    let beyond = after.beyond(&before);
    if !beyond.is_empty() {
        bail!("{starts} starts left {}", beyond.join(", "));
    }
    Ok(p99 < MAX_START_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaces(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn additions_are_listed() {
        let held = namespaces(&["net:[1]", "net:[2]"]);
        let before = Census { held, in_memory: Some(30), interfaces: 2, processes: 0, files: 0 };
        let fewer = Census { held: namespaces(&["net:[1]"]), in_memory: Some(29), ..before.clone() };
        assert_eq!(fewer.beyond(&before), [""; 0]);
        // A new namespace is counted even if another has disappeared.
        let held = namespaces(&["net:[1]", "net:[3]"]);
        let more = Census { held, in_memory: Some(31), interfaces: 3, processes: 2, files: 1 };
        assert_eq!(
            more.beyond(&before),
            ["1 namespaces in use", "1 namespaces in the kernel's memory", "1 interfaces", "2 processes", "1 files"]
        );
        let unread = Census { in_memory: None, ..before.clone() };
        assert_eq!(unread.beyond(&before), [""; 0]);
        assert!(unread.told().contains("not counted"), "{}", unread.told());
    }

    #[test]
    fn held_namespaces_are_found() {
        let own = fs::read_link("/proc/self/ns/net").unwrap().to_string_lossy().into_owned();
        assert!(held_namespaces().unwrap().contains(&own));
    }

    #[test]
    fn the_number_of_namespaces_in_memory_is_parsed() {
        let slabs = "slabinfo - version: 2.1\nnet_namespace         29     63   4288    7    8 : tunables    0\n";
        assert_eq!(active_namespaces(slabs), Some(29));
        assert_eq!(active_namespaces("kmalloc-8 1 2"), None);
    }
}
