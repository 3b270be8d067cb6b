//! Summarizes a case's link over its rounds.

use hairpin_model::{
    Case, DirectionRecord, LatenessNs, LinkRecord, LinkSummary, PacketCounts, RoundLeftOut, RoundRecord, ShownLink,
    StageRecord,
};

use crate::lateness::Judged;
use crate::statistics::location::median;

/// Summarizes the link of `case`: figures over its `counted` rounds, and the rounds omitted because of the emulator.
/// `None` on loopback and if no round was measured.
pub(crate) fn summary(case: &Case, counted: &[Judged<'_>], left_out: &[RoundLeftOut]) -> Option<LinkSummary> {
    let links: Vec<(&RoundRecord, &LinkRecord)> =
        counted.iter().filter_map(|judged| Some((judged.round, judged.measured.link.as_ref()?))).collect();
    let (first, record) = links.first().filter(|_| case.is_emulated())?;
    let records = || links.iter().map(|(_, link)| *link);
    let packets = records().fold(PacketCounts::default(), |all, link| all.plus(&link.packets));
    let relay_cpu_ns: Option<u64> = records().map(|link| link.relay.map(|relay| relay.cpu_ns)).sum();
    Some(LinkSummary {
        seed: first.order.link_seed.wrapping_sub(u64::from(first.order.block)),
        lateness_ns: lateness(records()),
        late_bounds_ns: record.late_bounds_ns,
        traces: record.traces.clone(),
        ends: record.ends.clone(),
        rounds_left_out: Vec::new(),
        left_out: left_out.iter().filter(|out| out.why.is_of_emulator() && !out.only_tail).cloned().collect(),
        relay_cpu_ns_per_packet: relay_cpu_ns
            .filter(|_| packets.entered > 0)
            .map(|cpu_ns| cpu_ns as f64 / packets.entered as f64),
        packets,
        shown: shown(&links),
    })
}

fn lateness<'r>(records: impl Iterator<Item = &'r LinkRecord>) -> Option<LatenessNs> {
    let all: Vec<LatenessNs> = records.filter_map(|link| link.lateness_ns).collect();
    // The median of integers may end in .5: round it to whole ns.
    let median_of = |of: fn(&LatenessNs) -> u64| {
        median(&all.iter().map(|late| of(late) as f64).collect::<Vec<_>>()).map(|ns| ns.round() as u64)
    };
    Some(LatenessNs {
        p50: median_of(|late| late.p50)?,
        p99: median_of(|late| late.p99)?,
        max: all.iter().map(|late| late.max).max()?,
    })
}

fn shown(links: &[(&RoundRecord, &LinkRecord)]) -> Option<Box<ShownLink>> {
    let dropped = |link: &LinkRecord| link.packets.dropped.values().sum::<u64>();
    // On a tie, `max_by_key` returns the last: iterate backwards.
    let (round, link) = links.iter().rev().max_by_key(|(_, link)| dropped(link))?;
    Some(Box::new(ShownLink { round: round.number, up: link.up.clone(), down: link.down.clone() }))
}

/// Returns the link specification without `stage` in either direction; `None` if no stage of this name is removable.
pub(crate) fn line_without<'l>(link: &'l LinkSummary, stage: &str) -> Option<&'l str> {
    stages(link).filter(|one| one.stage == stage).find_map(|one| one.line_without.as_deref())
}

pub(crate) fn line_with_codel(link: &LinkSummary) -> Option<&str> {
    stages(link).find_map(|one| one.line_with_codel.as_deref())
}

pub(crate) fn lacks_a_stage(link: &LinkSummary, line: &str) -> bool {
    stages(link).any(|one| one.line_without.as_deref() == Some(line))
}

fn stages(link: &LinkSummary) -> impl Iterator<Item = &StageRecord> {
    link.shown.iter().flat_map(|shown| shown.up.stages.iter().chain(&shown.down.stages))
}

pub(crate) fn directions(link: &LinkRecord) -> [&DirectionRecord; 2] {
    [&link.up, &link.down]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hairpin_model::{LatenessNs, PacketCounts, RelayReport};

    use super::*;
    use crate::fixture::links::{link, over};
    use crate::fixture::{Fixture, back_to_back};

    /// Rounds of a case, each with (lateness, packets dropped by the stage `loss`).
    fn summary_of(rounds: &[(u64, u64)]) -> LinkSummary {
        let case = over("loss=1%", Case::ping_pong("udp"));
        let mut fixture = Fixture::new();
        for (block, (late_ns, lost)) in (4..).zip(rounds) {
            fixture.round_with(&case, block, &back_to_back(&[], &[1_000_000; 50]), |measured| {
                let dropped = if *lost > 0 { BTreeMap::from([("loss".to_owned(), *lost)]) } else { BTreeMap::new() };
                let packets = PacketCounts { entered: 100 + lost, out: 100, dropped, ..PacketCounts::default() };
                measured.link = Some(LinkRecord {
                    lateness_ns: Some(LatenessNs { p50: *late_ns, p99: 10 * late_ns, max: 20 * late_ns }),
                    packets: packets.clone(),
                    up: DirectionRecord { packets, ..DirectionRecord::default() },
                    relay: Some(RelayReport { cpu_ns: 500_000, ..RelayReport::default() }),
                    ..link()
                });
            });
        }
        fixture.run().cases.remove(0).path.relay.unwrap()
    }

    #[test]
    fn packets_add_up_over_rounds_and_lateness_is_a_median() {
        let link = summary_of(&[(1_000, 0), (3_000, 2), (2_000, 4)]);
        assert_eq!(link.seed, 7, "the first round is of block 4 and has seed 11");
        assert_eq!(link.lateness_ns, Some(LatenessNs { p50: 2_000, p99: 20_000, max: 60_000 }));
        assert_eq!((link.packets.entered, link.packets.out, link.packets.dropped["loss"]), (306, 300, 6));
        assert_eq!(link.packets.unexplained(), 0);
        assert!((link.relay_cpu_ns_per_packet.unwrap() - 1_500_000.0 / 306.0).abs() < 1e-9);
        assert_eq!(link.shown.unwrap().round, 2, "round 2 dropped the most");
        assert!(link.left_out.is_empty());
    }

    #[test]
    fn the_first_round_is_shown_if_none_dropped_more() {
        assert_eq!(summary_of(&[(1_000, 3), (1_000, 3), (1_000, 0)]).shown.unwrap().round, 0);
        assert_eq!(summary_of(&[(1_000, 0), (1_000, 0)]).shown.unwrap().round, 0);
    }

    #[test]
    fn a_link_survives_a_json_round_trip_and_loopback_has_none() {
        let json = serde_json::to_value(summary_of(&[(1_000, 1)])).unwrap();
        assert_eq!(json["lateness_ns"], serde_json::json!({"p50": 1_000, "p99": 10_000, "max": 20_000}));
        assert_eq!(json["packets"]["in"], 101);
        assert_eq!(json["packets"]["dropped"], serde_json::json!({"loss": 1}));
        let mut fixture = Fixture::new();
        fixture.rounds_of(&Case::ping_pong("udp"), &[10_000]);
        assert_eq!(fixture.run().cases[0].path.relay, None);
    }
}
