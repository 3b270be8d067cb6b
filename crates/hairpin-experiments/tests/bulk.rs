//! The plans of `bulk`.

use hairpin_experiments::Refused;
use hairpin_experiments::experiments::bulk::BULK;
use hairpin_model::flow::{Direction, Load};
use hairpin_model::round::{Extent, Purpose};

use crate::common::{Plan, capabilities, plan_on};

fn bulk(flags: &[(&str, &str)]) -> Result<Plan, Refused> {
    plan_on(&capabilities(), &BULK, flags)
}

#[test]
fn a_stream_has_one_flow_that_goes_one_way_and_no_traced_rounds() {
    let plan =
        bulk(&[("transport", "tcp,unix-seqpacket"), ("placement", "same-cpu"), ("direction", "up,down")]).unwrap();
    let expected = [
        "tcp poll same-cpu up 64 KiB",
        "tcp poll same-cpu down 64 KiB",
        "unix-seqpacket poll same-cpu up 1400 B",
        "unix-seqpacket poll same-cpu down 1400 B",
    ];
    assert_eq!(plan.labels(), expected);
    for order in &plan.rounds {
        let flow = order.case.flow();
        assert!(matches!(flow.load, Load::Stream { .. }) && flow.direction != Direction::RoundTrip);
        assert_eq!((order.extent, order.warm_up), (Extent::DurationNs(200_000_000), Extent::DurationNs(100_000_000)));
        assert_eq!(order.purpose, Purpose::Timed);
    }
}

#[test]
fn what_cannot_stream_is_skipped_or_refused_with_its_reason() {
    let cause = |flags: &[(&str, &str)]| bulk(flags).map(|plan| plan.labels()).expect_err("refused").to_string();
    for (flags, expected) in [
        (&[("transport", "icmp")][..], "no program receives a stream"),
        (
            &[("transport", "tcp"), ("waiting", "block")],
            "a one-way load waits for all connections at once, so it \
                                                         cannot block in one",
        ),
        (&[("transport", "unix-seqpacket"), ("write-size", "8")], "it needs messages of at least 9 B to number them"),
        (&[("transport", "udp"), ("connections", "2")], "it carries one connection only"),
        (&[("transport", "udp"), ("link", "delay=2ms")], "cannot yet tell which of its messages a link lost"),
        (&[("transport", "shm")], "it has no waiting mode `poll`"),
        (&[("transport", "tcp"), ("waiting", "spin"), ("placement", "cross-cpu")], "it can only spin"),
        (&[("transport", "tcp"), ("connections", "0")], "connections"),
        (&[("transport", "tcp"), ("write-size", "17MiB")], "write-size"),
    ] {
        let told = cause(flags);
        assert!(told.contains(expected), "{flags:?}: {told}");
    }
    let spinning = bulk(&[("transport", "shm"), ("waiting", "spin"), ("placement", "cross-cpu")]).unwrap();
    assert_eq!(spinning.cases.len(), 1, "what cannot be polled can spin");
}

#[test]
fn connections_share_one_case() {
    let plan =
        bulk(&[("transport", "tcp"), ("placement", "same-cpu"), ("connections", "1,64"), ("count", "10")]).unwrap();
    assert_eq!(plan.cases.iter().map(|case| case.flow().wires()).collect::<Vec<_>>(), [1, 64]);
    assert!(plan.rounds.iter().all(|order| order.extent == Extent::Count(10)));
    assert_eq!(plan.cases[1].label(), "tcp poll same-cpu up 64 KiB 64 connections");
}
