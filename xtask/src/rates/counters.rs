//! The counters of a network namespace, which show how much its sockets received, independent of the programs' reports.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

/// Size of IPv4 and TCP headers with time stamps. The loopback device counts a packet of several segments once.
const HEADERS_BYTES: u64 = 20 + 20 + 12;

/// Totals up to a point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    at: Instant,
    pub(super) datagrams: u64,
    pub(super) stream_bytes: u64,
}

impl Received {
    /// Reads the counters of this process's namespace.
    pub(super) fn now() -> Result<Self> {
        let read = |name: &str| fs::read_to_string(name).with_context(|| format!("cannot read {name}"));
        let before = Instant::now();
        let (snmp, netstat) = (read("/proc/net/snmp")?, read("/proc/net/netstat")?);
        Self::parse(before + before.elapsed() / 2, &snmp, &netstat)
    }

    fn parse(at: Instant, snmp: &str, netstat: &str) -> Result<Self> {
        let bytes = counter(netstat, "IpExt", "InOctets")?;
        let headers = counter(snmp, "Ip", "InReceives")? * HEADERS_BYTES;
        let datagrams = counter(snmp, "Udp", "InDatagrams")?;
        Ok(Self { at, datagrams, stream_bytes: bytes.saturating_sub(headers) })
    }

    /// Returns the datagrams per second and the stream bytes per second since `before`.
    pub(super) fn per_s_since(&self, before: &Self) -> (f64, f64) {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        (rate(self.datagrams, before.datagrams), rate(self.stream_bytes, before.stream_bytes))
    }
}

/// Parses a counter. Each group in `text` has a line of names and then a line of values.
fn counter(text: &str, group: &str, name: &str) -> Result<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(": ")).filter(|(found, _)| *found == group);
    let (names, values) = (lines.next().unwrap_or_default().1, lines.next().unwrap_or_default().1);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let value = pairs.find(|(found, _)| *found == name).and_then(|(_, value)| value.parse().ok());
    value.with_context(|| format!("the kernel has no counter {group} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SNMP: &str = "Ip: Forwarding InReceives\nIp: 1 100\nUdp: InDatagrams NoPorts\nUdp: 70 3\nUdpLite: InDatagrams\n\
                        UdpLite: 9\n";

    #[test]
    fn counters_are_found_by_name() {
        assert_eq!(counter(SNMP, "Udp", "NoPorts").unwrap(), 3);
        assert_eq!(counter(SNMP, "UdpLite", "InDatagrams").unwrap(), 9);
        for (group, name) in [("Udp", "InErrors"), ("Tcp", "InSegs")] {
            let why = counter(SNMP, group, name).unwrap_err().to_string();
            assert_eq!(why, format!("the kernel has no counter {group} {name}"));
        }
    }

    #[test]
    fn headers_are_not_counted_as_stream_bytes() {
        let start = Instant::now();
        let before = Received::parse(start, SNMP, "IpExt: InOctets\nIpExt: 10000\n").unwrap();
        assert_eq!((before.datagrams, before.stream_bytes), (70, 10_000 - 100 * 52));
        let later = Received { at: start + Duration::from_secs(2), datagrams: 80, stream_bytes: 4_802 };
        assert_eq!(later.per_s_since(&before), (5.0, 1.0));
    }
}
