//! Counters of the kernel's whole TCP, not of one connection.

use std::fs;

use hairpin_model::fact::Fact;
use hairpin_model::fact_names;

/// How often small writes were held because an earlier packet was still in the device's queue (`tcp_should_autocork`,
/// net/ipv4/tcp.c), for all connections of this network namespace; `None` where the kernel does not tell.
pub(super) fn autocorked() -> Option<Fact> {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").ok()?;
    Some(Fact::number(fact_names::AUTOCORKING, extended(&text, "TCPAutoCorking")? as f64))
}

/// A counter of the group `TcpExt`, which has a line of names and a line of values.
fn extended(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let place = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read() {
        let text = "TcpExt: First TCPAutoCorking Last\nTcpExt: 1 22 3\nIpExt: TCPOther\nIpExt: 4\n";
        assert_eq!(extended(text, "TCPAutoCorking"), Some(22));
        for (text, name) in [(text, "TCPOther"), ("TcpExt: TCPAutoCorking\n", "TCPAutoCorking"), ("", "First")] {
            assert_eq!(extended(text, name), None);
        }
    }

    #[test]
    fn this_kernel_tells() {
        let told = autocorked().expect("Linux has counted it since 3.14");
        assert_eq!(told.name, fact_names::AUTOCORKING);
    }
}
