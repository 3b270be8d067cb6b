//! `placement-lottery`: the scheduler placed the ends differently from round to round.
//!
//! A *loaded* machine can then look faster than an idle one. Evidence: the CPUs on which both ends were seen, and the p50
//! of rounds on the same CPU and on two.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::PINNED;
use hairpin_model::{CaseSummary, Finding, FindingCard, Key, Measured, Placement, Run, finding_keys as keys};

use super::support::{counter_experiment, evidence_of, rounds_of, strongest, with_share};
use crate::compare::over_points;
use crate::statistics::interval::median_over;

pub(super) const CARD: FindingCard = FindingCard {
    code: "placement-lottery",
    about: About::Run,
    what: "not pinned, the ends ran on one CPU in some rounds and on two in others",
    why: "round trips on one CPU and on two differ by a factor of several, so the figure depends on chance",
};

/// Minimum difference between placements for a warning.
const MIN_WARNING_SHARE: f64 = 0.1;

/// Minimum rounds per placement; a single round is not enough to judge a placement.
const MIN_ROUNDS: usize = 2;

/// The placement of both ends in a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    SameCpu,
    DifferentCpus,
    /// One CPU at the start and two at the end of the round, or the reverse: an end moved.
    Both,
}

impl Seen {
    const ALL: [(Self, &'static str, Key); 3] = [
        (Self::SameCpu, "seen-on-one-cpu", keys::ROUNDS_SAME_CPU),
        (Self::DifferentCpus, "seen-on-two-cpus", keys::ROUNDS_TWO_CPUS),
        (Self::Both, "seen-on-one-and-then-two-cpus", keys::ROUNDS_MOVED),
    ];
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let with_check = |finding: Finding| {
        let placements = [Placement::SameCpu, Placement::CrossCpu, Placement::Unpinned].into_iter();
        let cases = placements.flat_map(|placement| {
            let cases = finding.cases.iter().filter_map(|id| run.case(id));
            cases.map(move |row| row.case.clone().with(|case| case.ends.placement = placement))
        });
        let check = counter_experiment(PINNED, cases);
        Finding { counter_experiment: Some(check), ..finding }
    };
    strongest(run, |case| find_placements(run, case)).into_iter().map(with_check).collect()
}

fn find_placements(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let load = &case.case.primary().load;
    // Two hosts share no CPU. The latency of a load that fills its queue only shows the queue.
    let fills_queue = load.is_one_way() && load.rate_per_s().is_none();
    if case.case.host().is_some() || case.case.ends.placement != Placement::Unpinned || fills_queue {
        return None;
    }
    let rounds = rounds_of(run, &case.id);
    let mut finding = with_share(&CARD, Severity::Note, 0.0);
    let (mut most, mut least) = (0.0_f64, f64::INFINITY);
    for (seen, word, counted) in Seen::ALL {
        let chosen = rounds.iter().filter(|(_, measured)| observed_placement(measured) == Some(seen));
        let values: Vec<f64> = chosen.map(|(_, measured)| measured.primary().figures.latency_ns.p50).collect();
        let p50 = median_over(&values, over_points(case, run.plan.alpha)).filter(|_| values.len() >= MIN_ROUNDS);
        let Some(p50) = p50 else { continue };
        (most, least) = (most.max(p50.value), least.min(p50.value));
        finding.evidence.push(evidence_of(case, keys::P50_SEEN, p50).of(word));
        finding = finding.with(counted, values.len() as f64);
    }
    let share = if most > 0.0 { 1.0 - least / most } else { 0.0 };
    let severity = if share >= MIN_WARNING_SHARE { Severity::Warning } else { Severity::Note };
    (finding.evidence.len() > 1).then(|| Finding { severity, share, shares: vec![share], ..finding })
}

/// Returns the placement of the ends; `None` without a server, or if the CPUs of an end are unknown. An end that was
/// seen on a single CPU has one entry, which is both its first and its last.
fn observed_placement(measured: &Measured) -> Option<Seen> {
    let (client, server) = (&measured.client().seen_cpus, &measured.server()?.seen_cpus);
    let is_same = [client.first()? == server.first()?, client.last()? == server.last()?];
    Some(match is_same {
        [true, true] => Seen::SameCpu,
        [false, false] => Seen::DifferentCpus,
        _ => Seen::Both,
    })
}

#[cfg(test)]
mod tests {
    use hairpin_model::trace::End;
    use hairpin_model::{Case, EndReport, FlowRecord};

    use super::*;
    use crate::fixture::links::between_hosts;
    use crate::fixture::{Fixture, back_to_back, figure_of, value};

    fn found(placement: Placement, rounds: &[(u64, &[usize])]) -> Vec<Finding> {
        found_of(&Case::ping_pong("udp").with(|changed| changed.ends.placement = placement), rounds)
    }

    /// Rounds with a latency and the CPUs on which the server was seen. The client stays on CPU 0.
    fn found_of(case: &Case, rounds: &[(u64, &[usize])]) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        for (block, (latency, server)) in rounds.iter().enumerate() {
            fixture.round_with(case, block as u32, &back_to_back(&[], &[*latency; 100]), |measured| {
                measured.ends[0].seen_cpus = vec![0];
                measured.ends[1].seen_cpus = server.to_vec();
            });
        }
        fixture.findings("placement-lottery")
    }

    #[test]
    fn the_cpus_at_the_start_and_at_the_end_are_compared() {
        let placement = |client: &[usize], server: &[usize]| {
            let end = |role, cpus: &[usize]| EndReport { role, seen_cpus: cpus.to_vec(), ..EndReport::default() };
            let ends = vec![end(End::Client, client), end(End::Server, server)];
            observed_placement(&Measured { flows: vec![FlowRecord::default()], ends, ..Measured::default() })
        };
        assert!(placement(&[0], &[0]) == Some(Seen::SameCpu));
        assert!(placement(&[0, 1], &[0, 1]) == Some(Seen::SameCpu), "both moved to the same CPU");
        assert!(placement(&[0, 1], &[1, 0]) == Some(Seen::DifferentCpus), "both moved, and never shared a CPU");
        assert!(placement(&[0], &[0, 1]) == Some(Seen::Both));
        assert!(placement(&[1, 0], &[0]) == Some(Seen::Both));
        assert!(placement(&[], &[0]).is_none());
    }

    #[test]
    fn ends_at_different_places_are_found_with_their_p50s() {
        let rounds = [(10_000, &[0][..]), (58_000, &[1]), (30_000, &[0, 1])].repeat(2);
        let found = found(Placement::Unpinned, &rounds);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - (1.0 - 10.0 / 58.0)).abs() < 0.001, "{}", found[0].share);
        let p50s = Seen::ALL.map(|(_, word, _)| figure_of(&found[0], keys::P50_SEEN, word).unwrap().value);
        assert_eq!(p50s.map(|ns| (ns / 100.0).round()), [100.0, 580.0, 300.0]);
        assert_eq!([keys::ROUNDS_SAME_CPU, keys::ROUNDS_TWO_CPUS].map(|key| value(&found[0], key)), [2.0, 2.0]);
    }

    /// A difference of a tenth of the slower placement is a warning.
    #[test]
    fn at_the_threshold_a_note_becomes_a_warning() {
        let severity = |latency| {
            let rounds = [(latency, &[0][..]), (10_000, &[1])].repeat(3);
            found(Placement::Unpinned, &rounds)[0].severity
        };
        assert_eq!((severity(9_020), severity(8_980)), (Severity::Note, Severity::Warning));
    }

    #[test]
    fn a_cpu_number_of_another_host_is_not_compared() {
        let rounds = [(10_000, &[0][..]), (58_000, &[1])].repeat(2);
        let case = between_hosts(Case::ping_pong("udp")).with(|case| case.ends.placement = Placement::Unpinned);
        assert_eq!(found_of(&case, &rounds), []);
    }

    #[test]
    fn one_placement_a_single_other_round_and_pinned_ends_are_not_findings() {
        let single = [(10_000, &[0][..]), (58_000, &[1]), (10_000, &[0])];
        assert_eq!(found(Placement::Unpinned, &single), []);
        let two_modes = [(10_000, &[0][..]), (58_000, &[0])].repeat(4);
        assert_eq!(found(Placement::Unpinned, &two_modes), [], "another cause");
        let both = [(10_000, &[0][..]), (58_000, &[1])].repeat(2);
        assert_eq!(found(Placement::CrossCpu, &both), []);
        assert_eq!(found(Placement::Unpinned, &both).len(), 1);
    }
}
