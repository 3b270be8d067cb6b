//! Kernel counters of the rounds of a case, as one.

use hairpin_model::fact::{Fact, FactValue};

use crate::statistics::location::median;

/// Parts of a fact's name that mean that it counts events since the connection began, so that rounds add up. Each is a
/// word of `struct tcp_info` (include/uapi/linux/tcp.h), of the socket's own counters, or of `/proc/net/snmp`.
const COUNTS: &[&str] = &[
    "retransmits",
    "retrans",
    "lost",
    "loss",
    "drops",
    "dropped",
    "discards",
    "errors",
    "overflows",
    "overflow",
    "segs",
    "segments",
    "datagrams",
    "packets",
    "delivered",
    "reordered",
    "dsack",
    "duplicates",
];
/// A name with one of these counts bytes since the connection began.
const BYTE_COUNTS: &[&str] = &["bytes_sent", "bytes_received", "bytes_acked", "bytes_retrans"];

/// Whether a fact of that name counts events (rounds add up) rather than states a quantity (the median counts).
#[must_use]
pub fn counts_events(name: &str) -> bool {
    let own = name.rsplit('.').next().unwrap_or(name).to_lowercase();
    own.split(['_', '-']).any(|word| COUNTS.contains(&word))
        || BYTE_COUNTS.iter().any(|counter| own.contains(counter))
        || own.ends_with("errors")
}

/// The facts of all rounds as one list, in order of first appearance: counters summed, other numbers by their median
/// over rounds, words as the last round had them.
#[must_use]
pub fn merged<'r>(rounds: impl Iterator<Item = &'r [Fact]>) -> Vec<Fact> {
    let mut by_name: Vec<(&str, Vec<&FactValue>)> = Vec::new();
    for fact in rounds.flatten() {
        match by_name.iter_mut().find(|(name, _)| *name == fact.name) {
            Some((_, values)) => values.push(&fact.value),
            None => by_name.push((&fact.name, vec![&fact.value])),
        }
    }
    by_name.into_iter().filter_map(|(name, values)| merged_one(name, &values)).collect()
}

fn merged_one(name: &str, values: &[&FactValue]) -> Option<Fact> {
    if let Some(FactValue::Word(word)) = values.last() {
        return Some(Fact::word(name, word.clone()));
    }
    let numbers: Vec<f64> = values
        .iter()
        .filter_map(|value| match value {
            FactValue::Number(number) => Some(*number),
            FactValue::Word(_) => None,
        })
        .collect();
    let value = if counts_events(name) { numbers.iter().sum() } else { median(&numbers)? };
    Some(Fact::number(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_quantities_do_not() {
        for name in [
            "tcp_info.total_retrans",
            "tcp_info.retransmits",
            "socket.drops",
            "udp.RcvbufErrors",
            "tcp_info.segs_out",
        ] {
            assert!(counts_events(name), "{name}");
        }
        for name in ["tcp_info.min_rtt_us", "tcp_info.snd_cwnd", "tcp_info.snd_mss", "socket.rcvbuf_bytes"] {
            assert!(!counts_events(name), "{name}");
        }
    }

    #[test]
    fn facts_of_rounds_become_one_list() {
        let round = |retransmits, rtt, state: &str| {
            vec![
                Fact::number("tcp_info.retransmits", retransmits),
                Fact::number("tcp_info.min_rtt_us", rtt),
                Fact::word("tcp_info.state", state),
            ]
        };
        let rounds = [round(1.0, 7.0, "a"), round(2.0, 9.0, "b"), round(0.0, 5.0, "c")];
        assert_eq!(merged(rounds.iter().map(Vec::as_slice)), round(3.0, 7.0, "c"));
        assert!(merged(std::iter::empty()).is_empty());
    }
}
