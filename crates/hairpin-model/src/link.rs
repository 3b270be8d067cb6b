//! The saved record of the link between a run's ends: its lateness, its ledger, and the data that a report draws.
//!
//! Times are ns since the link started. A ledger closes: `in + duplicated = out + dropped + inside`, for each stage,
//! each direction and the link; every term is counted by itself and none is a difference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invalid::{LeftOut, RoundLeftOut};
use crate::link_ends::{DroppedAfter, LinkEnds};
use crate::words;

words! {
    /// Direction of a packet.
    pub enum Direction: "direction" {
        /// From the near end to the far end.
        Up = "up",
        /// From the far end to the near end.
        Down = "down",
    }
}

/// The link of one round (or of one `link run`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LinkRecord {
    /// The seed of every random choice.
    pub seed: u64,
    /// Released minus due; null if no packet was released.
    pub lateness_ns: Option<LatenessNs>,
    /// Maximum lateness of the relay for the round to count.
    #[serde(default)]
    pub late_bounds_ns: LateBoundsNs,
    /// Both directions together.
    pub packets: PacketCounts,
    /// From near to far.
    pub up: DirectionRecord,
    /// From far to near.
    pub down: DirectionRecord,
    /// [`digest`](crate::digest::digest) of each replayed trace file, by its name in the profile, to detect a changed
    /// file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traces: BTreeMap<String, String>,
    /// The relay's own figures; null for a link on a manual clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayReport>,
    /// TCP settings of both ends; null for a link on a manual clock, and in older runs, whose ends had the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<LinkEnds>,
    /// Packets that both ends dropped after the link had delivered them; empty in older runs.
    #[serde(default)]
    pub dropped_after: DroppedAfter,
    /// Time 0 of the samples, in ns since the link started, to align both. Null if no round was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_began_ns: Option<u64>,
    /// File in the run folder with a line per packet; null if none was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_file: Option<String>,
    /// Why the log is incomplete, if it is; the measurement is still valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_problem: Option<String>,
}

/// The folder of the links' logs in a run folder.
pub const LOGS: &str = "links";

/// Memory limit for packets inside the relay, in MiB.
pub const MAX_MEMORY_MIB: usize = 256;

/// The relay's own cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct RelayReport {
    /// The CPU it was pinned to; null if not pinned.
    pub pinned_cpu: Option<usize>,
    /// Its CPU time while packets were relayed, in ns.
    pub cpu_ns: u64,
    /// From the order until the link carries packets, in ns.
    pub setup_ns: u64,
    /// Packets that the relay had no room for, in its sockets (`PACKET_STATISTICS`) or its memory; in no stage's
    /// ledger.
    pub overrun: u64,
    /// Those that its memory had no room for: [`MAX_MEMORY_MIB`]. 0 in older runs.
    #[serde(default)]
    pub memory_overrun: u64,
    /// Frames that the relay does not carry: neither IP nor ARP, or with a VLAN tag. In no ledger.
    #[serde(default)]
    pub not_carried: u64,
}

/// How late a relay may be, in ns, for its round to count.
///
/// What the relay adds must not show beside what the link itself takes: so on a long link more is allowed, as a share of
/// the round trip of its delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LateBoundsNs {
    /// For half of the packets.
    pub p50: u64,
    /// For all but one of a hundred. Of fewer packets than that it is for the latest: one late packet of ten is in the
    /// figures of a short round.
    pub p99: u64,
}

impl LateBoundsNs {
    /// 100 us or a hundredth of the round trip at p50, 1 ms or a twentieth of it at p99, whichever is more.
    pub fn of(round_trip_ns: u64) -> Self {
        Self { p50: 100_000.max(round_trip_ns / 100), p99: 1_000_000.max(round_trip_ns / 20) }
    }
}

impl Default for LateBoundsNs {
    fn default() -> Self {
        Self::of(0)
    }
}

impl LinkRecord {
    /// Whether the link held more than the relay has memory for: a faster relay would not help.
    pub fn was_overfull(&self) -> bool {
        self.relay.is_some_and(|relay| relay.memory_overrun > 0)
    }

    /// Why the round under this link does not count: the relay was later than its bound, or had no room for packets.
    pub fn why_invalid(&self) -> Option<LeftOut> {
        if let Some(RelayReport { overrun, memory_overrun: in_memory, .. }) = self.relay
            && overrun.max(in_memory) > 0
        {
            return Some(LeftOut::NoRoom { in_sockets: overrun.saturating_sub(in_memory), in_memory });
        }
        let (late, bounds) = (self.lateness_ns?, self.late_bounds_ns);
        let over = |late_ns: u64, bound_ns: u64, tail_of: Option<u64>| {
            (late_ns > bound_ns).then_some(LeftOut::RelayLate { late_ns, bound_ns, tail_of })
        };
        over(late.p50, bounds.p50, None).or_else(|| over(late.p99, bounds.p99, Some(self.packets.out)))
    }
}

/// The links of all rounds of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LinkSummary {
    /// The seed of the first block; every further block adds one.
    pub seed: u64,
    /// Medians over the rounds of their p50 and p99, and the maximum of all; null where no packet was released.
    pub lateness_ns: Option<LatenessNs>,
    /// How late the relay may have been for a round to count.
    #[serde(default)]
    pub late_bounds_ns: LateBoundsNs,
    /// All rounds together.
    pub packets: PacketCounts,
    /// The digest of each trace file that it replayed, by its name in the profile, of the first round.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traces: BTreeMap<String, String>,
    /// What TCP at both ends used in the first round; null in older runs, whose ends took it from the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<LinkEnds>,
    /// Rounds that do not count, and why, a sentence each. They are in the figures of a case that is invalid because too
    /// few others are left, and of no other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds_left_out: Vec<String>,
    /// The same as data; empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<RoundLeftOut>,
    /// CPU time of the relay for a packet that came in, in ns; null for a link on a manual clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay_cpu_ns_per_packet: Option<f64>,
    /// The link of one round, for a picture: the one with the most drops, else the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Box<ShownLink>>,
}

/// The link of one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ShownLink {
    /// The number of the round.
    pub round: u32,
    /// From near to far.
    pub up: DirectionRecord,
    /// From far to near.
    pub down: DirectionRecord,
}

/// How much later than due the packets were released, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LatenessNs {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The latest of all.
    pub max: u64,
}

/// A ledger of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
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
    /// Packets that may fill a receive buffer without being a message: copies, and those with a flipped bit.
    pub fn not_messages(&self) -> u64 {
        self.duplicated + self.corrupted
    }

    /// Packets that the ledger does not explain; 0 if it closes, positive if packets are missing.
    pub fn unexplained(&self) -> i128 {
        let dropped: i128 = self.dropped.values().map(|count| i128::from(*count)).sum();
        i128::from(self.entered) + i128::from(self.duplicated)
            - i128::from(self.out)
            - dropped
            - i128::from(self.inside)
    }

    /// Other fates of packets with their counts, in display order; only those that occurred.
    pub fn others(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let others = [
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("corrupted", self.corrupted),
            ("still inside", self.inside),
        ];
        others.into_iter().filter(|(_, count)| *count > 0)
    }

    /// The sum of both ledgers.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DirectionRecord {
    /// The direction's ledger.
    pub packets: PacketCounts,
    /// Bytes of the packets that came in, IP headers included; 0 in runs of earlier versions.
    #[serde(default)]
    pub in_bytes: u64,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StageRecord {
    /// The stage's name, for instance `queue`.
    pub stage: String,
    /// Its figures in words, for instance `5.5 Mbit/s, 64 KiB may wait, tail drop`.
    pub figures: String,
    /// Its packets; drops by reason, only reasons that occurred.
    #[serde(flatten)]
    pub packets: PacketCounts,
    /// How long those that left had been in it, in ns, all together.
    #[serde(default)]
    pub time_inside_ns: u64,
    /// The profile's line without this stage in either direction: what a counter-experiment runs. Null where the stage
    /// is on every path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_without: Option<String>,
    /// The profile's line with CoDel (RFC 8289) in this queue, and in that of the other direction: what a counter-experiment runs.
    /// Null of other stages, and of a queue that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_with_codel: Option<String>,
}

/// A direction over time: equal intervals from the link's start, all lists of one length.
///
/// The number of intervals is bounded: when the time runs out of them, each two become one and all are twice as long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
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
    /// The mean over time of the bytes in the queue, the packet being sent included; empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_bytes_mean: Vec<u64>,
    /// Bytes of the packets that left, IP headers included; empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out_bytes: Vec<u64>,
}

/// One packet that the link dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DroppedPacket {
    /// Its number in order of arrival in its direction, from 0.
    pub number: u64,
    /// Its size as an IP packet, in bytes.
    pub size_bytes: u64,
    /// Whether it carried transport payload; a bare TCP acknowledgment does not.
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
            seed: 7,
            lateness_ns: Some(LatenessNs { p50: 1, p99: 2, max: 3 }),
            packets: PacketCounts { entered: 1, out: 1, ..PacketCounts::default() },
            ..LinkRecord::default()
        };
        let json = serde_json::to_value(&record).unwrap();
        assert_eq!(json["lateness_ns"], serde_json::json!({"p50": 1, "p99": 2, "max": 3}));
        assert_eq!((&json["packets"]["in"], &json["packets"]["out"]), (&1.into(), &1.into()));
        assert_eq!(serde_json::from_value::<LinkRecord>(json.clone()).unwrap(), record);
        let mut older = json;
        older["backend"] = "relay".into();
        assert_eq!(serde_json::from_value::<LinkRecord>(older).unwrap(), record);
    }

    #[test]
    fn the_counts_of_a_stage_are_saved_next_to_its_name() {
        let packets = PacketCounts { entered: 5, out: 4, inside: 1, ..PacketCounts::default() };
        let record = StageRecord { stage: "delay".to_owned(), packets, time_inside_ns: 9, ..StageRecord::default() };
        let text = r#"{"stage":"delay","figures":"","in":5,"out":4,"dropped":{},"duplicated":0,"reordered":0,"corrupted":0,"inside":1,"time_inside_ns":9}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        assert_eq!(serde_json::from_str::<StageRecord>(text).unwrap(), record);
    }

    #[test]
    fn the_allowed_lateness_grows_with_the_round_trip() {
        assert_eq!(LateBoundsNs::of(4_000_000), LateBoundsNs { p50: 100_000, p99: 1_000_000 });
        assert_eq!(LateBoundsNs::of(47_000_000), LateBoundsNs { p50: 470_000, p99: 2_350_000 });
        let record = |p50, p99, round_trip_ns| LinkRecord {
            lateness_ns: Some(LatenessNs { p50, p99, max: p99 }),
            late_bounds_ns: LateBoundsNs::of(round_trip_ns),
            packets: PacketCounts { entered: 100, out: 100, ..PacketCounts::default() },
            ..LinkRecord::default()
        };
        assert_eq!(record(100_000, 1_000_000, 0).why_invalid(), None);
        let without_room = |overrun, memory_overrun| {
            let relay = Some(RelayReport { overrun, memory_overrun, ..RelayReport::default() });
            let record = LinkRecord { relay, ..record(0, 0, 0) };
            (record.why_invalid(), record.was_overfull())
        };
        let no_room = |in_sockets, in_memory| Some(LeftOut::NoRoom { in_sockets, in_memory });
        assert_eq!(without_room(0, 0), (None, false));
        assert_eq!(without_room(3, 0), (no_room(3, 0), false));
        assert_eq!(without_room(4, 4), (no_room(0, 4), true));
        assert_eq!(without_room(7, 4), (no_room(3, 4), true));
        let older = r#"{"pinned_cpu": null, "cpu_ns": 1, "setup_ns": 1, "overrun": 3}"#;
        assert_eq!(serde_json::from_str::<RelayReport>(older).unwrap().memory_overrun, 0);
        let late = |late_ns, bound_ns, tail_of| Some(LeftOut::RelayLate { late_ns, bound_ns, tail_of });
        assert_eq!(record(140_000, 1_200_000, 0).why_invalid(), late(140_000, 100_000, None));
        let tail = record(140_000, 2_400_000, 47_000_000).why_invalid();
        assert_eq!(tail, late(2_400_000, 2_350_000, Some(100)));
        let few = PacketCounts { entered: 99, out: 99, ..PacketCounts::default() };
        let why = LinkRecord { packets: few, ..record(1, 2_400_000, 47_000_000) }.why_invalid();
        assert_eq!(why, late(2_400_000, 2_350_000, Some(99)));
    }
}
