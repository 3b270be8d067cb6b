//! Fixture runs of probes under load. All figures are invented.

use std::collections::BTreeMap;

use hairpin_model::flow::{Direction, FlowRole, WRITE_BYTES};
use hairpin_model::phases::{Phase, RESPONSIVENESS_DRAFT};
use hairpin_model::summary::Verdict;
use hairpin_model::{
    AddedFigures, Case, CaseSummary, CpuFigures, EndSettings, Figure, Flow, FlowSummary, LatencyFigures, Ledger,
    LoadFigures, LoadedMoment, LoadedOverTime, Options, Path, PhaseFigures, PhasesOfCase, ProbeFigures, QueueBytes,
    Responsiveness, Run, Statement, UnderLoad, WhichCpus,
};

use super::one_way::run_of;
use super::{Generator, around, curve};

const MS: f64 = 1e6;
/// Starts of idle, ramp, loaded and recovering, and the end of the round, in ns.
const TIMES_NS: [u64; 5] = [0, 1_000_000_000, 6_000_000_000, 11_000_000_000, 13_000_000_000];
const MOMENT_NS: u64 = 100_000_000;

/// The options and the directions of a load, the loaded median in ms, and the bytes in the queue.
type Load = (&'static str, &'static [Direction], f64, Option<f64>);

/// Over a link of 10 Mbit/s: no load, two congestion controls, and both directions, where the probe loses messages.
pub fn congestion() -> Run {
    const LOADS: &[Load] = &[
        ("", &[], 10.4, None),
        ("congestion=cubic", &[Direction::Up], 183.6, Some(218_000.0)),
        ("congestion=bbr", &[Direction::Up], 19.5, Some(12_000.0)),
        ("congestion=cubic", &[Direction::Up, Direction::Down], 196.0, Some(131_000.0)),
    ];
    let link = Path { link: "rate=10mbit queue=256KiB delay=5ms".to_owned(), name: None, across: None };
    let mut generator = Generator(11);
    let mut cases: Vec<CaseSummary> = Vec::new();
    for load in LOADS {
        let case = probed(load).with(|case| case.path = link.clone());
        cases.push(row(case, load, 10.3 * MS, &mut generator));
    }
    let lost = &mut cases[3].under_load.as_mut().expect("a case under load").phases.loaded.probe;
    lost.ledger = Ledger {
        sent: 5000,
        received: 4950,
        lost: BTreeMap::from([("link-queue".to_owned(), 50)]),
        ..Ledger::default()
    };
    lost.samples = 4950;
    cases[3].primary_mut().ledger = lost_of_all(&cases[3]);
    cases[3].primary_mut().samples = 4950;
    cases[1].under_load.as_mut().expect("a case under load").rounds_left_out =
        vec!["round 4: the load began 700 ms late".to_owned()];
    let [unloaded, cubic, bbr, both] = [0, 1, 2, 3].map(|place: usize| cases[place].id.clone());
    let loads = vec![bbr.clone(), cubic, both.clone()];
    let statements = vec![
        Statement::Loads { cases: loads.clone(), least: vec![bbr], most: vec![both.clone()] },
        Statement::Responsiveness { cases: loads },
        Statement::WithoutLoad { case: unloaded, verdict: Some(Verdict::Slower) },
        Statement::ProbeLost { case: both, phase: Phase::Loaded },
    ];
    run(cases, statements)
}

/// On the loopback, where the queue is unknown: a load on the probe's CPU, and a load on another CPU.
pub fn two_cpus() -> Run {
    const LOADS: [Load; 2] = [("", &[Direction::Up], 0.0954, None), ("", &[Direction::Up], 0.0463, None)];
    let mut generator = Generator(12);
    let case = |(place, load): (usize, &Load)| {
        let case = probed(load).with(|case| {
            let ends = EndSettings { cpus: WhichCpus::Other, ..case.ends };
            case.flows[1].ends = (place == 1).then_some(ends);
        });
        let mut row = row(case, load, 0.0476 * MS, &mut generator);
        let under_load = row.under_load.as_mut().expect("a case under load");
        under_load.responsiveness_rpm = None;
        if place == 1 {
            under_load.added_ns = AddedFigures { p50: Some(Figure::new(-1300.0, -66_400.0, 53_100.0)), p99: None };
        }
        row
    };
    let cases: Vec<CaseSummary> = LOADS.iter().enumerate().map(case).collect();
    let [same, other] = [0, 1].map(|place: usize| cases[place].id.clone());
    let loads = Statement::Loads { cases: vec![other.clone(), same.clone()], least: vec![other], most: vec![same] };
    run(cases, vec![loads])
}

fn run(cases: Vec<CaseSummary>, statements: Vec<Statement>) -> Run {
    let mut run = run_of("under-load", "What does a load on the path add to the latency of other traffic?", cases);
    super::answer(&mut run, statements);
    run
}

/// A probe over UDP that sends 64 B at 100/s, under streams over TCP.
fn probed((options, ways, ..): &Load) -> Case {
    let mut case = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
    case.primary_mut().load.set_sizes(64, 64);
    case.primary_mut().load = case.primary().load.paced(100.0);
    for (id, way) in ["load", "load-back"].into_iter().zip(*ways) {
        let options = Options::parse(options).expect("the options of a fixture");
        let load = Flow::stream("tcp", WRITE_BYTES, *way).in_role(FlowRole::Load);
        case.flows.push(Flow { id: id.into(), options, ..load });
    }
    case
}

fn row(case: Case, (_, ways, loaded_ms, queue): &Load, idle_ns: f64, generator: &mut Generator) -> CaseSummary {
    let loaded_ns = loaded_ms * MS;
    let mut row = super::summary(case, loaded_ns, generator);
    let samples = 5000;
    row.primary_mut().samples = samples;
    row.primary_mut().curve = curve(loaded_ns, false, samples, generator);
    row.primary_mut().latency_ns.p999 = None;
    row.primary_mut().latency_ns.p99 = Some(around(loaded_ns * 1.2, 0.03));
    let idle_curve = curve(idle_ns, false, samples / 5, generator);
    let phase = |p50_ns: f64, samples: u64| PhaseFigures {
        probe: ProbeFigures {
            samples,
            latency_ns: LatencyFigures {
                p50: Some(around(p50_ns, 0.002)),
                p90: Some(around(p50_ns * 1.1, 0.02)),
                p99: Some(around(p50_ns * 1.2, 0.03)).filter(|_| samples >= 1000),
                p999: None,
                max: Some(around(p50_ns * 1.3, 0.03)),
                mean: Some(around(p50_ns * 1.02, 0.02)),
            },
            ledger: Ledger { sent: samples, received: samples, ..Ledger::default() },
            curve: Vec::new(),
        },
        load: LoadFigures::default(),
        queue_bytes: queue.map(|_| QueueBytes { p50: Figure::bare(0.0), max: 15_092.0 }),
        cpu: CpuFigures { used: Some(Figure::bare(0.0313)), probe_waited_ns: Some(Figure::bare(9100.0)) },
    };
    let idle = phase(idle_ns, samples / 5);
    let loaded = PhaseFigures {
        probe: ProbeFigures { latency_ns: row.primary().latency_ns, ..phase(loaded_ns, samples).probe },
        load: LoadFigures {
            goodput_bytes_per_s: (!ways.is_empty()).then(|| around(1.2e6 * ways.len() as f64, 0.01)),
        },
        queue_bytes: queue.map(|bytes| QueueBytes { p50: around(bytes, 0.03), max: bytes * 1.2 }),
        ..phase(loaded_ns, samples)
    };
    row.primary_mut().latency_ns.p50 = loaded.probe.latency_ns.p50;
    row.under_load = Some(UnderLoad {
        phases: PhasesOfCase {
            idle: PhaseFigures { probe: ProbeFigures { curve: idle_curve, ..idle.probe }, ..idle },
            loaded,
            recovering: phase(idle_ns, samples * 2 / 5),
        },
        added_ns: AddedFigures {
            p50: Some(around(loaded_ns - idle_ns, 0.015)),
            p99: Some(around((loaded_ns - idle_ns) * 1.2, 0.04)),
        },
        responsiveness_rpm: (!ways.is_empty()).then(|| Responsiveness {
            figure: around(60e9 / loaded_ns, 0.04),
            draft: RESPONSIVENESS_DRAFT.to_owned(),
        }),
        recovered_after_ns: (!ways.is_empty()).then(|| around(715.0 * MS, 0.02)),
        rounds_left_out: Vec::new(),
        left_out: Vec::new(),
        over_time: Some(over_time([idle_ns, loaded_ns], *queue, ways.len())),
    });
    let loads: Vec<Flow> = row.case.loads().into_iter().cloned().collect();
    for flow in loads {
        let mut load = FlowSummary { flow, ..row.primary().clone() };
        (load.samples, load.latency_ns, load.curve) = (900, LatencyFigures::default(), Vec::new());
        load.ledger = Ledger { sent: 900, received: 900, ..Ledger::default() };
        load.one_way = Some(super::one_way::stream_figures(1.2e6));
        row.flows.push(load);
    }
    row.primary_mut().ledger = lost_of_all(&row);
    row
}

fn lost_of_all(row: &CaseSummary) -> Ledger {
    let phases = &row.under_load.as_ref().expect("a case under load").phases;
    phases.each().into_iter().fold(Ledger::default(), |all, (_, phase)| all.plus(&phase.probe.ledger))
}

/// Latency rises during the ramp, is constant under load, and falls after the load. Moment 3 has no answer.
fn over_time([idle_ns, loaded_ns]: [f64; 2], queue: Option<f64>, loads: usize) -> LoadedOverTime {
    let [_, load_from_ns, loaded_from_ns, recovering_from_ns, until_ns] = TIMES_NS;
    let moment = |number: u64| {
        let from_ns = number * MOMENT_NS;
        let risen = (from_ns.saturating_sub(load_from_ns) as f64 / (loaded_from_ns - load_from_ns) as f64).min(1.0);
        let share = if from_ns < recovering_from_ns { risen } else { 0.0 };
        let ns = idle_ns + (loaded_ns - idle_ns) * share;
        LoadedMoment {
            at_ns: from_ns + MOMENT_NS,
            latency_ns: (number != 3).then(|| Figure::new(ns, ns * 0.95, ns * 1.1)),
            goodput_bytes_per_s: (loads > 0).then_some(if share > 0.0 { 1.2e6 * loads as f64 } else { 0.0 }),
            queue_bytes: queue.map(|bytes| bytes * share),
        }
    };
    LoadedOverTime {
        load_from_ns,
        loaded_from_ns,
        recovering_from_ns,
        until_ns,
        moments: (0..until_ns / MOMENT_NS).map(moment).collect(),
    }
}
