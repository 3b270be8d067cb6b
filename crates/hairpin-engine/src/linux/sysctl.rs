//! Settings of the kernel's network protocols, in the network namespace of the calling thread.

use std::fs::OpenOptions;
use std::io::{self, Write};

/// The value of `net.ipv4.NAME` as the kernel writes it; empty where there is none.
pub(crate) fn ipv4(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_default()
}

/// Sets `net.ipv4.NAME`.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn set_ipv4(name: &str, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path(name))?.write_all(value.as_bytes())
}

/// The names of the congestion controls that the kernel has.
pub(crate) fn available_congestion_controls() -> Vec<String> {
    ipv4("tcp_available_congestion_control").split_whitespace().map(str::to_owned).collect()
}

fn path(name: &str) -> String {
    format!("/proc/sys/net/ipv4/{name}")
}
