//! What a run keeps of the link between its ends: the backend, how late it was, its ledger, and what a report draws.
//!
//! Times are ns since the link started. A ledger closes: `in + duplicated = out + dropped + inside`, for each stage,
//! for each direction and for the link; every term is counted by itself and none is a difference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// What carried the packets.
    pub enum Backend: "link backend" {
        /// The stages on a manual clock; no packet ever existed.
        Sim = "sim",
        /// Kernel stacks in two network namespaces, and Hairpin's relay between them.
        Relay = "relay",
        /// The kernel's own emulator, sch_netem.
        Netem = "netem",
    }
}

words! {
    /// Which way a packet goes.
    pub enum Direction: "direction" {
        /// From the near end to the far end.
        Up = "up",
        /// From the far end to the near end.
        Down = "down",
    }
}

/// The link of one round (or of one `link run`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// What carried the packets.
    pub backend: Backend,
    /// The seed of every random choice.
    pub seed: u64,
    /// Released minus due; null where nobody sees it (the kernel's emulator).
    pub lateness_ns: Option<LatenessNs>,
    /// Both directions together.
    pub packets: PacketCounts,
    /// From near to far.
    pub up: DirectionRecord,
    /// From far to near.
    pub down: DirectionRecord,
}

/// How much later than due the packets were released, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatenessNs {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The latest of all.
    pub max: u64,
}

/// A ledger of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketCounts {
    /// Packets that came in.
    #[serde(rename = "in")]
    pub entered: u64,
    /// Packets and copies that left.
    pub out: u64,
    /// Packets and copies dropped, by stage; only stages that dropped any.
    pub dropped: BTreeMap<String, u64>,
    /// Copies made.
    pub duplicated: u64,
    /// Packets and copies that left after one that had come in later (RFC 4737, section 3.3).
    pub reordered: u64,
    /// Packets with a bit flipped.
    #[serde(default)]
    pub corrupted: u64,
    /// Packets and copies still inside when the record was made.
    #[serde(default)]
    pub inside: u64,
}

impl PacketCounts {
    /// What the ledger does not explain; 0 when it closes, positive when packets are missing.
    #[must_use]
    pub fn unexplained(&self) -> i128 {
        let dropped: i128 = self.dropped.values().map(|count| i128::from(*count)).sum();
        i128::from(self.entered) + i128::from(self.duplicated)
            - i128::from(self.out)
            - dropped
            - i128::from(self.inside)
    }

    /// The two ledgers as one.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.entered += other.entered;
        self.out += other.out;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.inside += other.inside;
        for (stage, count) in &other.dropped {
            *self.dropped.entry(stage.clone()).or_default() += count;
        }
        self
    }
}

/// One direction: its stages in order, and what happened in it over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionRecord {
    /// The direction's ledger.
    pub packets: PacketCounts,
    /// Its stages in the order in which a packet passes them.
    pub stages: Vec<StageRecord>,
    /// What happened when; null where nobody sees it.
    pub timeline: Option<LinkTimeline>,
    /// The dropped packets in order of time, up to a limit.
    pub drops: Vec<DroppedPacket>,
    /// Drops beyond that limit: counted, not listed.
    #[serde(default)]
    pub drops_unlisted: u64,
}

/// One stage: its name, its figures in words, and its own ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageRecord {
    /// The stage's name, for instance `queue`.
    pub stage: String,
    /// Its figures in words, for instance `5.5 Mbit/s, 64 KiB may wait, tail drop`.
    pub figures: String,
    /// Packets and copies that came in.
    #[serde(rename = "in")]
    pub entered: u64,
    /// Packets and copies that left.
    pub out: u64,
    /// Packets and copies dropped, by reason; only reasons that occurred.
    pub dropped: BTreeMap<String, u64>,
    /// Copies that it made.
    pub duplicated: u64,
    /// Those that left it after one that had entered it later.
    pub reordered: u64,
    /// Packets in which it flipped a bit.
    pub corrupted: u64,
    /// Packets and copies that it held when the record was made.
    pub inside: u64,
}

impl StageRecord {
    /// What the stage's ledger does not explain; 0 when it closes, positive when packets are missing.
    #[must_use]
    pub fn unexplained(&self) -> i128 {
        let dropped: i128 = self.dropped.values().map(|count| i128::from(*count)).sum();
        i128::from(self.entered) + i128::from(self.duplicated)
            - i128::from(self.out)
            - dropped
            - i128::from(self.inside)
    }
}

/// A direction over time: equal intervals from the link's start, all lists of one length.
///
/// The number of intervals is bounded: when the time runs out of them, each two become one and all are twice as long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTimeline {
    /// The length of an interval in ns.
    pub interval_ns: u64,
    /// Packets that came in.
    #[serde(rename = "in")]
    pub entered: Vec<u64>,
    /// Packets and copies that left.
    pub out: Vec<u64>,
    /// Dropped, by stage; only stages that dropped any.
    pub dropped: BTreeMap<String, Vec<u64>>,
    /// The most packets in the queue, the one being sent included.
    pub queue_packets_max: Vec<u64>,
    /// The most bytes in the queue, the packet being sent included.
    pub queue_bytes_max: Vec<u64>,
}

/// One packet that the link dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedPacket {
    /// Its number in order of arrival in its direction, from 0.
    pub number: u64,
    /// Its size as an IP packet, in bytes.
    pub size_bytes: u64,
    /// Whether it carried transport payload; a bare TCP acknowledgement does not.
    pub carries_data: bool,
    /// When it came in.
    pub arrived_ns: u64,
    /// When it was dropped.
    pub dropped_ns: u64,
    /// The stage that dropped it.
    pub stage: String,
    /// Why, in the stage's word.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_closes_or_says_by_how_much_it_does_not() {
        let dropped = BTreeMap::from([("queue".to_owned(), 3)]);
        let counts =
            PacketCounts { entered: 10, out: 7, dropped, duplicated: 1, inside: 1, ..PacketCounts::default() };
        assert_eq!(counts.unexplained(), 0);
        assert_eq!(PacketCounts { out: 5, ..counts.clone() }.unexplained(), 2);
        let both = counts.clone().plus(&counts);
        assert_eq!((both.unexplained(), both.entered, both.dropped["queue"]), (0, 20, 6));
    }

    #[test]
    fn the_words_of_the_saved_run_are_those_of_the_contract() {
        let record = LinkRecord {
            backend: Backend::Sim,
            seed: 7,
            lateness_ns: Some(LatenessNs { p50: 1, p99: 2, max: 3 }),
            packets: PacketCounts { entered: 1, out: 1, ..PacketCounts::default() },
            up: DirectionRecord::default(),
            down: DirectionRecord::default(),
        };
        let json = serde_json::to_value(&record).unwrap();
        assert_eq!(json["backend"], "sim");
        assert_eq!(json["lateness_ns"], serde_json::json!({"p50": 1, "p99": 2, "max": 3}));
        assert_eq!((&json["packets"]["in"], &json["packets"]["out"]), (&1.into(), &1.into()));
        assert_eq!(serde_json::from_value::<LinkRecord>(json).unwrap(), record);
    }
}
