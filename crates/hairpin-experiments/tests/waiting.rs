//! `waiting`: which ways to wait are measured, and why the others are not.

use hairpin_experiments::experiments::waiting::WAITING;
use hairpin_model::{HostCapabilities, Waiting, WhyNot};

use crate::common::{capabilities, plan_on};

/// The waiting and connections of every case, and the reasons of those that are skipped.
fn planned(host: &HostCapabilities, flags: &[(&str, &str)]) -> (Vec<(Waiting, u32)>, Vec<String>) {
    let plan = plan_on(host, &WAITING, flags).unwrap();
    let cases = plan.rounds.iter().map(|order| (order.case.ends.waiting, order.case.primary().connections));
    (cases.collect(), plan.skipped.iter().map(|skipped| skipped.reason.clone()).collect())
}

#[test]
fn ways_that_need_one_connection_more_cpus_or_a_device_are_skipped_by_name() {
    let (cases, reasons) = planned(&capabilities(), &[("connections", "1,1000")]);
    let of = |connections| cases.iter().filter(move |case| case.1 == connections).map(|case| case.0);
    assert!(of(1).any(|waiting| waiting == Waiting::Block) && of(1).any(|waiting| waiting == Waiting::Uring));
    assert!(!of(1000).any(|waiting| matches!(waiting, Waiting::Block | Waiting::SpinThenBlock)));
    assert!(of(1000).any(|waiting| waiting == Waiting::Epoll));
    assert!(reasons.iter().any(|why| why.contains("NAPI id 0")), "{reasons:?}");
    assert!(reasons.iter().any(|why| why.contains("waits for one connection only")), "{reasons:?}");
}

#[test]
fn io_uring_is_skipped_with_the_reason_of_the_kernel() {
    let may_use_io_uring = || Err(WhyNot::new("cannot set up an io_uring: Operation not permitted", "ask root"));
    let host = HostCapabilities { may_use_io_uring, ..capabilities() };
    let (cases, reasons) = planned(&host, &[("waiting", "uring,epoll"), ("connections", "1")]);
    assert!(!cases.is_empty() && cases.iter().all(|case| *case == (Waiting::Epoll, 1)), "{cases:?}");
    assert!(reasons.iter().any(|why| why.contains("Operation not permitted")), "{reasons:?}");
}
