//! `link-late`: the emulator released packets later than the link's profile says.
//!
//! Evidence: the emulator records when each packet was due and when it left. Rounds in which the median or the p99 of the
//! lateness exceeded the stated bounds are omitted from all figures (METHODOLOGY.md, "Emulated links"). Lateness below the
//! bounds is reported if it is a visible share of the latency; it counts twice in a round trip and once in a one-way
//! message. The counter-experiment keeps the CPUs awake, and is judged by the lateness itself.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::KEEP_AWAKE;
use hairpin_model::{
    Case, CaseSummary, CpuIdle, Evidence, Figure, Finding, FindingCard, Proved, RoundRecord, Run,
    finding_keys as keys,
};

use super::support::{Hit, Hits, evidence_of, judge_reduction, kept_awake, paired, sibling_of};
use crate::compare::{by_block, difference_by_block, over_points};
use crate::statistics::interval::median_over;

pub(super) const CARD: FindingCard = FindingCard {
    code: "link-late",
    about: About::Run,
    what: "the emulator released packets later than the link's profile says",
    why: "this delay is in every round trip and does not belong to the link",
};

/// Minimum share of the median, and of the p99, to report.
const MIN_SHARE: f64 = 0.05;
const MIN_SHARE_OF_TAIL: f64 = 0.1;
/// Minimum share of omitted rounds for a warning.
const MIN_OMITTED_SHARE: f64 = 0.1;

struct Late {
    /// Lateness of the median packet, and p99 of the lateness.
    p50_ns: Figure,
    p99_ns: Figure,
    /// Median lateness, over all crossings, as a share of the p50; then p99 of the lateness as a share of the p99.
    share: f64,
    share_of_tail: f64,
    left_out: usize,
    rounds: usize,
    /// Whether the emulator's memory was full in a round.
    was_overfull: bool,
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let hits = Hits::among(run, |case| find_lateness(run, case));
    let Some(first) = hits.first() else { return Vec::new() };
    let grave = |hit: &Hit<'_, Late>| {
        hit.share >= MIN_SHARE || hit.data.left_out as f64 >= MIN_OMITTED_SHARE * hit.data.rounds as f64
    };
    let severity = if hits.0.iter().any(|hit| !hit.case.valid && hit.data.left_out > 0) {
        Severity::Problem
    } else if hits.0.iter().any(grave) {
        Severity::Warning
    } else {
        Severity::Note
    };
    let proved = proved(run, first.case);
    vec![Finding {
        evidence: all_evidence(first),
        counter_experiment: awake(&first.case.case).map(|awake| paired(KEEP_AWAKE, [first.case.case.clone(), awake])),
        proved,
        ..add_facts(&hits, hits.finding(&CARD, severity))
    }]
}

/// Adds the case with the most omitted rounds, if any, and whether the emulator's memory was full.
fn add_facts(hits: &Hits<'_, Late>, finding: Finding) -> Finding {
    let finding = finding.with_if(hits.0.iter().any(|hit| hit.data.was_overfull), keys::RELAY_FULL);
    match hits.0.iter().max_by_key(|hit| hit.data.left_out).filter(|hit| hit.data.left_out > 0) {
        Some(worst) => finding
            .with(keys::WORST_CASE, worst.case.id.as_str())
            .with(keys::WORST_OUT, worst.data.left_out as f64)
            .with(keys::WORST_OF, worst.data.rounds as f64),
        None => finding,
    }
}

fn all_evidence(first: &Hit<'_, Late>) -> Vec<Evidence> {
    let late = &first.data;
    let times = if first.case.case.primary().load.is_one_way() { "once" } else { "twice" };
    let mut all = vec![
        evidence_of(first.case, keys::RELAY_P50, late.p50_ns),
        evidence_of(first.case, keys::RELAY_P99, late.p99_ns),
        evidence_of(first.case, keys::RELAY_SHARE, late.share).of(times),
        evidence_of(first.case, keys::RELAY_SHARE_OF_P99, late.share_of_tail),
        evidence_of(first.case, keys::ROUNDS_OUT, late.left_out as f64),
    ];
    let cpu_ns = first.case.path.relay.as_ref().and_then(|link| link.relay_cpu_ns_per_packet);
    all.extend(cpu_ns.map(|cpu_ns| evidence_of(first.case, keys::RELAY_CPU, cpu_ns)));
    all
}

fn find_lateness(run: &Run, case: &CaseSummary) -> Option<(f64, Late)> {
    if case.case.replicate != 0 {
        return None;
    }
    case.path.relay.as_ref()?;
    let mut rounds = 0;
    let mut left_out = 0;
    let mut was_overfull = false;
    let (mut p50s, mut p99s, mut tails_ns) = (Vec::new(), Vec::new(), Vec::new());
    let is_left_out = |round: &RoundRecord| {
        let mut left_out = case.omitted_rounds.iter().filter(|out| out.why.is_of_emulator() && !out.only_tail);
        left_out.any(|out| out.round == round.number)
    };
    for round in run.rounds.iter().filter(|round| round.case_id == case.id) {
        let Some((measured, link)) = round.measured().and_then(|of| Some((of, of.link.as_ref()?))) else { continue };
        rounds += 1;
        let is_left_out = is_left_out(round);
        left_out += usize::from(is_left_out);
        was_overfull |= link.was_overfull();
        if !is_left_out || !case.valid {
            p50s.extend(link.lateness_ns.map(|late| late.p50 as f64));
            p99s.extend(link.lateness_ns.map(|late| late.p99 as f64));
            tails_ns.push(measured.primary().figures.latency_ns.p99);
        }
    }
    let over = over_points(case, run.plan.alpha);
    let (p50_ns, p99_ns) = (median_over(&p50s, over)?, median_over(&p99s, over)?);
    let part =
        |ns: f64, of: Option<Figure>| of.filter(|of| of.value > 0.0).map_or(0.0, |of| (ns / of.value).min(1.0));
    let crossings = if case.case.primary().load.is_one_way() { 1.0 } else { 2.0 };
    let share = part(crossings * p50_ns.value, case.primary().latency_ns.p50);
    // The case has no p99 if the emulator was too late for it.
    let share_of_tail = part(p99_ns.value, median_over(&tails_ns, over));
    let is_relevant = left_out > 0 || share >= MIN_SHARE || share_of_tail >= MIN_SHARE_OF_TAIL;
    is_relevant.then_some((share, Late { p50_ns, p99_ns, share, share_of_tail, left_out, rounds, was_overfull }))
}

/// Returns the case of the counter-experiment; `None` if the CPUs were already kept awake.
fn awake(case: &Case) -> Option<Case> {
    (case.ends.cpu_idle == CpuIdle::Deep).then(|| kept_awake(case))
}

/// Judges whether keeping the CPUs awake removed the lateness, if measured. Includes omitted (late) rounds.
fn proved(run: &Run, case: &CaseSummary) -> Option<Proved> {
    let awake = sibling_of(run, &awake(&case.case)?)?;
    let [own, other] =
        [case, awake].map(|case| {
            let rounds = run.rounds.iter().filter(|round| round.case_id == case.id);
            by_block(rounds.filter_map(|round| {
                Some((round.order.block, round.measured()?.link.as_ref()?.lateness_ns?.p50 as f64))
            }))
        });
    let before = crate::statistics::location::median(&own.values().copied().collect::<Vec<_>>())?;
    let over = over_points(case, run.plan.alpha);
    let (effect, _) = difference_by_block(&own, &other, over)?;
    Some(judge_reduction(KEEP_AWAKE, before, effect.figure(over.alpha)))
}

#[cfg(test)]
mod tests {
    use hairpin_model::LeftOut;

    use super::*;
    use crate::fixture::links::{late_by, over};
    use crate::fixture::{self, Fixture, back_to_back, pair, repeated, shows, value};

    const CODE: &str = "link-late";

    fn case() -> Case {
        over("delay=500us", Case::ping_pong("tcp"))
    }

    /// Rounds of 1 ms, each with this median lateness of the emulator.
    fn rounds(fixture: &mut Fixture, case: &Case, late_ns: &[u64]) {
        for (block, late_ns) in (0..).zip(late_ns) {
            fixture.round_with(case, block, &back_to_back(&[], &[1_000_000; 200]), late_by(*late_ns));
        }
    }

    fn found(late_ns: &[u64]) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        rounds(&mut fixture, &case(), late_ns);
        fixture.findings(CODE)
    }

    #[test]
    fn a_message_without_an_answer_crosses_the_link_once() {
        let share = |case: Case| {
            let mut fixture = Fixture::new();
            rounds(&mut fixture, &over("delay=500us", case), &[60_000; 3]);
            fixture.findings(CODE)[0].share
        };
        assert!((share(Case::ping_pong("udp")) - 0.12).abs() < 0.001);
        assert!((share(crate::fixture::one_way_losses::messages("udp")) - 0.06).abs() < 0.001);
    }

    #[test]
    fn a_link_that_was_too_full_for_the_emulator_gets_its_own_advice() {
        let advice = |memory_overrun: u64| {
            let mut fixture = Fixture::new();
            rounds(&mut fixture, &case(), &[30_000; 6]);
            fixture.round_with(&case(), 6, &back_to_back(&[], &[1_000_000; 200]), |measured| {
                late_by(30_000)(measured);
                let relay = measured.link.as_mut().unwrap().relay.as_mut().unwrap();
                (relay.overrun, relay.memory_overrun) = (5, memory_overrun);
            });
            let run = fixture.run();
            let found = crate::findings(&run).into_iter().find(|found| found.code == CODE).unwrap();
            let reason = run.cases[0].path.relay.as_ref().unwrap().left_out[0].why.clone();
            (found.has(keys::RELAY_FULL), found.word(keys::WORST_CASE) == Some(&run.cases[0].id), reason)
        };
        let (full, of_case, reason) = advice(5);
        assert!(full && of_case);
        assert_eq!(reason, LeftOut::NoRoom { in_sockets: 0, in_memory: 5 });
        let (full, of_case, reason) = advice(0);
        assert!(!full && of_case);
        assert_eq!(reason, LeftOut::NoRoom { in_sockets: 5, in_memory: 0 });
    }

    #[test]
    fn lateness_below_the_bound_is_reported_if_visible_in_the_round_trip() {
        let found = found(&[30_000; 6]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 0.06).abs() < 0.001, "{}", found[0].share);
        let known = [(keys::RELAY_P50, 30e3), (keys::RELAY_SHARE, 0.06), (keys::RELAY_P99, 60e3)];
        assert!(known.iter().all(|(key, expected)| shows(&found[0], *key, *expected)), "{found:?}");
        assert!(found[0].figure(keys::RELAY_P50).unwrap().low.is_some());
        assert!(!found[0].has(keys::WORST_CASE), "no round is left out: {found:?}");
        let pair = pair(&found[0]);
        assert_eq!(pair.each_ref().map(|case| case.ends.cpu_idle), [CpuIdle::Deep, CpuIdle::Shallow]);
        assert_eq!((pair[1].path.link.as_str(), repeated(&found[0])), ("delay=500us", &pair[..]));
    }

    #[test]
    fn the_finding_begins_at_the_threshold() {
        assert_eq!(found(&[24_900; 6]), []);
        assert_eq!(found(&[25_100; 6]).len(), 1, "twice the lateness is at least 5 % of 1 ms");
    }

    #[test]
    fn rounds_left_out_are_named() {
        let found = found(&[2_000, 2_000, 2_000, 2_000, 140_000, 2_000]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert_eq!([keys::WORST_OUT, keys::WORST_OF].map(|key| value(&found[0], key)), [1.0, 6.0]);
        let one_of_twenty = self::found(&[&[2_000; 19][..], &[140_000]].concat());
        assert_eq!(one_of_twenty[0].severity, Severity::Note, "the other rounds are valid");
    }

    #[test]
    fn a_case_invalidated_by_lateness_is_a_problem() {
        let found = found(&[140_000, 150_000, 160_000, 2_000]);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!([keys::WORST_OUT, keys::WORST_OF].map(|key| value(&found[0], key)), [3.0, 4.0]);
        assert!(found[0].share > 0.25, "{}", found[0].share);
    }

    #[test]
    fn the_tail_alone_is_a_note() {
        let fixture = Fixture::alike_with(6, &case(), &back_to_back(&[], &[1_000_000; 200]), |measured| {
            late_by(2_000)(measured);
            measured.link.as_mut().unwrap().lateness_ns.as_mut().unwrap().p99 = 300_000;
        });
        let found = fixture.findings(CODE);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Note));
        assert!(shows(&found[0], keys::RELAY_P99, 300e3), "{found:?}");
    }

    #[test]
    fn cpus_kept_awake_confirm_or_refute_the_cause() {
        for (awake_ns, verdict) in [(2_000, "confirmed"), (38_000, "refuted")] {
            let mut fixture = Fixture::new();
            let around = |ns: u64| (0..8).map(|k| ns + ns / 100 * k).collect::<Vec<u64>>();
            rounds(&mut fixture, &case(), &around(40_000));
            rounds(&mut fixture, &awake(&case()).unwrap(), &around(awake_ns));
            let found = fixture.findings(CODE);
            assert_eq!(fixture::verdict(&found[0]), verdict);
        }
    }

    /// Links that are slow for other reasons, and an emulator that released no packet.
    #[test]
    fn a_punctual_emulator_a_slow_link_and_a_link_without_packets_are_not_late() {
        assert_eq!(found(&[2_000; 6]), []);
        let mut fixture = Fixture::new();
        fixture.rounds_with(&case(), &[9_000_000; 6], |measured| {
            late_by(60_000)(measured);
            measured.link.as_mut().unwrap().lateness_ns = None;
        });
        fixture.rounds_of(&Case::ping_pong("tcp"), &[9_000_000; 6]);
        assert_eq!(fixture.findings(CODE), []);
    }
}
