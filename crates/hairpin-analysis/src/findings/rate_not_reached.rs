//! `rate-not-reached`: an open loop did not reach the requested rate.
//!
//! If the generator kept up and the answers did not, the transport or the server is at its limit: the latency then shows
//! the queue, and grows with the round's duration. Evidence: messages sent over the scheduled time plus the generator's
//! lag; answers per second.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::LOWER_RATE;
use hairpin_model::flow::Pacing;
use hairpin_model::held_up::HeldUp;
use hairpin_model::{Case, CaseSummary, Finding, FindingCard, Load, Measured, Run, Waiting, finding_keys as keys};

use super::support::{Hits, counter_experiment, evidence, rounds_of, strongest, with_share};
use crate::open_loop;
use crate::statistics::location::median;

pub(super) const CARD: FindingCard = FindingCard {
    code: "rate-not-reached",
    about: About::Cause,
    what: "an open loop did not reach the requested rate",
    why: "the figures do not describe the requested rate: they show how far the load fell behind it",
};

/// Minimum median queue length, in messages, at which answers count as behind. The rate of answers must also be below
/// 99 % of the possible rate.
const MIN_QUEUE_LENGTH: f64 = 10.0;

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let saturated = Hits::findings(run, |case| generator_behind(run, case));
    let behind = Hits::findings(run, |case| {
        let is_saturated = saturated.0.iter().any(|hit| hit.case.id == case.id);
        answers_behind(case).filter(|_| !is_saturated)
    });
    [saturated.joined(), behind.joined(), strongest(run, |case| load_behind(run, case))].concat()
}

/// Finds the background load furthest below its rate. The latency of the probe does not include the missing load.
fn load_behind(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let rounds: Vec<&Measured> = rounds_of(run, &case.id).into_iter().map(|(_, measured)| measured).collect();
    let each = case.case.loads().into_iter().filter_map(|load| {
        let asked_per_s = load.load.rate_per_s()?;
        let sent_per_s = |measured: &&Measured| {
            let sent = measured.flow(&load.id)?.sent.as_ref()?;
            (sent.over_ns > 0).then(|| sent.messages as f64 / (sent.over_ns as f64 / 1e9 + 1.0 / asked_per_s))
        };
        let reached = median(&rounds.iter().filter_map(sent_per_s).collect::<Vec<_>>())? / asked_per_s;
        let bytes_per_s = asked_per_s * load.load.size_bytes() as f64;
        (reached < open_loop::MIN_SHARE_REACHED).then_some((1.0 - reached, bytes_per_s, reached))
    });
    let (missing, bytes_per_s, reached) = each.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(Finding {
        evidence: vec![evidence(keys::LOAD_ASKED, bytes_per_s), evidence(keys::LOAD_SENT, bytes_per_s * reached)],
        share: 0.0,
        ..with_share(&CARD, Severity::Warning, missing)
    })
}

fn generator_behind(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let rounds: Vec<_> = rounds_of(run, &case.id).into_iter().map(|(_, measured)| measured).collect();
    let reached = open_loop::share_reached(&case.case, &rounds)?;
    let asked = case.case.primary().load.rate_per_s()?;
    let held_up = open_loop::why_blocked(&case.case, &rounds).map(HeldUp::word);
    let finding = with_share(&CARD, Severity::Problem, 1.0 - reached).with_some(keys::HELD_UP, held_up);
    (reached < open_loop::MIN_SHARE_REACHED)
        .then(|| about_rate(case, [asked, asked * reached], finding.with(keys::CAUSE, "generator")))
}

fn answers_behind(case: &CaseSummary) -> Option<Finding> {
    // A one-way load on a link loses messages, which other findings report; under load, the queue is the load's.
    let one_way = case.case.primary().load.is_one_way();
    if one_way && case.case.is_emulated() || !case.case.loads().is_empty() {
        return None;
    }
    let asked = case.case.primary().load.rate_per_s()?;
    let (rate, p50) = (case.primary().rate_per_s?.value, case.primary().latency_ns.p50?.value);
    // Messages in transit on a link are not queued, lost messages not slow, and a round lasts until its last answer.
    let on_its_way_ns = case.primary().curve.first().map_or(0.0, |fastest| fastest.latency_ns);
    let queued = (p50 - on_its_way_ns) * asked / 1e9;
    let each_round = case.primary().ledger.sent as f64 / case.rounds.max(1) as f64;
    let ledger = &case.primary().ledger;
    let missing = ledger.lost.values().sum::<u64>() + u64::try_from(ledger.unexplained).unwrap_or(0);
    let lost = missing as f64 / ledger.sent.max(1) as f64;
    let possible = asked * (1.0 - lost) * each_round / (each_round + asked * on_its_way_ns / 1e9);
    let behind = rate < open_loop::MIN_SHARE_REACHED * possible && queued >= MIN_QUEUE_LENGTH;
    let finding = with_share(&CARD, Severity::Warning, 1.0 - rate / asked);
    let who = if one_way { "receiver" } else { "answers" };
    behind.then(|| about_rate(case, [asked, rate], finding.with(keys::CAUSE, who)))
}

fn about_rate(case: &CaseSummary, [asked, reached]: [f64; 2], finding: Finding) -> Finding {
    let slower = case.case.at_rate((reached * 0.8).floor().max(1.0));
    Finding {
        evidence: vec![evidence(keys::ASKED, asked), evidence(keys::REACHED, reached)],
        counter_experiment: Some(counter_experiment(LOWER_RATE, [slower])),
        share: finding.share.clamp(0.0, 1.0),
        ..finding.with_some(keys::FASTER_BY, faster_by(&case.case))
    }
}

fn faster_by(case: &Case) -> Option<&'static str> {
    let share_a_cpu = !case.ends.placement.has_own_cpus();
    match case.primary().load {
        Load::Offered { pacing: Pacing::Spin, .. } => None,
        Load::Offered { .. } if share_a_cpu && case.host().is_none() => Some("spinning-on-own-cpu"),
        Load::Offered { .. } => Some("spinning"),
        _ if case.ends.waiting == Waiting::Spin => None,
        _ if case.host().is_some() => Some("busy-polling"),
        _ => Some("busy-polling-on-own-cpus"),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Arrivals, Fact, Invalid, fact_names};

    use hairpin_model::Placement;

    use super::*;
    use crate::fixture::links::between_hosts;
    use crate::fixture::links::over;
    use crate::fixture::under_load::{Beside, probed_over_link};
    use crate::fixture::{Fixture, at_rate, one_way_losses, paced, shows, value};

    /// 1 000 messages requested at 10 000/s, each `behind_ns` later than the previous one.
    fn found(behind_ns: u64, service_ns: impl Fn(u64) -> u64) -> (bool, Vec<Finding>) {
        let messages: Vec<(u64, u64)> = (0..1000).map(|k| (behind_ns * k, service_ns(k))).collect();
        let case = at_rate(Case::ping_pong("udp"), 10_000.0);
        let run = Fixture::alike(3, &case, &paced(100_000, &messages)).run();
        let found = crate::findings(&run).into_iter().filter(|finding| finding.code == CARD.code).collect();
        (run.cases[0].valid, found)
    }

    #[test]
    fn a_saturated_generator_is_a_problem_and_makes_the_case_invalid() {
        // Each message is 25 us later than the previous one: 8 000 per second are sent instead of 10 000.
        let (valid, found) = found(25_000, |_| 20_000);
        assert!(!valid);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Problem));
        assert!((found[0].share - 0.2).abs() < 0.005, "{}", found[0].share);
        assert_eq!(found[0].word(keys::CAUSE), Some("generator"));
        assert!((8_000.0..8_100.0).contains(&value(&found[0], keys::REACHED)), "{found:?}");
    }

    #[test]
    fn a_generator_that_waits_for_answers_differs_from_a_saturated_one() {
        let found = |waited: f64| {
            let case =
                at_rate(Case::ping_pong("udp"), 10_000.0).with(|changed| changed.primary_mut().load.set_sizes(1, 1));
            let messages: Vec<(u64, u64)> = (0..1000).map(|k| (25_000 * k, 20_000)).collect();
            let fixture = Fixture::alike_with(1, &case, &paced(100_000, &messages), |measured| {
                measured.ends[0].facts = vec![Fact::number(fact_names::WAITED_FOR_ANSWERS, waited)];
            });
            let run = fixture.run();
            let found = crate::findings(&run).into_iter().find(|finding| finding.code == CARD.code).unwrap();
            let Invalid::Saturated { sent_per_s, asked_per_s, held_up } = run.cases[0].reasons[0] else { panic!() };
            assert!((8_000.0..8_100.0).contains(&sent_per_s) && asked_per_s == 10_000.0, "{sent_per_s}");
            (held_up, found.word(keys::HELD_UP).map(str::to_owned))
        };
        let limit = HeldUp::SizeOfOneByte;
        assert_eq!(found(500.0), (Some(limit), Some(limit.word().to_owned())));
        assert_eq!(found(9.0), (None, None));
    }

    #[test]
    fn a_load_under_its_requested_rate_is_a_note() {
        let case = probed_over_link().with(|case| {
            case.flows[1].load = Load::Offered {
                offered_per_s: 1_000.0,
                size_bytes: 1_400,
                arrivals: Arrivals::Fixed,
                pacing: Pacing::SleepSpin,
            };
        });
        let of = |messages: u64| {
            let mut fixture = Fixture::new();
            for block in 0..5 {
                fixture.beside_with(&case, block, Beside::latencies(10_000_000, 20_000_000), |measured| {
                    let sent = measured.flows[1].sent.as_mut().unwrap();
                    (sent.messages, sent.over_ns) = (messages, 999_000_000);
                });
            }
            crate::findings(&fixture.run()).into_iter().find(|finding| finding.code == CARD.code)
        };
        let found = of(800).expect("a fifth is missing");
        assert!(shows(&found, keys::LOAD_SENT, 1.12e6) && shows(&found, keys::LOAD_ASKED, 1.4e6), "{found:?}");
        assert_eq!(found.severity, Severity::Note);
        assert_eq!(of(1_000), None);
    }

    #[test]
    fn answers_that_fall_behind_are_a_separate_warning() {
        let (valid, found) = found(0, |k| 20_000 + 25_000 * k);
        assert!(valid);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert_eq!(found[0].word(keys::CAUSE), Some("answers"));
        assert!((8_000.0..8_100.0).contains(&value(&found[0], keys::REACHED)), "{found:?}");
    }

    #[test]
    fn messages_without_answers_can_arrive_behind() {
        let found = |case: &Case| {
            // The receiver's queue is 25 messages long at the median.
            let messages: Vec<(u64, u64)> = (0..1000).map(|k| (0, 20_000 + 50_000 * k)).collect();
            let fixture = Fixture::alike_with(1, case, &paced(1_000_000, &messages), |measured| {
                one_way_losses::counts(&[], 0.0)(measured);
                measured.primary_mut().figures.rate_per_s = 900.0;
            });
            fixture.findings(CARD.code)
        };
        let case = one_way_losses::offered(Arrivals::Fixed, Pacing::SleepSpin);
        let behind = found(&case);
        assert_eq!(behind[0].word(keys::CAUSE), Some("receiver"));
        assert!(shows(&behind[0], keys::REACHED, 900.0), "{behind:?}");
        assert!(behind[0].word(keys::FASTER_BY).unwrap().starts_with("spinning"), "{behind:?}");
        assert_eq!(found(&over("up=1mbit", case)), [], "losses on the link have other findings");
    }

    #[test]
    fn advice_omits_options_that_the_case_has() {
        let advised = |pacing: Pacing, placement: Placement| {
            faster_by(&one_way_losses::offered(Arrivals::Fixed, pacing).with(|case| case.ends.placement = placement))
        };
        let (same_cpu, cross_cpu) = (Placement::SameCpu, Placement::CrossCpu);
        assert_eq!(advised(Pacing::SleepSpin, same_cpu), Some("spinning-on-own-cpu"));
        assert_eq!(advised(Pacing::SleepSpin, cross_cpu), Some("spinning"));
        assert_eq!(advised(Pacing::Spin, cross_cpu), None);
    }

    #[test]
    fn between_two_hosts_no_placement_is_advised() {
        let offered = between_hosts(one_way_losses::offered(Arrivals::Fixed, Pacing::SleepSpin));
        let unpinned = offered.clone().with(|case| case.ends.placement = Placement::Unpinned);
        for case in [offered, unpinned] {
            assert_eq!(faster_by(&case), Some("spinning"));
        }
        let paced = at_rate(between_hosts(Case::ping_pong("udp")), 1000.0);
        assert_eq!(faster_by(&paced), Some("busy-polling"));
    }

    /// Ten times [`MIN_QUEUE_LENGTH`] messages are in transit; a fifth is lost.
    #[test]
    fn a_long_link_that_loses_is_not_behind() {
        let case = at_rate(over("loss=20% delay=50ms", Case::ping_pong("udp")), 1_000.0);
        let messages: Vec<(u64, u64)> = (0..800).map(|k| (0, 100_000_000 + 100_000 * (k % 10))).collect();
        let fixture = Fixture::alike_with(1, &case, &paced(1_000_000, &messages), |measured| {
            measured.primary_mut().ledger.sent = 1000;
            measured.primary_mut().ledger.lost = [("link-loss".to_owned(), 200)].into();
            measured.primary_mut().ledger = measured.primary().ledger.clone().closed();
            // The round's length if every fifth message were lost.
            measured.duration_ns = 1_100_000_000;
            measured.primary_mut().figures.rate_per_s = 800.0 / 1.1;
        });
        assert_eq!(fixture.findings(CARD.code), []);
    }

    #[test]
    fn a_reached_rate_is_not_a_finding_even_if_the_last_answer_is_slow() {
        let (valid, found) = found(0, |k| if k == 999 { 40_000_000 } else { 20_000 });
        assert!(valid);
        assert_eq!(found, []);
    }
}
