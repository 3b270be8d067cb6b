//! The ledger: every message sent is accounted for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fact::{self, Fact};
use crate::fact_names;

/// An end's receive buffer was full; the end's name may follow, as in `receive-buffer-overflow-server`.
pub const RECEIVE_BUFFER: &str = "receive-buffer-overflow";
/// The sender's kernel refused the message.
pub const SEND_BUFFER: &str = "send-buffer";
/// A queue discipline of the sender's host dropped the message.
pub const QDISC: &str = "qdisc";
/// A device of the receiver's host dropped the message.
pub const DEVICE: &str = "device";
/// The emulated link lost the message, or still held it at the end; the stage's name may follow, as in `link-loss`.
pub const LINK: &str = "link";
/// The emulator had no room for the message before it entered the link; the round then does not count.
pub const RELAY: &str = "relay";
/// The network between two hosts lost the message on the way to the server, according to the counters of both ends
/// and of the receive buffers.
pub const NETWORK_UP: &str = "network-up";
/// The network between two hosts lost an answer, or a message of a load in direction down.
pub const NETWORK_DOWN: &str = "network-down";

/// A cause of losses, and its kernel counters.
struct Cause {
    name: &'static str,
    words: &'static str,
    /// Kernel counters; the first counter that an end has is used. Empty if Hairpin counts these losses itself.
    counters: &'static [&'static str],
    /// The counter counts packets. A packet is up to [`MAX_SEGMENTS`] messages if datagrams are sent as segments of one
    /// packet (UDP GSO and GRO).
    counts_packets: bool,
    /// The counter covers the whole network namespace, including other programs.
    is_of_the_namespace: bool,
}

const UNCOUNTED: Cause =
    Cause { name: "", words: "", counters: &[], counts_packets: false, is_of_the_namespace: false };

const CAUSES: &[Cause] = &[
    Cause {
        name: RECEIVE_BUFFER,
        words: "receive buffer full",
        // The socket's own counter also counts packets with a wrong checksum, which the link damaged and already
        // counted.
        counters: &[fact_names::UDP_BUFFER_ERRORS, fact_names::SOCKET_DROPS],
        counts_packets: true,
        ..UNCOUNTED
    },
    Cause { name: SEND_BUFFER, words: "refused by the sender's kernel", ..UNCOUNTED },
    Cause {
        name: QDISC,
        words: "dropped by the sender's queue discipline",
        counters: &[fact_names::QDISC_DROPS],
        counts_packets: true,
        is_of_the_namespace: true,
    },
    Cause {
        name: DEVICE,
        words: "dropped by the receiver's device",
        counters: &[fact_names::DEVICE_DROPS],
        counts_packets: true,
        is_of_the_namespace: true,
    },
    Cause { name: LINK, words: "lost on the link", ..UNCOUNTED },
    Cause { name: RELAY, words: "not carried by the relay of the link", ..UNCOUNTED },
    Cause { name: NETWORK_UP, words: "lost in the network on the way to the server", ..UNCOUNTED },
    Cause { name: NETWORK_DOWN, words: "lost in the network on the way to the client", ..UNCOUNTED },
];

/// Returns the cause for `name`, and the end or stage that follows the cause in the name.
fn cause(name: &str) -> Option<(&'static Cause, Option<&str>)> {
    CAUSES.iter().find_map(|cause| match name.strip_prefix(cause.name)? {
        "" => Some((cause, None)),
        more => Some((cause, Some(more.strip_prefix('-')?))),
    })
}

/// Kernel count for the cause `name` at an end with these facts; 0 without a counter.
pub fn counted_by_kernel(name: &str, facts: &[Fact]) -> u64 {
    let counters = cause(name).map_or(&[][..], |(cause, _)| cause.counters);
    // Packet counts are whole and fit.
    counters.iter().find_map(|counter| fact::number(facts, counter)).unwrap_or(0.0) as u64
}

/// Distinct messages in one direction between two hosts, including warm-up; duplicates and reordering as in RFC 4737.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Way {
    /// Messages that one end sent.
    pub sent: u64,
    /// Messages that the other end received, in time or late.
    pub received: u64,
    /// Further arrivals of a message, in one-way loads only after the warm-up. 0 if the transport removes duplicates.
    #[serde(default)]
    pub duplicated: u64,
    /// Messages that arrived after a message sent later, counted like `duplicated`. For answers, a lower bound.
    #[serde(default)]
    pub reordered: u64,
}

impl Way {
    /// Missing messages, without the `overflown` ones that full buffers dropped.
    pub fn missing(self, overflown: u64) -> u64 {
        self.sent.saturating_sub(self.received).saturating_sub(overflown)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
        }
    }
}

/// sent = received + lost (by cause) + late + unexplained. A duplicate is a second arrival and is counted separately.
///
/// No cause is computed by subtraction: each has its own counter. Losses that no counter covers are `unexplained`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Ledger {
    /// Messages sent after the warm-up.
    pub sent: u64,
    /// Answers that arrived in time.
    pub received: u64,
    /// Messages lost, by cause; only causes that occurred.
    pub lost: BTreeMap<String, u64>,
    /// Answers that arrived after the time-out.
    pub late: u64,
    /// Further arrivals of an answer that had arrived already.
    pub duplicated: u64,
    /// Remaining messages, missing (positive) or in excess (negative); see [`Ledger::may_count_copies`].
    pub unexplained: i64,
    /// Messages from client to server between two hosts; null on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Way>,
    /// Messages from server to client between two hosts; null on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Way>,
}

/// Text for a cause of losses: `receive buffer of the server full`, `link: loss`.
pub fn in_words(name: &str) -> String {
    match cause(name) {
        Some((Cause { words, .. }, None)) => (*words).to_owned(),
        Some((Cause { name: RECEIVE_BUFFER, .. }, Some(end))) => format!("receive buffer of the {end} full"),
        Some((Cause { name: LINK, .. }, Some(stage))) => format!("link: {stage}"),
        _ => name.to_owned(),
    }
}

/// Whether the counter of a cause covers the whole network namespace, including other programs.
pub fn is_of_the_namespace(name: &str) -> bool {
    cause(name).is_some_and(|(cause, _)| cause.is_of_the_namespace)
}

/// Whether a cause is counted in packets, each of which may be several messages.
pub fn counts_packets(name: &str) -> bool {
    cause(name).is_some_and(|(cause, _)| cause.counts_packets)
}

/// Maximum number of datagrams in one packet (`UDP_MAX_SEGMENTS`, include/linux/udp.h).
pub const MAX_SEGMENTS: u64 = 128;

impl Ledger {
    pub fn closed(mut self) -> Self {
        let accounted = self.received + self.lost.values().sum::<u64>() + self.late;
        self.unexplained = self.sent as i64 - accounted as i64;
        self
    }

    /// The share of the messages sent that did not arrive in time, 0 to 1.
    pub fn missing_share(&self) -> f64 {
        self.sent.saturating_sub(self.received) as f64 / self.sent.max(1) as f64
    }

    /// Whether a surplus may be packets that are not messages: full receive buffers also count packets that the link
    /// copied or damaged. There are `not_messages` such packets; no counter shows how many of them a buffer dropped.
    pub fn may_count_copies(&self, not_messages: u64) -> bool {
        let overflows =
            self.lost.iter().filter(|(cause, _)| cause.starts_with(RECEIVE_BUFFER)).map(|(_, count)| *count);
        self.unexplained < 0 && self.unexplained.unsigned_abs() <= overflows.sum::<u64>().min(not_messages)
    }

    /// Whether missing messages may be segments of dropped packets, which a counter counts once ([`counts_packets`]).
    pub fn may_be_segments(&self) -> bool {
        let packets: u64 = self.lost.iter().filter(|(cause, _)| counts_packets(cause)).map(|(_, count)| *count).sum();
        self.unexplained > 0 && self.unexplained.unsigned_abs() <= packets.saturating_mul(MAX_SEGMENTS - 1)
    }

    pub fn plus(mut self, other: &Self) -> Self {
        self.sent += other.sent;
        self.received += other.received;
        self.late += other.late;
        self.duplicated += other.duplicated;
        for (cause, count) in &other.lost {
            *self.lost.entry(cause.clone()).or_default() += count;
        }
        let both = |one: Option<Way>, other: Option<Way>| match (one, other) {
            (Some(one), Some(other)) => Some(one.plus(other)),
            (one, other) => one.or(other),
        };
        (self.up, self.down) = (both(self.up, other.up), both(self.down, other.down));
        self.closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cause_has_a_text() {
        let told = ["receive-buffer-overflow-server", "receive-buffer-overflow", "link-loss", "other"].map(in_words);
        assert_eq!(told, ["receive buffer of the server full", "receive buffer full", "link: loss", "other"]);
    }

    #[test]
    fn a_message_without_a_cause_is_unexplained() {
        let lost = BTreeMap::from([("receive-buffer-overflow".to_owned(), 2)]);
        let ledger = Ledger { sent: 10, received: 6, lost, late: 1, ..Ledger::default() }.closed();
        assert_eq!(ledger.unexplained, 1);
    }

    #[test]
    fn a_surplus_may_be_copies_if_link_and_buffers_counted_enough() {
        let ledger = |overflown, received| {
            let lost = BTreeMap::from([
                ("receive-buffer-overflow-server".to_owned(), overflown),
                ("link-loss".to_owned(), 2),
            ]);
            Ledger { sent: 20, received, lost, ..Ledger::default() }.closed()
        };
        assert!(ledger(9, 12).may_count_copies(3), "a surplus of 3");
        assert!(!ledger(9, 12).may_count_copies(2), "the link made fewer copies");
        assert!(!ledger(2, 19).may_count_copies(9), "the buffers dropped fewer packets");
        assert!(!ledger(6, 12).may_count_copies(9), "no surplus");
        assert!(!ledger(1, 12).may_count_copies(9), "messages are missing");
    }

    #[test]
    fn missing_messages_may_be_segments_of_dropped_packets() {
        let ledger = |received, cause: &str| {
            let lost = BTreeMap::from([(cause.to_owned(), 2)]);
            Ledger { sent: 1000, received, lost, ..Ledger::default() }.closed()
        };
        assert!(ledger(1000 - 256, RECEIVE_BUFFER).may_be_segments(), "two packets of 128");
        assert!(!ledger(1000 - 257, RECEIVE_BUFFER).may_be_segments());
        assert!(!ledger(998, QDISC).may_be_segments(), "nothing is missing");
        assert!(!ledger(900, LINK).may_be_segments(), "a link counts messages");
    }

    proptest! {
        #[test]
        fn adding_ledgers_adds_unexplained_counts(a in 0_u64..1000, b in 0_u64..1000, c in 0_u64..1000, d in 0_u64..1000) {
            let one = Ledger { sent: a, received: b, ..Ledger::default() }.closed();
            let two = Ledger { sent: c, received: d, ..Ledger::default() }.closed();
            prop_assert_eq!(one.clone().plus(&two).unexplained, one.unexplained + two.unexplained);
        }
    }
}
