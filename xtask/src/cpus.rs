//! The CPUs that this process may use.

use std::fs;

use anyhow::{Context, Result};

pub(crate) fn first_two() -> Result<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    first_allowed(&status).context("needs two CPUs (hint: taskset or the container may allow only one)")
}

/// Returns the first two CPUs in `Cpus_allowed_list`, for instance `0-3,6`.
fn first_allowed(status: &str) -> Option<(u64, u64)> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cpus = list.trim().split(',').flat_map(|range| {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        low.parse().unwrap_or(1)..=high.parse().unwrap_or(0)
    });
    Some((cpus.next()?, cpus.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_are_read_from_ranges() {
        assert_eq!(first_allowed("Name:\tx\nCpus_allowed_list:\t2,5-7\n"), Some((2, 5)));
        assert_eq!(first_allowed("Cpus_allowed_list:\t4-7\n"), Some((4, 5)));
        assert_eq!(first_allowed("Cpus_allowed_list:\t3\n"), None);
    }
}
