//! `proof::orders` plans rounds for both cases of each pair, with the settings of the most similar timed round of the
//! run.

use std::collections::BTreeSet;

use crate::common;
use crate::common::{measured, plan_on};
use hairpin_experiments::experiments::small_writes::SMALL_WRITES;
use hairpin_experiments::experiments::under_load::UNDER_LOAD;
use hairpin_experiments::proof::{orders, rounds};
use hairpin_model::round::Purpose;
use hairpin_model::{Case, Extent, Remedy, RoundOrder, RoundRecord};

fn run(flags: &[(&str, &str)]) -> Vec<RoundRecord> {
    measured(&plan_on(&common::capabilities(), &SMALL_WRITES, flags).unwrap().rounds)
}

fn case(like: &RoundRecord, transport: &str, remedy: Remedy) -> Case {
    let mut case = like.order.case.clone().with(|changed| changed.primary_mut().transport = transport.to_owned());
    case.primary_mut().load.exchange_mut().unwrap().remedy = remedy;
    case
}

fn warm_up(orders: &[RoundOrder], case: &Case) -> Extent {
    orders.iter().find(|order| order.case == *case).unwrap().warm_up
}

#[test]
fn every_block_has_each_case_of_the_pairs_once() {
    let like = run(&[("transport", "tcp"), ("timeout", "3s"), ("keep-samples", "9")]);
    let tcp = |remedy| case(&like[0], "tcp", remedy);
    let none = tcp(Remedy::Default);
    let pairs = [
        [none.clone(), tcp(Remedy::Nodelay)],
        [none.clone(), tcp(Remedy::Cork)],
        [tcp(Remedy::CorkForgotten), tcp(Remedy::Cork)],
    ];
    let rounds = orders(&pairs, &like, 6, 7, 9);
    assert_eq!(rounds.len(), 4 * 6, "`default` and `cork` are each in two pairs but measured once per block");
    let all: BTreeSet<String> = pairs.iter().flatten().map(Case::id).collect();
    let mut seen = BTreeSet::new();
    for (block, number) in rounds.chunks(4).zip(9..) {
        let ids: Vec<String> = block.iter().map(|order| order.case.id()).collect();
        assert_eq!(ids.iter().cloned().collect::<BTreeSet<_>>(), all);
        assert!(block.iter().all(|order| order.block == number && order.purpose == Purpose::Timed));
        assert!(block.iter().all(|order| order.timeout_ns == 3_000_000_000 && order.keep_samples == 9));
        seen.insert(ids);
    }
    assert!(seen.len() > 1, "the order of cases in a block is random");
    assert_eq!(rounds, orders(&pairs, &like, 6, 7, 9), "the order depends only on the seed");
    assert_ne!(rounds, orders(&pairs, &like, 6, 8, 9));
}

#[test]
fn extents_come_from_the_nearest_timed_round() {
    let like = run(&[("transport", "tcp,unix-stream")]);
    let of = |transport, remedy| case(&like[0], transport, remedy);
    let same = of("tcp", Remedy::CorkForgotten);
    let other_transport = of("tcp6", Remedy::Nodelay);
    let other_remedy = of("unix-stream", Remedy::Batch(50));
    let pairs = [[same.clone(), other_transport.clone()], [same.clone(), other_remedy.clone()]];
    let rounds = orders(&pairs, &like, 1, 7, 0);
    assert_eq!(warm_up(&rounds, &same), Extent::Count(1), "the round of the same case");
    assert_eq!(warm_up(&rounds, &other_transport), Extent::Count(15), "the same remedy on another transport");
    assert_eq!(warm_up(&rounds, &other_remedy), Extent::Count(66), "the shortest round of the same transport");
}

#[test]
fn only_timed_rounds_are_templates_and_without_them_no_rounds_are_planned() {
    let timed = run(&[("transport", "tcp"), ("remedy", "default")]);
    let none = timed[0].order.case.clone();
    let pairs = [[none.clone(), case(&timed[0], "tcp", Remedy::Nodelay)]];
    let traced = RoundOrder { purpose: Purpose::Traced, ..timed[0].order.clone() };
    let evidence = measured(&[traced]);
    assert!(orders(&pairs, &evidence, 6, 7, 0).is_empty());
    let both = [evidence, timed].concat();
    assert!(orders(&pairs, &both, 6, 7, 0).iter().all(|order| order.purpose == Purpose::Timed));
    assert!(orders(&[], &both, 6, 7, 0).is_empty());
}

#[test]
fn long_rounds_run_fewer_times_and_have_the_phases_of_the_run() {
    let capabilities = common::capabilities();
    let settle = |link: Option<&str>| {
        let flags: Vec<(&str, &str)> =
            [("load-cpu", "same"), ("ramp", "3s")].into_iter().chain(link.map(|link| ("link", link))).collect();
        let like = measured(&plan_on(&capabilities, &UNDER_LOAD, &flags).unwrap().rounds);
        let own = like[0].order.case.clone();
        let changed = own.clone().with(|case| case.primary_mut().load.set_sizes(100, 100));
        let (orders, lasts_ns) = rounds(&[[own, changed]], &like, &capabilities, 7, 9);
        assert!(orders.iter().all(|order| order.phases == like[0].order.phases && order.phases.is_some()));
        assert!(orders.iter().all(|order| order.phases.as_ref().unwrap().ramp == 3_000_000_000));
        (orders.len(), lasts_ns / 1_000_000_000)
    };
    // Two rounds of 300 ms, 3 s, 700 ms and 300 ms plus warm-up take 8.7 s, and six such blocks fit a minute.
    assert_eq!(settle(None), (2 * 6, 52));
    assert_eq!(settle(Some("bridged-vm")), (2 * 6, 72), "the minimum");
}

#[test]
fn short_rounds_run_ten_times() {
    let like = run(&[("transport", "tcp"), ("remedy", "default,nodelay")]);
    let pair = [like[0].order.case.clone(), like[1].order.case.clone()];
    let (orders, _) = rounds(&[pair], &like, &common::capabilities(), 7, 9);
    assert_eq!(orders.len(), 2 * 10);
}
