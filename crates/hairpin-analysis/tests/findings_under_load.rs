//! Detectors that do not consider loads, on a probe under load: their findings must be true of the probe, or absent.

use hairpin_analysis::{findings, phase_figures};
use hairpin_model::flow::Direction;
use hairpin_model::{
    ByPhase, Case, CpuIdle, EndSettings, Fact, Finding, FlowRecord, Measured, Noise, Outcome, PhaseLengths,
    PhaseSamples, Placement, Turnaround, fact_names, finding_keys as keys,
};

use crate::support::links::{dropping, over};
use crate::support::under_load::{Beside, MESSAGES, probed, probed_over_link};
use crate::support::{Fixture, back_to_back, paced, value};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

fn beside_load() -> Case {
    probed(&[Direction::Up])
}

fn found(case: &Case, beside: Beside, change: impl Fn(&mut Measured)) -> Vec<Finding> {
    let mut fixture = Fixture::new();
    (0..6).for_each(|block| fixture.beside_with(case, block, beside, &change));
    findings(&fixture.run())
}

fn codes(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|finding| finding.code.as_str()).collect()
}

#[test]
fn cpu_time_of_the_load_is_not_noise() {
    // Each end of the load uses half a CPU for one second.
    let noise = |busy_ns: u64| {
        let found = found(&beside_load(), Beside::latencies(50 * US, 50 * US), |measured| {
            measured.noise = Noise { busy_ns, wall_ns: 1_600 * MS, runnable_before: 1, ..Noise::default() };
        });
        codes(&found).join(" ")
    };
    assert_eq!(noise(1_000 * MS), "");
    // A tenth of two CPUs is 320 ms, and the counters have steps of 10 ms per CPU.
    assert_eq!(noise(1_339 * MS), "");
    assert_eq!(noise(1_341 * MS), "noisy-machine");
}

#[test]
fn a_probe_that_waits_for_a_cpu_is_no_late_generator() {
    let late = Beside { late_ns: 200 * US, ..Beside::latencies(50 * US, 300 * US) };
    assert_eq!(codes(&found(&beside_load(), late, |_| {})), ["generator-late"]);
    let waits = Beside { waited_ns: [0, 200 * US], ..late };
    assert_eq!(codes(&found(&beside_load(), waits, |_| {})), ["cpu-contention"]);
}

#[test]
fn answers_queued_behind_a_load_do_not_mean_a_missed_rate() {
    let behind = |case: &Case| {
        codes(&found(case, Beside::latencies(10 * MS, 184 * MS), |measured| {
            measured.primary_mut().figures.rate_per_s = 80.0
        }))
        .join(" ")
    };
    assert_eq!(behind(&probed(&[])), "rate-not-reached");
    assert_eq!(behind(&beside_load()), "");
}

#[test]
fn retransmissions_of_the_load_are_not_the_probes() {
    let tcp = over("rate=10mbit queue=256KiB delay=5ms", beside_load())
        .with(|case| case.primary_mut().transport = "tcp".to_owned());
    let again = |place: usize| {
        found(&tcp, Beside::latencies(10 * MS, 12 * MS).queued(0), |measured| {
            measured.ends[place].facts = vec![Fact::number(fact_names::RETRANSMITS, 5.0)];
        })
    };
    assert_eq!(codes(&again(2)), Vec::<&str>::new());
    let own = again(0);
    assert_eq!(codes(&own), ["retransmission"]);
    assert_eq!([keys::RESENT, keys::ROUNDS].map(|key| value(&own[0], key)), [30.0, 6.0]);
    assert_eq!(own[0].figure(keys::LINK_DROPPED), None);
}

#[test]
fn drops_with_several_flows_are_not_matched_to_messages() {
    let drops = |case: &Case| {
        let mut fixture = Fixture::new();
        let samples = paced(10 * MS, &[(0, 9 * MS); MESSAGES as usize]);
        fixture.round_with(case, 0, &samples, |measured| measured.link = Some(dropping("queue", &[5 * MS])));
        let Outcome::Measured(measured) = &fixture.rounds[0].outcome else { panic!("it is measured") };
        measured.primary().figures.drops.map(|drops| drops.messages_hit)
    };
    assert_eq!(drops(&over("rate=10mbit", probed(&[]))), Some(1));
    assert_eq!(drops(&probed_over_link()), None);
}

#[test]
fn stalls_of_the_server_are_a_part_of_the_round_trips_of_all_phases() {
    let found = found(&beside_load(), Beside::latencies(MS, 7 * MS), |measured| {
        let mut turnaround =
            Turnaround { counts: vec![390; 10], total_ns: 390 * 1_500 + 10 * 3 * MS, max_ns: 3 * MS };
        turnaround.counts = (0..22)
            .map(|bucket| {
                if bucket == 10 {
                    390
                } else if bucket == 21 {
                    10
                } else {
                    0
                }
            })
            .collect();
        measured.ends[1].turnaround = Some(turnaround);
    });
    // 10 stalls of 3 ms, of 300 messages of 1 ms and 100 of 7 ms.
    let stalled = found.iter().find(|finding| finding.code == "echo-stalled").unwrap();
    assert!((stalled.share - 30.0 / 1000.0).abs() < 0.001, "{}", stalled.share);
}

#[test]
fn under_a_load_waking_is_not_blamed() {
    let verdict = |case: &Case| {
        let mut fixture = Fixture::new();
        let awake = case.clone().with(|case| case.ends.cpu_idle = CpuIdle::Shallow);
        fixture.all_beside(case, Beside::latencies(60 * US, 60 * US));
        fixture.all_beside(&awake, Beside::latencies(10 * US, 10 * US));
        codes(&findings(&fixture.run())).join(" ")
    };
    let apart = |case: Case| {
        let ends = EndSettings { placement: Placement::CrossCpu, ..case.ends };
        case.with(|case| case.ends = ends)
    };
    assert_eq!(verdict(&apart(probed(&[]))), "wake-up-dominated");
    assert_eq!(verdict(&apart(beside_load())), "");
}

#[test]
fn the_rate_of_a_probe_is_that_of_the_loaded_phase() {
    let mut samples = back_to_back(&[], &[MS; 350]);
    samples.phases = Some(Box::new(PhaseSamples {
        others: ByPhase::default(),
        counts: ByPhase::default(),
        over_time: hairpin_model::phases::ProbeTimeLine::default(),
    }));
    let spans = PhaseLengths::usual(false).spans(0);
    let mut flow = FlowRecord::default();
    phase_figures(&mut flow, Some(&spans), Some(&samples));
    assert_eq!(flow.figures.rate_per_s, 500.0, "350 in 700 ms");
}
