//! The parts of sampled round trips, in exact numbers.

use hairpin_analysis::latency_budget::trip;
use hairpin_model::latency_budget::{BandName, WhyMissing, parts};
use hairpin_model::trace::End;
use hairpin_model::{Case, EndPoints, Fact, LatencyBudget, Measured, SampledRound, SampledTrip, Waiting, fact_names};
use proptest::prelude::*;

use crate::support::trips::{PLAIN, on_two_clocks, trip as sampled};
use crate::support::{Fixture, back_to_back};

fn sum(parts: &[(u16, i64)]) -> i64 {
    parts.iter().map(|(_, ns)| ns).sum()
}

/// The budget of stamped rounds with these round trips.
fn budget_of(case: &Case, server_has_own_clock: bool, trips: &[SampledTrip]) -> LatencyBudget {
    budget_with(case, server_has_own_clock, trips, |_| {}).unwrap()
}

fn budget_with(
    case: &Case,
    server_has_own_clock: bool,
    trips: &[SampledTrip],
    change: impl FnOnce(&mut Measured),
) -> Option<LatencyBudget> {
    let mut fixture = Fixture::new();
    let round = SampledRound { server_has_own_clock, trips: trips.to_vec() };
    fixture.stamped((case, 0), &round, &back_to_back(&[], &[5_500; 50]), change);
    fixture.run().cases.remove(0).budget
}

fn named(budget: &LatencyBudget, band: BandName) -> Vec<(String, Option<End>, f64)> {
    let parts = budget.band(band).unwrap().parts.iter();
    parts.map(|part| (part.name.clone(), part.end, part.mean_ns)).collect()
}

#[test]
fn all_points_give_every_part_of_the_path_in_order() {
    let budget = budget_of(&Case::ping_pong("tcp"), false, &[sampled(PLAIN); 200]);
    let (client, server) = (Some(End::Client), Some(End::Server));
    let expected = [
        (parts::SEND_STACK, client, 100.0),
        (parts::SEND_QUEUE, client, 200.0),
        (parts::NETWORK, server, 300.0),
        (parts::RUN_QUEUE, server, 0.0),
        (parts::WAKE_UP, server, 500.0),
        (parts::WORK, server, 600.0),
        (parts::SEND_STACK, server, 700.0),
        (parts::SEND_QUEUE, server, 800.0),
        (parts::NETWORK, client, 900.0),
        (parts::RUN_QUEUE, client, 0.0),
        (parts::WAKE_UP, client, 1_400.0),
    ];
    assert_eq!(named(&budget, BandName::P50), expected.map(|(name, end, ns)| (name.to_owned(), end, ns)));
    let band = budget.band(BandName::P50).unwrap();
    assert_eq!((band.samples, band.round_trip_ns), (40, Some(5_500.0)));
    assert!((band.parts[10].share - 1_400.0 / 5_500.0).abs() < 1e-12);
    let beside: Vec<(Option<End>, f64)> = band.beside.iter().map(|call| (call.end, call.mean_ns)).collect();
    assert_eq!(beside, [(client, 300.0), (server, 2_400.0)], "the send calls overlap with the path");
    assert_eq!(budget.unions.iter().map(|union| union.name.as_str()).collect::<Vec<_>>(), [parts::WAKE_UP]);
    assert_eq!(budget.missing, []);
}

#[test]
fn bands_are_by_rank_and_need_thirty_samples() {
    let trips: Vec<SampledTrip> = (0..1_000).map(|rank| sampled(PLAIN.map(|ns| ns + rank))).collect();
    let budget = budget_of(&Case::ping_pong("tcp"), false, &trips);
    let of = |band| budget.band(band).map(|band| (band.samples, band.round_trip_ns)).unwrap();
    // Each round trip has eleven parts; the mean rank of the band is added to each.
    assert_eq!(of(BandName::P50), (200, Some(5_500.0 + 11.0 * 499.5)));
    assert_eq!(of(BandName::P90), (90, Some(5_500.0 + 11.0 * 944.5)));
    assert_eq!(of(BandName::P99), (9, None), "too few");
    assert_eq!(of(BandName::Above), (1, None));
    assert_eq!(budget.band(BandName::P99).unwrap().parts, []);
    assert_eq!((budget.slowest.samples, budget.all.samples), (10, 1_000));
    assert_eq!(budget.judged().map(|band| band.band), Some(BandName::P50));
}

#[test]
fn the_slowest_percent_is_judged_if_it_has_enough_samples() {
    let waits = |ns| sampled([100, 200, 300, ns, 500, 600, 700, 800, 900, 0, 1_400]);
    let trips = [vec![waits(0); 4_950], vec![waits(1_000_000); 50]].concat();
    let budget = budget_of(&Case::ping_pong("tcp"), false, &trips);
    let largest = budget.judged().unwrap().largest().unwrap();
    assert_eq!((largest.name.as_str(), largest.end, largest.mean_ns), (parts::RUN_QUEUE, Some(End::Server), 1e6));
    assert!((largest.share - 1_000_000.0 / 1_005_500.0).abs() < 1e-9);
    let of_all = 1_000_000.0 * 0.01 / (5_500.0 + 10_000.0);
    assert!((budget.all.share_of(parts::RUN_QUEUE) - of_all).abs() < 1e-9);
}

/// Points by hand, with the wait of the server's thread and how often it got a CPU.
fn with_waits(waited: Option<i64>, switched_in: Option<i64>, receive_called: i64) -> SampledTrip {
    let mut trip = sampled(PLAIN);
    let server = trip.server.as_mut().unwrap();
    (server.waited, server.switched_in, server.receive_called) = (waited, switched_in, Some(receive_called));
    trip
}

#[test]
fn a_wait_for_a_cpu_belongs_to_the_receive_call_only_if_the_thread_slept_once() {
    let of = |trip: SampledTrip, sleeps| -> Vec<i64> {
        let parts = self::trip(&trip, false, sleeps).unwrap().parts;
        parts.iter().filter(|(of, _)| of & 0b11000 != 0).map(|(_, ns)| *ns).collect()
    };
    assert_eq!(of(with_waits(Some(120), Some(1), 0), true), [120, 380]);
    assert_eq!(of(with_waits(Some(0), Some(2), 0), true), [0, 500], "preempted without a wait");
    assert_eq!(of(with_waits(Some(600), Some(1), 0), true), [600, -100], "negative parts stay");
    assert_eq!(of(with_waits(Some(120), Some(2), 0), true), [500], "one of the waits may be elsewhere");
    assert_eq!(of(with_waits(Some(120), Some(1), 601), true), [500], "the message was there before the call");
    assert_eq!(of(with_waits(Some(120), Some(1), 0), false), [500], "a thread that polls does not sleep");
    assert_eq!(of(with_waits(None, None, 0), true), [500], "no statistics");
}

#[test]
fn without_kernel_stamps_each_way_is_one_union() {
    let plain = sampled(PLAIN);
    let bare = |points: EndPoints| EndPoints {
        scheduled: None,
        driver: None,
        arrived: None,
        waited: None,
        switched_in: None,
        ..points
    };
    let trip = SampledTrip { client: bare(plain.client), server: plain.server.map(bare), ..plain };
    let refuse = |measured: &mut Measured| {
        let fact = Fact::word(fact_names::KERNEL_STAMPS_REFUSED, "not here");
        measured.ends.iter_mut().for_each(|end| end.facts.push(fact.clone()));
    };
    let budget = budget_with(&Case::ping_pong("pipe"), false, &[trip; 200], refuse).unwrap();
    let way = format!("{} to {}", parts::SEND_STACK, parts::WAKE_UP);
    let expected = [
        (way.clone(), Some(End::Server), 1_100.0),
        (parts::WORK.to_owned(), Some(End::Server), 600.0),
        (way.clone(), Some(End::Client), 3_800.0),
    ];
    assert_eq!(named(&budget, BandName::P50), expected);
    let all = [parts::SEND_STACK, parts::SEND_QUEUE, parts::NETWORK, parts::RUN_QUEUE, parts::WAKE_UP];
    assert_eq!(budget.unions.len(), 1, "both ways have one name");
    assert_eq!(
        (budget.unions[0].name.as_str(), budget.unions[0].of.as_slice()),
        (way.as_str(), &all.map(str::to_owned)[..])
    );
    let missing: Vec<_> =
        budget.missing.iter().map(|one| (one.end, one.why, one.detail.as_str(), one.count)).collect();
    let refused = |end| (end, WhyMissing::Refused, "not here", 1);
    assert_eq!(missing, [refused(End::Client), refused(End::Server)]);
}

#[test]
fn ends_that_poll_receive_instead_of_waking() {
    let spinning = Case::ping_pong("tcp").with(|case| case.ends.waiting = Waiting::Spin);
    let budget = budget_of(&spinning, false, &[sampled(PLAIN); 200]);
    assert!((budget.all.share_of(parts::RECEIVE) - 1_900.0 / 5_500.0).abs() < 1e-12);
    assert_eq!(budget.all.share_of(parts::WAKE_UP), 0.0);
}

#[test]
fn between_two_clocks_only_the_network_is_shared() {
    let budget = budget_of(&Case::ping_pong("tcp"), true, &[on_two_clocks(sampled(PLAIN)); 200]);
    let parts_of = named(&budget, BandName::P50);
    assert_eq!(parts_of.len(), 10);
    assert!(parts_of.contains(&(parts::NETWORK.to_owned(), None, 1_200.0)), "{parts_of:?}");
    assert!(parts_of.contains(&(parts::WAKE_UP.to_owned(), Some(End::Server), 500.0)), "{parts_of:?}");
    // A server that stamps nothing: its own hold is subtracted, and the rest is not separated.
    let mut trip = on_two_clocks(sampled(PLAIN));
    let server = trip.server.as_mut().unwrap();
    (server.arrived, server.scheduled, server.driver) = (None, None, None);
    let budget = budget_of(&Case::ping_pong("tcp"), true, &[trip; 200]);
    let rest = (format!("{} and others", parts::NETWORK), None, 5_500.0 - 300.0 - 600.0 - 1_400.0);
    assert!(named(&budget, BandName::P50).contains(&rest), "{:?}", named(&budget, BandName::P50));
    assert!(budget.missing.iter().all(|one| (one.end, one.why, one.count) == (End::Server, WhyMissing::Lost, 200)));
    // An earlier version at the server reports nothing.
    trip.server = None;
    let budget = budget_of(&Case::ping_pong("tcp"), true, &[trip; 200]);
    assert_eq!(named(&budget, BandName::P50)[2], (format!("{} and others", parts::NETWORK), None, 3_800.0));
    assert_eq!((budget.missing[0].why, budget.missing[0].count), (WhyMissing::NotReported, 200));
}

#[test]
fn a_clock_that_was_set_voids_the_round() {
    let set = |measured: &mut Measured| measured.ends[1].facts.push(Fact::number(fact_names::REALTIME_STEP_NS, 1e9));
    let mut fixture = Fixture::new();
    let case = Case::ping_pong("tcp");
    let round = SampledRound { server_has_own_clock: false, trips: vec![sampled(PLAIN); 100] };
    let samples = back_to_back(&[], &[5_500; 50]);
    fixture.stamped((&case, 0), &round, &samples, set);
    fixture.stamped((&case, 1), &round, &samples, |_| {});
    let budget = fixture.run().cases.remove(0).budget.unwrap();
    assert_eq!(budget.all.samples, 100, "only the second round counts");
    assert_eq!(
        (budget.missing[0].why, budget.missing[0].end, budget.missing[0].count),
        (WhyMissing::ClockSet, End::Server, 1)
    );
}

#[test]
fn the_cost_compares_both_kinds_of_messages_with_rounds_without_stamps() {
    let mut fixture = Fixture::new();
    let case = Case::ping_pong("tcp");
    for block in 0..8 {
        fixture.round(&case, block, &back_to_back(&[], &[1_000 + u64::from(block); 100]));
        let round = SampledRound { server_has_own_clock: false, trips: vec![sampled(PLAIN.map(|ns| ns / 5)); 40] };
        let mut latencies = [1_010 + u64::from(block); 100];
        // Every sixteenth message is sampled: its latency in the samples does not count.
        (0..100).step_by(16).for_each(|row| latencies[row] = 9_000);
        fixture.stamped((&case, block), &round, &back_to_back(&[], &latencies), |_| {});
    }
    let cost = fixture.run().cases.remove(0).budget.unwrap().cost;
    let (stamped, others) = (cost.stamped.unwrap(), cost.others.unwrap());
    assert!((stamped.value - 1_100.0 / 1_003.5).abs() < 0.002 && stamped.excludes(1.0), "{stamped:?}");
    assert!((others.value - 1.01).abs() < 0.001 && others.low.is_some(), "{others:?}");
}

prop_compose! {
    fn any_points()(all in prop::array::uniform9(prop::option::of(-1_000_000_i64..1_000_000_000))) -> EndPoints {
        all.into()
    }
}

proptest! {
    /// Whatever is known, the parts of a round trip sum to it.
    #[test]
    fn parts_sum_to_the_round_trip(
        client in any_points(),
        server in prop::option::of(any_points()),
        server_has_own_clock: bool,
        sleeps: bool,
    ) {
        let sampled = SampledTrip { sequence: 1, client, server };
        let parts = trip(&sampled, server_has_own_clock, sleeps);
        prop_assert_eq!(parts.is_some(), client.send_called.is_some() && client.read.is_some());
        if let Some(trip) = parts {
            prop_assert_eq!(sum(&trip.parts), trip.round_trip_ns);
            prop_assert_eq!(trip.round_trip_ns, client.read.unwrap() - client.send_called.unwrap());
            let all = trip.parts.iter().fold(0, |all, (of, _)| { assert_eq!(all & of, 0); all | of });
            prop_assert_eq!(all, 0b111_1111_1111, "each elementary part is in exactly one part");
        }
    }
}
