//! The plans of `message-rate`.

use hairpin_experiments::Refused;
use hairpin_experiments::experiments::message_rate::MESSAGE_RATE;
use hairpin_model::Extent;
use hairpin_model::round::Purpose;

use crate::common::{Plan, assert_refused, capabilities, plan_on};

fn message_rate(flags: &[(&str, &str)]) -> Result<Plan, Refused> {
    plan_on(&capabilities(), &MESSAGE_RATE, flags)
}

#[test]
fn without_flags_every_transport_sends_64_bytes_in_three_batches() {
    let plan = message_rate(&[]).unwrap();
    let tcp: Vec<String> = plan.labels().into_iter().filter(|label| label.starts_with("tcp ")).collect();
    let expected =
        ["tcp block same-cpu up 64 B", "tcp block same-cpu up 64 B batch 8", "tcp block same-cpu up 64 B batch 64"];
    assert_eq!(tcp, expected);
    for order in &plan.rounds {
        assert_eq!((order.extent, order.warm_up), (Extent::DurationNs(200_000_000), Extent::DurationNs(100_000_000)));
        assert_eq!((order.purpose, order.keep_samples), (Purpose::Timed, 10_000));
    }
    let reasons: Vec<&str> = plan.skipped.iter().map(|skip| skip.reason.as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("no program receives a stream")), "icmp: {reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("share one CPU")), "memory can only spin: {reasons:?}");
    assert!(!plan.skipped.iter().any(|skip| ["tcp", "udp"].contains(&&*skip.transport)), "{:?}", plan.skipped);
}

#[test]
fn over_a_link_rounds_last_twenty_round_trips() {
    let plan = message_rate(&[("transport", "tcp"), ("batch", "1"), ("link", "bridged-vm")]).unwrap();
    assert_eq!(plan.only_order().extent, Extent::DurationNs(200_000_000), "20 times 4 ms is shorter");
    let far = message_rate(&[("transport", "tcp"), ("batch", "1"), ("link", "satellite")]).unwrap();
    assert_eq!(far.only_order().extent, Extent::DurationNs(1_000_000_000), "at most a second");
}

#[test]
fn connections_share_the_load_and_are_polled() {
    let plan = message_rate(&[("transport", "tcp"), ("batch", "8"), ("connections", "1000")]).unwrap();
    assert_eq!(plan.labels(), ["tcp poll same-cpu up 64 B batch 8 1000 connections"]);
}

#[test]
fn both_builds_of_the_loops_are_cases_of_one_plan() {
    let plan = message_rate(&[("transport", "udp"), ("batch", "1"), ("build", "all")]).unwrap();
    assert_eq!(plan.labels(), ["udp block same-cpu up 64 B", "udp block same-cpu up 64 B unoptimised build"]);
}

#[test]
fn bad_input_is_refused_with_its_reason() {
    let refused: &[(&[(&str, &str)], &str)] = &[
        (&[("batch", "0")], "batch"),
        (&[("batch", "1025")], "batch"),
        (&[("batch", "-1")], "batch"),
        (&[("batch", "18446744073709551616")], "batch"),
        (&[("size", "0")], "size"),
        (&[("size", "17MiB")], "size"),
        (&[("connections", "0")], "connections"),
        (&[("connections", "1001")], "connections"),
        (&[("transport", "udp"), ("size", "7")], "it needs messages of at least 8 B to number them"),
        (&[("transport", "udp"), ("size", "65508")], "does not fit"),
        (&[("transport", "udp"), ("connections", "2")], "it carries one connection only"),
        (
            &[("transport", "tcp"), ("size", "128KiB"), ("batch", "1024")],
            "one call cannot send 1024 messages of 128 KiB: 64 MiB at most",
        ),
        (&[("count", "5"), ("duration", "1s")], "count"),
        (&[("direction", "round-trip")], "direction"),
        (&[("rate", "5")], "unknown knob `rate`"),
    ];
    assert_refused(&MESSAGE_RATE, refused);
}
