//! Counters of the kernel's TCP and UDP for all sockets, in the network namespace of the calling thread
//! (proc_pid_net(5); Documentation/networking/snmp_counter.rst).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};

use hairpin_model::{Card, DropCounter, Fact, Protocol, fact_names};

/// A counter: the name of its fact, its group, and its name in the group.
type Counter = (&'static str, &'static str, &'static str);

const TCP: &[Counter] = &[
    (fact_names::FAST_RETRANSMITS, "TcpExt:", "TCPFastRetrans"),
    (fact_names::RETRANSMISSION_TIMEOUTS, "TcpExt:", "TCPTimeouts"),
    (fact_names::LOSS_PROBES, "TcpExt:", "TCPLossProbes"),
    (fact_names::SLOW_START_RETRANSMITS, "TcpExt:", "TCPSlowStartRetrans"),
];

/// UDP over IPv4. The counters of UDP over IPv6 have the same names after `Udp6`.
const UDP: &[Counter] = &[
    (fact_names::UDP_CHECKSUM_ERRORS, "Udp:", "InCsumErrors"),
    (fact_names::UDP_BUFFER_ERRORS, "Udp:", "RcvbufErrors"),
];

/// Number of small writes delayed because an earlier packet was still in the device's queue (`tcp_should_autocork`,
/// net/ipv4/tcp.c), and of retransmissions, over all connections of this network namespace. Omits what the kernel does not
/// count.
pub(crate) fn of_the_namespace() -> Vec<Fact> {
    let text = file("netstat").unwrap_or_default();
    let autocorked = (fact_names::AUTOCORKING, "TcpExt:", "TCPAutoCorking");
    facts(&[&[autocorked], TCP].concat(), |group, name| counter(&text, group, name))
}

/// Connections that the accept queues of a network namespace had no room for.
pub(crate) struct Overflows {
    /// The open file belongs to the namespace in which it was opened.
    file: Option<File>,
    before: u64,
}

impl Overflows {
    /// Begins to count, in the namespace of the calling thread.
    pub(crate) fn begin() -> Self {
        let mut overflows = Self { file: File::open("/proc/thread-self/net/netstat").ok(), before: 0 };
        overflows.before = overflows.count();
        overflows
    }

    /// Returns how many there were since the beginning; 0 if the kernel does not count them.
    pub(crate) fn count(&mut self) -> u64 {
        let mut text = String::new();
        let read = self.file.as_mut().map(|file| file.rewind().and_then(|()| file.read_to_string(&mut text)));
        let counted = read.and_then(Result::ok).and_then(|_| counter(&text, "TcpExt:", "ListenOverflows"));
        counted.unwrap_or(0).saturating_sub(self.before)
    }
}

/// The kernel's counters of a network namespace that carries only one connection, over the transport of `card`. Omits
/// missing counters.
pub(crate) fn of_the_connection(card: &Card) -> Vec<Fact> {
    let file = |name| file(name).unwrap_or_default();
    match card.protocol {
        Protocol::Tcp => {
            let text = file("netstat");
            facts(TCP, |group, name| counter(&text, group, name))
        }
        Protocol::Udp => {
            let (text, text_of_ipv6) = (file("snmp"), file("snmp6"));
            facts(UDP, |group, name| Some(counter(&text, group, name)? + of_ipv6(&text_of_ipv6, name).unwrap_or(0)))
        }
        Protocol::Icmp | Protocol::None => Vec::new(),
    }
}

/// Drops by the kernel in the network namespace of the calling thread, by counter. Omits zero counts.
pub(crate) fn dropped(interface: &str) -> BTreeMap<String, u64> {
    let [snmp, netstat, snmp6, devices] =
        ["snmp", "netstat", "snmp6", "dev"].map(|name| file(name).unwrap_or_default());
    let count = |counter: &DropCounter| match counter.group {
        "Udp" => Some(self::counter(&snmp, "Udp:", counter.name)? + of_ipv6(&snmp6, counter.name).unwrap_or(0)),
        "TcpExt" => self::counter(&netstat, "TcpExt:", counter.name),
        _ => dropped_by(&devices, interface),
    };
    let counts = DropCounter::ALL.iter().filter_map(|counter| Some((counter.full_name(), count(counter)?)));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Packets received and dropped by `interface`, or by all interfaces, in the network namespace of the calling thread.
pub(crate) fn received_and_dropped(interface: Option<&str>) -> Option<u64> {
    let text = file("dev")?;
    match interface {
        Some(interface) => dropped_by(&text, interface),
        None => {
            let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim_start()));
            names.map(|name| dropped_by(&text, name)).sum()
        }
    }
}

/// Packets received and dropped by `interface`: the fourth counter of its line in `/proc/net/dev`.
fn dropped_by(text: &str, interface: &str) -> Option<u64> {
    let counters = text.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    counters.split_whitespace().nth(3)?.parse().ok()
}

fn facts(counters: &[Counter], count: impl Fn(&str, &str) -> Option<u64>) -> Vec<Fact> {
    let fact = |(fact, group, name): &Counter| Some(Fact::number(fact, count(group, name)? as f64));
    counters.iter().filter_map(fact).collect()
}

fn file(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/thread-self/net/{name}")).ok()
}

/// The value of a counter. Each group has a line of names followed by a line of values.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let place = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

/// The value of an IPv6 counter. Each counter is on its own line.
fn of_ipv6(text: &str, name: &str) -> Option<u64> {
    let value = |line| <str>::strip_prefix(line, "Udp6")?.strip_prefix(name)?.strip_prefix([' ', '\t']);
    text.lines().find_map(value)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_parsed() {
        let text = "TcpExt: First TCPAutoCorking Last\nTcpExt: 1 22 3\nIpExt: TCPOther\nIpExt: 4\n";
        assert_eq!(counter(text, "TcpExt:", "TCPAutoCorking"), Some(22));
        for (text, name) in [(text, "TCPOther"), ("TcpExt: TCPAutoCorking\n", "TCPAutoCorking"), ("", "First")] {
            assert_eq!(counter(text, "TcpExt:", name), None);
        }
        let text = "Udp6RcvbufErrorsOfOthers\t9\nUdp6RcvbufErrors                \t5\nUdpLite6RcvbufErrors\t7\n";
        assert_eq!((of_ipv6(text, "RcvbufErrors"), of_ipv6(text, "InCsumErrors")), (Some(5), None));
    }

    #[test]
    fn the_drops_of_an_interface_are_its_fourth_counter() {
        let text =
            "Inter-|   Receive\n face |bytes packets errs drop fifo\n eth01: 1 2 3 9 5\n  eth0: 10 20 30 40 50\n";
        assert_eq!(dropped_by(text, "eth0"), Some(40));
        assert_eq!((dropped_by(text, "eth"), dropped_by("eth0: 1 2\n", "eth0")), (None, None));
    }

    #[test]
    fn this_kernel_has_the_counters() {
        let told: Vec<String> = of_the_namespace().into_iter().map(|fact| fact.name).collect();
        assert_eq!(told[0], fact_names::AUTOCORKING, "Linux has had this counter since 3.14");
        assert!(told.iter().any(|name| name == fact_names::LOSS_PROBES), "{told:?}");
    }

    #[test]
    fn a_connection_has_the_counters_of_its_protocol() {
        let of = |name| {
            let card = hairpin_transports::find(name).expect("the transport is always built").card();
            of_the_connection(&card).into_iter().map(|fact| fact.name).collect::<Vec<_>>()
        };
        assert_eq!(of("tcp"), TCP.iter().map(|(fact, ..)| *fact).collect::<Vec<_>>());
        assert_eq!(of("udp6"), UDP.iter().map(|(fact, ..)| *fact).collect::<Vec<_>>());
        assert_eq!((of("icmp").len(), of("unix-stream").len()), (0, 0));
    }
}
