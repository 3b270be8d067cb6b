//! `link-saturated`: the link's rate was the limit, so packets waited in its queue or were dropped there.
//!
//! Evidence, from the link's log: the exact time of each packet in the stage `queue` (waiting, and being sent at the rate), its
//! drops and its maximum fill. The share is this time in both directions (without answers, in one), relative to the mean
//! latency, or the share of dropped packets if it is larger. The counter-experiment is the same link without `queue`.

use hairpin_model::finding::{About, Severity};
use hairpin_model::link::{Direction, LinkTimeline};
use hairpin_model::{
    CaseSummary, DirectionRecord, Finding, FindingCard, Run, StageRecord, finding_keys as keys, flow,
};

use super::link_drops::by_queue;
use super::support::{checked_by, evidence_of, rounds_of, with_share, without_stage};
use crate::statistics::location::median;

pub(super) const CARD: FindingCard = FindingCard {
    code: "link-saturated",
    about: About::Cause,
    what: "the rate of the link was the limit: packets waited in its queue, or were dropped there",
    why: "the latency is then the wait in a queue that the sender filled, and the sender causes the losses",
};

const QUEUE_STAGE: &str = "queue";
/// Minimum share of the latency, or of dropped packets, to report.
const MIN_SHARE: f64 = 0.1;
const MIN_DROPPED_SHARE: f64 = 0.001;

/// The totals of one direction's queue over all rounds.
#[derive(Default)]
struct Queue {
    figures: String,
    entered: u64,
    dropped: u64,
    /// The mean time of a packet in the queue in each round, in ns.
    each_round_ns: Vec<f64>,
    most_bytes: u64,
    most_packets: u64,
}

impl Queue {
    fn wait_ns(&self) -> f64 {
        median(&self.each_round_ns).unwrap_or(0.0)
    }

    fn share_dropped(&self) -> f64 {
        self.dropped as f64 / self.entered.max(1) as f64
    }

    fn add(&mut self, stage: &StageRecord, of: &DirectionRecord) {
        self.figures.clone_from(&stage.figures);
        self.entered += stage.packets.entered;
        self.dropped += stage.packets.dropped.values().sum::<u64>();
        if stage.packets.out > 0 {
            self.each_round_ns.push(stage.time_inside_ns as f64 / stage.packets.out as f64);
        }
        let most = |values: fn(&LinkTimeline) -> &Vec<u64>| {
            of.timeline.as_ref().and_then(|timeline| values(timeline).iter().max().copied()).unwrap_or(0)
        };
        self.most_bytes = self.most_bytes.max(most(|timeline| &timeline.queue_bytes_max));
        self.most_packets = self.most_packets.max(most(|timeline| &timeline.queue_packets_max));
    }
}

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    // `link-drops` reports the queue's drops of a load without answers. A load beside a probe should saturate the
    // link, and the link's log does not separate the probe's packets from the load's.
    if case.case.replicate != 0 || by_queue(run, case) || !case.case.loads().is_empty() {
        return None;
    }
    case.path.relay.as_ref()?;
    let (mut up, mut down) = (Queue::default(), Queue::default());
    for (_, measured) in rounds_of(run, &case.id) {
        let Some(link) = &measured.link else { continue };
        for (queue, direction) in [(&mut up, &link.up), (&mut down, &link.down)] {
            if let Some(stage) = direction.stages.iter().find(|stage| stage.stage == QUEUE_STAGE) {
                queue.add(stage, direction);
            }
        }
    }
    let waited_ns = match case.case.primary().direction {
        flow::Direction::RoundTrip => up.wait_ns() + down.wait_ns(),
        flow::Direction::Up => up.wait_ns(),
        flow::Direction::Down => down.wait_ns(),
    };
    let mean = case.primary().latency_ns.mean;
    let mean_ns = mean.map(|mean| mean.value).filter(|mean_ns| *mean_ns > 0.0);
    let share_of_latency = mean_ns.map(|mean_ns| (waited_ns / mean_ns).min(1.0));
    // The direction whose queue explains more of the latency or the drops.
    let explains = |queue: &Queue| mean_ns.map_or(0.0, |ns| queue.wait_ns() / ns).max(queue.share_dropped());
    let (worst, way) = if explains(&down) > explains(&up) { (down, Direction::Down) } else { (up, Direction::Up) };
    let (part, dropped) = (share_of_latency.unwrap_or(0.0), worst.share_dropped());
    if worst.entered == 0 || (part < MIN_SHARE && dropped < MIN_DROPPED_SHARE) {
        return None;
    }
    let of_worst = [
        (keys::QUEUE_TIME, worst.wait_ns()),
        (keys::QUEUE_MAX_BYTES, worst.most_bytes as f64),
        (keys::QUEUE_ENTERED, worst.entered as f64),
        (keys::QUEUE_DROPPED, worst.dropped as f64),
    ];
    let mut evidence = of_worst.map(|(key, value)| evidence_of(case, key, value).of(way.word())).to_vec();
    let one_way = case.case.primary().load.is_one_way();
    let queues = if one_way { keys::QUEUE_SHARE } else { keys::BOTH_QUEUES_SHARE };
    evidence.extend(share_of_latency.map(|part| evidence_of(case, queues, part)));
    evidence.extend(mean.map(|mean| evidence_of(case, keys::MEAN_LATENCY, mean)));
    let finding = with_share(&CARD, Severity::Warning, part.max(dropped))
        .with(keys::STAGE_FIGURES, worst.figures.as_str())
        .with(keys::QUEUE_MAX_PACKETS, worst.most_packets as f64);
    Some(checked_by(without_stage(run, case, QUEUE_STAGE), Finding { evidence, ..finding }))
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, LinkRecord, LinkTimeline};

    use super::*;
    use crate::fixture::links::{dropping, link, over};
    use crate::fixture::{Fixture, figure_of, pair, shows, value};

    const CODE: &str = "link-saturated";
    const MS: u64 = 1_000_000;

    fn case() -> Case {
        over("rate=1mbit queue=64KiB delay=10ms", Case::ping_pong("tcp"))
    }

    /// A link whose queue upwards held 100 packets for `each_ns` each, and dropped `dropped` packets.
    fn queued(each_ns: u64, dropped: u64) -> LinkRecord {
        let mut link = dropping(QUEUE_STAGE, &vec![0; usize::try_from(dropped).unwrap()]);
        link.up.drops.clear();
        let stage = link.up.stages.last_mut().unwrap();
        stage.figures = "1 Mbit/s, queue limit 64 KiB, tail drop".to_owned();
        stage.time_inside_ns = 100 * each_ns;
        stage.packets.dropped = if dropped > 0 { [("full".to_owned(), dropped)].into() } else { Default::default() };
        link.up.timeline = Some(LinkTimeline {
            queue_packets_max: vec![1, 44, 3],
            queue_bytes_max: vec![60, 65_000, 180],
            ..LinkTimeline::default()
        });
        link
    }

    fn found(each_ns: u64, dropped: u64) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        fixture.rounds_with(&case(), &[100 * MS; 6], |measured| measured.link = Some(queued(each_ns, dropped)));
        fixture.findings(CODE)
    }

    #[test]
    fn a_queue_that_causes_the_latency_is_found_without_a_drop() {
        let found = found(79 * MS, 0);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 0.79).abs() < 0.001, "{}", found[0].share);
        let in_queue = figure_of(&found[0], keys::QUEUE_TIME, "up").unwrap();
        assert!((in_queue.value - 79e6).abs() < 1.0, "{found:?}");
        assert_eq!(found[0].word(keys::STAGE_FIGURES), Some("1 Mbit/s, queue limit 64 KiB, tail drop"));
        assert!(shows(&found[0], keys::BOTH_QUEUES_SHARE, 0.79), "{found:?}");
        assert_eq!([keys::QUEUE_MAX_PACKETS, keys::QUEUE_DROPPED].map(|key| value(&found[0], key)), [44.0, 0.0]);
        let links = pair(&found[0]).map(|case| case.path.link);
        assert_eq!(links, ["rate=1mbit queue=64KiB delay=10ms", "delay=10ms"]);
    }

    /// Averaged over all packets, the queue would take 14 % of the mean latency.
    #[test]
    fn a_single_round_with_a_long_queue_is_not_a_finding() {
        let mut fixture = Fixture::new();
        let rounds = std::cell::Cell::new(0);
        fixture.rounds_with(&case(), &[100 * MS; 6], |measured| {
            rounds.set(rounds.get() + 1);
            measured.link = Some(queued(if rounds.get() == 1 { 79 * MS } else { MS }, 0));
        });
        assert_eq!(fixture.findings(CODE), []);
    }

    #[test]
    fn a_queue_that_drops_is_found_whatever_the_latency() {
        let found = found(MS, 300);
        assert!((found[0].share - 0.75).abs() < 1e-9, "{}", found[0].share);
        assert_eq!([keys::QUEUE_DROPPED, keys::QUEUE_ENTERED].map(|key| value(&found[0], key)), [1800.0, 2400.0]);
    }

    #[test]
    fn the_finding_begins_at_the_thresholds() {
        assert_eq!(found(9_900_000, 0), []);
        assert_eq!(found(10_100_000, 0).len(), 1, "a tenth of the latency");
        assert_eq!(found(MS, 1).len(), 1, "one drop in a hundred packets");
    }

    #[test]
    fn the_link_without_its_rate_confirms_or_refutes_the_cause() {
        for (without, verdict, severity) in [(21, "confirmed", Severity::Warning), (99, "refuted", Severity::Note)] {
            let mut fixture = Fixture::new();
            fixture.rounds_with(&case(), &[100 * MS; 6], |measured| measured.link = Some(queued(79 * MS, 0)));
            let free = over("delay=10ms", Case::ping_pong("tcp"));
            fixture.rounds_with(&free, &[without * MS; 6], |measured| measured.link = Some(link()));
            let found = fixture.findings(CODE);
            assert_eq!((found[0].proved.as_ref().unwrap().verdict.as_str(), found[0].severity), (verdict, severity));
            assert_eq!(found[0].share == 0.0, verdict == "refuted");
        }
    }

    /// The same latency from a long path, and drops outside the queue.
    #[test]
    fn a_long_path_and_a_lossy_medium_are_not_saturated() {
        assert_eq!(found(MS, 0), []);
        let mut fixture = Fixture::new();
        let lossy = over("loss=10% delay=50ms", Case::ping_pong("tcp"));
        fixture.rounds_with(&lossy, &[100 * MS; 6], |measured| measured.link = Some(dropping("loss", &[5 * MS; 11])));
        fixture.rounds_of(&Case::ping_pong("tcp"), &[100 * MS; 6]);
        assert_eq!(fixture.findings(CODE), []);
    }
}
