//! Counter-experiments: which cases to measure next, with one change.

use hairpin_model::finding_keys::check::LONGER;
use hairpin_model::options::OptionName;
use hairpin_model::periodic::MAX_PERIOD_NS;
use hairpin_model::{Case, CounterExperiment, CpuIdle, EndKind, Flow, Placement, Repeat, WhichCpus};

pub(crate) fn counter_experiment(kind: &str, cases: impl IntoIterator<Item = Case>) -> CounterExperiment {
    // The second measurement of an A/A pair says nothing more about a cause.
    let cases: Vec<Case> = cases.into_iter().map(|case| case.without_replicate()).collect();
    CounterExperiment {
        kind: kind.to_owned(),
        change: String::new(),
        command: String::new(),
        repeat: Repeat::of(cases),
        pair: None,
    }
}

/// Repeats the same case for 40 s. More rounds alone would not fit in the default budget of 10 s.
pub(crate) fn longer_run(case: &Case) -> CounterExperiment {
    let mut experiment = counter_experiment(LONGER, [case.clone()]);
    experiment.repeat.over_ns = Some(40_000_000_000);
    experiment
}

pub(crate) fn paired(kind: &str, pair: [Case; 2]) -> CounterExperiment {
    CounterExperiment { pair: Some(Box::new(pair.clone())), ..counter_experiment(kind, pair) }
}

pub(crate) fn with_option(case: &Case, name: OptionName, value: &str) -> Case {
    let set = |flow: &mut Flow| flow.options = flow.options.clone().with(name, value);
    case.clone().with(|changed| match case.goes_both_ways() {
        true => changed.flows.iter_mut().for_each(set),
        false => set(changed.primary_mut()),
    })
}

pub(crate) fn with_longer_period(case: &Case, factor: u64) -> Case {
    case.clone().with(|changed| {
        if let Some(own) = changed.primary_mut().load.periodic_mut() {
            own.period_ns = own.period_ns.saturating_mul(factor).min(MAX_PERIOD_NS);
            own.deadline_ns = own.deadline_ns.saturating_mul(factor).min(own.period_ns);
        }
    })
}

pub(crate) fn kept_awake(case: &Case) -> Case {
    case.clone().with(|changed| changed.ends.cpu_idle = CpuIdle::Shallow)
}

pub(crate) fn needs_one_host(case: &Case) -> bool {
    let is_of_one = |flow| {
        let ends = case.ends_of(flow);
        let is_placed = Placement::ON_ONE_HOST.contains(&ends.placement) && ends.placement != Placement::Unpinned;
        is_placed
            || ends.kind != EndKind::Processes
            || ends.cpu_idle != CpuIdle::Deep
            || ends.cpus == WhichCpus::Other
    };
    case.is_emulated() || !case.sysctls.is_empty() || case.flows.iter().any(is_of_one)
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::Direction;

    use super::*;
    use crate::fixture::links::{between_hosts, over};
    use crate::fixture::under_load::probed;

    #[test]
    fn cases_that_need_one_host_are_detected() {
        let elsewhere = || between_hosts(probed(&[Direction::Up]));
        let changes: [fn(&mut Case); 6] = [
            |case| case.ends.cpu_idle = CpuIdle::Shallow,
            |case| case.ends.placement = Placement::SameCpu,
            |case| case.ends.placement = Placement::CrossCpu,
            |case| case.ends.kind = EndKind::Threads,
            |case| case.sysctls = "net.ipv4.tcp_sack=0".parse().unwrap(),
            |case| {
                let ends = hairpin_model::case::EndSettings { cpus: WhichCpus::Other, ..case.ends };
                case.flows[1].ends = Some(ends);
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(needs_one_host(&elsewhere().with(change)), "{number}");
        }
        assert!(needs_one_host(&over("delay=1ms", elsewhere())));
        assert!(!needs_one_host(&elsewhere()));
        assert!(!needs_one_host(&elsewhere().with(|case| case.ends.placement = Placement::Unpinned)));
    }

    #[test]
    fn an_option_is_set_in_both_directions_and_not_for_a_load() {
        let both = Case::of(Flow::stream("tcp", 100, Direction::Up)).with(|case| {
            case.flows.push(Flow { id: "back".into(), ..Flow::stream("tcp", 100, Direction::Down) });
        });
        let of = |case: &Case| -> Vec<Option<String>> {
            let changed = with_option(case, OptionName::Congestion, "cubic");
            changed.flows.iter().map(|flow| flow.options.get(OptionName::Congestion).map(str::to_owned)).collect()
        };
        let cubic = || Some("cubic".to_owned());
        assert_eq!(of(&both), [cubic(), cubic()]);
        assert_eq!(of(&probed(&[Direction::Up])), [cubic(), None]);
    }

    #[test]
    fn a_check_of_a_replicate_measures_the_case_once() {
        let again = Case::ping_pong("tcp").with(|case| case.replicate = 1);
        let spinning = again.clone().with(|case| case.ends.waiting = hairpin_model::case::Waiting::Spin);
        let experiment = paired("spin", [again.clone(), spinning.clone()]);
        assert_eq!(experiment.pair.as_deref(), Some(&[again.clone(), spinning.clone()]));
        assert_eq!(experiment.repeat.cases, [again.without_replicate(), spinning.without_replicate()]);
        let longer = longer_run(&again);
        assert_eq!(
            (longer.repeat.cases.as_slice(), longer.repeat.over_ns),
            (&[Case::ping_pong("tcp")][..], Some(40_000_000_000))
        );
    }
}
