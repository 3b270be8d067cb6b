//! The plans of `bulk`.

use hairpin_experiments::Refused;
use hairpin_experiments::experiments::bulk::BULK;
use hairpin_model::flow::{Direction, Source};
use hairpin_model::round::Purpose;
use hairpin_model::{Extent, Load};

use crate::common::{Plan, assert_refused, capabilities, plan_on};

fn bulk(flags: &[(&str, &str)]) -> Result<Plan, Refused> {
    plan_on(&capabilities(), &BULK, flags)
}

#[test]
fn a_stream_has_one_one_way_flow_and_no_traced_rounds() {
    let plan =
        bulk(&[("transport", "tcp,unix-seqpacket"), ("placement", "same-cpu"), ("direction", "up,down")]).unwrap();
    let expected = [
        "tcp block same-cpu up 64 KiB",
        "tcp block same-cpu down 64 KiB",
        "unix-seqpacket block same-cpu up 1400 B",
        "unix-seqpacket block same-cpu down 1400 B",
    ];
    assert_eq!(plan.labels(), expected);
    for order in &plan.rounds {
        let flow = order.case.primary();
        assert!(
            matches!(flow.load, Load::Stream { source: Source::Buffer, .. })
                && flow.direction != Direction::RoundTrip
        );
        assert_eq!((order.extent, order.warm_up), (Extent::DurationNs(200_000_000), Extent::DurationNs(100_000_000)));
        assert_eq!(order.purpose, Purpose::Timed);
    }
}

#[test]
fn transports_that_cannot_stream_are_skipped_or_refused_with_their_reason() {
    let refused: &[(&[(&str, &str)], &str)] = &[
        (&[("transport", "icmp")], "no program receives a stream"),
        (
            &[("transport", "tcp"), ("waiting", "block"), ("connections", "2")],
            "an end that blocks waits for one connection only",
        ),
        (&[("transport", "unix-seqpacket"), ("write-size", "7")], "it needs messages of at least 8 B to number them"),
        (&[("transport", "udp"), ("connections", "2")], "it carries one connection only"),
        (
            &[("transport", "tcp"), ("connections", "1000"), ("streams", "1000")],
            "1000 connections of 1000 streams are more than 4096",
        ),
        (&[("transport", "tcp"), ("streams", "2")], "each of its connections carries one stream"),
        (&[("transport", "udp"), ("source", "file")], "it cannot send from a file"),
        (&[("transport", "udp"), ("write-size", "64KiB")], "a message of 64 KiB does not fit"),
        (&[("transport", "shm"), ("waiting", "poll")], "it has no waiting mode `poll`"),
        (&[("transport", "tcp"), ("waiting", "spin")], "both ends share one CPU"),
        (&[("transport", "tcp"), ("streams", "0")], "streams"),
        (&[("transport", "tcp"), ("streams", "1001")], "streams"),
        (&[("transport", "tcp"), ("connections", "0")], "connections"),
        (&[("transport", "tcp"), ("connections", "1001")], "connections"),
        (&[("transport", "tcp"), ("write-size", "0")], "write-size"),
        (&[("transport", "tcp"), ("write-size", "17MiB")], "write-size"),
        (&[("transport", "tcp"), ("bytes", "1MiB"), ("count", "2")], "each set the length of a round"),
        (&[("transport", "tcp"), ("bytes", "1MiB"), ("duration", "1s")], "each set the length of a round"),
    ];
    assert_refused(&BULK, refused);
    let skipped = bulk(&[("transport", "tcp,icmp")]).unwrap().skipped;
    assert_eq!(skipped.len(), 1);
    assert!(skipped[0].reason.contains("no program receives a stream"), "{skipped:?}");
}

#[test]
fn several_connections_are_polled_and_shared_memory_spins() {
    let plan = bulk(&[("transport", "tcp"), ("connections", "1,64"), ("count", "10")]).unwrap();
    assert_eq!(plan.cases.iter().map(|case| case.primary().wires()).collect::<Vec<_>>(), [1, 64]);
    assert!(plan.rounds.iter().all(|order| order.extent == Extent::Count(10)));
    assert_eq!(plan.labels(), ["tcp block same-cpu up 64 KiB", "tcp poll same-cpu up 64 KiB 64 connections"]);
    let spinning = bulk(&[("transport", "shm"), ("placement", "cross-cpu")]).unwrap();
    assert_eq!(spinning.labels(), ["shm spin cross-cpu up 1400 B"]);
}

#[test]
fn bytes_are_rounded_up_to_writes_and_each_source_is_a_case() {
    let flags = [("transport", "tcp"), ("bytes", "100000"), ("write-size", "64KiB,1000"), ("omit", "0")];
    let plan = bulk(&flags).unwrap();
    let writes: Vec<Extent> =
        plan.cases.iter().map(|case| plan.rounds.iter().find(|order| order.case == *case).unwrap().extent).collect();
    assert_eq!(writes, [Extent::Count(2), Extent::Count(100)]);
    assert!(plan.rounds.iter().all(|order| order.warm_up == Extent::Count(0)));
    let sources = bulk(&[("transport", "tcp"), ("source", "all")]).unwrap();
    assert_eq!(sources.labels(), ["tcp block same-cpu up 64 KiB", "tcp block same-cpu up 64 KiB from a file"]);
}
