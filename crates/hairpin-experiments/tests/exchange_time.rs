//! Estimated durations of exchanges, and warm-ups counted in exchanges.

use hairpin_experiments::exchange_time::{FORGOTTEN_CORK_NS, STALL_NS, warm_up, window_ns};
use hairpin_model::{Card, Case, Exchange, Extent, Placement, Remedy};

use crate::common::ladder;

fn card(name: &str) -> Card {
    ladder().into_iter().find(|card| card.name == name).expect("a known card")
}

fn exchange(writes: &str, remedy: Remedy) -> Exchange {
    Exchange { writes: writes.parse().unwrap(), gap_ns: 0, pipeline: 1, reply_writes: None, remedy }
}

fn window(exchange: &Exchange, card: &Card) -> u64 {
    window_ns(&Case::small_writes("tcp", exchange.clone()), exchange, card, 0)
}

#[test]
fn a_window_stalls_if_nagle_or_a_cork_holds_its_data() {
    let (tcp, other) = (card("tcp"), card("unix-stream"));
    let of = |remedy, card: &Card| window(&exchange("100x2", remedy), card);
    assert_eq!(of(Remedy::Default, &tcp), 44_150_204);
    assert_eq!(of(Remedy::Default, &other), 150_204);
    assert_eq!(of(Remedy::CorkForgotten, &tcp), 208_150_204);
    assert_eq!(of(Remedy::Nodelay, &tcp), 650_204);
    assert_eq!(of(Remedy::OneWrite, &tcp), 51_204);
    assert_eq!(of(Remedy::Batch(10), &tcp), 44_060_204);
    assert_eq!(of(Remedy::Batch(100), &tcp), 51_204, "one write is never held");
    assert_eq!(window(&exchange("200", Remedy::Default), &tcp), 51_204);
}

#[test]
fn over_a_link_each_awaited_acknowledgment_adds_a_round_trip() {
    let tcp = card("tcp");
    const TRAVEL_NS: u64 = 600_000_000;
    let added = |remedy, pipeline| {
        let exchange = Exchange { pipeline, ..exchange("100x2", remedy) };
        let case = Case::small_writes("tcp", exchange.clone());
        window_ns(&case, &exchange, &tcp, TRAVEL_NS) - window_ns(&case, &exchange, &tcp, 0)
    };
    for remedy in [Remedy::OneWrite, Remedy::Nodelay, Remedy::Cork, Remedy::More] {
        assert_eq!(added(remedy, 1), TRAVEL_NS, "{remedy}");
    }
    assert_eq!(added(Remedy::CorkForgotten, 1), 4 * TRAVEL_NS - FORGOTTEN_CORK_NS, "the timer is 3 round trips");
    for remedy in [Remedy::Default, Remedy::Batch(10), Remedy::Quickack] {
        assert_eq!(added(remedy, 1), 2 * TRAVEL_NS, "{remedy}");
    }
    assert_eq!((added(Remedy::Default, 4), added(Remedy::Nodelay, 4)), (3 * TRAVEL_NS, TRAVEL_NS));
    let none = exchange("100x2", Remedy::Default);
    let case = Case::small_writes("tcp", none.clone());
    assert_eq!(warm_up(&case, &none, &tcp, TRAVEL_NS), Extent::Count(1), "one window exceeds the limit");
    assert_eq!(window_ns(&case, &none, &tcp, u64::MAX), u64::MAX);
}

#[test]
fn pauses_and_pipelines_add_up_and_never_overflow() {
    let tcp = card("tcp");
    let paused = Exchange { gap_ns: 1_000_000, ..exchange("3x2", Remedy::Nodelay) };
    assert_eq!(window(&paused, &tcp), 2_000_000 + 18_000 + 10 + 50_000);
    assert_eq!(window(&Exchange { pipeline: 10, ..paused }, &tcp), 10 * 2_018_010 + 50_000);
    let longest = Exchange { gap_ns: u64::MAX, pipeline: 1024, ..exchange("10000x1", Remedy::Default) };
    assert_eq!(window(&longest, &tcp), u64::MAX);
}

#[test]
fn a_warm_up_covers_settling_and_is_bounded() {
    let tcp = card("tcp");
    let of = |placement, exchange: &Exchange| {
        warm_up(
            &Case::small_writes("tcp", exchange.clone()).with(|changed| changed.ends.placement = placement),
            exchange,
            &tcp,
            0,
        )
    };
    let together = |remedy| of(Placement::SameCpu, &exchange("100x2", remedy));
    assert_eq!(together(Remedy::Default), Extent::Count(3));
    assert_eq!(together(Remedy::CorkForgotten), Extent::Count(1), "the first exchange is as slow as the others");
    assert_eq!(together(Remedy::Nodelay), Extent::Count(15));
    assert_eq!(together(Remedy::OneWrite), Extent::Count(195));
    assert_eq!(of(Placement::CrossCpu, &exchange("100x2", Remedy::Nodelay)), Extent::Count(61), "40 ms");
    let in_flight = |pipeline, remedy| of(Placement::SameCpu, &Exchange { pipeline, ..exchange("100x2", remedy) });
    assert_eq!(in_flight(10, Remedy::Default), Extent::Count(10), "one window, which may stall twice");
    assert_eq!(in_flight(4, Remedy::Nodelay), Extent::Count(16), "four windows");
    assert_eq!(in_flight(4, Remedy::OneWrite), Extent::DurationNs(10_000_000), "windows take 0.1 ms or 44 ms");
    let apart = Exchange { pipeline: 4, ..exchange("100x2", Remedy::OneWrite) };
    assert_eq!(of(Placement::CrossCpu, &apart), Extent::DurationNs(40_000_000));
}

#[test]
fn several_answers_in_a_row_may_be_held_too() {
    let (tcp, other) = (card("tcp"), card("unix-stream"));
    let of = |remedy, card: &Card| window(&Exchange { pipeline: 4, ..exchange("100x2", remedy) }, card);
    assert_eq!(of(Remedy::Default, &tcp), 4 * 100_204 + 50_000 + 2 * STALL_NS, "both ends hold");
    assert_eq!(of(Remedy::Batch(10), &tcp), 4 * 10_204 + 50_000 + 2 * STALL_NS);
    assert_eq!(of(Remedy::Default, &other), 4 * 100_204 + 50_000);
    for remedy in [Remedy::OneWrite, Remedy::Writev, Remedy::Cork, Remedy::More, Remedy::Quickack] {
        assert!((STALL_NS..STALL_NS + 5_000_000).contains(&of(remedy, &tcp)), "{remedy}: the server holds");
    }
    assert_eq!(of(Remedy::Nodelay, &tcp), 4 * 600_204 + 50_000, "neither end holds");
    assert_eq!(of(Remedy::CorkForgotten, &tcp), 4 * 100_204 + 50_000 + FORGOTTEN_CORK_NS);
}
