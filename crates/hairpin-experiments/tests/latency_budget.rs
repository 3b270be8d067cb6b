//! `budget`: stamped rounds and rounds without stamps in each block.

use hairpin_experiments::experiments::budget::BUDGET;
use hairpin_experiments::{Done, Step};
use hairpin_model::round::Purpose;
use hairpin_model::{Extent, InjectedFault, RoundOrder};

use crate::common::{Plan, capabilities, measured, next, plan_on};

fn planned(flags: &[(&str, &str)]) -> Result<Plan, hairpin_model::Refused> {
    plan_on(&capabilities(), &BUDGET, flags)
}

#[test]
fn each_block_has_a_stamped_round_and_a_shorter_one_without_stamps() {
    let plan = planned(&[]).unwrap();
    assert_eq!(plan.labels(), ["tcp block same-cpu"], "the reference transport");
    for block in plan.rounds.chunk_by(|one, next| one.block == next.block) {
        let mut block: Vec<&RoundOrder> = block.iter().collect();
        block.sort_by_key(|order| order.purpose);
        let shape = |order: &&RoundOrder| (order.purpose, order.sample_every, order.extent);
        let expected =
            [(Purpose::Timed, None, Extent::Count(4_000)), (Purpose::Stamped, Some(16), Extent::Count(16_000))];
        assert_eq!(block.iter().map(shape).collect::<Vec<_>>(), expected);
        assert_eq!(block[0].warm_up, block[1].warm_up);
    }
    assert_eq!(plan.forecast.rounds, plan.rounds.len() as u64);
    assert!(plan.forecast.lasts_ns <= 15_000_000_000, "{}", plan.forecast.lasts_ns);
    assert_eq!(next(&BUDGET, &[], &measured(&plan.rounds)), None, "it has no evidence rounds");
}

#[test]
fn knobs_reach_the_rounds_and_a_denser_sampling_is_refused() {
    let flags = [("every", "100"), ("injected-fault", "busy=200us"), ("link", "bridged-vm"), ("waiting", "poll")];
    let plan = planned(&flags).unwrap();
    let stamped: Vec<&RoundOrder> = plan.rounds.iter().filter(|order| order.sample_every == Some(100)).collect();
    assert_eq!(2 * stamped.len(), plan.rounds.len());
    let order = stamped[0];
    let fault = InjectedFault { stall_ns: 200_000, every: 1, sleeps: false };
    assert_eq!((order.case.injected_fault, order.extent), (Some(fault), Extent::Count(250)), "as many as fit 1 s");
    let refused = planned(&[("every", "15")]).unwrap_err();
    assert!(refused.what.contains("every"), "{refused:?}");
}

#[test]
fn a_quick_run_has_both_kinds_of_rounds() {
    let plan = planned(&[("quick", "on")]).unwrap();
    let of = |purpose| plan.rounds.iter().filter(|order| order.purpose == purpose).count();
    assert!(of(Purpose::Stamped) >= 5 && of(Purpose::Stamped) == of(Purpose::Timed));
    assert!(plan.forecast.lasts_ns <= 8_000_000_000);
    let knobs = crate::common::turned(&BUDGET, &[("quick", "on")]).unwrap();
    let done = measured(&plan.rounds);
    let done = Done { rounds: &done, half_width: None };
    assert_eq!(BUDGET.next(&knobs, &capabilities(), &done).unwrap(), Step::Done);
}
