//! The ends of an emulated link: their TCP settings, and the packets that their kernels dropped after delivery.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantities;

/// TCP settings of both ends of a link, independent of the host's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, crate::JsonSchema)]
pub struct LinkEnds {
    /// The congestion control of connections over the link.
    pub congestion_control: String,
    /// Whether a route sets the congestion control, because the kernel refuses this one as the default of a network
    /// namespace. A route also overrides what a program sets before it connects (`TCP_CONGESTION`).
    pub congestion_by_route: bool,
    /// The minimum, the default and the maximum of a receive buffer, in bytes (`net.ipv4.tcp_rmem`).
    pub tcp_rmem_bytes: [u64; 3],
    /// The minimum, the default and the maximum of a send buffer, in bytes (`net.ipv4.tcp_wmem`).
    pub tcp_wmem_bytes: [u64; 3],
}

impl LinkEnds {
    /// All settings that affect figures, in the kernel's notation, to compare two runs.
    pub fn settings(&self) -> String {
        let [receive, send] =
            [self.tcp_rmem_bytes, self.tcp_wmem_bytes].map(|bytes| bytes.map(|bytes| bytes.to_string()).join(" "));
        format!("{}, tcp_rmem {receive}, tcp_wmem {send}", self.congestion_control)
    }
}

impl fmt::Display for LinkEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [.., receive] = self.tcp_rmem_bytes;
        let [.., send] = self.tcp_wmem_bytes;
        let [receive, send] = [receive, send].map(|bytes| quantities::bytes(bytes as f64));
        let by_route = if self.congestion_by_route { " (by route)" } else { "" };
        write!(
            f,
            "{}{by_route}, receive buffer at most {receive}, send buffer at most {send}",
            self.congestion_control
        )
    }
}

/// Packets that the kernels of both ends dropped after delivery by the link, by counter; only nonzero counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DroppedAfter {
    #[serde(default)]
    pub near: BTreeMap<String, u64>,
    #[serde(default)]
    pub far: BTreeMap<String, u64>,
}

/// A kernel counter of drops at an end.
#[derive(Clone, Copy, Debug)]
pub struct DropCounter {
    /// The group in `/proc/net/snmp` or `/proc/net/netstat`; `eth0` is the device in `/proc/net/dev`.
    pub group: &'static str,
    /// The counter's name in the group.
    pub name: &'static str,
    /// Noun for one dropped item.
    pub what: &'static str,
    pub why: &'static str,
}

impl DropCounter {
    pub const ALL: &[Self] = &[
        Self::new("eth0", "rx_dropped", "packet", "queue of the receiving CPU full (net.core.netdev_max_backlog)"),
        Self::new("Udp", "RcvbufErrors", "datagram", "receive buffer full"),
        Self::new("Udp", "MemErrors", "datagram", "no memory left for UDP (net.ipv4.udp_mem)"),
        Self::new("TcpExt", "ListenOverflows", "connection", "queue of the listening socket full"),
        Self::new("TcpExt", "TCPReqQFullDrop", "connection", "queue of half-open connections full"),
        Self::new("TcpExt", "TCPBacklogDrop", "segment", "backlog of the socket full"),
        Self::new("TcpExt", "TCPRcvQDrop", "segment", "receive buffer full"),
        Self::new("TcpExt", "TCPZeroWindowDrop", "segment", "receive window closed"),
        Self::new("TcpExt", "TCPOFODrop", "segment", "out of order, and receive buffer full"),
    ];

    const fn new(group: &'static str, name: &'static str, what: &'static str, why: &'static str) -> Self {
        Self { group, name, what, why }
    }

    /// Name as in `nstat`, for instance `UdpRcvbufErrors`.
    pub fn full_name(&self) -> String {
        let joint = if self.group == "eth0" { " " } else { "" };
        format!("{}{joint}{}", self.group, self.name)
    }

    /// `1 234 datagrams dropped after the link: receive buffer full (UdpRcvbufErrors)`.
    pub fn describe(&self, count: u64) -> String {
        let things = quantities::counted(count, self.what);
        format!("{things} dropped after the link: {} ({})", self.why, self.full_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_link_are_printed_on_one_line() {
        let ends = LinkEnds {
            congestion_control: "cubic".to_owned(),
            congestion_by_route: false,
            tcp_rmem_bytes: [4096, 131_072, 33_554_432],
            tcp_wmem_bytes: [4096, 16_384, 4_194_304],
        };
        let line = "cubic, receive buffer at most 32 MiB, send buffer at most 4 MiB";
        assert_eq!(ends.to_string(), line);
        let by_route = LinkEnds { congestion_by_route: true, ..ends };
        assert_eq!(by_route.to_string(), line.replacen("cubic", "cubic (by route)", 1));
    }

    #[test]
    fn drops_are_printed_with_the_kernels_counter() {
        let told = |name: &str, count| {
            DropCounter::ALL.iter().find(|counter| counter.full_name() == name).expect("a known name").describe(count)
        };
        assert_eq!(
            told("UdpRcvbufErrors", 1234),
            "1 234 datagrams dropped after the link: receive buffer full (UdpRcvbufErrors)"
        );
        assert_eq!(
            told("TcpExtListenOverflows", 1),
            "1 connection dropped after the link: queue of the listening socket full (TcpExtListenOverflows)"
        );
        assert!(told("eth0 rx_dropped", 2).ends_with("(net.core.netdev_max_backlog) (eth0 rx_dropped)"));
    }
}
