//! How often intervals over windows of a real recording hold the figures of the whole of it.
//!
//! `recording.txt` has each round of `hairpin round-trip --transport tcp,pipe --over 20m --rounds 2400`: the case, when it
//! began, what the probe took at the slower end, p50 and p99. The machine that made it is named in its first lines.

use std::collections::BTreeMap;

use hairpin_model::case::{Case, Placement};
use hairpin_model::figure::Figure;
use hairpin_model::round::Probe;
use hairpin_model::summary::CaseSummary;

use crate::support::{MadeUp, back_to_back};

const RECORDING: &str = include_str!("recording.txt");
const WINDOW_MS: u64 = 10_000;
/// Windows begin this far apart.
const STEP_MS: u64 = 5000;
/// Rounds whose probes differ by less are in one state.
const ONE_STATE: f64 = 1.06;

/// A recorded round.
#[derive(Clone, Copy)]
struct Round {
    case: usize,
    started_ms: u64,
    probe_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
}

fn recording() -> Vec<Round> {
    let lines = RECORDING.lines().filter(|line| !line.starts_with('#'));
    let round = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [case, started_ms, probe_ns, p50_ns, p99_ns] = numbers[..] else { panic!("five numbers: {line}") };
        Round { case: usize::try_from(case).unwrap(), started_ms, probe_ns, p50_ns, p99_ns }
    };
    lines.map(round).collect()
}

fn case(number: usize) -> Case {
    let placement = [Placement::Together, Placement::Apart][number % 2];
    Case { placement, ..Case::ping_pong(["tcp", "pipe"][number / 2]) }
}

/// The summaries of a run that had these rounds, and what the probe took in each state.
fn summaries(rounds: &[Round]) -> (Vec<CaseSummary>, Vec<f64>) {
    let mut made_up = MadeUp::new();
    let mut blocks = BTreeMap::new();
    for round in rounds {
        let block = blocks.entry(round.case).and_modify(|block| *block += 1).or_insert(0_u32);
        // Of 50 messages the last is the p99.
        let latencies: Vec<u64> = [vec![round.p50_ns; 49], vec![round.p99_ns.max(round.p50_ns)]].concat();
        made_up.round_with(&case(round.case), *block, &back_to_back(&[], &latencies), |measured| {
            measured.client.probe_ns = Some(Probe { before: round.probe_ns, after: round.probe_ns });
        });
        made_up.rounds.last_mut().expect("it was just added").started_ns = round.started_ms * 1_000_000;
    }
    let run = made_up.run();
    let probes = run.machine.states.iter().map(|state| state.probe_ns).collect();
    (run.cases, probes)
}

fn median(mut values: Vec<u64>) -> Option<f64> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[values.len() / 2]) as f64 / 2.0)
}

/// Windows with an interval, and those of them that cover.
#[derive(Debug, Default)]
struct Counts {
    windows: u32,
    told: u32,
    covered: u32,
}

impl Counts {
    fn count(&mut self, figure: Figure, truth: f64) {
        self.windows += 1;
        // A histogram bucket is a part in a thousand wide.
        if let (Some(low), Some(high)) = (figure.low, figure.high) {
            self.told += 1;
            self.covered += u32::from(low * 0.999 <= truth && truth <= high * 1.001);
        }
    }

    fn coverage(&self) -> f64 {
        f64::from(self.covered) / f64::from(self.told.max(1))
    }
}

#[test]
fn windows_of_ten_seconds_cover_the_figures_of_twenty_minutes() {
    let rounds = recording();
    let last_ms = rounds.iter().map(|round| round.started_ms).max().expect("there are rounds");
    assert!(last_ms > 19 * 60_000 && rounds.len() > 9000, "{} rounds in {last_ms} ms", rounds.len());
    let mut counts: BTreeMap<(usize, &str), Counts> = BTreeMap::new();
    for from_ms in (0..last_ms - WINDOW_MS).step_by(usize::try_from(STEP_MS).unwrap()) {
        let within = |round: &&Round| (from_ms..from_ms + WINDOW_MS).contains(&round.started_ms);
        let window: Vec<Round> = rounds.iter().filter(within).copied().collect();
        let (summaries, probes) = summaries(&window);
        for number in 0..4 {
            let id = case(number).id();
            let Some(summary) = summaries.iter().find(|summary| summary.id == id) else { continue };
            let Some(probe_ns) = summary.state.and_then(|state| probes.get(state.index)) else { continue };
            let alike = |round: &&Round| {
                let ratio = round.probe_ns as f64 / probe_ns;
                round.case == number && ratio < ONE_STATE && 1.0 / ratio < ONE_STATE
            };
            let alike: Vec<Round> = rounds.iter().filter(alike).copied().collect();
            let truth = |of: fn(&Round) -> u64| median(alike.iter().map(of).collect());
            if let (Some(figure), Some(truth)) = (summary.latency_ns.p50, truth(|round| round.p50_ns)) {
                counts.entry((number, "p50")).or_default().count(figure, truth);
            }
            if let (Some(figure), Some(truth)) = (summary.latency_ns.p99, truth(|round| round.p99_ns)) {
                counts.entry((number, "p99")).or_default().count(figure, truth);
            }
        }
    }
    println!("{counts:#?}");
    let pooled = |figure: &str| {
        let of_figure = || counts.iter().filter(|((_, name), _)| *name == figure).map(|(_, counts)| counts);
        let [told, covered] =
            [of_figure().map(|one| one.told).sum::<u32>(), of_figure().map(|one| one.covered).sum::<u32>()];
        f64::from(covered) / f64::from(told.max(1))
    };
    assert!(pooled("p50") >= 0.92, "{:.3}", pooled("p50"));
    assert!(pooled("p99") >= 0.90, "{:.3}", pooled("p99"));
    for ((number, figure), one) in counts.iter().filter(|((_, figure), _)| *figure == "p50") {
        let label = case(*number).label();
        assert!(one.coverage() >= 0.88, "{label} {figure}: {one:?}");
        assert!(f64::from(one.told) >= 0.8 * f64::from(one.windows), "{label} {figure}: {one:?}");
    }
}
