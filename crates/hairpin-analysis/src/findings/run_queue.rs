//! `run-queue`: an end that could read its message waits for a CPU.
//!
//! Why: another program, or the other end, has the CPU. Such waits last up to a time slice, so they are rare and long:
//! they make the tail, and no faster path helps. Evidence: the part `run-queue` of the latency budget: how long the
//! thread of a sampled message was runnable without a CPU (`run_delay` of /proc/PID/schedstat), in a message for which
//! it slept once. The counter-experiment places the ends on other CPUs. Advice: a CPU of its own, or a priority.

use hairpin_model::finding::About;
use hairpin_model::finding_keys::check::OTHER_CPUS;
use hairpin_model::latency_budget::parts::RUN_QUEUE;
use hairpin_model::{Case, Finding, FindingCard, Placement, Run};

use super::support::from_budget;

pub(super) const CARD: FindingCard = FindingCard {
    code: "run-queue",
    about: About::Cause,
    what: "an end that had a message to read waited for a CPU",
    why: "the scheduler then causes the latency, and a faster path does not help",
};

/// Minimum share of the mean round trip. Ends that share a CPU always wait for each other.
const MIN_SHARE: f64 = 0.25;
const MIN_SHARE_ON_ONE_CPU: f64 = 0.5;

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let look = |case: &Case| {
        let is_shared = case.ends.placement == Placement::SameCpu;
        Some((if is_shared { MIN_SHARE_ON_ONE_CPU } else { MIN_SHARE }, elsewhere(case)))
    };
    from_budget(run, (&CARD, OTHER_CPUS), &[RUN_QUEUE], look)
}

/// Returns the case with its ends on other CPUs.
fn elsewhere(case: &Case) -> Case {
    let placement = if case.ends.placement == Placement::CrossCpu { Placement::SameCpu } else { Placement::CrossCpu };
    case.clone().with(|changed| changed.ends.placement = placement)
}

#[cfg(test)]
mod tests {
    use hairpin_model::finding::Severity;

    use super::*;
    use crate::fixture::trips::{PLAIN, Parts, trip};
    use crate::fixture::{Fixture, apart, pair, shows, verdict};
    use hairpin_model::finding_keys as keys;

    /// Rounds on two CPUs in which each 40th round trip waits for a CPU at the server, by this time.
    fn waiting(wait_ns: i64) -> Parts {
        let mut parts = PLAIN;
        parts[3] = wait_ns;
        parts
    }

    fn found(case: &Case, trips: &[Parts], latency_ns: u64) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        fixture.budget_of(case, latency_ns, &trips.iter().map(|parts| trip(*parts)).collect::<Vec<_>>());
        fixture.findings("run-queue")
    }

    #[test]
    fn rare_long_waits_for_a_cpu_are_found_by_their_share_of_the_mean() {
        let tcp = apart(Case::ping_pong("tcp"));
        let mut trips = vec![PLAIN; 99];
        trips.push(waiting(1_000_000));
        let found = found(&tcp, &trips, 15_500);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 10_000.0 / 15_500.0).abs() < 1e-3, "{}", found[0].share);
        assert!(shows(&found[0], keys::MEAN_OF_PART, 10_000.0));
        assert!(shows(&found[0], keys::SHARE_OF_SLOWEST, 1_000_000.0 / 1_005_500.0), "{:?}", found[0].evidence);
        assert_eq!(pair(&found[0]).map(|case| case.ends.placement), [Placement::CrossCpu, Placement::SameCpu]);
    }

    #[test]
    fn the_finding_begins_at_a_quarter_or_on_one_cpu_at_half() {
        let two_cpus = apart(Case::ping_pong("tcp"));
        let one_cpu = Case::ping_pong("tcp");
        let count = |case: &Case, wait_ns| found(case, &[waiting(wait_ns)], 10_000).len();
        assert_eq!([count(&two_cpus, 1_830), count(&two_cpus, 1_840)], [0, 1], "a quarter of 7.3 us");
        assert_eq!([count(&one_cpu, 5_400), count(&one_cpu, 5_600)], [0, 1], "half of 11 us");
    }

    #[test]
    fn work_of_the_server_and_a_long_network_are_not_waits() {
        let tcp = apart(Case::ping_pong("tcp"));
        for part in [2, 4, 5] {
            let mut parts = PLAIN;
            parts[part] = 1_000_000;
            assert_eq!(found(&tcp, &[parts], 1_000_000), [], "part {part}");
        }
        let mut fixture = Fixture::new();
        fixture.rounds_of(&tcp, &[1_000_000; 8]);
        assert_eq!(fixture.findings("run-queue"), [], "without a budget");
    }

    #[test]
    fn other_cpus_confirm_or_refute_the_cause() {
        let tcp = apart(Case::ping_pong("tcp"));
        let checked = |elsewhere_ns: u64| {
            let mut fixture = Fixture::new();
            fixture.budget_of(&tcp, 105_500, &[trip(waiting(100_000))]);
            fixture.rounds_of(&elsewhere(&tcp), &[elsewhere_ns; 6]);
            fixture.findings("run-queue").remove(0)
        };
        assert_eq!(verdict(&checked(5_500)), "confirmed");
        let stays = checked(104_000);
        assert_eq!((verdict(&stays), stays.share), ("refuted", 0.0));
    }
}
