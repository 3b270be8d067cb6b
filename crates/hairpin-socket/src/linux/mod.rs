//! Sets and reads the settings on Linux.

mod socket;
mod system;
mod thread;

use std::fs;

pub(crate) use socket::apply_to_socket;
pub(crate) use thread::apply_to_thread;

/// On Linux, what lends its file descriptor: sockets of `std`, `socket2`, `tokio` and others.
pub trait Socket: std::os::fd::AsFd {}

impl<T: std::os::fd::AsFd + ?Sized> Socket for T {}

/// A number of `/proc/sys`, by its name for sysctl(8); the last one if there are several.
fn sysctl(name: &str) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    text.split_whitespace().last()?.parse().ok()
}

/// The soft limit of this process for a resource, by its row of `/proc/self/limits`.
fn soft_limit(row: &str) -> Option<u64> {
    let soft = first_word("/proc/self/limits", row)?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// A number of bytes of `/proc/self/status`, which has them in KiB.
fn status_bytes(row: &str) -> Option<u64> {
    Some(first_word("/proc/self/status", row)?.parse::<u64>().ok()? * 1024)
}

fn first_word(file: &str, row: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(row))?;
    rest.split_whitespace().next().map(str::to_owned)
}
