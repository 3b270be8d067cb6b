//! Selects the pairs of cases of a run to compare, each with its baseline.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use hairpin_model::flow::{Observer, Pacing};
use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::options::OptionName;
use hairpin_model::summary::Role;
use hairpin_model::{Arrivals, Case, CaseSummary, Exchange, Load, Remedy, Waiting};

use super::choices::{Subject, choices};
use crate::links::lacks_a_stage;
use crate::open_loop::is_too_late_to_rank;

pub(super) type Pair<'c> = (Role, &'c CaseSummary, &'c CaseSummary);

/// Returns all pairs of valid cases: A/A, neighbours on each ladder, and cases that differ in one thing.
pub(super) fn pairs(cases: &[CaseSummary]) -> Vec<Pair<'_>> {
    let is_measured =
        |case: &CaseSummary| ladder::compared_by(&[case]).first().is_some_and(|by| case.compared(*by).is_some());
    let usable: Vec<&CaseSummary> = cases.iter().filter(|case| case.valid && is_measured(case)).collect();
    let mut pairs = aa_pairs(&usable);
    pairs.extend(neighbours(&usable));
    pairs.extend(counter_experiments(&usable));
    pairs
}

fn aa_pairs<'c>(cases: &[&'c CaseSummary]) -> Vec<Pair<'c>> {
    let again = cases.iter().filter(|case| case.case.replicate != 0);
    let replicate = |again: &&CaseSummary| {
        cases
            .iter()
            .find(|case| case.case.replicate == 0 && without_fault(&case.case) == without_fault(&again.case))
            .copied()
    };
    again.filter_map(|again| Some((Role::AgainstItself, replicate(again)?, *again))).collect()
}

/// Returns the case without its injected fault: the calibration `slower` injects a fault only into the replicate.
fn without_fault(case: &Case) -> Case {
    case.without_replicate().with(|changed| changed.injected_fault = None)
}

/// Returns the neighbours on each ladder, the better case first. A ladder has cases that are equal except for the
/// transport (streams: also for the size of writes, because goodput counts bytes; exchanges: only for the remedy;
/// probes: only for the loads). Excludes cases whose generator was late by a large part of the latency, and offered
/// loads that were not delivered.
fn neighbours<'c>(cases: &[&'c CaseSummary]) -> Vec<Pair<'c>> {
    let is_ranked = |case: &CaseSummary| {
        let measures_its_load = CaseKind::of(&case.case) != CaseKind::Offered || ladder::is_delivered(case);
        case.case.replicate == 0 && !is_too_late_to_rank(case) && measures_its_load
    };
    let mut ladders: BTreeMap<String, Vec<&CaseSummary>> = BTreeMap::new();
    for case in cases.iter().filter(|case| is_ranked(case)) {
        let mut ladder = case.case.clone();
        if ladder.is_under_load() {
            ladder.flows.truncate(1);
            ladders.entry(ladder.id()).or_default().push(case);
            continue;
        }
        for flow in &mut ladder.flows {
            match &mut flow.load {
                Load::Exchange { exchange, .. } => exchange.remedy = Remedy::Default,
                Load::Stream { write_size_bytes, .. } => {
                    *write_size_bytes = 0;
                    flow.transport.clear();
                }
                _ => flow.transport.clear(),
            }
        }
        ladders.entry(ladder.id()).or_default().push(case);
    }
    let mut pairs = Vec::new();
    for mut ladder in ladders.into_values() {
        ladder.sort_by(|a, b| by_rank(a, b).then_with(|| a.label.cmp(&b.label)));
        pairs.extend(ladder.windows(2).map(|pair| (Role::Neighbours, pair[0], pair[1])));
    }
    pairs
}

fn by_rank(one: &CaseSummary, other: &CaseSummary) -> Ordering {
    let Some(figure) = ladder::compared_by(&[one, other]).first() else { return Ordering::Equal };
    let value = |case: &CaseSummary| case.compared(*figure).map_or(f64::NAN, |figure| figure.value);
    let rising = value(one).total_cmp(&value(other));
    if figure.more_is_better() { rising.reverse() } else { rising }
}

fn counter_experiments<'c>(cases: &[&'c CaseSummary]) -> Vec<Pair<'c>> {
    let mut pairs = Vec::new();
    for (place, first) in cases.iter().enumerate() {
        for second in &cases[place + 1..] {
            match one_change(&first.case, &second.case).or_else(|| baseline_by_stage(first, second)) {
                Some(Baseline::First) => pairs.push((Role::CounterExperiment, *first, *second)),
                Some(Baseline::Second) => pairs.push((Role::CounterExperiment, *second, *first)),
                None => {}
            }
        }
    }
    pairs
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Baseline {
    First,
    Second,
}

/// If two cases differ only in one stage that one of their links lacks, returns the case with the stage as the
/// baseline.
fn baseline_by_stage(first: &CaseSummary, second: &CaseSummary) -> Option<Baseline> {
    let left_out = |with: &CaseSummary, without: &CaseSummary| {
        let path = without.case.path.clone();
        let less = with.path.relay.as_ref().is_some_and(|whole| lacks_a_stage(whole, &path.link));
        less && without.case.replicate == 0 && Case { path, ..with.case.clone() } == without.case
    };
    match (left_out(first, second), left_out(second, first)) {
        (true, _) => Some(Baseline::First),
        (_, true) => Some(Baseline::Second),
        _ => None,
    }
}

/// Returns the rank of a case's value of a choice; of two cases, the one with the lower rank is the baseline. `None` if
/// the choice is not compared.
///
/// Compared for any load: the CPU idle state (baseline: as the machine is configured), scheduling and timing of control
/// loops, the timer slack (baseline: the longest), the placement (same CPU, two
/// CPUs, unpinned) and the waiting (blocking or busy-polling; for one-way loads also polling). For one-way loads only:
/// direction, connections, threads, messages per call, bytes per write, data source, arrivals of messages and pacing of
/// the sender. Flows in both directions have the same choices.
fn rank(about: Subject, case: &Case) -> Option<u64> {
    let (ends, flow) = (&case.ends, case.primary());
    let is_one_way = flow.load.is_one_way();
    Some(match about {
        Subject::CpuIdle => ends.cpu_idle as u64,
        Subject::Placement => ends.placement as u64,
        Subject::Scheduling => ends.scheduling as u64,
        // The kernel's default, the longest, is the baseline.
        Subject::TimerSlack => u64::MAX - ends.timer_slack_ns?,
        Subject::Timing => flow.load.periodic()?.timing as u64,
        Subject::Waiting if is_one_way || ends.waiting != Waiting::Poll => ends.waiting as u64,
        Subject::Direction if is_one_way => flow.direction as u64,
        Subject::Connections if is_one_way => u64::from(flow.connections),
        Subject::Threads if is_one_way => u64::from(flow.threads),
        Subject::Build => flow.build as u64,
        Subject::Batch => flow.load.batch(),
        Subject::Size if matches!(flow.load, Load::Stream { .. }) => flow.load.size_bytes(),
        Subject::Source => flow.load.source()? as u64,
        Subject::Arrivals => match flow.load.offered()?.0 {
            Arrivals::Fixed => 0,
            Arrivals::Poisson => 1,
            Arrivals::Burst(count) => 2 + u64::from(count),
        },
        Subject::Pacing => flow.load.offered()?.1 as u64,
        _ => return None,
    })
}

/// Returns the baseline if two cases of one transport differ in exactly one choice with a [`rank`], in one option, in the
/// remedy (see [`is_counter_experiment`]), in the observer (baseline: none), or in an injected fault (baseline: none). Of
/// two sets of options, the baseline is the one with fewer options; of two values of one option, the value measured first.
fn one_change(first: &Case, second: &Case) -> Option<Baseline> {
    let flows =
        |case: &Case| case.flows.iter().map(|flow| (flow.id.clone(), flow.role, flow.ends)).collect::<Vec<_>>();
    if first.replicate.max(second.replicate) > 0 || first.path != second.path || flows(first) != flows(second) {
        return None;
    }
    let [one, other] = [first, second].map(|case| choices(&without_pacing_rate(case)));
    let differs = |about: &Subject| one.get(about) != other.get(about);
    let differing: Vec<Subject> = one.keys().copied().filter(differs).collect();
    let by_rank = |of: &dyn Fn(&Case) -> Option<u64>| {
        Some(if of(second)? < of(first)? { Baseline::Second } else { Baseline::First })
    };
    match (differing.as_slice(), first.injected_fault == second.injected_fault) {
        ([], false) => by_rank(&|case| Some(u64::from(case.injected_fault.is_some()))),
        ([Subject::Remedy], true) => {
            let (one, other) = (first.primary().load.exchange()?, second.primary().load.exchange()?);
            match (is_counter_experiment(one, other.remedy), is_counter_experiment(other, one.remedy)) {
                (true, _) => Some(Baseline::First),
                (_, true) => Some(Baseline::Second),
                _ => None,
            }
        }
        ([Subject::Observer], true) => match [first, second].map(|case| case.primary().load.observer()) {
            [Observer::None, _] => Some(Baseline::First),
            [_, Observer::None] => Some(Baseline::Second),
            _ => None,
        },
        ([Subject::Options], true) if differing_options(first, second) == 1 => {
            by_rank(&|case| Some(case.primary().options.iter().count() as u64))
        }
        ([about], true) => by_rank(&|case| rank(*about, case)),
        _ => None,
    }
}

/// Removes the option that only sets the kernel's pacing rate and is not a separate choice.
fn without_pacing_rate(case: &Case) -> Case {
    case.clone().with(|case| {
        for flow in &mut case.flows {
            if let Load::Offered { pacing: Pacing::Kernel, .. } = flow.load {
                flow.options = flow.options.clone().without(OptionName::PacingRate);
            }
        }
    })
}

/// Whether the pair is compared: every remedy with `default`, and the counter-experiments of findings. Other pairs
/// are not compared, because no finding needs them. With several requests in flight, Nagle can also delay single
/// writes.
fn is_counter_experiment(baseline: &Exchange, candidate: Remedy) -> bool {
    match baseline.remedy {
        Remedy::Default => candidate != Remedy::Default,
        Remedy::Nodelay => candidate == Remedy::OneWrite,
        Remedy::CorkForgotten => candidate == Remedy::Cork,
        Remedy::Batch(_) => candidate == Remedy::Nodelay,
        // Already compared, with `nodelay` as the baseline.
        Remedy::OneWrite => false,
        Remedy::Cork | Remedy::More | Remedy::Writev | Remedy::Quickack => {
            baseline.pipeline > 1 && candidate == Remedy::Nodelay
        }
    }
}

fn differing_options(first: &Case, second: &Case) -> usize {
    let names = OptionName::ALL.iter();
    names.filter(|name| first.primary().options.get(**name) != second.primary().options.get(**name)).count()
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::Build;
    use hairpin_model::{CpuIdle, Options, Placement};

    use super::*;
    use crate::fixture::links::{dropping, over};
    use crate::fixture::{Fixture, at_rate, in_flight, paced, small_writes};

    fn with_options(options: &str) -> Case {
        Case::ping_pong("tcp").with(|changed| changed.primary_mut().options = Options::parse(options).unwrap())
    }

    #[test]
    fn exactly_one_change_is_a_counter_experiment() {
        let case = Case::ping_pong("tcp");
        let spin = case.clone().with(|changed| changed.ends.waiting = Waiting::Spin);
        assert_eq!(one_change(&case, &spin), Some(Baseline::First));
        assert_eq!(one_change(&spin, &case), Some(Baseline::Second));
        let shallow = case.clone().with(|changed| changed.ends.cpu_idle = CpuIdle::Shallow);
        assert_eq!(one_change(&shallow, &case), Some(Baseline::Second));
        let apart = case.clone().with(|changed| changed.ends.placement = Placement::CrossCpu);
        assert_eq!(one_change(&case, &apart), Some(Baseline::First));
        let unoptimised = case.clone().with(|changed| changed.primary_mut().build = Build::Unoptimised);
        assert_eq!(one_change(&unoptimised, &case), Some(Baseline::Second));
        assert_eq!(one_change(&case, &with_options("nodelay=on")), Some(Baseline::First));
        assert_eq!(one_change(&with_options("nodelay=on"), &case), Some(Baseline::Second));
        assert_eq!(one_change(&with_options("nodelay=off"), &with_options("nodelay=on")), Some(Baseline::First));
    }

    #[test]
    fn observers_are_compared_with_none_only() {
        let [none, clock, hdr] = [Observer::None, Observer::Clock, Observer::Hdr].map(|observer| {
            let load = Load::Messages { size_bytes: 64, batch: 1, observer };
            Case::ping_pong("tcp").with(|case| case.primary_mut().load = load)
        });
        assert_eq!(one_change(&none, &clock), Some(Baseline::First));
        assert_eq!(one_change(&hdr, &none), Some(Baseline::Second));
        assert_eq!(one_change(&clock, &hdr), None);
    }

    #[test]
    fn remedies_are_compared_with_default_and_for_findings() {
        let first = Some(Baseline::First);
        let all = [
            ("default", "nodelay", first),
            ("default", "batch=10", first),
            ("nodelay", "default", Some(Baseline::Second)),
            ("nodelay", "one-write", first),
            ("cork", "cork-forgotten", Some(Baseline::Second)),
            ("batch=10", "nodelay", first),
            ("cork", "more", None),
            ("batch=10", "batch=20", None),
            ("default", "default", None),
        ];
        for (one, other, baseline) in all {
            assert_eq!(one_change(&small_writes(one), &small_writes(other)), baseline, "{one} and {other}");
        }
        for (one, other, baseline) in [("more", "nodelay", first), ("one-write", "nodelay", Some(Baseline::Second))] {
            assert_eq!(one_change(&in_flight(4, one), &in_flight(4, other)), baseline, "{one} and {other}");
        }
        assert_eq!(one_change(&small_writes("more"), &small_writes("nodelay")), None, "one in flight");
        let elsewhere = small_writes("nodelay").with(|changed| changed.ends.placement = Placement::CrossCpu);
        assert_eq!(one_change(&small_writes("default"), &elsewhere), None);
    }

    #[test]
    fn cases_without_a_change_with_two_changes_or_another_transport_are_not_paired() {
        let case = Case::ping_pong("tcp");
        let others = [
            case.clone(),
            case.clone().with(|changed| changed.ends.waiting = Waiting::Poll),
            case.clone().with(|changed| {
                changed.ends.waiting = Waiting::Spin;
                changed.ends.placement = Placement::CrossCpu;
            }),
            with_options("nodelay=on").with(|changed| changed.ends.waiting = Waiting::Spin),
            with_options("nodelay=on,quickack=on"),
            case.clone().with(|changed| changed.primary_mut().load.set_sizes(5, 4)),
            Case::ping_pong("udp").with(|changed| changed.ends.waiting = Waiting::Spin),
            case.clone().with(|changed| changed.replicate = 1),
        ];
        for other in others {
            assert_eq!(one_change(&case, &other), None, "{}", other.label());
        }
    }

    #[test]
    fn cases_with_a_late_generator_are_not_ranked() {
        let ranked = |lateness_ns: u64| {
            let mut fixture = Fixture::new();
            for block in 0..6 {
                for (transport, lateness_ns) in [("udp", 0), ("tcp", 0), ("unix-stream", lateness_ns)] {
                    let samples = paced(1_000_000, &[(lateness_ns, 10_000); 200]);
                    fixture.round(&at_rate(Case::ping_pong(transport), 1000.0), block, &samples);
                }
            }
            let run = fixture.run();
            assert!(run.cases.iter().all(|case| case.valid), "the generator reached its rate");
            run.comparisons.iter().filter(|pair| pair.role == Role::Neighbours).count()
        };
        assert_eq!(ranked(2_400), 2, "2.4 of 12.4 us is 19 %");
        assert_eq!(ranked(2_600), 1, "2.6 of 12.6 us is 21 %");
    }

    #[test]
    fn links_are_compared_only_with_and_without_a_stage() {
        let tcp = || Case::ping_pong("tcp");
        let lossy = over("loss=1% delay=10ms", tcp());
        let reliable = over("delay=10ms", tcp());
        let mut fixture = Fixture::new();
        fixture
            .rounds_with(&reliable, &[20_000_000; 6], |measured| measured.link = Some(crate::fixture::links::link()));
        fixture.rounds_with(&lossy, &[21_000_000; 6], |measured| measured.link = Some(dropping("loss", &[])));
        fixture.rounds_of(&over("delay=2ms", tcp()), &[4_000_000; 6]);
        fixture.rounds_of(&over("delay=2ms", Case::ping_pong("udp")), &[3_000_000; 6]);
        fixture.rounds_of(
            &over("delay=2ms", tcp()).with(|changed| changed.ends.waiting = Waiting::Spin),
            &[3_900_000; 6],
        );
        fixture.rounds_of(&over("delay=3ms", tcp()).with(|changed| changed.replicate = 1), &[6_000_000; 6]);
        fixture.rounds_of(&tcp(), &[10_000; 6]);
        let run = fixture.run();
        let label = |id: &str| run.case(id).unwrap().label.clone();
        let compared: Vec<_> =
            run.comparisons.iter().map(|pair| (pair.role, label(&pair.baseline), label(&pair.candidate))).collect();
        let pair =
            |role, one: &str, other: &str| (role, format!("{one} over delay=2ms"), format!("{other} over delay=2ms"));
        let expected = [
            pair(Role::Neighbours, "udp block same-cpu", "tcp block same-cpu"),
            (Role::CounterExperiment, label(&lossy.id()), label(&reliable.id())),
            pair(Role::CounterExperiment, "tcp block same-cpu", "tcp spin same-cpu"),
        ];
        assert_eq!(compared, expected);
    }
}
