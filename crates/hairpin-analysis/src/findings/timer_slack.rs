//! `timer-slack`: the kernel woke a control loop late to save wake-ups.
//!
//! A thread of `SCHED_OTHER` has a timer slack, by default 50 us: its timers may expire later by this time, so that one wake-up
//! serves several (prctl(2), `PR_SET_TIMERSLACK`). It applies to nanosleep and clock_nanosleep, also before a busy wait, not to a timerfd,
//! and not to `SCHED_FIFO` and `SCHED_DEADLINE`. Evidence: the slack that the kernel reports, and a median release jitter that is not much
//! smaller and a relevant part of the response time. The share is the slack's part of the deadline: a slack that uses little of
//! the time that the loop has is harmless. The counter-experiment sets a slack of 1 ns.

use hairpin_model::case::Scheduling;
use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::NO_TIMER_SLACK;
use hairpin_model::periodic::Timing;
use hairpin_model::{CaseSummary, Finding, FindingCard, Run, fact, fact_names, finding_keys as keys};

use super::support::{evidence_of, judge_by_block, paired, with_share};

pub(super) const CARD: FindingCard = FindingCard {
    code: "timer-slack",
    about: About::Cause,
    what: "the kernel woke a control loop late to save wake-ups (timer slack)",
    why: "every release of the loop is late by up to the slack, which a call or another timer avoids",
};

/// Minimum slack to report, in ns. The kernel's default is 50 us.
const MIN_SLACK_NS: f64 = 5_000.0;
/// Minimum median release jitter, as a share of the slack.
const MIN_JITTER: f64 = 0.5;
/// Minimum share of the response time, and of the deadline, to report.
const MIN_SHARE_OF_RESPONSE: f64 = 0.1;
const MIN_SHARE: f64 = 0.01;
/// Minimum share of the deadline for a warning.
const RELEVANT: f64 = 0.1;

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let periodic = case.case.primary().load.periodic()?;
    let has_slack = !matches!(periodic.timing, Timing::Timerfd | Timing::Spin);
    if !has_slack || case.case.ends.scheduling != Scheduling::Other {
        return None;
    }
    let slack_ns = fact::number(&case.client().facts, fact_names::TIMER_SLACK_NS)?;
    let figures = case.primary().periodic.as_ref()?;
    let (jitter_ns, response_ns) = (figures.release_jitter_ns.p50?.value, figures.response_ns.p50?.value);
    let late_ns = slack_ns.min(jitter_ns);
    let share = (late_ns / periodic.deadline_ns as f64).min(1.0);
    let is_found = slack_ns >= MIN_SLACK_NS
        && jitter_ns >= MIN_JITTER * slack_ns
        && late_ns >= MIN_SHARE_OF_RESPONSE * response_ns
        && share >= MIN_SHARE;
    let changed = case.case.clone().with(|changed| changed.ends.timer_slack_ns = Some(1));
    let check = paired(NO_TIMER_SLACK, [case.case.clone(), changed]);
    is_found.then(|| Finding {
        evidence: vec![
            evidence_of(case, keys::TIMER_SLACK, slack_ns),
            evidence_of(case, keys::RELEASE_JITTER, jitter_ns),
        ],
        proved: judge_by_block(run, case, &check, late_ns, |measured| {
            Some(measured.primary().figures.lateness_ns?.p50)
        }),
        counter_experiment: Some(check),
        ..with_share(&CARD, if share >= RELEVANT { Severity::Warning } else { Severity::Note }, share)
    })
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Fact};

    use super::*;
    use crate::fixture::{Fixture, control_loop, paced, value};

    /// Six rounds of 200 periods of 1 ms, answered after 40 us.
    fn rounds(fixture: &mut Fixture, case: &Case, jitter_ns: u64) {
        let slack_ns = case.ends.timer_slack_ns.map(|ns| ns as f64);
        for block in 0..6 {
            fixture.round_with(case, block, &paced(1_000_000, &[(jitter_ns, 40_000); 200]), |measured| {
                let slack = slack_ns.map(|ns| Fact::number(fact_names::TIMER_SLACK_NS, ns));
                measured.ends[0].facts.extend(slack);
            });
        }
    }

    fn found(change: fn(&mut Case), jitter_ns: u64) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        rounds(&mut fixture, &control_loop().with(change), jitter_ns);
        fixture.findings("timer-slack")
    }

    #[test]
    fn a_jitter_of_the_slack_is_found_with_its_share_of_the_deadline() {
        let found = found(|_| {}, 60_000);
        assert_eq!(value(&found[0], keys::TIMER_SLACK), 5e4);
        assert!((value(&found[0], keys::RELEASE_JITTER) / 6e4 - 1.0).abs() < 0.001, "{found:?}");
        assert_eq!((found[0].share, found[0].severity), (0.05, Severity::Note), "50 us of 1 ms");
        let pair = found[0].counter_experiment.as_ref().unwrap().pair.as_ref().unwrap();
        assert_eq!((pair[0].clone(), pair[1].ends.timer_slack_ns), (control_loop(), Some(1)));
    }

    #[test]
    fn timers_without_slack_are_no_cause() {
        assert_eq!(found(|_| {}, 20_000), [], "woken earlier than half of the slack");
        assert_eq!(found(|case| case.ends.timer_slack_ns = Some(1), 60_000), []);
        assert_eq!(found(|case| case.ends.scheduling = Scheduling::Fifo, 60_000), []);
        for (timing, is_found) in [(Timing::Timerfd, false), (Timing::Spin, false), (Timing::SleepSpin, true)] {
            let mut case = control_loop();
            case.primary_mut().load.periodic_mut().unwrap().timing = timing;
            let mut fixture = Fixture::new();
            rounds(&mut fixture, &case, 60_000);
            assert_eq!(!fixture.findings("timer-slack").is_empty(), is_found, "{timing}");
        }
    }

    fn set_deadline(case: &mut Case, deadline_ns: u64) {
        case.primary_mut().load.periodic_mut().unwrap().deadline_ns = deadline_ns;
    }

    #[test]
    fn a_slack_that_uses_little_of_the_deadline_is_harmless() {
        assert_eq!(found(|case| set_deadline(case, 6_000_000), 60_000), []);
        let short = found(|case| set_deadline(case, 200_000), 60_000);
        assert_eq!((short[0].share, short[0].severity), (0.25, Severity::Warning));
        let large = |case: &mut Case| case.ends.timer_slack_ns = Some(10_000_000);
        assert_eq!(found(large, 7_000_000)[0].share, 1.0, "at most the deadline");
    }

    #[test]
    fn the_check_compares_the_release_jitter_with_and_without_slack() {
        for (without_ns, verdict) in [(12_000, "confirmed"), (58_000, "refuted")] {
            let mut fixture = Fixture::new();
            rounds(&mut fixture, &control_loop(), 60_000);
            rounds(&mut fixture, &control_loop().with(|case| case.ends.timer_slack_ns = Some(1)), without_ns);
            let found = fixture.findings("timer-slack").remove(0);
            assert_eq!(found.proved.unwrap().verdict, verdict, "{without_ns}");
        }
    }
}
