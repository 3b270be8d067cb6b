//! A case under load over its rounds: valid and omitted rounds, and figures.

use hairpin_model::flow::Direction;
use hairpin_model::{ByPhase, LeftOut, Measured, ProbeTimeLine, Span};

use crate::support::Fixture;
use crate::support::under_load::{Beside, lengths, probed, probed_over_link};

const MS: u64 = 1_000_000;

fn spans() -> ByPhase<Span> {
    lengths(true).spans(0)
}

/// A time line with intervals of 100 ms; `latency_ms` gives the mean latency at a time in ms.
fn over_time(latency_ms: impl Fn(u64) -> u64) -> ProbeTimeLine {
    let intervals = spans().recovering.until_ns / (100 * MS);
    let mean_ns: Vec<f64> = (0..intervals).map(|number| (latency_ms(number * 100) * MS) as f64).collect();
    ProbeTimeLine { interval_ns: 100 * MS, answered: vec![10; mean_ns.len()], mean_ns }
}

/// The reason why a round with `change` is omitted, beside five valid rounds.
fn left_out(change: impl Fn(&mut Measured)) -> Option<LeftOut> {
    let mut fixture = Fixture::new();
    let case = probed_over_link();
    let beside = Beside::latencies(10 * MS, 180 * MS).queued(212_500);
    let steady = |measured: &mut Measured| {
        measured.primary_mut().phases.as_mut().unwrap().over_time =
            over_time(|at_ms| if at_ms < 1_000 { 10 } else { 180 });
    };
    (0..5).for_each(|block| fixture.beside_with(&case, block, beside, steady));
    fixture.beside_with(&case, 5, beside, |measured| {
        steady(measured);
        change(measured);
    });
    let run = fixture.run();
    assert!(run.cases[0].valid, "{:?}", run.cases[0].reasons);
    let left_out = &run.cases[0].under_load.as_ref().unwrap().left_out;
    assert!(left_out.len() <= 1 && left_out.iter().all(|left_out| left_out.round == 5), "{left_out:?}");
    left_out.first().map(|left_out| left_out.why.clone())
}

#[test]
fn a_round_with_invalid_phases_is_omitted_with_the_reason() {
    assert_eq!(left_out(|_| {}), None);
    let phases = |measured: &mut Measured, change: &dyn Fn(&mut hairpin_model::phases::ProbePhases)| {
        change(measured.primary_mut().phases.as_mut().unwrap());
    };
    let unanswered = left_out(|measured| phases(measured, &|phases| phases.by_phase.idle.samples = 0));
    assert_eq!(unanswered, Some(LeftOut::IdleUnanswered));
    let busy = left_out(|measured| {
        let line = measured.link.as_mut().unwrap().up.timeline.as_mut().unwrap();
        line.queue_bytes_mean.fill(5 * 1024);
    });
    assert_eq!(busy, Some(LeftOut::QueueNotIdle { bytes: 5120.0 }));
    let busy = left_out(|measured| {
        measured.link = None;
        phases(measured, &|phases| {
            phases.by_phase.idle.latency_ns.p50 = 120e6;
            phases.by_phase.idle.least_ns = 10e6;
        });
    });
    assert_eq!(busy, Some(LeftOut::NotIdle { p50_ns: 120e6, least_ns: 10e6 }));
    let late = left_out(|measured| measured.flows[1].started_ns = Some(spans().ramp.from_ns + 700 * MS));
    assert_eq!(late, Some(LeftOut::LoadLate { late_ns: 700 * MS }));
    let short = left_out(|measured| measured.flows[1].received.as_mut().unwrap().over_ns = 2_000 * MS);
    assert_eq!(short, Some(LeftOut::LoadShort { received_ns: 2e9, loaded_ns: 5e9 }));
    let rising = left_out(|measured| {
        let second_half_ms = (spans().loaded.from_ns + spans().loaded.until_ns) / 2 / MS;
        phases(measured, &|phases| {
            phases.over_time = over_time(|at_ms| match at_ms {
                0..1_000 => 10,
                _ if at_ms < second_half_ms => 60,
                _ => 180,
            });
        });
    });
    let up_and_down = left_out(|measured| {
        let second_half_ms = (spans().loaded.from_ns + spans().loaded.until_ns) / 2 / MS;
        let to_its_height = 4_000..5_000;
        phases(measured, &|phases| {
            phases.over_time = over_time(|at_ms| match at_ms {
                0..1_000 => 10,
                _ if at_ms >= second_half_ms || to_its_height.contains(&at_ms) => 210,
                _ => 140,
            });
        });
    });
    assert_eq!(up_and_down, None, "the latency was as high before");
    assert_eq!(rising, Some(LeftOut::LoadUnsteady { first_ns: 60e6, second_ns: 180e6 }));
}

#[test]
fn added_latency_is_per_round_and_recovery_ends_with_the_last_slow_interval() {
    let mut fixture = Fixture::new();
    let case = probed_over_link();
    let ends_ms = spans().recovering.from_ns / MS;
    for block in 0..6 {
        let beside = Beside::latencies(10 * MS, (180 + u64::from(block)) * MS).queued(212_500);
        fixture.beside_with(&case, block, beside, |measured| {
            measured.primary_mut().phases.as_mut().unwrap().over_time =
                over_time(|at_ms| if (1_000..ends_ms + 700).contains(&at_ms) { 180 } else { 10 });
        });
    }
    let run = fixture.run();
    let under_load = run.cases[0].under_load.as_ref().unwrap();
    assert_eq!(under_load.added_ns.p50.unwrap().value, 172.5 * MS as f64);
    assert_eq!(under_load.added_ns.p99, None, "the idle phases have 600 samples");
    assert_eq!(under_load.recovered_after_ns.unwrap().value, 700.0 * MS as f64);
    let queue = under_load.phases.loaded.queue_bytes.unwrap();
    assert_eq!((queue.p50.value, queue.max), (212_500.0, 212_500.0));
    assert_eq!(under_load.phases.idle.queue_bytes.unwrap().p50.value, 0.0);
    let over_time = under_load.over_time.as_ref().unwrap();
    let lengths = lengths(true);
    assert_eq!((over_time.load_from_ns, over_time.until_ns), (lengths.idle, lengths.total_ns()));
    let at = |ms: u64| over_time.moments.iter().find(|moment| moment.at_ns > ms * MS).unwrap();
    assert_eq!(at(500).latency_ns.unwrap().value, 10.0 * MS as f64);
    assert_eq!(at(ends_ms - 500).latency_ns.unwrap().value, 180.0 * MS as f64);
    assert_eq!(at(ends_ms - 500).queue_bytes, Some(212_500.0));
}

#[test]
fn goodput_under_load_is_that_of_all_loads_together() {
    let goodput = |ways: &[Direction]| {
        let mut fixture = Fixture::new();
        fixture.all_beside(&probed(ways), Beside::latencies(10 * MS, 180 * MS));
        let run = fixture.run();
        run.cases[0].under_load.as_ref().unwrap().phases.loaded.load.goodput_bytes_per_s.unwrap().value
    };
    let one = goodput(&[Direction::Up]);
    assert!(one > 1e6, "each load of the fixture moves 1.2 MB/s, a little less at the start: {one}");
    assert_eq!(goodput(&[Direction::Up, Direction::Down]), 2.0 * one);
}

#[test]
fn a_probe_without_answers_under_load_has_no_latency_there() {
    let mut fixture = Fixture::new();
    let case = probed(&[Direction::Up]);
    for block in 0..6 {
        fixture.beside_with(&case, block, Beside::latencies(10 * MS, 180 * MS), |measured| {
            let loaded = &mut measured.primary_mut().phases.as_mut().unwrap().by_phase.loaded;
            loaded.samples = 0;
            loaded.latency_ns = hairpin_model::summary::Percentiles::default();
            loaded.ledger.received = 0;
            loaded.ledger.lost = [("link-queue".to_owned(), loaded.ledger.sent)].into();
        });
    }
    let run = fixture.run();
    let under_load = run.cases[0].under_load.as_ref().unwrap();
    assert_eq!(under_load.phases.loaded.probe.latency_ns.p50, None);
    assert_eq!((under_load.added_ns.p50, under_load.added_ns.p99), (None, None));
    assert_eq!(under_load.phases.loaded.probe.ledger.lost["link-queue"], 600);
    assert!(under_load.phases.idle.probe.latency_ns.p50.is_some());
}

/// Values from a damaged file.
#[test]
fn times_from_a_file_do_not_overflow() {
    let mut fixture = Fixture::new();
    let case = probed_over_link();
    let beside = Beside::latencies(10 * MS, 180 * MS).queued(1);
    fixture.beside_with(&case, 0, beside, |measured| {
        let huge = Span { from_ns: u64::MAX - 5, until_ns: u64::MAX };
        measured.phases = Some(ByPhase {
            idle: Span { from_ns: 0, until_ns: u64::MAX },
            ramp: huge,
            loaded: huge,
            recovering: huge,
        });
        measured.flows[1].started_ns = Some(u64::MAX);
        measured.flows[1].received.as_mut().unwrap().interval_ns = u64::MAX;
        measured.flows[1].received.as_mut().unwrap().interval_bytes = vec![u64::MAX; 3];
        measured.link.as_mut().unwrap().samples_began_ns = Some(u64::MAX);
        let line = &mut measured.primary_mut().phases.as_mut().unwrap().over_time;
        (line.interval_ns, line.answered) = (0, vec![1; 1000]);
        line.mean_ns.truncate(1);
    });
    assert_eq!(fixture.run().cases.len(), 1);
}
