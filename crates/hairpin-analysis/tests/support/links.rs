//! Made-up links: the emulator's record of a round.

use hairpin_model::case::PathKind;
use hairpin_model::{
    Case, DirectionRecord, DroppedPacket, LateBoundsNs, LatenessNs, LinkRecord, Measured, PacketCounts, Placement,
    RelayReport, RemotePath, StageRecord,
};

/// `case` over the link with the specification `line`.
pub fn over(line: &str, case: Case) -> Case {
    case.with(|changed| changed.path.link = line.to_owned())
}

/// `case` between this host and the host `lab`.
pub fn between_hosts(case: Case) -> Case {
    case.with(|changed| {
        changed.ends.placement = Placement::Pinned;
        changed.path.across = Some(RemotePath { kind: PathKind::Hosts, host: "lab".to_owned(), fallback: None });
    })
}

/// A link that carried 200 packets on time and dropped none; the samples began with the link.
pub fn link() -> LinkRecord {
    let packets = |count| PacketCounts { entered: count, out: count, ..PacketCounts::default() };
    let direction = || DirectionRecord { packets: packets(100), ..DirectionRecord::default() };
    LinkRecord {
        seed: 7,
        late_bounds_ns: LateBoundsNs::default(),
        lateness_ns: Some(LatenessNs { p50: 2_000, p99: 60_000, max: 90_000 }),
        packets: packets(200),
        up: direction(),
        down: direction(),
        relay: Some(RelayReport { cpu_ns: 1_000_000, ..RelayReport::default() }),
        samples_began_ns: Some(0),
        ..LinkRecord::default()
    }
}

/// Adds a link with this median lateness to a round.
pub fn late_by(p50: u64) -> impl Fn(&mut Measured) {
    move |measured| {
        let late = LatenessNs { p50, p99: p50.max(60_000), max: p50.max(90_000) };
        measured.link = Some(LinkRecord { lateness_ns: Some(late), ..link() });
    }
}

/// A packet with payload that was dropped at `at_ns`.
pub fn dropped(number: u64, at_ns: u64, stage: &str) -> DroppedPacket {
    DroppedPacket {
        number,
        size_bytes: 56,
        carries_data: true,
        arrived_ns: at_ns,
        dropped_ns: at_ns,
        stage: stage.to_owned(),
        reason: "random".to_owned(),
    }
}

/// The link with these drops upwards, all in one stage.
pub fn dropping(stage: &str, times_ns: &[u64]) -> LinkRecord {
    let mut link = link();
    let count = times_ns.len() as u64;
    link.up.drops = (0..).zip(times_ns).map(|(number, at_ns)| dropped(number, *at_ns, stage)).collect();
    for packets in [&mut link.packets, &mut link.up.packets] {
        packets.entered += count;
        packets.dropped.insert(stage.to_owned(), count);
    }
    link.up.stages.push(StageRecord {
        stage: stage.to_owned(),
        packets: PacketCounts {
            entered: 100 + count,
            out: 100,
            dropped: [("random".to_owned(), count)].into(),
            ..PacketCounts::default()
        },
        line_without: Some("delay=10ms".to_owned()),
        ..StageRecord::default()
    });
    link
}
