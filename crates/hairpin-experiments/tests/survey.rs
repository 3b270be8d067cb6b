//! `survey`: its cases, numbers of samples and duration, and its table in METHODOLOGY.md.

use crate::common::{Plan, capabilities, capabilities_without, plan_on};
use hairpin_experiments::Forecast;
use hairpin_experiments::budget::{INTERVAL_BLOCKS, MIN_BLOCKS, ORDINARY_NS};
use hairpin_experiments::estimate::orders_ns;
use hairpin_experiments::experiments::survey::{LINES, Over, SURVEY, SurveyLine};
use hairpin_model::{EndKind, Extent, Placement, RoundOrder, Waiting};

fn survey(flags: &[(&str, &str)]) -> Plan {
    plan_on(&capabilities(), &SURVEY, flags).unwrap()
}

fn planned(plan: &Plan) -> Vec<RoundOrder> {
    plan.rounds.iter().filter(|order| order.block == 0).cloned().collect()
}

#[test]
fn the_survey_covers_every_transport_and_the_causes_of_delay() {
    let plan = survey(&[]);
    let labels = plan.labels();
    for card in capabilities().candidates.into_iter().map(|candidate| candidate.card) {
        let is_there = plan.cases.iter().any(|case| case.primary().transport == card.name);
        assert_eq!(is_there, card.in_survey, "{}", card.name);
    }
    for label in
        ["tcp block same-cpu", "tcp block cross-cpu", "tcp spin cross-cpu", "tcp block cross-cpu CPUs kept awake"]
    {
        assert!(labels.iter().any(|other| other == label), "{label} in {labels:?}");
    }
    assert!(labels.contains(&"tcp block same-cpu (again)".to_owned()));
    assert!(
        labels.contains(&"icmp spin same-cpu".to_owned()) && !labels.contains(&"icmp block cross-cpu".to_owned())
    );
    assert!(plan.cases.iter().all(|case| case.primary().options.is_empty()
        && case.primary().load.size_bytes() == 4
        && case.primary().load.reply_size_bytes() == 4));
    assert!(
        plan.cases.iter().all(|case| (case.ends.kind == EndKind::Threads) == (case.primary().transport == "memory"))
    );
    assert!(plan.skipped.is_empty(), "{:?}", plan.skipped);
}

#[test]
fn rounds_have_enough_samples_for_the_shown_percentiles() {
    for order in survey(&[]).rounds {
        let Extent::Count(count) = order.extent else { panic!("{:?}", order.extent) };
        let samples = count * MIN_BLOCKS;
        let waking = order.case.ends.waiting == Waiting::Block && order.case.ends.placement == Placement::CrossCpu;
        let needed = if waking { 1000 } else { 10_000 };
        assert!(samples >= needed, "{}: {samples}", order.case.label());
        let kept = match order.warm_up {
            Extent::Count(warm_up) => warm_up + count,
            Extent::DurationNs(duration_ns) => duration_ns / 10_000 + count,
        };
        assert!(kept <= order.keep_samples, "{}: all samples are kept raw", order.case.label());
    }
}

/// Checks the planned rounds only, not their actual durations.
#[test]
fn every_block_has_each_case_with_the_messages_of_its_line() {
    let plan = survey(&[]);
    let blocks: Vec<u32> = (0..u32::try_from(MIN_BLOCKS).unwrap()).collect();
    let planned = planned(&plan);
    assert_eq!(planned.len(), plan.cases.len());
    for planned in planned {
        let rounds: Vec<_> = plan.rounds.iter().filter(|order| order.case == planned.case).collect();
        assert_eq!(rounds.iter().map(|order| order.block).collect::<Vec<_>>(), blocks, "{}", planned.case.label());
        let [line] = LINES.iter().filter(|line| is_of(line, &planned)).collect::<Vec<_>>()[..] else {
            panic!("{} does not match exactly one line", planned.case.label());
        };
        for order in rounds {
            assert_eq!((order.extent, order.warm_up), (Extent::Count(line.count), line.warm_up), "{}", line.name);
        }
    }
}

#[test]
fn the_forecast_is_the_sum_of_the_estimated_rounds() {
    let plan = survey(&[]);
    let sum_ns = orders_ns(&plan.rounds, &capabilities());
    assert_eq!(
        plan.forecast,
        Forecast {
            rounds: plan.rounds.len() as u64,
            lasts_ns: sum_ns.max(ORDINARY_NS),
            has_time_limit: true,
            ..Forecast::default()
        }
    );
}

#[test]
fn quick_has_fewer_rounds_of_the_same_cases() {
    let (full, quick) = (survey(&[]), survey(&[("quick", "on")]));
    assert_eq!(full.cases, quick.cases);
    assert_eq!(quick.rounds.len() as u64, INTERVAL_BLOCKS * quick.cases.len() as u64);
}

#[test]
fn a_fault_is_injected_into_every_server_and_kernel_transports_are_skipped() {
    let plan = survey(&[("injected-fault", "sleep=5ms/100")]);
    assert!(plan.cases.iter().all(|case| case.injected_fault.is_some()));
    assert_eq!(plan.skipped.len(), 1);
    assert_eq!((plan.skipped[0].transport.as_str(), plan.skipped[0].case.as_deref()), ("icmp", None));
    let replicate = survey(&[("replicate-fault", "busy=1300ns")]);
    assert!(replicate.cases.iter().all(|case| case.injected_fault.is_some() == (case.replicate == 1)));
}

#[test]
fn on_one_cpu_cases_that_need_two_cpus_are_skipped_with_the_reason() {
    let mut one_cpu = capabilities();
    one_cpu.cpus.truncate(1);
    let plan = plan_on(&one_cpu, &SURVEY, &[]).unwrap();
    assert!(plan.cases.iter().all(|case| case.ends.placement == Placement::SameCpu));
    assert!(plan.skipped.iter().any(|skipped| skipped.transport == "tcp" && skipped.reason.contains("two CPUs")));
}

#[test]
fn without_tcp_another_transport_has_the_a_a_pair() {
    let capabilities = capabilities_without("tcp", "no IPv4 loopback", "ip link set lo up");
    let plan = plan_on(&capabilities, &SURVEY, &[]).unwrap();
    let replicate = plan.cases.iter().find(|case| case.replicate == 1).unwrap();
    assert!(plan.cases.contains(&replicate.without_replicate()), "the first case of the pair is planned");
    assert_eq!(plan.skipped[0].transport, "tcp");
}

/// The table in METHODOLOGY.md, including the estimates, matches the code.
#[test]
fn the_methodology_lists_the_survey_as_it_is() {
    let document = include_str!("../../../METHODOLOGY.md");
    let after_header = document.lines().skip_while(|row| !row.starts_with("| line | transports |")).skip(2);
    let tabled: Vec<&str> = after_header.take_while(|row| row.starts_with('|')).collect();
    let planned = planned(&survey(&[]));
    let mut listed: Vec<String> = LINES.iter().map(|line| row(line, &planned)).collect();
    listed.push(format!("| all | | | | | | | | {} |", seconds(&planned)));
    assert_eq!(tabled, listed, "the table should be\n{}", listed.join("\n"));
}

fn row(line: &SurveyLine, planned: &[RoundOrder]) -> String {
    let SurveyLine { name, waiting, placement, cpu_idle, count, .. } = line;
    let warm_up = match line.warm_up {
        Extent::Count(count) => format!("{count} messages"),
        Extent::DurationNs(duration_ns) => format!("{} ms", duration_ns / 1_000_000),
    };
    let over = match line.over {
        Over::Served => "all that Hairpin answers",
        Over::Kernel => "all that the kernel answers",
        Over::All => "all",
        Over::One => "tcp",
    };
    let samples = count * MIN_BLOCKS;
    let cases: Vec<RoundOrder> = planned.iter().filter(|planned| is_of(line, planned)).cloned().collect();
    let estimate = seconds(&cases);
    format!(
        "| `{name}` | {over} | {waiting} | {placement} | {cpu_idle} | {count} | {warm_up} | {samples} | {estimate} |"
    )
}

fn is_of(line: &SurveyLine, planned: &RoundOrder) -> bool {
    let case = &planned.case;
    let by_kernel = case.primary().transport == "icmp";
    let of_kind = match line.over {
        Over::Kernel => by_kernel,
        Over::Served => !by_kernel,
        Over::All | Over::One => true,
    };
    let choice = (case.ends.waiting, case.ends.placement, case.ends.cpu_idle, case.replicate);
    of_kind && choice == (line.waiting, line.placement, line.cpu_idle, line.replicate)
}

fn seconds(planned: &[RoundOrder]) -> String {
    let tenths = (MIN_BLOCKS * orders_ns(planned, &capabilities()) + 50_000_000) / 100_000_000;
    format!("{}.{} s", tenths / 10, tenths % 10)
}
