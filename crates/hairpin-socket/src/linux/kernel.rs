//! Limits and settings that the kernel shows as files.

use std::fs;

/// A number of `/proc/sys`, by its name for sysctl(8); the last one if there are several.
pub(super) fn sysctl(name: &str) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    text.split_whitespace().last()?.parse().ok()
}

/// The soft limit of this process for a resource, by its name in `/proc/self/limits`.
pub(super) fn soft_limit(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let soft = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// A number of bytes of `/proc/self/status`, which has them in KiB.
pub(super) fn status_bytes(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let kib: u64 = text.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}
