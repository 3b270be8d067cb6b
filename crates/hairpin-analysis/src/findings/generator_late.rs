//! `generator-late`: the open loop sent messages well after they were due.
//!
//! A message is timed from its due time, so lateness is part of its latency. Rates that were not reached are `rate-not-reached`.
//! Evidence: lateness compared with latency, over rounds. A generator that is still busy with one message when the next is due
//! needs a lower rate. A generator that sleeps in between is woken late, the later the longer it sleeps, so a lower rate makes its
//! lateness worse. A generator that spins lost its CPU. The service time, which starts at the actual send, is valid in each case.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::{HALF_RATE, KEEP_AWAKE};
use hairpin_model::flow::{ConnectionUse, Pacing};
use hairpin_model::{
    CaseSummary, CounterExperiment, CpuIdle, Finding, FindingCard, Load, Run, Waiting, finding_keys as keys, words,
};

use super::cpu_contention::is_contended;
use super::support::{counter_experiment, kept_awake, known_evidence, longer_run, rounds_of, with_share};
use crate::open_loop;

pub(super) const CARD: FindingCard = FindingCard {
    code: "generator-late",
    about: About::Run,
    what: "the open loop sent messages well after they were due",
    why: "latency starts when a message is due, so a large part of it is the generator's delay, not the transport's",
};

const MIN_SHARE: f64 = 0.1;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    // If a message opens a connection, or waits for room in a load's connection, the path causes its lateness.
    if case.case.primary().connection_use != ConnectionUse::Own {
        return None;
    }
    let rounds: Vec<_> = rounds_of(run, &case.id).into_iter().map(|(_, measured)| measured).collect();
    // An end that waits for a CPU also sends late: see `cpu-contention`.
    if open_loop::share_reached(&case.case, &rounds)? < open_loop::MIN_SHARE_REACHED || is_contended(run, case) {
        return None;
    }
    let of = case.primary().lateness_ns?;
    let (lateness, latency) = (of.mean?, case.primary().latency_ns.mean?);
    let (late_p99, latency_p99) = of.p99.zip(case.primary().latency_ns.p99).unzip();
    let share = if latency.value > 0.0 { (lateness.value / latency.value).clamp(0.0, 1.0) } else { 0.0 };
    let is_tail_late =
        late_p99.zip(latency_p99).is_some_and(|(late, latency)| late.value >= MIN_SHARE * latency.value);
    let is_median_late = open_loop::is_too_late_to_rank(case);
    if !(share >= MIN_SHARE || is_tail_late || is_median_late) {
        return None;
    }
    let figures = [
        (keys::LATENESS_MEAN, Some(lateness)),
        (keys::LATENCY_MEAN, Some(latency)),
        (keys::LATENESS_P99, late_p99),
        (keys::LATENCY_P99, latency_p99),
    ];
    let cause = Cause::of(case);
    let finding = with_share(&CARD, Severity::Warning, share)
        .with(keys::CAUSE, cause.word())
        .with_if(case.case.primary().load.is_one_way(), keys::ONE_WAY)
        .with_if(case.case.host().is_some(), keys::TWO_HOSTS)
        .with_some(keys::RANKED_UP_TO, is_median_late.then_some(open_loop::MAX_RANKED_LATENESS));
    Some(Finding {
        evidence: known_evidence(case, figures),
        counter_experiment: Some(cause.counter_experiment(case)),
        ..finding
    })
}

words! {
    enum Cause: "cause" {
        /// The next message was due before the previous one was done.
        Busy = "busy",
        /// The generator had time to spare, slept, and was woken late.
        Woken = "woken-late",
        /// The generator had time to spare and never slept: something else used its CPU.
        Displaced = "displaced",
    }
}

impl Cause {
    /// Determines the cause. A generator has time to spare if half of its messages are answered within half the send
    /// interval; without answers, if half of its messages leave within this time after they were due.
    fn of(case: &CaseSummary) -> Self {
        let period_ns = case.case.primary().load.rate_per_s().map_or(0.0, |asked_per_s| 1e9 / asked_per_s);
        let (p50, spins) = match case.case.primary().load {
            Load::Offered { pacing, .. } => {
                (case.primary().lateness_ns.and_then(|lateness| lateness.p50), pacing == Pacing::Spin)
            }
            _ => (case.primary().latency_ns.p50, case.case.ends.waiting == Waiting::Spin),
        };
        let has_time = p50.is_some_and(|p50| p50.value < period_ns / 2.0);
        match (has_time, spins) {
            (false, _) => Self::Busy,
            (true, true) => Self::Displaced,
            (true, false) => Self::Woken,
        }
    }

    fn counter_experiment(self, case: &CaseSummary) -> CounterExperiment {
        let case = &case.case;
        match self {
            Self::Woken if case.ends.cpu_idle == CpuIdle::Deep && case.host().is_none() => {
                counter_experiment(KEEP_AWAKE, [case.clone(), kept_awake(case)])
            }
            Self::Busy => {
                let half = case.at_rate(case.primary().load.rate_per_s().unwrap_or(0.0) / 2.0);
                counter_experiment(HALF_RATE, [case.clone(), half])
            }
            Self::Woken | Self::Displaced => longer_run(case),
        }
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Placement, Repeat};

    use super::*;
    use crate::fixture::links::between_hosts;
    use crate::fixture::{Fixture, at_rate, paced};

    fn found_in(case: &Case, rate_per_s: f64, lateness_ns: u64) -> Vec<Finding> {
        found_with(case, rate_per_s, lateness_ns, 30_000)
    }

    fn found_with(case: &Case, rate_per_s: f64, lateness_ns: u64, service_ns: u64) -> Vec<Finding> {
        let samples = paced((1e9 / rate_per_s) as u64, &[(lateness_ns, service_ns); 200]);
        Fixture::alike(6, &at_rate(case.clone(), rate_per_s), &samples).findings("generator-late")
    }

    fn found(lateness_ns: u64) -> Vec<Finding> {
        found_in(&Case::ping_pong("udp"), 1000.0, lateness_ns)
    }

    #[test]
    fn a_case_late_by_a_fifth_of_its_latency_is_not_ranked() {
        let found = found(10_000);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 0.25).abs() < 0.001, "{}", found[0].share);
        assert!(found[0].figure(keys::RANKED_UP_TO) == Some(0.2.into()), "{found:?}");
        assert!(!self::found(5_000)[0].has(keys::RANKED_UP_TO), "a seventh");
    }

    #[test]
    fn the_advice_depends_on_the_cause() {
        let blocking = Case::ping_pong("udp");
        let spinning = blocking.clone().with(|changed| {
            changed.ends.waiting = Waiting::Spin;
            changed.ends.placement = Placement::CrossCpu;
        });
        let awake = blocking.clone().with(|changed| changed.ends.cpu_idle = CpuIdle::Shallow);
        let repeat = |cases: &[Case]| Repeat::of(cases);
        let longer = |case: &Case| Repeat { over_ns: Some(40_000_000_000), ..Repeat::of([case.clone()]) };
        let at = |case: &Case, rate_per_s| at_rate(case.clone(), rate_per_s);
        for (case, rate_per_s, cause, expected) in [
            // At a lower rate a sleeping generator sleeps more deeply.
            (&blocking, 1000.0, "woken-late", repeat(&[at(&blocking, 1000.0), at(&awake, 1000.0)])),
            (&awake, 1000.0, "woken-late", longer(&at(&awake, 1000.0))),
            (&blocking, 20_000.0, "busy", repeat(&[20_000.0, 10_000.0].map(|rate| at(&blocking, rate)))),
            (&spinning, 20_000.0, "busy", repeat(&[20_000.0, 10_000.0].map(|rate| at(&spinning, rate)))),
            (&spinning, 1000.0, "displaced", longer(&at(&spinning, 1000.0))),
        ] {
            let found = found_in(case, rate_per_s, 10_000);
            assert_eq!(found[0].word(keys::CAUSE), Some(cause), "{rate_per_s}");
            assert_eq!(found[0].counter_experiment.as_ref().unwrap().repeat, expected, "{rate_per_s}");
            assert!(!found[0].has(keys::TWO_HOSTS) && !found[0].has(keys::ONE_WAY), "{found:?}");
        }
    }

    #[test]
    fn between_two_hosts_the_advice_never_needs_one_host() {
        let blocking = between_hosts(Case::ping_pong("udp"));
        let found = found_in(&blocking, 1000.0, 10_000);
        assert!(found[0].has(keys::TWO_HOSTS) && found[0].word(keys::CAUSE) == Some("woken-late"), "{found:?}");
        let repeat = &found[0].counter_experiment.as_ref().unwrap().repeat;
        assert_eq!((repeat.cases.len(), repeat.over_ns), (1, Some(40_000_000_000)), "{repeat:?}");
    }

    /// The latency of a message in the receiver's queue does not describe its sender.
    #[test]
    fn without_answers_the_lateness_shows_whether_the_generator_has_time() {
        let found = |pacing, lateness_ns: u64| {
            let case = crate::fixture::one_way_losses::offered(hairpin_model::arrivals::Arrivals::Fixed, pacing);
            let samples = paced(1_000_000, &[(lateness_ns, 1_100_000); 200]);
            let found = Fixture::alike(6, &case, &samples).findings("generator-late").remove(0);
            assert!(found.has(keys::ONE_WAY));
            found.word(keys::CAUSE).unwrap().to_owned()
        };
        assert_eq!(found(Pacing::SleepSpin, 300_000), "woken-late");
        assert_eq!(found(Pacing::Spin, 300_000), "displaced");
        assert_eq!(found(Pacing::SleepSpin, 700_000), "busy");
    }

    #[test]
    fn the_finding_begins_at_the_threshold() {
        // A tenth of the latency.
        assert_eq!(found_with(&Case::ping_pong("udp"), 1000.0, 9_900, 90_100), []);
        assert_eq!(found_with(&Case::ping_pong("udp"), 1000.0, 10_100, 89_900).len(), 1);
    }

    #[test]
    fn a_punctual_generator_and_a_closed_loop_are_not_late() {
        assert_eq!(found(200), []);
        // The same latency as with 10 us of lateness, but from slow answers.
        assert_eq!(found_with(&Case::ping_pong("udp"), 1000.0, 0, 40_000), []);
        let closed = Fixture::of(&[(&Case::ping_pong("udp"), &[30_000; 3])]);
        assert_eq!(closed.findings("generator-late"), []);
    }
}
