//! Time budgets: the number of rounds, the intervals between blocks, and the end of an experiment.

use std::collections::{BTreeMap, BTreeSet};

use hairpin_experiments::budget::{INTERVAL_BLOCKS, MAX_BLOCKS, MAX_QUICK_NS, MIN_BLOCKS, ORDINARY_NS};
use hairpin_experiments::estimate::orders_ns;
use hairpin_experiments::experiments::round_trip::ROUND_TRIP;
use hairpin_experiments::experiments::under_load::UNDER_LOAD;
use hairpin_experiments::experiments::{self};
use hairpin_experiments::sequence::Blocks;
use hairpin_experiments::{Done, Knobs, Step};
use hairpin_model::{Extent, HostCapabilities, Outcome, RoundRecord};

use crate::common::{Plan, capabilities, measured, refusal, round_trip, running, turned};

const SECOND_NS: u64 = 1_000_000_000;

fn blocks(plan: &Plan) -> u64 {
    plan.rounds.iter().map(|order| u64::from(order.block) + 1).max().unwrap()
}

/// The earliest start of each block.
fn begins_ns(plan: &Plan) -> Vec<u64> {
    let mut begins: Vec<(u32, u64)> = plan.rounds.iter().map(|order| (order.block, order.not_before_ns)).collect();
    begins.sort_unstable();
    begins.dedup();
    assert_eq!(begins.len() as u64, blocks(plan), "all rounds of a block have the same earliest start");
    begins.into_iter().map(|(_, begin)| begin).collect()
}

#[test]
fn short_blocks_are_spread_evenly_over_ten_seconds() {
    let plan = round_trip(&[("transport", "tcp")]).unwrap();
    assert_eq!(blocks(&plan), MAX_BLOCKS);
    let begins = begins_ns(&plan);
    assert!(begins.iter().zip(0..).all(|(begin, block)| *begin == block * (ORDINARY_NS / MAX_BLOCKS)), "{begins:?}");
    assert_eq!((plan.forecast.rounds, plan.forecast.lasts_ns), (MAX_BLOCKS, ORDINARY_NS));
}

#[test]
fn long_blocks_are_never_fewer_than_eight() {
    let flags = [("transport", "tcp"), ("duration", "5s")];
    let plan = round_trip(&flags).unwrap();
    assert_eq!(blocks(&plan), MIN_BLOCKS);
    assert!(plan.forecast.lasts_ns > 40 * SECOND_NS, "{:?}", plan.forecast);
    let less = round_trip(&[("transport", "tcp"), ("duration", "5s"), ("over", "1s")]).unwrap();
    assert_eq!(blocks(&less), MIN_BLOCKS, "--over never removes rounds");
}

#[test]
fn over_adds_rounds_unless_their_number_is_given() {
    let forty = round_trip(&[("transport", "tcp"), ("over", "40s")]).unwrap();
    assert_eq!((blocks(&forty), forty.forecast.lasts_ns), (4 * MAX_BLOCKS, 40 * SECOND_NS));
    let thirty = round_trip(&[("transport", "tcp"), ("over", "40s"), ("rounds", "30")]).unwrap();
    assert_eq!(blocks(&thirty), 30);
    assert_eq!(begins_ns(&thirty)[29], 29 * (40 * SECOND_NS / 30));
    let alone = round_trip(&[("transport", "tcp"), ("rounds", "30")]).unwrap();
    assert!(blocks(&alone) == 30 && begins_ns(&alone).iter().all(|begin| *begin == 0), "back to back");
}

#[test]
fn quick_takes_at_most_ten_seconds_in_every_experiment() {
    for experiment in experiments::ALL {
        for link in ["loopback", "bridged-vm", "satellite"] {
            let flags = [("quick", "on"), ("link", link)];
            let quick = turned(experiment, if link == "loopback" { &flags[..1] } else { &flags }).unwrap();
            let plan = running(experiment.next(&quick, &capabilities(), &Done::default()).unwrap()).unwrap();
            let (name, cases) = (experiment.name, plan.cases.len() as u64);
            assert!((1..=8).contains(&blocks(&plan)), "{name} over {link}: {} blocks", blocks(&plan));
            let max_ns = MAX_QUICK_NS.max(orders_ns(&plan.rounds, &capabilities()) / blocks(&plan));
            assert!(plan.forecast.lasts_ns <= max_ns, "{name} over {link}, {cases} cases: {:?}", plan.forecast);
            assert!(link != "loopback" || blocks(&plan) >= 5, "{name}: an interval needs five rounds");
        }
    }
}

#[test]
fn quick_plans_as_many_blocks_on_a_busy_machine_and_leaves_the_rest_to_the_time_limit() {
    let survey = experiments::ALL.iter().find(|experiment| experiment.name == "survey").unwrap();
    let quick = turned(survey, &[("quick", "on")]).unwrap();
    let busy = HostCapabilities { busy_per_cpu: 8.0, ..capabilities() };
    let on = |host: &HostCapabilities| running(survey.next(&quick, host, &Done::default()).unwrap()).unwrap();
    let (idle, busy) = (on(&capabilities()), on(&busy));
    assert_eq!((blocks(&busy), &busy.cases), (blocks(&idle), &idle.cases));
    assert!(busy.forecast.lasts_ns > idle.forecast.lasts_ns, "the announced time counts other programs");
    assert!(busy.forecast.has_time_limit);
}

#[test]
fn quick_omits_a_placement_if_there_is_no_time_for_five_rounds_of_each_case() {
    let slow: fn() -> u64 = || 1_000_000;
    let usual = capabilities().process_start_ns;
    for (name, kept, process_start_ns) in
        [("small-writes", "same-cpu", slow), ("bulk", "cross-cpu", slow), ("message-rate", "cross-cpu", usual)]
    {
        let host = HostCapabilities { process_start_ns, ..capabilities() };
        let experiment = experiments::ALL.iter().find(|experiment| experiment.name == name).unwrap();
        let plan = |given: &[(&str, &str)]| {
            let given = [&[("seed", "7"), ("quick", "on")], given].concat().into_iter();
            let given: Vec<(String, Vec<String>)> =
                given.map(|(name, value)| (name.to_owned(), vec![value.to_owned()])).collect();
            let knobs = Knobs::from_given(experiment.knobs, given).unwrap();
            running(experiment.next(&knobs, &host, &Done::default()).unwrap()).unwrap()
        };
        let placements =
            |plan: &Plan| plan.cases.iter().map(|case| case.ends.placement.to_string()).collect::<BTreeSet<_>>();
        let is_said = |plan: &Plan| {
            plan.skipped.iter().any(|skipped| skipped.reason.starts_with("a quick run has no time for --placement"))
        };
        let reduced = plan(&[]);
        assert!(placements(&reduced) == [kept.to_owned()].into() && is_said(&reduced), "{name}");
        assert!(blocks(&reduced) >= INTERVAL_BLOCKS && reduced.forecast.lasts_ns <= MAX_QUICK_NS, "{name}");
        let few = plan(&[("transport", "pipe")]);
        assert!(placements(&few).len() == 2 && !is_said(&few), "{name}: few cases fit");
        let named = plan(&[("placement", "same-cpu,cross-cpu")]);
        assert!(placements(&named).len() == 2 && !is_said(&named), "{name}");
    }
}

#[test]
fn quick_keeps_the_lengths_that_were_given() {
    let plan = |flags: &[(&str, &str)]| {
        let knobs = turned(&UNDER_LOAD, &[&[("quick", "on"), ("link", "bridged-vm")], flags].concat()).unwrap();
        running(UNDER_LOAD.next(&knobs, &capabilities(), &Done::default()).unwrap()).unwrap()
    };
    let ramp_and_loaded_ns = |plan: &Plan| {
        let lengths = plan.rounds[0].phases.unwrap();
        assert_eq!(plan.rounds[0].extent, Extent::DurationNs(lengths.total_ns()));
        (lengths.ramp, lengths.loaded)
    };
    let short = ramp_and_loaded_ns(&plan(&[]));
    assert_eq!(short, (2_800_000_000, SECOND_NS), "a shorter ramp would not fill the queue");
    assert_eq!(ramp_and_loaded_ns(&plan(&[("ramp", "9s")])), (9 * SECOND_NS, 2 * SECOND_NS));
}

#[test]
fn the_first_answer_of_a_load_over_a_link_takes_at_most_half_a_minute() {
    let knobs = turned(&UNDER_LOAD, &[("link", "bridged-vm")]).unwrap();
    let plan = running(UNDER_LOAD.next(&knobs, &capabilities(), &Done::default()).unwrap()).unwrap();
    assert!(blocks(&plan) == INTERVAL_BLOCKS && plan.forecast.lasts_ns <= 30 * SECOND_NS, "{:?}", plan.forecast);
}

/// Measured rounds, each of duration `wall_ns` from the start of its block.
fn done(plan: &Plan, from_ns: u64, wall_ns: u64) -> Vec<RoundRecord> {
    let mut records = measured(&plan.rounds);
    for record in &mut records {
        record.started_ns = from_ns.max(record.order.not_before_ns);
        let Outcome::Measured(measured) = &mut record.outcome else { panic!("measured") };
        measured.noise.wall_ns = wall_ns;
    }
    records
}

#[test]
fn until_computes_intervals_four_times_and_ends_when_they_are_narrow() {
    let knobs = turned(&ROUND_TRIP, &[("transport", "tcp"), ("until", "2%")]).unwrap();
    let next = |rounds: &[RoundRecord], half_width| {
        running(ROUND_TRIP.next(&knobs, &capabilities(), &Done { rounds, half_width }).unwrap())
    };
    let first = next(&[], None).unwrap();
    assert_eq!(
        (first.forecast.lasts_ns, blocks(&first)),
        (60 * SECOND_NS, MAX_BLOCKS),
        "up to 60 s, and 10 s in the first step"
    );
    let mut rounds = done(&first, 0, SECOND_NS / 10);
    assert!(next(&rounds, Some(0.019)).is_none(), "narrow enough");
    let mut looks = 1;
    let mut half_width = Some(0.021);
    while let Some(more) = next(&rounds, half_width) {
        assert!(more.cases.is_empty(), "the first step already has the cases");
        assert_eq!(u64::from(more.rounds[0].block), rounds.len() as u64, "block numbers continue");
        rounds.extend(done(&more, 0, SECOND_NS / 10));
        (looks, half_width) = (looks + 1, None);
        assert!(looks <= 4, "it does not end");
    }
    assert_eq!(looks, 4);
    let last = rounds.last().unwrap().started_ns;
    assert!((58 * SECOND_NS..60 * SECOND_NS).contains(&last), "{last}");
}

#[test]
fn contradictions_are_refused() {
    for (flags, what) in [
        (&[("until", "2%"), ("rounds", "8")][..], "--until adds rounds"),
        (&[("until", "2%"), ("over", "8s")], "--until adds rounds"),
        (&[("quick", "on"), ("over", "8s")], "--quick already sets a short time"),
        (&[("at-most", "8s")], "--at-most needs --until"),
        (&[("until", "200%")], "--until: `200%` is not valid"),
    ] {
        let text = refusal(flags);
        assert!(text.contains(what) && text.contains("(hint: "), "{text}");
    }
}

#[test]
fn given_cpus_are_those_of_two_ends() {
    let cases = |cpus, flags: &[(&str, &str)]| {
        let flags = [flags, &[("transport", "tcp,icmp"), ("seed", "7")]].concat();
        let given = flags.iter().map(|(name, text)| (*name, vec![(*text).to_owned()]));
        let knobs = Knobs::from_given(ROUND_TRIP.knobs, given).unwrap();
        let capabilities = HostCapabilities { given_cpus: Some(cpus), ..capabilities() };
        ROUND_TRIP.next(&knobs, &capabilities, &Done::default())
    };
    let labels = |cpus, flags: &[(&str, &str)]| match cases(cpus, flags).unwrap() {
        Step::Run { cases, .. } => cases.iter().map(|case| case.label()).collect::<Vec<_>>(),
        Step::Done => panic!("the first step runs"),
    };
    assert_eq!(labels([1, 0], &[]), ["tcp block cross-cpu"], "icmp has no second CPU");
    assert_eq!(labels([1, 1], &[]), ["tcp block same-cpu", "icmp block same-cpu"]);
    assert_eq!(labels([1, 0], &[("link", "satellite")]), ["tcp block cross-cpu over satellite"]);
    let refused = cases([1, 0], &[("placement", "same-core")]).unwrap_err().to_string();
    assert_eq!(refused, "--placement same-core does not exist with --cpu (hint: use cross-cpu or same-cpu)");
}

#[test]
fn by_default_both_placements_are_measured_if_they_make_a_difference() {
    let labels = |flags: &[(&str, &str)]| {
        let given = flags.iter().map(|(name, text)| (*name, vec![(*text).to_owned()]));
        let knobs = Knobs::from_given(ROUND_TRIP.knobs, given.chain([("seed", vec!["7".to_owned()])])).unwrap();
        match ROUND_TRIP.next(&knobs, &capabilities(), &Done::default()).unwrap() {
            Step::Run { cases, skipped, .. } => {
                assert!(skipped.is_empty(), "{skipped:?}");
                cases.iter().map(|case| case.label()).collect::<Vec<_>>()
            }
            Step::Done => panic!("the first step runs"),
        }
    };
    assert_eq!(labels(&[("transport", "tcp")]), ["tcp block same-cpu", "tcp block cross-cpu"]);
    assert_eq!(labels(&[("transport", "tcp"), ("waiting", "spin")]), ["tcp spin cross-cpu"]);
    assert_eq!(labels(&[("transport", "icmp")]), ["icmp block same-cpu"]);
    assert_eq!(labels(&[("transport", "tcp"), ("link", "bridged-vm")]), ["tcp block same-cpu over bridged-vm"]);
}

#[test]
fn interleaved_runs_share_blocks_until_each_of_four_looks() {
    let [one, other] = [("4", "tcp,udp"), ("1KiB", "udp,tcp")]
        .map(|(size, transport)| turned(&ROUND_TRIP, &[("transport", transport), ("size", size)]).unwrap());
    let here = capabilities();
    let next = |from: Blocks, last_look_ns| {
        ROUND_TRIP.next_interleaved([(&one, &here), (&other, &here)], from, last_look_ns, 60 * SECOND_NS).unwrap()
    };
    let (mut from, mut last_look_ns, mut looks) = (Blocks::default(), 0, Vec::new());
    while let Some((orders, look_ns)) = next(from, last_look_ns) {
        let mut cases: BTreeMap<u32, Vec<(usize, String)>> = BTreeMap::new();
        for (place, order) in &orders {
            assert_eq!(order.case.primary().load.size_bytes(), [4, 1024][*place], "each order has its own run");
            cases.entry(order.block).or_default().push((*place, order.case.id()));
        }
        assert_eq!(*cases.first_key_value().unwrap().0, from.first, "blocks are numbered on");
        let first_is = |place: usize| cases.values().filter(|block| block[0].0 == place).count();
        assert!(first_is(0) > 0 && first_is(1) > 0, "neither run is always the first");
        for block in cases.values_mut() {
            block.sort_unstable();
            block.dedup();
            assert_eq!(block.len(), 4, "each case of both runs once");
        }
        looks.push(look_ns / SECOND_NS);
        // A look a little early does not come again.
        from = Blocks { first: orders.last().unwrap().1.block + 1, begin_ns: look_ns - 1000, ..from };
        last_look_ns = look_ns;
    }
    assert_eq!(looks, [10, 20, 40, 60]);
    let late = next(Blocks { first: 8, begin_ns: 25 * SECOND_NS, ..Blocks::default() }, 10 * SECOND_NS).unwrap();
    let last = late.0.last().unwrap().1.block;
    assert_eq!((late.1 / SECOND_NS, last < 8 + 5), (40, true), "a busy machine gets the blocks that it manages");
}
