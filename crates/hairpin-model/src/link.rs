//! The saved record of the link between a run's ends: its lateness, its ledger, and the data for the report's charts.
//!
//! Times are ns since the link started. Each stage, each direction and the link have a ledger, in which
//! `in + duplicated = out + dropped + inside`. Every term has its own counter; none is computed as a difference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invalid::{LeftOut, RoundLeftOut};
use crate::link_ends::{DroppedAfter, LinkEnds};
use crate::words;

words! {
    /// Direction of a packet.
    pub enum Direction: "direction" {
        Up = "up",
        Down = "down",
    }
}

/// The link of one round (or of one `link run`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LinkRecord {
    /// The seed of all random choices.
    pub seed: u64,
    /// Release time minus due time; null if no packet was released.
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
    /// [`digest`](crate::digest::digest) of each replayed trace file, by name in the profile, to detect a changed
    /// file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traces: BTreeMap<String, String>,
    /// The relay's own figures; null for a link on a manual clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayReport>,
    /// TCP settings of both ends; null for a link on a manual clock, and in older runs, which used the host's
    /// settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<LinkEnds>,
    /// Packets that both ends dropped after the link had delivered them; empty in older runs.
    #[serde(default)]
    pub dropped_after: DroppedAfter,
    /// Time 0 of the samples, in ns since the link started, to align both timelines. Null if no round was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_began_ns: Option<u64>,
    /// File in the run folder with a line per packet; null if not saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_file: Option<String>,
    /// The most time in ns that lateness of more than 100 us takes from a rate: for a stall of `L` over a link with the round
    /// trip `R`, `L^2 / (L + R)`; null in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_ns: Option<u64>,
    /// Why the log is incomplete, if it is; the measurement is still valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_problem: Option<String>,
}

/// The folder of the links' logs in a run folder.
pub const LOGS: &str = "links";

/// Memory limit for packets inside the relay, in MiB.
pub const MAX_MEMORY_MIB: usize = 256;

/// Cost and losses of the relay itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct RelayReport {
    /// The CPU to which the relay was pinned; null if not pinned.
    pub pinned_cpu: Option<usize>,
    /// The relay's CPU time while it relayed packets, in ns.
    pub cpu_ns: u64,
    /// Time from the order until the link carries packets, in ns.
    pub setup_ns: u64,
    /// Packets for which the relay had no room in its sockets (`PACKET_STATISTICS`) or its memory; not in a stage's
    /// ledger.
    pub overrun: u64,
    /// Packets for which the relay's memory ([`MAX_MEMORY_MIB`]) had no room. 0 in older runs.
    #[serde(default)]
    pub memory_overrun: u64,
    /// Frames that the relay does not carry: neither IP nor ARP, or with a VLAN tag. Not in a ledger.
    #[serde(default)]
    pub not_carried: u64,
}

/// Maximum lateness of the relay, in ns, for its round to count.
///
/// The lateness must be negligible compared with the link's delays, so the bounds grow with the link's round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LateBoundsNs {
    /// Bound on the median lateness.
    pub p50: u64,
    /// Bound on the 99th percentile. With fewer than 100 packets, the bound applies to the maximum, because one late
    /// packet of ten affects the figures of a short round.
    pub p99: u64,
}

impl LateBoundsNs {
    /// p50: the larger of 100 us and 1/100 of the round trip. p99: the larger of 1 ms and 1/20 of the round trip.
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
    /// Whether the link held more packets than fit in the relay's memory, which a faster relay would not change.
    pub fn was_overfull(&self) -> bool {
        self.relay.is_some_and(|relay| relay.memory_overrun > 0)
    }

    /// The packets for which the relay had no room, if any: a round over this link does not count.
    pub fn no_room(&self) -> Option<LeftOut> {
        let RelayReport { overrun, memory_overrun: in_memory, .. } = self.relay?;
        let in_sockets = overrun.saturating_sub(in_memory);
        (overrun.max(in_memory) > 0).then_some(LeftOut::NoRoom { in_sockets, in_memory })
    }

    /// Why the link differed from its profile, if so: the relay had no room for packets, or exceeded a bound.
    pub fn why_invalid(&self) -> Option<LeftOut> {
        if let Some(no_room) = self.no_room() {
            return Some(no_room);
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
    /// Medians over rounds of p50 and p99, and the maximum of all rounds; null if no packet was released.
    pub lateness_ns: Option<LatenessNs>,
    /// Maximum lateness of the relay for a round to count.
    #[serde(default)]
    pub late_bounds_ns: LateBoundsNs,
    /// All rounds together.
    pub packets: PacketCounts,
    /// The digest of each trace file that the first round replayed, by its name in the profile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub traces: BTreeMap<String, String>,
    /// TCP settings of both ends in the first round; null in older runs, whose ends had the host's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<LinkEnds>,
    /// One sentence for each round that does not count, with the reason. These rounds are in the figures only if the
    /// case is invalid because too few other rounds are left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds_left_out: Vec<String>,
    /// Rounds that do not count, as data; empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<RoundLeftOut>,
    /// CPU time of the relay per packet that entered, in ns; null for a link on a manual clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay_cpu_ns_per_packet: Option<f64>,
    /// The link of one round, for a chart: the round with the most drops, else the first.
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

/// Lateness of packets, in ns: time of release - time due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LatenessNs {
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

/// A ledger of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PacketCounts {
    /// Packets that entered.
    #[serde(rename = "in")]
    pub entered: u64,
    /// Packets and copies that left.
    pub out: u64,
    /// Packets and copies dropped, by stage; only stages that dropped any.
    pub dropped: BTreeMap<String, u64>,
    /// Copies made.
    pub duplicated: u64,
    /// Packets and copies that left after a packet that had entered later (RFC 4737, section 3.3).
    pub reordered: u64,
    /// Packets with a bit flipped.
    #[serde(default)]
    pub corrupted: u64,
    /// Packets and copies still inside when the record was made.
    #[serde(default)]
    pub inside: u64,
}

impl PacketCounts {
    /// Packets that may fill a receive buffer but are not messages: copies, and packets with a flipped bit.
    pub fn not_messages(&self) -> u64 {
        self.duplicated + self.corrupted
    }

    /// Difference between both sides of the ledger; positive if packets are missing, 0 if the ledger closes.
    pub fn unexplained(&self) -> i128 {
        let dropped: i128 = self.dropped.values().map(|count| i128::from(*count)).sum();
        i128::from(self.entered) + i128::from(self.duplicated)
            - i128::from(self.out)
            - dropped
            - i128::from(self.inside)
    }

    /// The remaining counts of the ledger with their names, in display order; only nonzero ones.
    pub fn others(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let others = [
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("corrupted", self.corrupted),
            ("still inside", self.inside),
        ];
        others.into_iter().filter(|(_, count)| *count > 0)
    }

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

/// One direction: its ledger, its stages, and its timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DirectionRecord {
    /// The direction's ledger.
    pub packets: PacketCounts,
    /// Bytes of the packets that entered, with IP headers; 0 in runs of earlier versions.
    #[serde(default)]
    pub in_bytes: u64,
    /// The direction's stages, in the order in which a packet passes them.
    pub stages: Vec<StageRecord>,
    /// Counts over time; null if not recorded.
    pub timeline: Option<LinkTimeline>,
    /// The dropped packets in order of time, up to a limit.
    pub drops: Vec<DroppedPacket>,
    /// Drops beyond the limit of `drops`: counted, not listed.
    #[serde(default)]
    pub drops_unlisted: u64,
}

/// One stage: its name, its figures in words, and its own ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StageRecord {
    /// The stage's name, for instance `queue`.
    pub stage: String,
    /// The stage's figures in words, for instance `5.5mbit/s, queue limit 64KiB, tail drop`.
    pub figures: String,
    /// The stage's ledger; drops are listed by reason, only reasons that occurred.
    #[serde(flatten)]
    pub packets: PacketCounts,
    /// Time in the stage, summed over the packets that left it, in ns.
    #[serde(default)]
    pub time_inside_ns: u64,
    /// The profile's line without this stage in either direction, for a counter-experiment. Null for a mandatory
    /// stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_without: Option<String>,
    /// The profile's line with CoDel (RFC 8289) in the queues of both directions, for a counter-experiment. Null for
    /// other stages, and for a queue that already has CoDel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_with_codel: Option<String>,
}

/// A direction over time: equal intervals from the link's start, all lists of one length.
///
/// The number of intervals is bounded: when all are used, pairs are merged and the interval doubles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LinkTimeline {
    /// The length of an interval in ns.
    pub interval_ns: u64,
    /// Packets that entered.
    #[serde(rename = "in")]
    pub entered: Vec<u64>,
    /// Packets and copies that left.
    pub out: Vec<u64>,
    /// Packets dropped, by stage; only stages that dropped any.
    pub dropped: BTreeMap<String, Vec<u64>>,
    /// Maximum number of packets in the queue, including the packet being sent.
    pub queue_packets_max: Vec<u64>,
    /// Maximum number of bytes in the queue, including the packet being sent.
    pub queue_bytes_max: Vec<u64>,
    /// Mean over time of the bytes in the queue, including the packet being sent; empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_bytes_mean: Vec<u64>,
    /// Bytes of the packets that left, with IP headers; empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out_bytes: Vec<u64>,
}

/// One packet that the link dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DroppedPacket {
    /// The packet's number in order of arrival in its direction, from 0.
    pub number: u64,
    /// Size as an IP packet, in bytes.
    pub size_bytes: u64,
    /// Whether the packet carried transport payload; a pure ACK does not.
    pub carries_data: bool,
    /// When the packet entered the link.
    pub arrived_ns: u64,
    /// When the packet was dropped.
    pub dropped_ns: u64,
    /// The stage that dropped the packet.
    pub stage: String,
    /// The stage's name for the reason.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_closes_or_reports_the_difference() {
        let dropped = BTreeMap::from([("queue".to_owned(), 3)]);
        let counts =
            PacketCounts { entered: 10, out: 7, dropped, duplicated: 1, inside: 1, ..PacketCounts::default() };
        assert_eq!(counts.unexplained(), 0);
        assert_eq!(PacketCounts { out: 5, ..counts.clone() }.unexplained(), 2);
        let both = counts.clone().plus(&counts);
        assert_eq!((both.unexplained(), both.entered, both.dropped["queue"]), (0, 20, 6));
    }

    #[test]
    fn a_record_is_saved_with_the_field_names_of_the_contract() {
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
