//! `server-work`: the server works for most of a round trip.
//!
//! Evidence: the part `work` of the latency budget, between the return of the server's receive call and its send call.
//! Hairpin's server does nothing of its own, so this is a cause only where work was injected; the counter-experiment omits
//! it.

use hairpin_model::finding::About;
use hairpin_model::finding_keys::check::WITHOUT_WORK;
use hairpin_model::latency_budget::parts::WORK;
use hairpin_model::{Case, Finding, FindingCard, Run};

use super::support::from_budget;

pub(super) const CARD: FindingCard = FindingCard {
    code: "server-work",
    about: About::Cause,
    what: "the server works for most of a round trip, between its calls",
    why: "the latency is then that of the server's program, and a faster transport does not help",
};

/// Minimum share of the mean round trip.
const MIN_SHARE: f64 = 0.25;

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let look = |case: &Case| {
        case.injected_fault?;
        Some((MIN_SHARE, case.clone().with(|changed| changed.injected_fault = None)))
    };
    from_budget(run, (&CARD, WITHOUT_WORK), &[WORK], look)
}

#[cfg(test)]
mod tests {
    use hairpin_model::InjectedFault;
    use hairpin_model::finding::Severity;

    use super::*;
    use crate::fixture::trips::{PLAIN, Parts, trip};
    use crate::fixture::{Fixture, pair, verdict};

    fn injected() -> Case {
        let fault = InjectedFault { stall_ns: 200_000, every: 1, sleeps: false };
        Case::ping_pong("tcp").with(|case| case.injected_fault = Some(fault))
    }

    fn parts(part: usize, ns: i64) -> Parts {
        let mut parts = PLAIN;
        parts[part] = ns;
        parts
    }

    fn found(case: &Case, of: Parts) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        fixture.budget_of(case, 10_000, &[trip(of)]);
        fixture.findings("server-work")
    }

    #[test]
    fn work_between_the_calls_of_the_server_is_found() {
        let found = found(&injected(), parts(5, 200_000));
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 200_000.0 / 204_900.0).abs() < 1e-3);
        assert_eq!(pair(&found[0]).map(|case| case.injected_fault.is_some()), [true, false]);
    }

    #[test]
    fn a_server_without_injected_work_and_other_parts_are_not_work() {
        assert_eq!(found(&Case::ping_pong("tcp"), parts(5, 200_000)), [], "no check could contradict it");
        for part in [2, 3, 4, 8] {
            assert_eq!(found(&injected(), parts(part, 200_000)), [], "part {part}");
        }
        assert_eq!([1_600, 1_650].map(|ns| found(&injected(), parts(5, ns)).len()), [0, 1], "a quarter of 6.5 us");
    }

    #[test]
    fn a_run_without_the_work_checks_the_cause() {
        let checked = |without_ns: u64| {
            let mut fixture = Fixture::new();
            fixture.budget_of(&injected(), 204_900, &[trip(parts(5, 200_000))]);
            fixture.rounds_of(&Case::ping_pong("tcp"), &[without_ns; 6]);
            fixture.findings("server-work").remove(0)
        };
        assert_eq!([5_000, 203_000].map(|ns| verdict(&checked(ns)).to_owned()), ["confirmed", "refuted"]);
    }
}
