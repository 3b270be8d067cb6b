//! `cpu-contention`: a probe waits for a CPU that a load keeps busy, and not for the path.
//!
//! An end that wakes while its CPU runs something else waits for the scheduler, and so does its message: the tail grows, the
//! median hardly changes. Evidence: how long both ends of the probe were runnable but not running (`run_delay` of
//! /proc/PID/schedstat), per message, loaded and unloaded, compared with the mean latency that the load adds. One wait also
//! delays the messages that become due during it, so at a fixed rate the added latency exceeds the waits. The
//! counter-experiment runs the load on another CPU and, if the run has that case, shows how much of the latency disappears.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::LOAD_ELSEWHERE;
use hairpin_model::phases::Phase;
use hairpin_model::{CaseSummary, CounterExperiment, Figure, Finding, FindingCard, Run, finding_keys as keys};

use super::support::{
    CONFIRMED, change_of, judge_reduction, known_evidence, load_elsewhere, mean, median_of, rounds_of, sibling_of,
    with_share,
};
use crate::statistics::location::median;
use crate::under_load::{added_ns, added_wait_ns, waited_ns_per_message};

pub(super) const CARD: FindingCard = FindingCard {
    code: "cpu-contention",
    about: About::Cause,
    what: "messages waited for a CPU that a load kept busy, not for the path",
    why: "the scheduler then causes the tail, and a faster path does not help",
};

/// Minimum share of the mean latency to report.
const MIN_SHARE: f64 = 0.1;
/// Minimum share of the added latency; the rest comes from messages queued behind others.
const MIN_SHARE_OF_ADDED: f64 = 0.25;
/// Minimum share of rounds whose waits under load exceed the unloaded median; other programs cause waits in any phase.
const MIN_ROUNDS_SHARE: f64 = 0.75;

pub(super) fn is_contended(run: &Run, case: &CaseSummary) -> bool {
    detect(run, case).is_some()
}

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    if case.case.replicate != 0 || case.case.loads().is_empty() {
        return None;
    }
    let phases = &case.under_load.as_ref()?.phases;
    let waits_of = |phase: Phase| -> Vec<f64> {
        let rounds = rounds_of(run, &case.id).into_iter();
        rounds.filter_map(|(_, measured)| waited_ns_per_message(measured, phase)).collect()
    };
    let (usual_ns, waits_ns) = (median(&waits_of(Phase::Idle))?, waits_of(Phase::Loaded));
    let longer = waits_ns.iter().filter(|wait_ns| **wait_ns > usual_ns).count();
    let is_certain = longer as f64 >= MIN_ROUNDS_SHARE * waits_ns.len() as f64;
    let added_ns = median_of(run, case, |measured| added_ns(measured, |latency| latency.mean))?;
    let wait_ns = median_of(run, case, added_wait_ns)?;
    let (idle_ns, loaded_ns) = (phases.idle.probe.latency_ns.mean?, phases.loaded.probe.latency_ns.mean?);
    let explained_ns = wait_ns.value.min(added_ns.value);
    let share = explained_ns / loaded_ns.value;
    let is_most = wait_ns.value >= MIN_SHARE_OF_ADDED * added_ns.value;
    if !(share >= MIN_SHARE && is_most && is_certain) {
        return None;
    }
    let elsewhere = load_elsewhere(&case.case);
    let elsewhere_ns = elsewhere.as_ref().and_then(|check| change_elsewhere_ns(run, case, check));
    let proved = elsewhere_ns.map(|effect| judge_reduction(LOAD_ELSEWHERE, explained_ns, effect));
    let confirmed = proved.as_ref().filter(|proved| proved.verdict == CONFIRMED);
    let saved_ns = confirmed.map_or(0.0, |proved| -proved.effect.value);
    let share = share.max((saved_ns / loaded_ns.value).min(1.0));
    let figures = [
        (keys::LONGER_WAITS, Some(wait_ns)),
        (keys::WAITS_IDLE, phases.idle.cpu.probe_waited_ns),
        (keys::WAITS_LOADED, phases.loaded.cpu.probe_waited_ns),
        (keys::ADDED_MEAN, Some(added_ns)),
        (keys::LOADED_MEAN, Some(loaded_ns)),
        (keys::CPUS_USED, phases.loaded.cpu.used),
        (keys::ELSEWHERE, elsewhere_ns),
    ];
    Some(Finding {
        evidence: known_evidence(case, figures),
        proved,
        counter_experiment: elsewhere,
        ..with_share(&CARD, Severity::Warning, share).with(keys::IDLE_MEAN, idle_ns.value)
    })
}

fn change_elsewhere_ns(run: &Run, case: &CaseSummary, check: &CounterExperiment) -> Option<Figure> {
    let elsewhere = sibling_of(run, &check.pair.as_ref()?[1])?;
    Some(change_of(run, [case, elsewhere], mean)?.0)
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::Direction;
    use hairpin_model::{Case, EndSettings, Flow, Placement, WhichCpus};

    use super::*;
    use crate::fixture::under_load::{Beside, probed};
    use crate::fixture::{Fixture, pair, shows};

    const US: u64 = 1_000;

    fn case() -> Case {
        probed(&[Direction::Up])
    }

    fn elsewhere(case: &Case) -> Case {
        let ends = EndSettings { cpus: WhichCpus::Other, ..case.ends };
        let mut case = case.clone();
        case.flows[1] = Flow { ends: Some(ends), ..case.flows[1].clone() };
        case
    }

    fn beside(latency_us: [u64; 2], waited_us: [u64; 2]) -> Beside {
        let [idle, loaded] = latency_us.map(|us| us * US);
        Beside { waited_ns: waited_us.map(|us| us * US), ..Beside::latencies(idle, loaded) }
    }

    fn found(beside: Beside) -> Vec<Finding> {
        found_in(&case(), beside)
    }

    fn found_in(case: &Case, beside: Beside) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        fixture.all_beside(case, beside);
        fixture.findings("cpu-contention")
    }

    #[test]
    fn an_end_that_waits_for_its_cpu_is_found_by_its_waits() {
        let found = found(beside([50, 300], [10, 190]));
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 180.0 / 300.0).abs() < 1e-3, "{}", found[0].share);
        let known = [(keys::IDLE_MEAN, 50e3), (keys::LOADED_MEAN, 300e3), (keys::LONGER_WAITS, 180e3)];
        assert!(known.iter().all(|(key, ns)| shows(&found[0], *key, *ns)), "{found:?}");
        let with_interval =
            [keys::LOADED_MEAN, keys::LONGER_WAITS].map(|key| found[0].figure(key).unwrap().low.is_some());
        assert_eq!(with_interval, [true, true]);
        let used = found[0].evidence.iter().find(|evidence| evidence.unit == "CPUs").unwrap();
        assert!((used.value.value - 1.0).abs() < 1e-9, "half a CPU for each end of the load");
        assert_eq!(pair(&found[0]), [case(), elsewhere(&case())]);
        assert_eq!(found[0].proved, None);
    }

    #[test]
    fn the_finding_begins_at_the_thresholds() {
        assert_eq!(found(beside([50, 100], [0, 9])), [], "9 % of the latency");
        let both = "13 % of the latency, and a quarter of the added latency";
        assert_eq!(found(beside([50, 100], [0, 13])).len(), 1, "{both}");
        assert_eq!(found(beside([50, 150], [0, 24])), [], "less than a quarter of the added latency");
        assert_eq!(found(beside([50, 150], [0, 26])).len(), 1);
    }

    #[test]
    fn waits_without_latency_and_latency_without_waits_are_not_findings() {
        assert_eq!(found(beside([300, 300], [10, 190])), []);
        assert_eq!(found(beside([50, 300], [190, 190])), []);
        assert_eq!(
            found(beside([10_000, 184_000], [20, 220])),
            [],
            "the waits are less than 10 % of the latency: a queue causes it"
        );
        assert_eq!(found_in(&probed(&[]), beside([50, 300], [10, 190])), []);
    }

    #[test]
    fn longer_waits_in_only_some_rounds_are_caused_by_other_programs() {
        let found = |shorter: usize| {
            let mut fixture = Fixture::new();
            for block in 0..8 {
                let waited = if (block as usize) < shorter { [0, 0] } else { [10, 190] };
                fixture.beside(&case(), block, beside([50, 300], waited));
            }
            fixture.findings("cpu-contention").len()
        };
        assert_eq!((found(0), found(2), found(3)), (1, 1, 0));
    }

    #[test]
    fn other_programs_in_some_idle_phases_do_not_hide_the_waits() {
        let mut fixture = Fixture::new();
        for (block, idle) in (0..).zip([10, 400, 10, 10, 400, 10, 10, 400]) {
            fixture.beside(&case(), block, beside([50, 300], [idle, 190]));
        }
        let found = fixture.findings("cpu-contention");
        assert!((found[0].share - 180.0 / 300.0).abs() < 1e-3, "{}", found[0].share);
    }

    #[test]
    fn the_load_on_another_cpu_confirms_or_refutes_the_cause() {
        let found_with = |elsewhere_us: u64| {
            let mut fixture = Fixture::new();
            fixture.all_beside(&case(), beside([50, 300], [10, 190]));
            fixture.all_beside(&elsewhere(&case()), beside([50, elsewhere_us], [10, 12]));
            fixture.findings("cpu-contention").remove(0)
        };
        let gone = found_with(60);
        assert_eq!((gone.proved.as_ref().unwrap().verdict.as_str(), &gone.cases), ("confirmed", &vec![case().id()]));
        assert!((gone.share - 240.0 / 300.0).abs() < 1e-3, "the reduction exceeds the waits: {}", gone.share);
        assert!(shows(&gone, keys::ELSEWHERE, 60e3 - 300e3), "{gone:?}");
        let stays = found_with(290);
        assert_eq!((stays.proved.unwrap().verdict.as_str(), stays.severity), ("refuted", Severity::Note));
    }

    #[test]
    fn no_counter_experiment_if_the_load_is_on_another_cpu_or_the_ends_use_two() {
        let experiment = |case: &Case| found_in(case, beside([50, 300], [10, 190])).remove(0).counter_experiment;
        assert!(experiment(&case()).is_some());
        assert_eq!(experiment(&elsewhere(&case())), None);
        assert_eq!(experiment(&case().with(|case| case.ends.placement = Placement::CrossCpu)), None);
    }
}
