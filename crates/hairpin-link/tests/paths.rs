//! Random profiles and packets: counters add up, outcomes are in order of time and not before the arrival, and the same
//! seed gives the same outcomes.

use std::collections::BTreeMap;

use hairpin_link::Direction;
use hairpin_link::link::Link;
use hairpin_link::log::LogLine;
use hairpin_link::packet::{Fate, Outcome, Packet};
use hairpin_link::profile::Profile;
use hairpin_link::simulate::{Arrival, simulate};
use hairpin_model::LinkRecord;
use proptest::prelude::*;

use crate::common;

fn link(profile: &Profile, seed: u64) -> Link {
    Link::new(profile, seed, &common::traces()).expect("a profile without contradiction")
}

/// Asserts that every ledger of the record adds up. Each count is kept separately and none is derived from the others,
/// so a missing packet shows.
fn assert_closed(record: &LinkRecord) {
    assert_eq!(record.packets.unexplained(), 0);
    for direction in [&record.up, &record.down] {
        assert_eq!(direction.packets.unexplained(), 0);
        for stage in &direction.stages {
            assert_eq!(stage.packets.unexplained(), 0, "{stage:?}");
        }
        let mut entered = direction.packets.entered;
        for stage in &direction.stages {
            assert_eq!(stage.packets.entered, entered, "what leaves a stage enters the next");
            entered = stage.packets.out;
        }
        assert_eq!(entered, direction.packets.out);
        let timeline = direction.timeline.as_ref().unwrap();
        assert_eq!(timeline.entered.iter().sum::<u64>(), direction.packets.entered);
        assert_eq!(timeline.out.iter().sum::<u64>(), direction.packets.out);
        for (stage, counts) in &timeline.dropped {
            assert_eq!(counts.iter().sum::<u64>(), direction.packets.dropped[stage]);
        }
        let dropped: u64 = direction.packets.dropped.values().sum();
        assert_eq!(u64::try_from(direction.drops.len()).unwrap() + direction.drops_unlisted, dropped);
    }
}

/// Runs the link like an emulator that wakes up late: calls `advance` only at every `nth` arrival.
fn late(link: &mut Link, arrivals: &[Arrival], nth: usize) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for (at, arrival) in arrivals.iter().enumerate() {
        link.arrive(arrival.direction, arrival.packet, arrival.at_ns);
        if at % nth == 0 {
            link.advance(arrival.at_ns, &mut outcomes);
        }
    }
    link.advance(u64::MAX, &mut outcomes);
    outcomes.sort_by_key(|outcome| (outcome.fate.at_ns(), outcome.direction));
    outcomes
}

proptest! {
    #[test]
    fn packet_counts_add_up_after_every_arrival(profile in common::profile(), arrivals in common::arrivals(), seed: u64) {
        let mut link = link(&profile, seed);
        let mut outcomes = Vec::new();
        for arrival in &arrivals {
            link.advance(arrival.at_ns, &mut outcomes);
            link.arrive(arrival.direction, arrival.packet, arrival.at_ns);
            assert_closed(&link.record(None));
        }
        link.advance(u64::MAX, &mut outcomes);
        let record = link.record(None);
        assert_closed(&record);
        prop_assert_eq!(record.packets.inside, 0);
        prop_assert_eq!(link.next_event_ns(), None);
        for (direction, record) in [(Direction::Up, &record.up), (Direction::Down, &record.down)] {
            let came = arrivals.iter().filter(|arrival| arrival.direction == direction);
            prop_assert_eq!(record.in_bytes, came.map(|arrival| u64::from(arrival.packet.size_bytes)).sum::<u64>());
        }
    }

    #[test]
    fn each_packet_inside_is_listed_and_leaves_when_announced(profile in common::profile(), arrivals in common::arrivals(), seed: u64) {
        let mut link = link(&profile, seed);
        let (mut outcomes, mut promised) = (Vec::new(), BTreeMap::new());
        for arrival in &arrivals {
            link.arrive(arrival.direction, arrival.packet, arrival.at_ns);
            link.advance(arrival.at_ns, &mut outcomes);
            let mut inside = Vec::new();
            link.each_inside(&mut inside);
            let packets = link.record(None).packets;
            prop_assert_eq!(u64::try_from(inside.len()).unwrap(), packets.inside);
            prop_assert_eq!(u64::try_from(outcomes.len() + inside.len()).unwrap(), packets.entered + packets.duplicated);
            prop_assert!(inside.is_sorted_by_key(|outcome| (outcome.direction, outcome.number, outcome.copy)));
            for Outcome { direction, number, copy, arrived_ns, fate, .. } in inside {
                let Fate::Inside { due_ns } = fate else { panic!("{fate:?}") };
                if let Some(due_ns) = due_ns {
                    promised.insert((direction, number, copy), (arrived_ns, due_ns));
                }
            }
        }
        link.advance(u64::MAX, &mut outcomes);
        let left = outcomes.iter().filter(|outcome| matches!(outcome.fate, Fate::Leaves { .. })).map(|outcome| {
            ((outcome.direction, outcome.number, outcome.copy), (outcome.arrived_ns, outcome.fate.at_ns()))
        });
        let left: BTreeMap<_, _> = left.collect();
        for (packet, times) in promised {
            prop_assert_eq!(left.get(&packet), Some(&times), "{:?}", packet);
        }
    }

    #[test]
    fn every_packet_has_its_outcomes_in_order_of_time_and_after_its_arrival(
        profile in common::profile(), arrivals in common::arrivals(), seed: u64,
    ) {
        let outcomes = simulate(&mut link(&profile, seed), &arrivals);
        prop_assert!(outcomes.is_sorted_by_key(|line| line.outcome.fate.at_ns()));
        let mut found: BTreeMap<(Direction, u64), Vec<Outcome>> = BTreeMap::new();
        for LogLine { outcome, .. } in outcomes {
            prop_assert!(outcome.fate.at_ns() >= outcome.arrived_ns);
            if let Fate::Leaves { corrupted_bit: Some(bit), .. } = outcome.fate {
                prop_assert!(bit < outcome.size_bytes * 8);
            }
            found.entry((outcome.direction, outcome.number)).or_default().push(outcome);
        }
        prop_assert_eq!(found.len(), arrivals.len());
        for outcomes in found.values() {
            prop_assert!(outcomes.iter().all(|outcome| usize::from(outcome.outcomes) == outcomes.len()), "{:?}", outcomes);
            let copies: u8 = outcomes.iter().map(|outcome| outcome.copy).sum();
            prop_assert_eq!(usize::from(copies), outcomes.len() - 1);
        }
    }

    #[test]
    fn late_calls_change_nothing(profile in common::profile(), arrivals in common::arrivals(), seed: u64, nth in 1_usize..40) {
        let exact: Vec<Outcome> = simulate(&mut link(&profile, seed), &arrivals).into_iter().map(|line| line.outcome).collect();
        let mut slow = link(&profile, seed);
        prop_assert_eq!(late(&mut slow, &arrivals, nth), exact);
        let mut quick = link(&profile, seed);
        let _ = simulate(&mut quick, &arrivals);
        prop_assert_eq!(slow.record(None), quick.record(None));
    }

    #[test]
    fn nothing_leaves_before_the_next_event(profile in common::profile(), arrivals in common::arrivals(), seed: u64) {
        let mut link = link(&profile, seed);
        let mut outcomes = Vec::new();
        for arrival in &arrivals {
            while let Some(next_ns) = link.next_event_ns().filter(|next_ns| *next_ns < arrival.at_ns) {
                link.advance(next_ns - u64::from(next_ns > 0), &mut outcomes);
                let early = outcomes.drain(..).filter(|outcome| matches!(outcome.fate, Fate::Leaves { due_ns, .. } if due_ns < next_ns));
                prop_assert_eq!(early.count(), 0);
                link.advance(next_ns, &mut outcomes);
                outcomes.clear();
            }
            link.arrive(arrival.direction, arrival.packet, arrival.at_ns);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_log_and_the_same_record_byte_for_byte(profile in common::profile(), arrivals in common::arrivals(), seed: u64) {
        let run = || {
            let mut link = link(&profile, seed);
            let log: String = simulate(&mut link, &arrivals).iter().map(|line| format!("{line}\n")).collect();
            (log, serde_json::to_string(&link.record(None)).unwrap())
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn the_directions_are_independent(profile in common::profile(), arrivals in common::arrivals(), seed: u64) {
        let up = |arrivals: &[Arrival]| -> Vec<LogLine> {
            let lines = simulate(&mut link(&profile, seed), arrivals);
            lines.into_iter().filter(|line| line.outcome.direction == Direction::Up).collect()
        };
        let alone: Vec<Arrival> = arrivals.iter().copied().filter(|arrival| arrival.direction == Direction::Up).collect();
        prop_assert_eq!(up(&arrivals), up(&alone));
    }

    /// A longer search: `PROPTEST_CASES=1000000 cargo test -p hairpin-link --test all any_calls`. It took 4.4 minutes
    /// on a virtual machine with 2 CPUs, and found nothing.
    #[test]
    fn any_calls_cause_no_panic_and_counts_add_up(profile in common::profile(), calls in hostile_calls(), seed: u64) {
        let mut link = link(&profile, seed);
        let mut outcomes = Vec::new();
        for (now_ns, packet, call) in calls {
            match call {
                0 => link.advance(now_ns, &mut outcomes),
                1 => link.arrive(Direction::Up, packet, now_ns),
                _ => link.arrive(Direction::Down, packet, now_ns),
            }
            let _ = link.next_event_ns();
        }
        assert_closed(&link.record(None));
        link.advance(u64::MAX, &mut outcomes);
        let record = link.record(None);
        assert_closed(&record);
        assert_eq!(record.packets.inside, 0);
    }
}

type HostileCall = (u64, Packet, u8);

/// Times that jump back and forth; huge times, sizes and numbers.
fn hostile_calls() -> impl Strategy<Value = Vec<HostileCall>> {
    let time = prop_oneof![any::<u64>(), 0_u64..100_000_000];
    let size = prop_oneof![any::<u32>(), 0_u32..1600];
    let number = prop_oneof![any::<u64>(), 0_u64..100];
    let packet = (number, size, any::<bool>()).prop_map(|(number, size_bytes, carries_data)| Packet {
        number,
        size_bytes,
        carries_data,
    });
    prop::collection::vec((time, packet, 0_u8..3), 0..60)
}

/// A packet with data in the `Up` direction.
fn arrival(number: u64, at_ns: u64, size_bytes: u32) -> Arrival {
    Arrival { at_ns, direction: Direction::Up, packet: Packet { number, size_bytes, carries_data: true } }
}

#[test]
fn an_arrival_before_the_last_call_counts_at_the_time_of_that_call() {
    let mut link = link(&"delay=1ms".parse().unwrap(), 0);
    let mut outcomes = Vec::new();
    link.advance(5_000_000, &mut outcomes);
    link.arrive(Direction::Up, arrival(0, 4_000_000, 100).packet, 4_000_000);
    assert_eq!(link.next_event_ns(), Some(6_000_000));
    link.advance(6_000_000, &mut outcomes);
    assert_eq!((outcomes[0].arrived_ns, outcomes[0].fate.at_ns()), (5_000_000, 6_000_000));
}

/// 1500 B at 12 Mbit/s take 1 ms, and nothing can leave before the delay has passed too.
#[test]
fn the_next_event_includes_the_minimum_delays_of_later_stages() {
    let mut link = link(&"up=12mbit delay=20ms".parse().unwrap(), 0);
    link.arrive(Direction::Up, arrival(0, 0, 1500).packet, 0);
    assert_eq!(link.next_event_ns(), Some(21_000_000));
}

#[test]
fn a_log_line_has_a_column_for_each_word_of_the_header() {
    let mut link = link(&"up=12mbit up.queue=1packets down.corrupt=100%".parse().unwrap(), 7);
    let down = Arrival { direction: Direction::Down, ..arrival(0, 5, 1500) };
    let arrivals = [arrival(0, 5, 1500), arrival(1, 5, 1500), arrival(2, 5, 1500), down];
    let lines: Vec<String> = simulate(&mut link, &arrivals).iter().map(ToString::to_string).collect();
    assert_eq!(lines[0], "up 2 0 1500 5 - - dropped:queue:full@5");
    assert!(lines[1].starts_with("down 0 0 1500 5 5 5 left:bit="), "{}", lines[1]);
    assert_eq!(lines[2], "up 0 0 1500 5 1000005 1000005 left");
    let columns = hairpin_link::log::HEADER.split(' ').count() - 1;
    assert!(lines.iter().all(|line| line.split(' ').count() == columns));
}

/// A packet that is held back exactly until the next packet arrives leaves before that packet: of two simultaneous
/// events, the event farther along the path happens first.
#[test]
fn of_simultaneous_events_the_event_farther_along_happens_first() {
    let mut link = link(&"delay=1ms reorder=50%/1ms".parse().unwrap(), 7);
    let arrivals: Vec<Arrival> = (0..1000).map(|number| arrival(number, number * 1_000_000, 100)).collect();
    let numbers: Vec<u64> = simulate(&mut link, &arrivals).iter().map(|line| line.outcome.number).collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    assert_eq!(link.path(Direction::Up).packets().reordered, 0);
}

#[test]
fn a_copy_directly_behind_its_packet_counts_as_duplicated_not_as_reordered() {
    let mut link = link(&"duplicate=100%".parse().unwrap(), 7);
    let _ = simulate(&mut link, &[arrival(0, 0, 100)]);
    let record = link.record(None);
    let stage = record.up.stages.iter().find(|stage| stage.stage == "duplicate").unwrap();
    assert_eq!(
        (stage.packets.entered, stage.packets.duplicated, stage.packets.out, stage.packets.reordered),
        (1, 1, 2, 0)
    );
    assert_eq!((record.packets.duplicated, record.packets.out, record.packets.reordered), (1, 2, 0));
}

#[test]
fn drops_beyond_the_limit_of_the_list_are_counted() {
    let mut link = link(&"up.loss=100%".parse().unwrap(), 7);
    let mut arrivals: Vec<Arrival> = (0..1500).map(|number| arrival(number, number, 100)).collect();
    arrivals[3].packet.carries_data = false;
    let _ = simulate(&mut link, &arrivals);
    let up = link.record(None).up;
    assert_eq!((up.drops.len(), up.drops_unlisted), (1000, 500));
    let third = &up.drops[3];
    assert_eq!((third.number, third.arrived_ns, third.dropped_ns, third.carries_data), (3, 3, 3, false));
    assert_eq!((third.stage.as_str(), third.reason.as_str()), ("loss", "random"));
}

#[test]
fn a_missing_trace_is_named_in_the_error() {
    let profile: Profile = "up.replay=a.trace down.replay=b.trace".parse().unwrap();
    assert_eq!(profile.traces(), ["a.trace", "b.trace"]);
    let error = Link::new(&profile, 0, &[]).err().unwrap();
    assert!(
        error.to_string().starts_with("the link profile replays the trace `a.trace`, which was not given (hint: ")
    );
}

#[test]
fn an_impossible_profile_makes_no_link() {
    let mut profile = Profile::default();
    profile.up.bottleneck.rate_bits_per_s = Some(0);
    let error = Link::new(&profile, 0, &[]).err().unwrap();
    assert!(error.to_string().contains("a rate of 0 lets nothing through"), "{error}");
}
