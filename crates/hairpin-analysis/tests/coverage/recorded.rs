//! Checks how often the intervals of recorded runs contain the median over the other runs.
//!
//! `recording.txt` has the rounds of runs that `cargo xtask coverage` made one after the other for 20 minutes, as the
//! first lines of the file describe. Each run is summarised again here. The true value for a run is the median over
//! at least five other runs in the same state: their probe time, and for cases on two CPUs their wake-up time, is
//! within 2 % of the run's own.

use std::collections::BTreeMap;

use hairpin_model::{Case, Figure, Placement, Probe};

use crate::support::{Fixture, back_to_back};

const RECORDING: &str = include_str!("recording.txt");
/// Maximum ratio of the probes of runs in one machine state.
const ONE_STATE: f64 = 1.02;
/// Minimum number of other runs in a state to know its median.
const MIN_RUNS_IN_STATE: usize = 5;
const CASES: usize = 4;

#[derive(Clone, Copy)]
struct Round {
    case: usize,
    started_ms: u64,
    probes_ns: [u64; 2],
    waking_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
}

fn runs() -> BTreeMap<u64, Vec<Round>> {
    let mut runs: BTreeMap<u64, Vec<Round>> = BTreeMap::new();
    for line in RECORDING.lines().filter(|line| !line.starts_with('#')) {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [run, case, started_ms, client, server, waking_ns, p50_ns, p99_ns] = numbers[..] else {
            panic!("eight numbers: {line}");
        };
        let case = usize::try_from(case).expect("a small number");
        let round = Round { case, started_ms, probes_ns: [client, server], waking_ns, p50_ns, p99_ns };
        runs.entry(run).or_default().push(round);
    }
    runs
}

fn case(number: usize) -> Case {
    let placement = [Placement::SameCpu, Placement::CrossCpu][number % 2];
    Case::ping_pong(["tcp", "pipe"][number / 2]).with(|changed| changed.ends.placement = placement)
}

/// The results of a run for a case.
#[derive(Clone, Copy)]
struct Notice {
    probe_ns: f64,
    waking_ns: Option<f64>,
    figures: [Option<Figure>; 2],
}

/// The results of a run for each case.
fn told(rounds: &[Round]) -> BTreeMap<usize, Notice> {
    let mut fixture = Fixture::new();
    let mut blocks = [0_u32; CASES];
    for round in rounds {
        let block = &mut blocks[round.case];
        // The last of 99 messages is the p99, and eleven rounds have enough samples for a p99.
        let latencies: Vec<u64> = [vec![round.p50_ns; 98], vec![round.p99_ns.max(round.p50_ns)]].concat();
        fixture.round_with(&case(round.case), *block, &back_to_back(&[], &latencies), |measured| {
            let probe = |ns: u64| Some(Probe { before: ns, after: ns });
            (measured.ends[0].probe_ns, measured.ends[0].pinned_cpu) = (probe(round.probes_ns[0]), Some(0));
            measured.ends[0].waking_ns = Some(round.waking_ns).filter(|ns| *ns > 0);
            if let Some(server) = measured.ends.get_mut(1) {
                (server.probe_ns, server.pinned_cpu) = (probe(round.probes_ns[1]), Some(1));
            }
        });
        fixture.rounds.last_mut().expect("a round was added").started_ns = round.started_ms * 1_000_000;
        *block += 1;
    }
    let run = fixture.run();
    let of_case = |number: usize| {
        let id = case(number).id();
        let summary = run.cases.iter().find(|summary| summary.id == id)?;
        let probe_ns = run.machine.states.get(summary.state?.index)?.probe_ns;
        let waking_ns = run.machine.waking_ns.filter(|_| number % 2 == 1);
        Some((
            number,
            Notice {
                probe_ns,
                waking_ns,
                figures: [summary.primary().latency_ns.p50, summary.primary().latency_ns.p99],
            },
        ))
    };
    (0..CASES).filter_map(of_case).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

fn is_near(one: f64, other: f64) -> bool {
    (one / other).ln().abs() < ONE_STATE.ln()
}

/// Numbers of all runs, of those with an interval, of those that also have a true value, and of those that cover it.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    runs: usize,
    with_interval: usize,
    told: usize,
    covered: usize,
}

fn count(of_runs: &[Notice], figure: usize) -> Counts {
    let mut counts = Counts { runs: of_runs.len(), ..Counts::default() };
    for (place, run) in of_runs.iter().enumerate() {
        let Some((low, high)) = run.figures[figure].and_then(|figure| Some((figure.low?, figure.high?))) else {
            continue;
        };
        counts.with_interval += 1;
        let alike = |other: &&Notice| {
            is_near(other.probe_ns, run.probe_ns)
                && other.waking_ns.zip(run.waking_ns).is_none_or(|(one, other)| is_near(one, other))
        };
        let others = of_runs.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, other)| other);
        let alike: Vec<f64> = others.filter(alike).filter_map(|other| Some(other.figures[figure]?.value)).collect();
        if alike.len() >= MIN_RUNS_IN_STATE {
            let truth = median(alike);
            counts.told += 1;
            // A histogram bucket is 1/1024 wide.
            counts.covered += usize::from(low * 0.999 <= truth && truth <= high * 1.001);
        }
    }
    counts
}

#[test]
fn intervals_of_recorded_runs_hold_the_figures_of_all_of_them() {
    let runs: Vec<BTreeMap<usize, Notice>> = runs().values().map(|rounds| told(rounds)).collect();
    assert!(runs.len() >= 100, "{} runs", runs.len());
    let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
    for (figure, name, least) in [(0, "p50", 0.92), (1, "p99", 0.90)] {
        let counts: Vec<Counts> = (0..CASES)
            .map(|number| count(&runs.iter().filter_map(|run| run.get(&number).copied()).collect::<Vec<_>>(), figure))
            .collect();
        let sum = |of: fn(&Counts) -> usize| counts.iter().map(of).sum::<usize>();
        let pooled = share(sum(|one| one.covered), sum(|one| one.told));
        assert!(pooled >= least, "{name}: {pooled:.3} {counts:?}");
        for (number, one) in counts.iter().enumerate().filter(|_| name == "p50") {
            let label = case(number).label();
            assert!(share(one.covered, one.told) >= 0.88, "{label} {name}: {one:?}");
            assert!(share(one.with_interval, one.runs) >= 0.8, "{label} {name}: {one:?}");
        }
    }
}
