//! The same case with a changed load next to its probe.

use hairpin_model::finding_keys::check::{LOAD_BELOW_GOODPUT, LOAD_ELSEWHERE};
use hairpin_model::flow::{ConnectionUse, FlowRole, MESSAGE_BYTES, Pacing, WRITE_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::quantities::bit_rate_argument;
use hairpin_model::{Arrivals, Case, CounterExperiment, EndSettings, Flow, Load, Placement, WhichCpus, parse};

use super::paired;

/// Returns the counter-experiment that runs the load on a CPU other than the probe's; `None` if there is no load, if a
/// load already runs on other CPUs, or if the placement is not `same-cpu`.
pub(crate) fn load_elsewhere(case: &Case) -> Option<CounterExperiment> {
    let is_elsewhere = |flow: &Flow| case.ends_of(flow).cpus != case.ends.cpus;
    if case.ends.placement != Placement::SameCpu
        || case.loads().is_empty()
        || case.loads().into_iter().any(is_elsewhere)
    {
        return None;
    }
    let elsewhere = with_loads(case, |flow| {
        let ends = EndSettings { cpus: WhichCpus::Other, ..case.ends_of(flow) };
        Flow { ends: Some(ends), ..flow.clone() }
    });
    Some(paired(LOAD_ELSEWHERE, [case.clone(), elsewhere]))
}

pub(crate) fn load_at(case: &Case, bits_per_s: f64) -> Option<CounterExperiment> {
    if case.loads().is_empty() || case.loads().iter().any(|flow| flow.load.rate_per_s().is_some()) {
        return None;
    }
    // The case must have exactly the rate of the printed command.
    let bits_per_s = parse::bits_per_s(&bit_rate_argument(three_digits(bits_per_s))).ok()?;
    let limited = with_loads(case, |flow| {
        let own_bytes = flow.load.size_bytes();
        let size_bytes = if own_bytes == WRITE_BYTES { MESSAGE_BYTES } else { own_bytes };
        let offered_per_s = bits_per_s / 8.0 / size_bytes as f64;
        let load = Load::Offered { offered_per_s, size_bytes, arrivals: Arrivals::Fixed, pacing: Pacing::SleepSpin };
        Flow { load, ..flow.clone() }
    });
    Some(paired(LOAD_BELOW_GOODPUT, [case.clone(), limited]))
}

/// Returns the counter-experiment that sets an option on the load's connection, which the probe may share.
pub(crate) fn with_load_option(
    case: &Case,
    (name, value): (OptionName, &str),
    kind: &str,
) -> Option<CounterExperiment> {
    if case.loads().iter().all(|load| load.options.get(name).is_some()) {
        return None;
    }
    let changed = |flow: &Flow| match flow.options.get(name) {
        Some(_) => flow.clone(),
        None => Flow { options: flow.options.clone().with(name, value), ..flow.clone() },
    };
    let mut other = with_loads(case, changed);
    if case.primary().connection_use == ConnectionUse::Shared {
        *other.primary_mut() = changed(case.primary());
    }
    Some(paired(kind, [case.clone(), other]))
}

fn three_digits(number: f64) -> f64 {
    let digit = 10_f64.powf(number.max(1.0).log10().floor() - 2.0);
    (number / digit).floor() * digit
}

fn with_loads(case: &Case, change: impl Fn(&Flow) -> Flow) -> Case {
    let loads = |changed: &mut Case| {
        changed.flows.iter_mut().filter(|flow| flow.role == FlowRole::Load).for_each(|flow| *flow = change(flow));
    };
    case.clone().with(loads)
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::Direction;

    use super::*;
    use crate::fixture::under_load::probed;

    #[test]
    fn a_rate_is_rounded_down_to_three_digits_as_in_the_command() {
        for (asked, argument) in [(9_127_345.0, "9.12mbit"), (23_456_789_000.0, "23.4gbit"), (999.9e3, "999kbit")] {
            let experiment = load_at(&probed(&[Direction::Up]), asked).unwrap();
            assert_eq!(experiment.repeat.cases, *experiment.pair.clone().unwrap());
            let [_, limited] = *experiment.pair.unwrap();
            let offered_per_s = parse::bits_per_s(argument).unwrap() / 8.0 / 1400.0;
            assert_eq!(limited.flows[1].load.rate_per_s(), Some(offered_per_s));
            assert_eq!(bit_rate_argument(offered_per_s * 8.0 * 1400.0), argument);
        }
    }

    #[test]
    fn every_load_is_changed_and_other_flows_stay() {
        let mut case = probed(&[Direction::Up, Direction::Down]);
        case.flows[2].load.set_sizes(4096, 0);
        case.flows.push(Flow::ping_pong("tcp"));
        let [_, limited] = *load_at(&case, 8e6).unwrap().pair.unwrap();
        let loads: Vec<_> =
            limited.flows[1..].iter().map(|flow| (flow.load.size_bytes(), flow.load.rate_per_s())).collect();
        assert_eq!(loads, [(1400, Some(1e6 / 1400.0)), (4096, Some(1e6 / 4096.0)), (4, None)]);
        assert_eq!(limited.flows[2].direction, Direction::Down);
        let [_, elsewhere] = *load_elsewhere(&case).unwrap().pair.unwrap();
        let which: Vec<_> = elsewhere.flows.iter().map(|flow| flow.ends.map(|ends| ends.cpus)).collect();
        assert_eq!(which, [None, Some(WhichCpus::Other), Some(WhichCpus::Other), None]);
        assert_eq!(load_at(&limited, 8e6), None, "the load has a rate");
        assert_eq!(load_at(&probed(&[]), 8e6), None);
    }

    #[test]
    fn an_option_is_set_on_each_load_without_it() {
        let mut case = probed(&[Direction::Up, Direction::Down]);
        let set = |flow: &mut Flow, value| flow.options = flow.options.clone().with(OptionName::Congestion, value);
        let with = |case: &Case| with_load_option(case, (OptionName::Congestion, "bbr"), "kind");
        set(&mut case.flows[1], "cubic");
        let [_, changed] = *with(&case).unwrap().pair.unwrap();
        let values: Vec<_> = changed.flows.iter().map(|flow| flow.options.get(OptionName::Congestion)).collect();
        assert_eq!(values, [None, Some("cubic"), Some("bbr")]);
        set(&mut case.flows[2], "reno");
        assert_eq!(with(&case), None);
    }
}
