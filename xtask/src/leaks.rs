//! A link started and undone many times: how long it takes, and that no namespace, interface, process or file stays.
//!
//! A namespace that nobody is in any more is taken apart by the kernel in the background, so what is there is waited
//! for. Namespaces are counted in the kernel's own memory (`net_namespace` in /proc/slabinfo, which root may read):
//! no list has those that no process is in.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{figures, leftovers, process};

/// How long a start and an end of a link may take together, with the program that runs across it, in ms.
const BOUND_MS: f64 = 150.0;

/// How long the kernel has to take the namespaces apart.
const GRACE: Duration = Duration::from_mins(2);

/// What is counted before and after.
#[derive(Debug, PartialEq, Eq)]
struct Census {
    /// Namespaces in the kernel's memory; none where that may not be read.
    namespaces: Option<usize>,
    /// Interfaces in this network namespace.
    interfaces: usize,
    /// Processes of the links.
    processes: usize,
    /// Files in their folder for temporary files.
    files: usize,
}

impl Census {
    fn take(mark: &str, folder: &Path) -> Result<Self> {
        let files = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?.count();
        let devices = std::fs::read_to_string("/proc/net/dev").context("cannot read /proc/net/dev")?;
        Ok(Self {
            namespaces: std::fs::read_to_string("/proc/slabinfo").ok().as_deref().and_then(active_namespaces),
            interfaces: devices.lines().skip(2).count(),
            processes: leftovers::marked(mark).len(),
            files,
        })
    }

    /// What is there now and was not then. The kernel keeps some free pieces of memory and counts them as used, so a
    /// few namespaces more are none.
    fn beyond(&self, before: &Self, starts: usize) -> Vec<String> {
        let slack = 16.max(starts / 20);
        let namespaces = self.namespaces.zip(before.namespaces);
        let counts = [
            ("namespaces", namespaces.map_or(0, |(now, then)| now.saturating_sub(then + slack))),
            ("interfaces", self.interfaces.saturating_sub(before.interfaces)),
            ("processes", self.processes.saturating_sub(before.processes)),
            ("files", self.files.saturating_sub(before.files)),
        ];
        counts.iter().filter(|(_, more)| *more > 0).map(|(what, more)| format!("{more} {what}")).collect()
    }
}

/// The objects in use of the kernel's memory for network namespaces.
fn active_namespaces(slabs: &str) -> Option<usize> {
    slabs.lines().find_map(|line| line.strip_prefix("net_namespace ")?.split_whitespace().next()?.parse().ok())
}

/// Starts a link so often and undoes it again; answers whether nothing stays and the median is within the bound.
///
/// # Errors
/// A link that does not start, or what is counted cannot be read.
pub(crate) fn run(root: &Path, starts: usize) -> Result<bool> {
    let [hairpin] = process::build_release(root, [("hairpin", "hairpin")])?;
    let folder = process::scratch("leaks")?;
    let mark = format!("leaks-{}", std::process::id());
    let before = Census::take(&mark, &folder)?;
    println!("before: {before:?}");
    let mut walls_ms = Vec::with_capacity(starts);
    for number in 0..starts {
        let mut command = Command::new(&hairpin);
        command.args(["link", "run", "--link", "delay=0ms", "--", "true"]);
        command.env(leftovers::MARK, &mark).env("TMPDIR", &folder).stdin(Stdio::null());
        let began = Instant::now();
        process::run(&mut command, Duration::from_mins(1))?.succeeded().with_context(|| format!("start {number}"))?;
        walls_ms.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| figures::quantile(&walls_ms, share));
    println!("{starts} starts: p50 {p50:.1} ms, p99 {p99:.1} ms, max {max:.1} ms, bound {BOUND_MS} ms at p50");
    let until = Instant::now() + GRACE;
    let mut after = Census::take(&mark, &folder)?;
    while !after.beyond(&before, starts).is_empty() && Instant::now() < until {
        sleep(Duration::from_millis(100));
        after = Census::take(&mark, &folder)?;
    }
    println!("after: {after:?}");
    let beyond = after.beyond(&before, starts);
    process::remove(&folder)?;
    if !beyond.is_empty() {
        bail!("{starts} starts left {}", beyond.join(", "));
    }
    Ok(p50 < BOUND_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_than_before_is_told() {
        let before = Census { namespaces: Some(30), interfaces: 2, processes: 0, files: 0 };
        let same = Census { namespaces: Some(46), ..before };
        assert_eq!(same.beyond(&before, 100), [""; 0]);
        let more = Census { namespaces: Some(47), interfaces: 3, processes: 2, files: 1 };
        assert_eq!(more.beyond(&before, 100), ["1 namespaces", "1 interfaces", "2 processes", "1 files"]);
        let unread = Census { namespaces: None, ..before };
        assert_eq!(unread.beyond(&before, 100), [""; 0]);
    }

    #[test]
    fn the_kernels_memory_is_read() {
        let slabs = "slabinfo - version: 2.1\nnet_namespace         29     63   4288    7    8 : tunables    0\n";
        assert_eq!(active_namespaces(slabs), Some(29));
        assert_eq!(active_namespaces("kmalloc-8 1 2"), None);
    }
}
