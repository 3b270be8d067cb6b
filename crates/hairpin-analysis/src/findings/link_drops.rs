//! `link-drops`: the link between the ends dropped messages, most of them in one stage.
//!
//! A sender causes loss in the queue by sending faster than the bottleneck; random loss belongs to the path, and a lower
//! rate does not help. The two look alike at the receiver. Evidence: the messages that the emulator counted as lost, and the
//! drops of each stage in the direction of the load. If the queue (the rate of the link) dropped most, the
//! counter-experiment offers 95 % of the rate that arrived, and this finding replaces `link-saturated`; otherwise it removes
//! the stage that dropped most.

use hairpin_model::finding::About;
use hairpin_model::ledger::LINK;
use hairpin_model::names::grouped;
use hairpin_model::{CaseSummary, Finding, FindingCard, PacketCounts, Run, finding_keys as keys, flow, path};

use super::support::{evidence_of, losses_by, rounds_of, with_lower_rate, without_stage};

pub(super) const CARD: FindingCard = FindingCard {
    code: "link-drops",
    about: About::Cause,
    what: "the link between the ends dropped messages",
    why: "a full queue drops what the sender sends too fast, and a lossy path drops at every rate",
};

const CAUSES: &[&str] = &[LINK];
const QUEUE_STAGE: &str = "queue";
const CORRUPT_STAGE: &str = "corrupt";

/// The stage that dropped most packets in the direction of the load.
struct Stage {
    name: String,
    packets: u64,
    entered: u64,
}

/// Whether, for a one-way load, the queue dropped more packets than any other stage of the link.
pub(super) fn by_queue(run: &Run, case: &CaseSummary) -> bool {
    losses_by(case, CAUSES).and_then(|_| strongest_stage(run, case)).is_some_and(|stage| stage.name == QUEUE_STAGE)
}

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let lost = losses_by(case, CAUSES)?;
    case.path.relay.as_ref()?;
    let stage = strongest_stage(run, case);
    let check = stage.as_ref().and_then(|stage| match stage.name.as_str() {
        QUEUE_STAGE => with_lower_rate(case, 0.95),
        stage => Some(without_stage(run, case, stage)?.experiment),
    });
    let mut finding = lost.finding(run, &CARD, (case, keys::LOST_BY_LINK), check);
    finding = finding.with(keys::LINK, path::name(&case.case));
    if let Some(Stage { name, packets, entered }) = stage {
        finding.evidence.push(evidence_of(case, keys::STAGE_DROPS, packets as f64).of(name.as_str()));
        finding = finding.with(keys::STAGE, name.as_str()).with(keys::ENTERED, entered as f64);
    }
    Some(finding)
}

/// Returns the stage that dropped most in the direction of the load; includes packets that it damaged. `None` without a link.
fn strongest_stage(run: &Run, case: &CaseSummary) -> Option<Stage> {
    case.path.relay.as_ref()?;
    let is_down = case.case.primary().direction == flow::Direction::Down;
    let rounds = rounds_of(run, &case.id);
    let links = rounds.iter().filter_map(|(_, measured)| measured.link.as_ref());
    let stages = links.flat_map(|link| if is_down { &link.down.stages } else { &link.up.stages });
    let by_name = grouped(stages.map(|stage| (&stage.stage, &stage.packets)));
    let sums = by_name.into_iter().map(|(name, packets)| {
        let all = packets.into_iter().fold(PacketCounts::default(), |all, one| all.plus(one));
        let damaged = if name == CORRUPT_STAGE { all.corrupted } else { 0 };
        Stage { name: name.clone(), packets: all.dropped.values().sum::<u64>() + damaged, entered: all.entered }
    });
    sums.filter(|stage| stage.packets > 0).max_by_key(|stage| stage.packets)
}

#[cfg(test)]
mod tests {
    use hairpin_model::finding::Severity;
    use hairpin_model::{Case, LinkRecord, Measured, StageRecord};

    use super::*;
    use crate::fixture::links::{link, over};
    use crate::fixture::one_way_losses::{counts, interleaved, messages};
    use crate::fixture::{figure_of, pair, value};

    /// A link whose stages dropped and damaged these numbers of packets upwards.
    fn dropping(stages: &[(&str, u64, u64)]) -> LinkRecord {
        let mut link = link();
        for (stage, count, corrupted) in stages {
            let dropped =
                if *count > 0 { [("some".to_owned(), *count)].into() } else { std::collections::BTreeMap::new() };
            link.up.stages.push(StageRecord {
                stage: (*stage).to_owned(),
                packets: PacketCounts { entered: 1000, dropped, corrupted: *corrupted, ..PacketCounts::default() },
                line_without: Some("delay=10ms".to_owned()),
                ..StageRecord::default()
            });
        }
        link
    }

    fn case() -> Case {
        over("rate=1mbit loss=1% delay=10ms", messages("udp"))
    }

    fn found_among(code: &str, stages: &[(&str, u64, u64)], lost: &[(&str, u64)]) -> Vec<Finding> {
        let change = |measured: &mut Measured| {
            counts(lost, 0.0)(measured);
            measured.link = Some(dropping(stages));
        };
        interleaved(&[(&case(), &change)]).findings(code)
    }

    fn found(stages: &[(&str, u64, u64)], lost: &[(&str, u64)]) -> Vec<Finding> {
        found_among(CARD.code, stages, lost)
    }

    /// The stage with the most drops, its drops, and the packets that entered it.
    fn stage(finding: &Finding) -> (&str, f64, f64) {
        let name = finding.word(keys::STAGE).unwrap();
        (name, figure_of(finding, keys::STAGE_DROPS, name).unwrap().value, value(finding, keys::ENTERED))
    }

    #[test]
    fn the_stage_that_dropped_most_is_named_and_removed_in_the_check() {
        let found = found(&[("queue", 30, 0), ("loss", 170, 0)], &[(LINK, 200)]);
        assert_eq!((found.len(), found[0].severity, found[0].share), (1, Severity::Warning, 0.2));
        let counts = [keys::LOST_BY_LINK, keys::SENT, keys::SHARE_OF_SENT].map(|key| value(&found[0], key));
        assert_eq!(counts, [1600.0, 8000.0, 0.2]);
        assert_eq!(stage(&found[0]), ("loss", 1360.0, 8000.0));
        assert_eq!(pair(&found[0])[1].path.link, "delay=10ms");
    }

    #[test]
    fn a_full_queue_is_checked_by_a_lower_rate_and_reported_once() {
        let of = |code| found_among(code, &[("queue", 400, 0), ("loss", 9, 0)], &[(LINK, 409)]);
        let found = of(CARD.code);
        assert_eq!(stage(&found[0]).0, "queue");
        // 95 % of the 591 that arrived.
        assert_eq!(pair(&found[0])[1].primary().load.rate_per_s(), Some(561.0));
        assert_eq!(of("link-saturated"), []);
    }

    #[test]
    fn damaged_packets_count_for_the_stage_that_damaged_them() {
        let found = found(&[("loss", 20, 0), ("corrupt", 0, 80)], &[(LINK, 100)]);
        assert_eq!(stage(&found[0]), ("corrupt", 640.0, 8000.0));
    }

    #[test]
    fn a_link_without_loss_is_not_a_finding() {
        assert_eq!(found(&[("loss", 2, 0)], &[]), [], "two lost handshake messages are not lost load");
        assert_eq!(found(&[("loss", 2, 0)], &[("receive-buffer-overflow", 400)]), []);
    }
}
