//! `stack-dominated`: most of a round trip is the kernel's network stack.
//!
//! Evidence: the parts of the latency budget in the send calls, from the scheduler to the other end's arrival, and, of ends
//! that busy-poll, from the arrival to the return of the receive call. The counter-experiment is the same case over a
//! transport without system calls.

use hairpin_model::finding::About;
use hairpin_model::finding_keys::check::SHORTER_PATH;
use hairpin_model::latency_budget::parts::{NETWORK, RECEIVE, SEND_QUEUE, SEND_STACK};
use hairpin_model::{Case, Finding, FindingCard, Options, Run, Waiting, finding_keys as keys};

use super::support::from_budget;

pub(super) const CARD: FindingCard = FindingCard {
    code: "stack-dominated",
    about: About::Cause,
    what: "most of a round trip is the path through the kernel's network stack",
    why: "no end waits, so only a shorter path or fewer messages help",
};

/// Minimum share of the mean round trip.
const MIN_SHARE: f64 = 0.5;

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    // Across a network, the network is not the stack.
    let look = |case: &Case| Some((MIN_SHARE, with_shorter_path(run, case).filter(|_| !case.crosses_a_network())?));
    let found =
        from_budget(run, (&CARD, SHORTER_PATH), &[SEND_STACK, SEND_QUEUE, NETWORK, RECEIVE], look).into_iter();
    found.map(|finding| finding.with(keys::TRANSPORT, run.cards.cpu_only().unwrap_or_default())).collect()
}

/// Returns the case over a transport that makes no system calls; `None` if there is none, or if it does not wait like
/// the case: without a descriptor there is nothing to poll.
fn with_shorter_path(run: &Run, case: &Case) -> Option<Case> {
    let shorter = run.cards.cpu_only().filter(|_| case.ends.waiting != Waiting::Poll)?;
    Some(case.clone().with(|changed| {
        changed.primary_mut().transport = shorter.to_owned();
        changed.primary_mut().options = Options::default();
    }))
}

#[cfg(test)]
mod tests {
    use hairpin_model::finding::Severity;

    use super::*;
    use crate::fixture::links::over;
    use crate::fixture::trips::{PLAIN, Parts, trip};
    use crate::fixture::{Fixture, apart, pair, verdict};

    /// Ends that busy-poll on two CPUs; all parts but the server's work are the stack.
    fn spinning() -> Case {
        apart(Case::ping_pong("tcp")).with(|case| case.ends.waiting = Waiting::Spin)
    }

    /// The findings on this round trip, in a run whose cards say that shared memory is between processes.
    fn found(case: &Case, parts: Parts, with_shm_ns: Option<u64>) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        fixture.budget_of(case, 5_500, &[trip(parts)]);
        let shm = case.clone().with(|case| case.primary_mut().transport = "shm".to_owned());
        with_shm_ns.into_iter().for_each(|ns| fixture.rounds_of(&shm, &[ns; 6]));
        let mut run = fixture.run();
        let card = |name: &str| *run.cards.get(name).unwrap();
        let shm = hairpin_model::card::SavedCard { between_processes: true, ..card("shm") };
        run.cards = [("tcp", card("tcp")), ("memory", card("memory")), ("shm", shm)].into_iter().collect();
        crate::findings(&run).into_iter().filter(|finding| finding.code == CARD.code).collect()
    }

    #[test]
    fn a_round_trip_through_the_stack_is_found_with_a_shorter_path() {
        let found = found(&spinning(), PLAIN, None);
        assert_eq!(
            (found.len(), found[0].severity, found[0].word(keys::TRANSPORT)),
            (1, Severity::Warning, Some("shm"))
        );
        assert!((found[0].share - 4_900.0 / 5_500.0).abs() < 1e-3, "all but the work: {}", found[0].share);
        assert_eq!(pair(&found[0]).map(|case| case.primary().transport.clone()), ["tcp", "shm"]);
    }

    #[test]
    fn waits_work_and_a_network_are_not_the_stack() {
        let blocking = apart(Case::ping_pong("tcp"));
        let waking = [100, 200, 300, 0, 5_000, 600, 700, 800, 900, 0, 5_000];
        assert_eq!(found(&blocking, waking, None), [], "wake-ups");
        let working = [100, 200, 300, 0, 500, 9_000, 700, 800, 900, 0, 1_400];
        assert_eq!(found(&spinning(), working, None), []);
        let far = [100, 200, 1_000_000, 0, 500, 600, 700, 800, 1_000_000, 0, 1_400];
        assert_eq!(found(&over("delay=1ms", spinning()), far, None), []);
        let polling = blocking.with(|case| case.ends.waiting = Waiting::Poll);
        assert_eq!(found(&polling, PLAIN, None), [], "nothing with a shorter path waits like this");
    }

    #[test]
    fn the_finding_begins_at_half_of_the_round_trip() {
        let work = |ns| [100, 200, 300, 0, 500, ns, 700, 800, 900, 0, 1_400];
        assert_eq!([4_800, 5_000].map(|ns| found(&spinning(), work(ns), None).len()), [1, 0]);
    }

    #[test]
    fn shared_memory_checks_the_cause() {
        let verdict_with = |ns| verdict(&found(&spinning(), PLAIN, Some(ns))[0]).to_owned();
        assert_eq!([verdict_with(300), verdict_with(5_400)], ["confirmed", "refuted"]);
    }
}
