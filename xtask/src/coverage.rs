//! `cargo xtask coverage`: checks that intervals cover the true value, and the verdicts of comparisons.
//!
//! Repeats an ordinary command many times. The true value of a repeat is the median of the case's figures in at least
//! five other repeats in the same state of the machine. Two repeats are in the same state if their probe times (and
//! their waking times, if messages wake another CPU) differ by less than 2 %. `hairpin compare` also compares adjacent
//! runs, of which few may be called different, and runs with and without a change of known size: for round trips a
//! delay at each message, for rates a copy of the run with shorter measured times.

mod disturbance;
mod injected;
mod recording;
mod runs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use hairpin_testing::contract;
use serde_json::Value;

use crate::process;
use injected::{inject_rates, measure_injected};
use runs::{Repeat, Row, compared, deviation, median, repeat, run_in};

/// Runs whose probe times differ by less than this ratio are in the same state of the machine. On one CPU, figures are
/// proportional to the probe time, so with a larger ratio the figures of a state would vary by more than an interval.
const MAX_STATE_RATIO: f64 = 1.02;
/// Minimum number of other runs in the same state for a true value.
const MIN_RUNS_IN_STATE: usize = 5;
struct Experiment {
    name: &'static str,
    figures: &'static [&'static str],
    limits: Limits,
}

struct Limits {
    /// Minimum coverage over all cases, of the p50 or a rate.
    pooled: f64,
    each: f64,
    pooled_p99: f64,
    /// Minimum share of repeats with an interval, in each case. Not required of a disturbed machine.
    with_interval: f64,
    /// Maximum half width, in standard deviations of rounds.
    half_width: f64,
    /// Maximum share of adjacent pairs in which any figure is called different.
    different: f64,
}

const OF_ROUND_TRIPS: Limits =
    Limits { pooled: 0.92, each: 0.88, pooled_p99: 0.90, with_interval: 0.8, half_width: 1.0, different: 0.08 };
const OF_RATES: Limits = Limits {
    pooled: 0.90,
    each: 0.0,
    pooled_p99: 0.90,
    with_interval: 0.7,
    half_width: f64::INFINITY,
    different: 0.10,
};

const EXPERIMENTS: [Experiment; 5] = [
    Experiment { name: "round-trip", figures: &["p50", "p99"], limits: OF_ROUND_TRIPS },
    Experiment { name: "message-rate", figures: &["rate"], limits: OF_RATES },
    Experiment { name: "bulk", figures: &["goodput"], limits: OF_RATES },
    Experiment { name: "offered-load", figures: &["p50", "p99"], limits: OF_RATES },
    Experiment { name: "under-load", figures: &["p50", "p99", "goodput"], limits: OF_RATES },
];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// round-trip, message-rate, bulk, offered-load or under-load, with its arguments
    #[arg(long, value_name = "WORDS", default_value = "round-trip")]
    experiment: String,
    /// Use the CPUs from time to time during the runs
    #[arg(long)]
    disturbed: bool,
    #[arg(long, default_value_t = 201)]
    runs: usize,
    /// Number of runs with an injected delay, for each of two sizes of the delay
    #[arg(long, default_value_t = 40)]
    injected: usize,
    /// Duration of each run
    #[arg(long, default_value = "10s")]
    over: String,
    /// Transports to measure
    #[arg(long, default_value = "tcp,udp,pipe,unix-stream")]
    transports: String,
    /// Keep the runs in this folder, and analyse existing runs again instead of measuring
    #[arg(long)]
    out: Option<PathBuf>,
    /// Write the p50, p99 and probe times of each round of tcp and pipe to this file; needs --out
    #[arg(long, requires = "out")]
    record: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, asked: &Options) -> Result<bool> {
    let words: Vec<&str> = asked.experiment.split_whitespace().collect();
    let experiment = EXPERIMENTS.iter().find(|one| words.first() == Some(&one.name));
    let experiment =
        experiment.with_context(|| format!("`{}` does not begin with an experiment", asked.experiment))?;
    let [hairpin] = process::build_release(root, [("hairpin", "hairpin")])?;
    let _disturbance = asked.disturbed.then(disturbance::Disturbance::start);
    let scratch = match &asked.out {
        Some(out) => out.clone(),
        None => process::scratch("coverage")?,
    };
    std::fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let started = Instant::now();
    let mut repeats = Vec::new();
    let (mut pairs, mut different) = (0, 0);
    let mut rows_of_pairs = Rows::default();
    for number in 0..asked.runs {
        let out = scratch.join(number.to_string());
        let mut command = Command::new(&hairpin);
        command.args(&words).args(["--transport", &asked.transports, "--over", &asked.over]);
        command.args(["--seed", &number.to_string()]);
        repeats.push(run_in(&hairpin, &out, &mut command)?);
        if number > 0 {
            let before = scratch.join((number - 1).to_string());
            let rows = compared(&hairpin, &before, &out)?;
            rows_of_pairs.count(&rows);
            let names: Vec<String> = rows.iter().filter(|row| row.is_different()).map(Row::to_string).collect();
            if !names.is_empty() {
                println!("{} and {number} differ in {}", number - 1, names.join(", "));
            }
            (pairs, different) = (pairs + 1, different + usize::from(!names.is_empty()));
        }
        if (number + 1) % 20 == 0 {
            println!("{} of {} runs, {:.0} s", number + 1, asked.runs, started.elapsed().as_secs_f64());
        }
    }
    if let Some(record) = &asked.record {
        recording::write(record, &scratch, asked.runs)?;
    }
    let (cases, limits) = (Case::all(&repeats, experiment)?, &experiment.limits);
    println!("\n{}", table(&cases, limits));
    println!("{}", states(&repeats));
    println!("A/A: {different} of {pairs} adjacent pairs called different in any figure; {rows_of_pairs}");
    let mut holds = holds(&cases, limits, asked.disturbed) & (different as f64 <= limits.different * pairs as f64);
    let all_found = match experiment.name {
        _ if asked.disturbed || asked.injected == 0 => Vec::new(),
        "round-trip" => measure_injected(&hairpin, &scratch, asked.injected, &asked.over)?.into(),
        "message-rate" | "bulk" => vec![inject_rates(&hairpin, &scratch, asked.injected.min(asked.runs - 1))?],
        _ => Vec::new(),
    };
    for found in all_found {
        println!("{found}");
        holds &= found.holds();
    }
    if asked.out.is_none() {
        process::remove(&scratch)?;
    }
    Ok(holds)
}

struct Case {
    label: String,
    figure: &'static str,
    repeats: Vec<Repeat>,
}

impl Case {
    fn all(runs: &[Value], experiment: &Experiment) -> Result<Vec<Self>> {
        let mut cases: BTreeMap<(String, &'static str), Vec<Repeat>> = BTreeMap::new();
        for run in runs {
            for case in contract::list(run, "cases") {
                for figure in experiment.figures {
                    for (label, told) in told(case, figure) {
                        if let Some(repeat) = repeat(run, case, figure, told) {
                            cases.entry((label, figure)).or_default().push(repeat);
                        }
                    }
                }
            }
        }
        if cases.is_empty() {
            bail!("no run has a case with figures");
        }
        Ok(cases.into_iter().map(|((label, figure), repeats)| Self { label, figure, repeats }).collect())
    }

    /// Returns the values of the other repeats in the state of repeat number `index`.
    fn others_in_state(&self, index: usize) -> Vec<f64> {
        let repeat = &self.repeats[index];
        let is_near = |one: f64, other: f64| (one / other).ln().abs() < MAX_STATE_RATIO.ln();
        let is_alike = |other: &Repeat| {
            is_near(other.probe_ns, repeat.probe_ns)
                && other.waking_ns.zip(repeat.waking_ns).is_none_or(|(one, other)| is_near(one, other))
        };
        let others = self.repeats.iter().enumerate().filter(|(at, other)| *at != index && is_alike(other));
        others.map(|(_, other)| other.value).collect()
    }

    /// Returns the median over the other repeats in the same state; `None` if they are too few.
    fn truth(&self, index: usize) -> Option<f64> {
        let alike = self.others_in_state(index);
        if alike.len() < MIN_RUNS_IN_STATE { None } else { median(alike.into_iter()) }
    }

    /// Returns the repeats with a known true value, each with this value.
    fn with_truth(&self) -> impl Iterator<Item = (&Repeat, f64)> {
        self.repeats.iter().enumerate().filter_map(|(index, repeat)| Some((repeat, self.truth(index)?)))
    }

    /// Returns the minimum and the median number of repeats behind a true value.
    fn sizes_of_states(&self) -> Option<(usize, f64)> {
        let sizes = (0..self.repeats.len()).map(|index| self.others_in_state(index).len());
        let sizes: Vec<usize> = sizes.filter(|size| *size >= MIN_RUNS_IN_STATE).collect();
        Some((*sizes.iter().min()?, median(sizes.iter().map(|size| *size as f64))?))
    }

    /// Returns the number of intervals that cover the true value, and the number of intervals with a known true value.
    fn covered(&self) -> (usize, usize) {
        let intervals = self.with_truth().filter_map(|(repeat, truth)| Some((truth, repeat.interval?)));
        intervals.fold((0, 0), |(covered, count), (truth, (low, high))| {
            (covered + usize::from(low <= truth && truth <= high), count + 1)
        })
    }

    fn share_with_interval(&self) -> f64 {
        let with = self.repeats.iter().filter(|repeat| repeat.interval.is_some()).count();
        with as f64 / self.repeats.len() as f64
    }

    /// Returns the median over repeats of half the interval, in standard deviations of rounds.
    fn half_widths(&self) -> Option<f64> {
        let half = |repeat: &Repeat| {
            let (low, high) = repeat.interval?;
            let deviation = repeat.deviation.filter(|deviation| *deviation > 0.0)?;
            Some((high / low).ln() / 2.0 / deviation)
        };
        median(self.repeats.iter().filter_map(half))
    }

    /// Returns the median over repeats of half the interval, as a share of the value.
    fn half_share(&self) -> Option<f64> {
        median(self.repeats.iter().filter_map(|repeat| Some((repeat.interval?.1 / repeat.interval?.0).sqrt() - 1.0)))
    }

    /// Returns the variance of repeats within a state, relative to the variance of rounds: an upper bound on the share
    /// of slow variations, with periods longer than a run.
    fn slow_share(&self) -> Option<f64> {
        let off: Vec<f64> = self.with_truth().map(|(repeat, truth)| (repeat.value / truth).ln()).collect();
        let rounds =
            median(self.repeats.iter().filter_map(|repeat| repeat.deviation)).filter(|rounds| *rounds > 0.0)?;
        Some((deviation(&off)? / rounds).powi(2))
    }
}

/// Returns a figure of a case as reported, with its label: the case's own, or one per flow that loads a probe.
fn told<'a>(case: &'a Value, figure: &str) -> Vec<(String, &'a Value)> {
    let label = case["label"].as_str().unwrap_or_default();
    let own = |told| vec![(label.to_owned(), told)];
    let loads = contract::list(case, "flows").iter().filter(|flow| flow["role"] == "load");
    match figure {
        "rate" => own(&case["rate_per_s"]),
        "goodput" if !case["goodput_bytes_per_s"].is_null() => own(&case["goodput_bytes_per_s"]),
        "goodput" => loads.map(|flow| (format!("{label}, {}", flow["id"]), &flow["goodput_bytes_per_s"])).collect(),
        percentile if !case["added_ns"].is_null() => own(&case["added_ns"][percentile]),
        percentile => own(&case["latency_ns"][percentile]),
    }
}

/// Coverage of the p99s, or of all other figures; `None` without such cases.
fn pooled(cases: &[Case], of_p99: bool) -> Option<f64> {
    let all = cases.iter().filter(|case| (case.figure == "p99") == of_p99).map(Case::covered);
    all.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1)).map(share)
}

fn share((covered, told): (usize, usize)) -> f64 {
    covered as f64 / told.max(1) as f64
}

fn holds(cases: &[Case], limits: &Limits, is_disturbed: bool) -> bool {
    let each = cases.iter().filter(|case| case.figure != "p99").all(|case| {
        share(case.covered()) >= limits.each
            && (is_disturbed || case.share_with_interval() >= limits.with_interval)
            && case.half_widths().is_none_or(|half| half <= limits.half_width)
    });
    each && pooled(cases, false).is_some_and(|share| share >= limits.pooled)
        && pooled(cases, true).is_none_or(|share| share >= limits.pooled_p99)
}

fn table(cases: &[Case], limits: &Limits) -> String {
    let mut lines = vec![format!(
        "{:<28} {:>6} {:>9} {:>13} {:>10} {:>9} {:>11} {:>14}",
        "case", "figure", "covered", "with interval", "half width", "in SD", "slow share", "runs in state"
    )];
    let shown = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    for case in cases {
        let (covered, told) = case.covered();
        let sizes =
            case.sizes_of_states().map_or("-".to_owned(), |(fewest, usual)| format!("{usual:.0} (>= {fewest})"));
        lines.push(format!(
            "{:<28} {:>6} {:>9} {:>11.0} % {:>8} % {:>9} {:>11} {sizes:>14}",
            case.label,
            case.figure,
            format!("{covered}/{told}"),
            100.0 * case.share_with_interval(),
            shown(case.half_share().map(|half| 100.0 * half), 1),
            shown(case.half_widths(), 2),
            shown(case.slow_share(), 2),
        ));
    }
    for (of_p99, minimum) in [(false, limits.pooled), (true, limits.pooled_p99)] {
        let figures = if of_p99 { "p99" } else { "other figures" };
        let Some(pooled) = pooled(cases, of_p99).map(|share| 100.0 * share) else { continue };
        lines.push(format!("all cases, {figures}: {pooled:.1} % covered (at least {:.0} %)", 100.0 * minimum));
    }
    lines.join("\n")
}

/// Describes the numbers of runs with one and with two states of the machine, and the number of state changes.
fn states(runs: &[Value]) -> String {
    let of = |run: &Value| contract::list(&run["machine"], "states").len();
    let with = |count: usize| runs.iter().filter(|run| of(run) == count).count();
    let probes =
        || runs.iter().filter_map(|run| contract::list(&run["machine"], "states").first()?["probe_ns"].as_f64());
    let (least, most) = (probes().fold(f64::INFINITY, f64::min), probes().fold(0.0, f64::max));
    let switches: u64 = runs.iter().filter_map(|run| run["machine"]["switches"].as_u64()).sum();
    format!(
        "machine: one state in {} runs, two in {}, {switches} switches; the probe took {:.1} to {:.1} us in the faster state",
        with(1),
        with(2),
        least / 1e3,
        most / 1e3
    )
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rows {
    all: usize,
    /// Rows that could be called different: both runs in the same state, with an interval or a verdict.
    judged: usize,
    unlike: usize,
}

impl Rows {
    fn count(&mut self, rows: &[Row]) {
        let judged =
            |row: &&Row| row.is_different() || (row.verdict != "unlike" && row.smallest_detectable.is_some());
        self.all += rows.len();
        self.judged += rows.iter().filter(judged).count();
        self.unlike += rows.iter().filter(|row| row.verdict == "unlike").count();
    }
}

impl std::fmt::Display for Rows {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { all, judged, unlike } = self;
        let without = all - judged - unlike;
        write!(
            out,
            "{judged} of {all} rows could be called different; {unlike} are of different states, {without} have no interval"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(figure: &'static str, covered: usize, of: usize, width: f64) -> Case {
        // All repeats are equal, except that some intervals do not cover the value.
        let repeat = |number: usize| {
            let low = if number < covered { 100.0 } else { 101.0 };
            Repeat {
                probe_ns: 90_000.0,
                waking_ns: None,
                value: 100.5,
                interval: Some((low, low * (2.0 * width).exp())),
                deviation: Some(0.02),
            }
        };
        Case { label: "tcp".to_owned(), figure, repeats: (0..of).map(repeat).collect() }
    }

    #[test]
    fn coverage_and_widths_are_compared_with_the_limits() {
        let holds = |cases: &[Case]| holds(cases, &OF_ROUND_TRIPS, false);
        let all = |p50, p99| holds(&[case("p50", p50, 100, 0.015), case("p99", p99, 100, 0.015)]);
        assert!(all(92, 90));
        assert!(!all(91, 90));
        assert!(!all(92, 89));
        let wide = [case("p50", 100, 100, 0.021), case("p99", 100, 100, 0.01)];
        assert!(!holds(&wide), "intervals wider than one standard deviation of rounds");
        let uneven = [case("p50", 100, 100, 0.015), case("p50", 87, 100, 0.015), case("p99", 100, 100, 0.01)];
        assert!(!holds(&uneven), "{:?}", pooled(&uneven, false));
    }

    #[test]
    fn intervals_may_be_rare_only_on_a_disturbed_machine() {
        let mut rare = case("rate", 100, 100, 0.015);
        rare.repeats.iter_mut().take(31).for_each(|repeat| repeat.interval = None);
        assert_eq!(rare.share_with_interval(), 0.69);
        assert!(holds(std::slice::from_ref(&rare), &OF_RATES, true) && !holds(&[rare], &OF_RATES, false));
        assert!(!holds(&[case("rate", 89, 100, 0.015)], &OF_RATES, true), "too few intervals cover the value");
        assert!(!holds(&[case("rate", 5, 5, 0.015)], &OF_RATES, true), "no repeat has five others in its state");
    }

    #[test]
    fn figures_of_a_case_and_of_its_loads_have_labels() {
        let case = serde_json::json!({"label": "tcp", "rate_per_s": {"value": 1.0}, "goodput_bytes_per_s": null,
            "added_ns": {"p50": {"value": 2.0}}, "latency_ns": {"p50": {"value": 3.0}},
            "flows": [{"role": "probe"}, {"role": "load", "id": "load-back", "goodput_bytes_per_s": {"value": 4.0}}]});
        let of = |figure| told(&case, figure).into_iter().map(|(label, told)| (label, told["value"].as_f64())).next();
        assert_eq!(of("rate"), Some(("tcp".to_owned(), Some(1.0))));
        assert_eq!(of("goodput"), Some(("tcp, \"load-back\"".to_owned(), Some(4.0))));
        assert_eq!(of("p50"), Some(("tcp".to_owned(), Some(2.0))));
    }

    #[test]
    fn each_repeat_is_compared_with_the_others_in_its_state() {
        let mut one = case("p50", 11, 11, 0.01);
        for repeat in one.repeats.iter_mut().skip(6) {
            (repeat.probe_ns, repeat.value, repeat.interval) = (110_000.0, 130.0, Some((129.0, 131.0)));
        }
        assert_eq!(one.truth(0), Some(100.5));
        assert_eq!((one.truth(10), one.covered()), (None, (6, 6)), "four others are too few");
        one.repeats[5].probe_ns = 112_000.0;
        assert_eq!(one.truth(10), Some(130.0), "a repeat with 100.5 is among the five others");
        assert_eq!(one.truth(5), Some(130.0), "a repeat is not compared with itself");
        assert_eq!(
            (one.covered(), one.sizes_of_states()),
            ((5, 6), Some((5, 5.0))),
            "the five repeats with 100.5 have only four others"
        );
        one.repeats[5].probe_ns = 113_000.0;
        assert_eq!(one.truth(10), None, "the probe times differ by 2.7 %");
    }

    fn row(verdict: &str, smallest_detectable: Option<f64>) -> Row {
        let [case, figure, verdict] = ["tcp", "p50", verdict].map(str::to_owned);
        Row { case, figure, verdict, smallest_detectable }
    }

    #[test]
    fn rows_that_cannot_be_called_different_are_counted() {
        let mut rows = Rows::default();
        rows.count(&[
            row("cannot-tell", Some(0.1)),
            row("slower", None),
            row("cannot-tell", None),
            row("unlike", Some(0.1)),
        ]);
        assert_eq!(rows, Rows { all: 4, judged: 2, unlike: 1 });
    }
}
