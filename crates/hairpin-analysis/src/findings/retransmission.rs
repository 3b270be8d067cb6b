//! `retransmission`: TCP segments were retransmitted, and messages waited for the retransmissions.
//!
//! A lost segment is retransmitted after a round trip if later packets reveal the gap (fast retransmit, RFC 6675 and RFC
//! 8985), after a little more than two round trips if a probe is sent (tail loss probe, RFC 8985, section 7), and after at
//! least 200 ms if only the timer is left (retransmission time-out, RFC 6298). Evidence: the retransmitted segments in
//! TCP_INFO of both ends; with a link, the counters of its network namespaces, which separate the three kinds; and the
//! link's log of drops, matched by time to the messages in transit, with their latencies and their share of the slowest 1
//! %. The share is the additional time of these messages relative to the time of all messages. The counter-experiment is
//! the same link without the stage that dropped most; the mean is compared, because rare events do not move the median.

use std::collections::BTreeMap;

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::WITHOUT_STAGE;
use hairpin_model::{
    Case, CaseSummary, DropFigures, EndSummary, Evidence, Finding, FindingCard, Key, Measured, Proved, RoundFigures,
    Run, fact, fact_names, finding_keys as keys,
};

use super::support::{
    Hits, change_of, evidence_of, judge_reduction, rounds_of, sibling_of, with_share, without_stage,
};
use crate::links::directions;
use crate::over_rounds::SAMPLES_FOR_P99;
use crate::statistics::location::median;

pub(super) const CARD: FindingCard = FindingCard {
    code: "retransmission",
    about: About::Cause,
    what: "TCP retransmitted segments, and the messages in them waited for the retransmission",
    why: "losses and TCP's recovery then cause the tail, not the delay of the path",
};

/// Minimum retransmitted segments, and minimum share of messages, to report if no link shows their cost.
const MIN_SEGMENTS: f64 = 3.0;
const MIN_SHARE: f64 = 0.001;
/// For a warning: minimum share of affected messages among the slowest 1 %, and of the added time in the total time.
const MIN_SHARE_OF_TAIL: f64 = 0.5;
const MIN_SHARE_OF_TIME: f64 = 0.01;

/// The kernel counters of both ends, over all rounds of a case.
struct Retransmissions {
    segments: f64,
    /// In the order of [`DETECTION`]; `None` if the counters of the network namespace were not read.
    how: Option<Vec<(Key, f64)>>,
    rto_us: Option<f64>,
}

/// How losses were detected: evidence and its counter.
const DETECTION: [(Key, &str); 4] = [
    (keys::BY_FAST, fact_names::FAST_RETRANSMITS),
    (keys::TIME_OUTS, fact_names::RETRANSMISSION_TIMEOUTS),
    (keys::TO_RECOVER, fact_names::SLOW_START_RETRANSMITS),
    (keys::LOSS_PROBES, fact_names::LOSS_PROBES),
];

#[derive(Default)]
struct DropEffect {
    dropped: u64,
    hit: u64,
    hit_ns: Option<f64>,
    other_ns: Option<f64>,
    share_of_tail: Option<f64>,
    /// The additional time of affected messages, as a share of the time of all messages.
    share: f64,
    /// The additional time per message, in ns.
    added_ns: f64,
    /// The stage that dropped most packets with payload.
    stage: Option<String>,
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let hits = Hits::findings(run, |case| find_retransmissions(run, case));
    let severity = hits.0.iter().map(|hit| hit.data.severity).max().unwrap_or_default();
    hits.joined().into_iter().map(|finding| Finding { severity, ..finding }).collect()
}

impl DropEffect {
    fn shapes(&self) -> bool {
        self.share >= MIN_SHARE_OF_TIME || self.shapes_tail()
    }

    fn shapes_tail(&self) -> bool {
        self.share_of_tail.is_some_and(|share| share >= MIN_SHARE_OF_TAIL)
    }

    /// Returns the larger share: of the total time or, if drops shape the tail, of the slowest 1 %, which a p99
    /// shows.
    fn explains(&self) -> f64 {
        let of_tail = match (self.hit_ns, self.other_ns) {
            (Some(hit), Some(other)) if self.shapes_tail() && hit > other => 1.0 - other / hit,
            _ => 0.0,
        };
        self.share.max(of_tail * self.share_of_tail.unwrap_or(0.0))
    }
}

fn find_retransmissions(run: &Run, case: &CaseSummary) -> Option<Finding> {
    if case.case.replicate != 0 || !run.cards.reliable(&case.case.primary().transport) {
        return None;
    }
    let counters = read_counters(case).filter(|counters| counters.segments > 0.0)?;
    // The link's log does not separate flows, and messages without answers are not matched to the log.
    let is_matched = !case.case.primary().load.is_one_way() && case.case.loads().is_empty();
    let cost = case.path.relay.as_ref().filter(|_| is_matched).map(|_| drop_effect(run, case));
    let often = counters.segments >= MIN_SEGMENTS && counters.segments >= MIN_SHARE * case.primary().samples as f64;
    let shapes = cost.as_ref().is_some_and(DropEffect::shapes);
    if !(often || shapes) {
        return None;
    }
    let stage = cost.as_ref().and_then(|cost| cost.stage.as_deref());
    let check = stage.and_then(|stage| without_stage(run, case, stage)).map(|other| other.experiment);
    let pair = check.as_ref().and_then(|check| check.pair.as_ref());
    let proved = pair.zip(cost.as_ref()).and_then(|(pair, cost)| proved(run, case, &pair[1], cost.added_ns));
    let severity = if shapes { Severity::Warning } else { Severity::Note };
    let finding = with_share(&CARD, severity, cost.as_ref().map_or(0.0, DropEffect::explains));
    Some(Finding {
        evidence: all_evidence(case, &counters, cost.as_ref()),
        counter_experiment: check,
        proved,
        ..finding.with(keys::ROUNDS, case.rounds as f64)
    })
}

fn read_counters(case: &CaseSummary) -> Option<Retransmissions> {
    let is_of_load = |end: &&EndSummary| case.case.is_under_load() && end.flow != case.primary().flow.id;
    let ends: Vec<&EndSummary> = case.ends.iter().filter(|end| !is_of_load(end)).collect();
    let sum = |name: &str| {
        let of_ends: Vec<f64> =
            ends.iter().map(|end| &end.facts).filter_map(|facts| fact::number(facts, name)).collect();
        (!of_ends.is_empty()).then(|| of_ends.iter().sum::<f64>())
    };
    let greatest =
        |name: &str| ends.iter().map(|end| &end.facts).filter_map(|facts| fact::number(facts, name)).reduce(f64::max);
    Some(Retransmissions {
        segments: sum(fact_names::RETRANSMITS)?,
        how: DETECTION.iter().map(|(key, name)| Some((*key, sum(name)?))).collect(),
        rto_us: greatest(fact_names::RTO_US),
    })
}

fn drop_effect(run: &Run, case: &CaseSummary) -> DropEffect {
    let rounds = rounds_of(run, &case.id);
    let drops: Vec<DropFigures> =
        rounds.iter().filter_map(|(_, measured)| measured.primary().figures.drops).collect();
    let over = |of: fn(&DropFigures) -> Option<f64>| median(&drops.iter().filter_map(of).collect::<Vec<_>>());
    let time_ns: f64 = rounds
        .iter()
        .map(|(_, measured)| measured.primary().figures.latency_ns.mean * measured.primary().figures.samples as f64)
        .sum();
    let added_ns: f64 = drops.iter().map(|drops| drops.added_ns).sum::<f64>().max(0.0);
    let tails: Vec<f64> =
        rounds.iter().filter_map(|(_, measured)| share_of_tail(&measured.primary().figures)).collect();
    let mut by_stage: BTreeMap<&str, u64> = BTreeMap::new();
    let links = rounds.iter().filter_map(|(_, measured)| measured.link.as_ref());
    for drop in links.flat_map(directions).flat_map(|direction| &direction.drops).filter(|drop| drop.carries_data) {
        *by_stage.entry(&drop.stage).or_default() += 1;
    }
    DropEffect {
        dropped: drops.iter().map(|drops| drops.packets_dropped).sum(),
        hit: drops.iter().map(|drops| drops.messages_hit).sum(),
        hit_ns: over(|drops| drops.hit_p50_ns),
        other_ns: over(|drops| drops.other_p50_ns),
        share_of_tail: (!tails.is_empty()).then(|| tails.iter().sum::<f64>() / tails.len() as f64),
        share: if time_ns > 0.0 { (added_ns / time_ns).min(1.0) } else { 0.0 },
        added_ns: added_ns / case.primary().samples.max(1) as f64,
        stage: by_stage.into_iter().max_by_key(|(_, count)| *count).map(|(stage, _)| stage.to_owned()),
    }
}

/// Returns the share of the tail that drops hit: 0 without drops; `None` with too few messages to report a tail.
fn share_of_tail(round: &RoundFigures) -> Option<f64> {
    match &round.drops {
        Some(drops) => drops.share_of_tail_hit,
        None => (round.samples >= SAMPLES_FOR_P99).then_some(0.0),
    }
}

fn all_evidence(case: &CaseSummary, counters: &Retransmissions, cost: Option<&DropEffect>) -> Vec<Evidence> {
    let of = |(key, value): (Key, f64)| evidence_of(case, key, value);
    let mut all = vec![of((keys::RESENT, counters.segments))];
    all.extend(counters.how.iter().flatten().copied().map(of));
    all.extend(counters.rto_us.map(|rto_us| of((keys::RTO, rto_us * 1e3))));
    let Some(cost) = cost else { return all };
    let dropped = [
        (keys::LINK_DROPPED, cost.dropped as f64),
        (keys::IN_FLIGHT_THEN, cost.hit as f64),
        (keys::ADDED_SHARE, cost.share),
    ];
    all.extend(dropped.map(of));
    let known =
        [(keys::HIT_P50, cost.hit_ns), (keys::OTHER_P50, cost.other_ns), (keys::SHARE_OF_TAIL, cost.share_of_tail)];
    all.extend(known.into_iter().filter_map(|(key, value)| Some(of((key, value?)))));
    all
}

/// Judges by round means whether the case without the stage, if the run has one, is without the added time.
fn proved(run: &Run, case: &CaseSummary, sibling: &Case, expected_ns: f64) -> Option<Proved> {
    let sibling = sibling_of(run, sibling).filter(|sibling| sibling.valid)?;
    let mean = |measured: &Measured| {
        let figures = &measured.primary().figures;
        (figures.samples > 0).then_some(figures.latency_ns.mean)
    };
    Some(judge_reduction(WITHOUT_STAGE, expected_ns, change_of(run, [case, sibling], mean)?.0))
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Fact, Measured};

    use super::*;
    use crate::fixture::links::{dropping, link, over};
    use crate::fixture::{Fixture, back_to_back, pair, shows, value};

    const CODE: &str = "retransmission";
    const MS: u64 = 1_000_000;

    fn case() -> Case {
        over("loss=1% delay=10ms", Case::ping_pong("tcp"))
    }

    /// Retransmits of TCP_INFO at the client, and the counters of the link's namespace if they were read.
    fn counters(segments: f64, how: Option<[f64; 4]>) -> Vec<Fact> {
        let mut facts =
            vec![Fact::number(fact_names::RETRANSMITS, segments), Fact::number(fact_names::RTO_US, 221_000.0)];
        let names = [
            fact_names::FAST_RETRANSMITS,
            fact_names::LOSS_PROBES,
            fact_names::RETRANSMISSION_TIMEOUTS,
            fact_names::SLOW_START_RETRANSMITS,
        ];
        facts
            .extend(how.iter().flat_map(|how| names.iter().zip(how)).map(|(name, value)| Fact::number(name, *value)));
        facts
    }

    /// Rounds of `messages` messages of 20 ms. The messages in `hit` lost packets and take `slow` ns.
    fn lossy_of(messages: usize, hit: &[usize], slow: u64, how: [f64; 4]) -> Fixture {
        let mut latencies = vec![20 * MS; messages];
        hit.iter().for_each(|place| latencies[*place] = slow);
        let sent_ns = |place: usize| latencies[..place].iter().sum::<u64>();
        let drops_ns: Vec<u64> = hit.iter().map(|place| sent_ns(*place) + MS).collect();
        Fixture::alike_with(6, &case(), &back_to_back(&[], &latencies), |measured| {
            measured.link = Some(dropping("loss", &drops_ns));
            measured.ends[0].facts = counters(hit.len() as f64, Some(how));
            measured.ends[1].facts = counters(0.0, Some([0.0; 4]));
        })
    }

    fn lossy(slow: u64, how: [f64; 4]) -> Fixture {
        lossy_of(200, &[10, 100], slow, how)
    }

    #[test]
    fn a_tail_of_time_outs_is_reported_with_its_cost() {
        let found = lossy(240 * MS, [0.0, 1.0, 2.0, 0.0]).findings(CODE);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        // 2 x 220 ms are added to 200 x 20 ms.
        assert!((found[0].share - 440.0 / 4440.0).abs() < 0.001, "{}", found[0].share);
        let counts =
            [keys::RESENT, keys::ROUNDS, keys::BY_FAST, keys::TIME_OUTS, keys::TO_RECOVER, keys::LOSS_PROBES];
        assert_eq!(counts.map(|key| value(&found[0], key)), [12.0, 6.0, 0.0, 12.0, 0.0, 6.0]);
        assert_eq!([keys::LINK_DROPPED, keys::IN_FLIGHT_THEN].map(|key| value(&found[0], key)), [12.0, 12.0]);
        let known = [(keys::HIT_P50, 240e6), (keys::OTHER_P50, 20e6), (keys::ADDED_SHARE, 0.099)];
        assert!(known.iter().all(|(key, expected)| shows(&found[0], *key, *expected)), "{found:?}");
        let links = pair(&found[0]).map(|case| case.path.link);
        assert_eq!(links, ["loss=1% delay=10ms", "delay=10ms"]);
    }

    /// Five messages that take 30 ms longer add less than 1 % of the time, but are half of the tail of 1 000 messages.
    #[test]
    fn the_tail_alone_is_a_warning_only_with_enough_messages() {
        let found =
            |messages| lossy_of(messages, &[10, 20, 30, 40, 50], 50 * MS, [5.0, 0.0, 0.0, 0.0]).findings(CODE);
        let (told, untold) = (found(1000), found(999));
        assert_eq!((told[0].severity, untold[0].severity), (Severity::Warning, Severity::Note));
        assert!(shows(&told[0], keys::SHARE_OF_TAIL, 0.5), "{told:?}");
        assert_eq!(untold[0].figure(keys::SHARE_OF_TAIL), None);
    }

    #[test]
    fn fast_retransmits_are_counted_separately() {
        let found = lossy(41 * MS, [2.0, 0.0, 0.0, 0.0]).findings(CODE);
        assert_eq!([keys::BY_FAST, keys::TIME_OUTS].map(|key| value(&found[0], key)), [12.0, 0.0]);
        assert!(shows(&found[0], keys::HIT_P50, 41e6), "{found:?}");
    }

    #[test]
    fn the_link_without_loss_confirms_or_refutes_the_cause_by_the_mean() {
        for (without, verdict, severity) in
            [(20 * MS, "confirmed", Severity::Warning), (22_200_000, "refuted", Severity::Note)]
        {
            let mut fixture = lossy(240 * MS, [0.0, 0.0, 2.0, 0.0]);
            let reliable = over("delay=10ms", Case::ping_pong("tcp"));
            let around: Vec<u64> = (0..6).map(|k| without + k * 100).collect();
            fixture.rounds_with(&reliable, &around, |measured| measured.link = Some(link()));
            let found = fixture.findings(CODE);
            let proved = found[0].proved.as_ref().unwrap();
            assert_eq!((proved.verdict.as_str(), found[0].severity), (verdict, severity), "{proved:?}");
            assert_eq!(found[0].share == 0.0, verdict == "refuted");
        }
    }

    #[test]
    fn a_link_without_loss_that_hardly_helps_gives_no_verdict() {
        let mut fixture = lossy(240 * MS, [0.0, 0.0, 2.0, 0.0]);
        // The mean is 22.2 ms; a reduction by 2.2 ms is expected.
        let means = [21_900_000, 21_200_000, 21_700_000, 21_200_000, 21_800_000, 21_300_000];
        fixture.rounds_with(&over("delay=10ms", Case::ping_pong("tcp")), &means, |measured| {
            measured.link = Some(link());
        });
        let found = fixture.findings(CODE);
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!(proved.verdict, "cannot-tell", "{proved:?}");
        assert!(proved.effect.high.is_some_and(|high| high < 0.0), "the mean is shorter: {proved:?}");
    }

    #[test]
    fn without_a_link_only_the_counters_of_the_socket_are_used() {
        let retransmits = |count: f64| {
            let mut fixture = Fixture::new();
            fixture.rounds_with(&Case::ping_pong("tcp"), &[10_000; 6], |measured: &mut Measured| {
                measured.ends[0].facts = counters(count, None);
            });
            fixture.findings(CODE)
        };
        let found = retransmits(1.0);
        assert_eq!((found.len(), found[0].severity, found[0].share), (1, Severity::Note, 0.0));
        assert_eq!(found[0].figure(keys::LINK_DROPPED), None);
        assert_eq!(found[0].counter_experiment, None);
        assert_eq!(retransmits(0.0), []);
    }

    #[test]
    fn the_link_is_not_blamed_for_other_losses() {
        let mut fixture = Fixture::new();
        fixture.rounds_with(&case(), &[20 * MS; 6], |measured| {
            measured.link = Some(link());
            measured.ends[0].facts = counters(1.0, Some([1.0, 0.0, 0.0, 0.0]));
        });
        let found = fixture.findings(CODE);
        assert_eq!((found[0].severity, found[0].share), (Severity::Note, 0.0));
        assert_eq!(value(&found[0], keys::LINK_DROPPED), 0.0);
    }

    /// A tail from another cause, losses of an unreliable transport, and too few segments to report.
    #[test]
    fn a_slow_message_lost_datagrams_and_two_segments_are_not_findings() {
        let mut fixture = Fixture::new();
        let mut latencies = [20 * MS; 200];
        latencies[10] = 240 * MS;
        let udp = over("loss=1% delay=10ms", Case::ping_pong("udp"));
        for block in 0..6 {
            fixture.round_with(&case(), block, &back_to_back(&[], &latencies), |measured| {
                measured.link = Some(link());
                measured.ends[0].facts = counters(0.0, Some([0.0; 4]));
            });
            fixture.round_with(&udp, block, &back_to_back(&[], &latencies), |measured| {
                measured.link = Some(dropping("loss", &[201 * MS]));
            });
        }
        fixture.round_with(&Case::ping_pong("tcp"), 0, &back_to_back(&[], &[10_000; 100]), |measured| {
            measured.ends[0].facts = counters(2.0, None);
        });
        assert_eq!(fixture.findings(CODE), []);
    }
}
