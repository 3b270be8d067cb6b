//! Which cases of a run are worth comparing, and which of the two is the baseline.

use std::collections::BTreeMap;

use hairpin_model::case::{Case, CpuIdle, Placement, Waiting};
use hairpin_model::exchange::{Exchange, Remedy};
use hairpin_model::summary::{CaseSummary, Role};

use crate::links::is_without_a_stage;
use crate::open_loop::is_too_late_to_rank;

/// A pair to compare: baseline, candidate.
pub(super) type Pair<'c> = (Role, &'c CaseSummary, &'c CaseSummary);

/// All pairs: A/A, neighbours on each ladder, and cases that differ in one thing. Cases whose figures must not be
/// used are in none.
pub(super) fn pairs(cases: &[CaseSummary]) -> Vec<Pair<'_>> {
    let usable: Vec<&CaseSummary> =
        cases.iter().filter(|case| case.valid && case.flow().latency_ns.p50.is_some()).collect();
    let mut pairs = against_themselves(&usable);
    pairs.extend(neighbours(&usable));
    pairs.extend(counter_experiments(&usable));
    pairs
}

fn against_themselves<'c>(cases: &[&'c CaseSummary]) -> Vec<Pair<'c>> {
    let again = cases.iter().filter(|case| case.case.replicate != 0);
    let replicate = |again: &&CaseSummary| {
        cases
            .iter()
            .find(|case| case.case.replicate == 0 && without_fault(&case.case) == without_fault(&again.case))
            .copied()
    };
    again.filter_map(|again| Some((Role::AgainstItself, replicate(again)?, *again))).collect()
}

/// The case as it would be without its injected fault: the calibration of "slower" injects one in the replicate only.
fn without_fault(case: &Case) -> Case {
    case.without_replicate().with(|changed| changed.injected_fault = None)
}

/// Transports in all else alike, and of exchanges remedies in all else alike; the faster of two neighbours first. A case
/// whose generator was late for a good part of its latency is in no ranking.
fn neighbours<'c>(cases: &[&'c CaseSummary]) -> Vec<Pair<'c>> {
    let mut ladders: BTreeMap<String, Vec<&CaseSummary>> = BTreeMap::new();
    for case in cases.iter().filter(|case| case.case.replicate == 0 && !is_too_late_to_rank(case)) {
        let mut ladder = case.case.clone();
        match ladder.flow_mut().load.exchange_mut() {
            Some(exchange) => exchange.remedy = Remedy::Default,
            None => ladder.flow_mut().transport.clear(),
        }
        ladders.entry(ladder.id()).or_default().push(case);
    }
    let mut pairs = Vec::new();
    for mut ladder in ladders.into_values() {
        ladder.sort_by(|a, b| p50(a).total_cmp(&p50(b)).then_with(|| a.label.cmp(&b.label)));
        pairs.extend(ladder.windows(2).map(|pair| (Role::Neighbours, pair[0], pair[1])));
    }
    pairs
}

fn p50(case: &CaseSummary) -> f64 {
    case.flow().latency_ns.p50.map_or(f64::INFINITY, |p50| p50.value)
}

fn counter_experiments<'c>(cases: &[&'c CaseSummary]) -> Vec<Pair<'c>> {
    let mut pairs = Vec::new();
    for (place, first) in cases.iter().enumerate() {
        for second in &cases[place + 1..] {
            match one_change(&first.case, &second.case).or_else(|| stage_left_out(first, second)) {
                Some(Baseline::First) => pairs.push((Role::CounterExperiment, *first, *second)),
                Some(Baseline::Second) => pairs.push((Role::CounterExperiment, *second, *first)),
                None => {}
            }
        }
    }
    pairs
}

/// Which of two cases is the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Baseline {
    First,
    Second,
}

/// Whether the link of one of them is that of the other without a stage, and they are alike in all else; and if so, which
/// is the baseline: the one with the stage.
fn stage_left_out(first: &CaseSummary, second: &CaseSummary) -> Option<Baseline> {
    let left_out = |with: &CaseSummary, without: &CaseSummary| {
        let path = without.case.path.clone();
        let less = with.path.relay.as_ref().is_some_and(|whole| is_without_a_stage(whole, &path.link));
        less && without.case.replicate == 0 && Case { path, ..with.case.clone() } == without.case
    };
    match (left_out(first, second), left_out(second, first)) {
        (true, _) => Some(Baseline::First),
        (_, true) => Some(Baseline::Second),
        _ => None,
    }
}

/// Whether two cases differ in exactly one of CPU idle state, one option, waiting (block against spin), placement,
/// remedy or an injected fault; and if so, which is the baseline: the one as the machine is configured, that blocks, that
/// has both ends on one CPU (then two CPUs, then unpinned), that asks for less, that has no fault injected. Of two values of one option it
/// is the one measured first; of remedies see [`refutes`].
fn one_change(first: &Case, second: &Case) -> Option<Baseline> {
    if first.flow().transport != second.flow().transport || first.replicate != 0 || second.replicate != 0 {
        return None;
    }
    let alike = |change: &dyn Fn(&mut Case)| {
        let (mut a, mut b) = (first.clone(), second.clone());
        change(&mut a);
        change(&mut b);
        a == b
    };
    let order = |first_rank: usize, second_rank: usize| {
        Some(if second_rank < first_rank { Baseline::Second } else { Baseline::First })
    };
    if first.ends.cpu_idle != second.ends.cpu_idle && alike(&|case| case.ends.cpu_idle = CpuIdle::Deep) {
        return order(first.ends.cpu_idle as usize, second.ends.cpu_idle as usize);
    }
    let block_and_spin = [first.ends.waiting, second.ends.waiting].iter().all(|waiting| *waiting != Waiting::Poll);
    if first.ends.waiting != second.ends.waiting
        && block_and_spin
        && alike(&|case| case.ends.waiting = Waiting::Block)
    {
        return order(first.ends.waiting as usize, second.ends.waiting as usize);
    }
    if first.ends.placement != second.ends.placement && alike(&|case| case.ends.placement = Placement::Unpinned) {
        return order(first.ends.placement as usize, second.ends.placement as usize);
    }
    if let (Some(one), Some(other)) = (first.flow().load.exchange(), second.flow().load.exchange())
        && alike(&|case| {
            case.flow_mut().load.exchange_mut().into_iter().for_each(|exchange| exchange.remedy = Remedy::Default)
        })
    {
        return match (refutes(one, other.remedy), refutes(other, one.remedy)) {
            (true, _) => Some(Baseline::First),
            (_, true) => Some(Baseline::Second),
            _ => None,
        };
    }
    if first.injected_fault != second.injected_fault && alike(&|case| case.injected_fault = None) {
        return order(usize::from(first.injected_fault.is_some()), usize::from(second.injected_fault.is_some()));
    }
    if differing_options(first, second) == 1
        && alike(&|case| case.flow_mut().options = hairpin_model::options::Options::default())
    {
        return order(first.flow().options.iter().count(), second.flow().options.iter().count());
    }
    None
}

/// Whether the candidate is worth comparing with the baseline: every remedy with none at all, and the pairs that are
/// counter-experiments of findings. The others would be many, and no finding asks for them. With several requests in
/// flight Nagle's algorithm may stall what is written at once too.
fn refutes(baseline: &Exchange, candidate: Remedy) -> bool {
    match baseline.remedy {
        Remedy::Default => candidate != Remedy::Default,
        Remedy::Nodelay => candidate == Remedy::OneWrite,
        Remedy::CorkForgotten => candidate == Remedy::Cork,
        Remedy::Batch(_) => candidate == Remedy::Nodelay,
        // One write is compared with it already, as the baseline is `nodelay`.
        Remedy::OneWrite => false,
        Remedy::Cork | Remedy::More | Remedy::Writev | Remedy::Quickack => {
            baseline.pipeline > 1 && candidate == Remedy::Nodelay
        }
    }
}

fn differing_options(first: &Case, second: &Case) -> usize {
    let names = hairpin_model::options::OptionName::ALL.iter();
    names.filter(|name| first.flow().options.get(**name) != second.flow().options.get(**name)).count()
}

#[cfg(test)]
mod tests {
    use hairpin_model::options::Options;

    use super::*;
    use crate::fixture::links::{dropping, over};
    use crate::fixture::{Fixture, at_rate, in_flight, paced, small_writes};

    fn with_options(options: &str) -> Case {
        Case::ping_pong("tcp").with(|changed| changed.flow_mut().options = Options::parse(options).unwrap())
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
        assert_eq!(one_change(&case, &with_options("nodelay=on")), Some(Baseline::First));
        assert_eq!(one_change(&with_options("nodelay=on"), &case), Some(Baseline::Second));
        assert_eq!(one_change(&with_options("nodelay=off"), &with_options("nodelay=on")), Some(Baseline::First));
    }

    #[test]
    fn remedies_are_compared_with_none_and_where_a_finding_asks_for_it() {
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
    fn no_change_or_two_or_another_transport_is_none() {
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
            case.clone().with(|changed| {
                let (size, reply) = (5, changed.flow().load.reply_size_bytes());
                changed.flow_mut().load.set_sizes(size, reply);
            }),
            Case::ping_pong("udp").with(|changed| changed.ends.waiting = Waiting::Spin),
            case.clone().with(|changed| changed.replicate = 1),
        ];
        for other in others {
            assert_eq!(one_change(&case, &other), None, "{}", other.label());
        }
    }

    #[test]
    fn a_late_generator_ranks_nothing() {
        let ranked = |lateness_ns: u64| {
            let mut fixture = Fixture::new();
            for block in 0..6 {
                for (transport, lateness_ns) in [("udp", 0), ("tcp", 0), ("unix-stream", lateness_ns)] {
                    let samples = paced(1_000_000, &[(lateness_ns, 10_000); 200]);
                    fixture.round(&at_rate(Case::ping_pong(transport), 1000.0), block, &samples);
                }
            }
            let run = fixture.run();
            assert!(run.cases.iter().all(|case| case.valid), "it reached its rate");
            run.comparisons.iter().filter(|pair| pair.role == Role::Neighbours).count()
        };
        assert_eq!(ranked(2_400), 2, "2.4 of 12.4 us is 19 %");
        assert_eq!(ranked(2_600), 1, "2.6 of 12.6 us is 21 %");
    }

    #[test]
    fn of_links_only_one_with_and_without_a_stage_are_compared() {
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
