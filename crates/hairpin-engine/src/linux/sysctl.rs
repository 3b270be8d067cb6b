//! Settings of the kernel's network protocols.

/// The value of `net.ipv4.NAME` as the kernel writes it; empty where there is none.
pub(crate) fn ipv4(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
}
