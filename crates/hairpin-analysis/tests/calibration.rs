//! How often verdicts are wrong, by simulation: seeded, so these rates are the same on every machine.
//!
//! A round's p50 is made of log-normal noise, an occasional outlier (one round in twenty is 1.5 times too slow) and a
//! drift of up to 20 % over the run that both cases share; samples of a round would add nothing.

#![allow(clippy::print_stdout, reason = "`cargo test -- --nocapture` shows the rates that were measured")]

use hairpin_analysis::comparisons;
use hairpin_analysis::statistics::interval::{median_figure, ratio_of_medians, shift};
use hairpin_model::case::Case;
use hairpin_model::summary::{CaseSummary, Role, RoundPoint, Verdict};
use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

use crate::support;

const ROUNDS: u32 = 10;

/// How often a thing is tried that is tried `thoroughly` times in CI, where `PROPTEST_CASES` is set: else a quarter.
#[expect(
    clippy::disallowed_methods,
    reason = "how thorough a test is depends on who runs it; the crate reads no environment"
)]
fn times(thoroughly: u64) -> u64 {
    if std::env::var_os("PROPTEST_CASES").is_some() { thoroughly } else { thoroughly / 4 }
}

/// A machine to measure on.
#[derive(Clone, Copy)]
struct Machine {
    noise: f64,
    outliers: f64,
    drift: f64,
}

struct Simulation {
    random: Xoshiro256PlusPlus,
    machine: Machine,
}

impl Simulation {
    fn new(seed: u64, machine: Machine) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), machine }
    }

    /// A standard normal number (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let (u, v): (f64, f64) = (self.random.random_range(1e-12..1.0), self.random.random_range(0.0..1.0));
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    fn p50_ns(&mut self, block: u32, slope: f64, scale: f64) -> f64 {
        let outlier = if self.random.random_range(0.0..1.0) < self.machine.outliers { 1.5 } else { 1.0 };
        let drift = slope * f64::from(block) / f64::from(ROUNDS);
        66_000.0 * scale * outlier * (self.machine.noise * self.normal() + drift).exp()
    }

    /// The verdict on a case against itself, the second time slower by `scale`.
    fn verdict(&mut self, seed: u64, scale: f64) -> Verdict {
        let drift = self.machine.drift;
        let slope = if drift > 0.0 { self.random.random_range(-drift..drift) } else { 0.0 };
        let p50s = |simulation: &mut Self, scale| (0..ROUNDS).map(|b| simulation.p50_ns(b, slope, scale)).collect();
        let (one, again): (Vec<f64>, Vec<f64>) = (p50s(self, 1.0), p50s(self, scale));
        let case = Case::ping_pong("tcp");
        let pair = [summary(&case, &one), summary(&Case { twin: 1, ..case.clone() }, &again)];
        let compared = comparisons(&pair, seed);
        assert_eq!((compared.len(), compared[0].role), (1, Role::AgainstItself));
        compared[0].verdict
    }

    fn share(&mut self, pairs: u64, scale: f64, called: impl Fn(Verdict) -> bool) -> f64 {
        let pairs = times(pairs);
        (0..pairs).filter(|seed| called(self.verdict(*seed, scale))).count() as f64 / pairs as f64
    }
}

fn summary(case: &Case, p50s: &[f64]) -> CaseSummary {
    let mut made_up = support::MadeUp::new();
    made_up.plan.push(case.clone());
    let mut summary = made_up.run().cases.remove(0);
    let point = |(block, p50_ns): (usize, &f64)| RoundPoint {
        number: block as u32,
        block: block as u32,
        started_ns: block as u64,
        p50_ns: *p50_ns,
        p99_ns: *p50_ns,
        max_ns: *p50_ns,
        rate_per_s: 1.0,
    };
    summary.round_points = p50s.iter().enumerate().map(point).collect();
    summary.latency_ns.p50 = median_figure(p50s, 1, "p50");
    (summary.valid, summary.why_invalid) = (true, Vec::new());
    summary
}

const REALISTIC: [Machine; 4] = [
    Machine { noise: 0.03, outliers: 0.05, drift: 0.2 },
    Machine { noise: 0.05, outliers: 0.05, drift: 0.2 },
    Machine { noise: 0.10, outliers: 0.05, drift: 0.2 },
    Machine { noise: 0.04, outliers: 0.0, drift: 0.0 },
];

#[test]
fn at_most_eight_in_a_hundred_a_a_pairs_are_called_different() {
    for machine in REALISTIC {
        let different = Simulation::new(1, machine).share(2000, 1.0, |verdict| verdict != Verdict::CannotTell);
        println!("noise {:.2}, outliers {:.2}: {different:.4} called different", machine.noise, machine.outliers);
        assert!(different <= 0.08, "{different}");
        assert!(different >= 0.01, "an instrument that never tells is calibrated for nothing: {different}");
    }
}

#[test]
fn ten_per_cent_slower_is_called_slower() {
    let machine = Machine { noise: 0.04, outliers: 0.0, drift: 0.2 };
    let slower = Simulation::new(2, machine).share(2000, 1.1, |verdict| verdict == Verdict::Slower);
    println!("+10 % at 4 % noise: {slower:.4} called slower");
    assert!(slower >= 0.95, "{slower}");
    // Where one round in twenty is an outlier as well, most are still told.
    let machine = Machine { outliers: 0.05, ..machine };
    let slower = Simulation::new(3, machine).share(1000, 1.1, |verdict| verdict == Verdict::Slower);
    println!("+10 % at 4 % noise with outliers: {slower:.4} called slower");
    assert!(slower >= 0.75, "{slower}");
    let faster = Simulation::new(4, machine).share(1000, 1.1, |verdict| verdict == Verdict::Faster);
    assert!(faster <= 0.005, "{faster}");
}

/// Of 1 000 samples of `rounds` rounds (or as many as are tried), the share whose interval misses the truth.
fn missed(rounds: usize, of: impl Fn(&[f64], &[f64], u64) -> Option<bool>) -> f64 {
    let mut simulation = Simulation::new(5, Machine { noise: 0.05, outliers: 0.0, drift: 0.0 });
    let mut sample = || (0..rounds).map(|_| simulation.p50_ns(0, 0.0, 1.0)).collect::<Vec<_>>();
    let samples = times(1000);
    (0..samples).filter(|seed| of(&sample(), &sample(), *seed).unwrap_or(true)).count() as f64 / samples as f64
}

#[test]
fn intervals_of_one_figure_hold_the_truth_with_about_95_per_cent_from_three_rounds_on() {
    for rounds in [3, 4, 5, 6, 10, 20] {
        let missed = missed(rounds, |one, _, seed| Some(median_figure(one, seed, "p50")?.excludes(66_000.0)));
        println!("{rounds} rounds: {missed:.3} of the intervals of a median miss it");
        assert!((0.005..=0.08).contains(&missed), "{rounds} rounds: {missed}");
    }
}

#[test]
fn unpaired_runs_that_are_alike_are_seldom_called_different() {
    for rounds in [3, 5, 6, 10, 20] {
        let missed = missed(rounds, |one, other, seed| {
            let logarithms = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
            Some(shift(&logarithms(one), &logarithms(other), seed, "p50")?.excludes(0.0))
        });
        println!("{rounds} rounds: {missed:.3} of the unpaired intervals miss zero");
        assert!(missed <= 0.08, "{rounds} rounds: {missed}");
        let missed =
            self::missed(rounds, |one, other, seed| Some(ratio_of_medians(one, other, seed, "p50")?.excludes(0.0)));
        println!("{rounds} rounds: {missed:.3} of the intervals of a ratio of medians miss 1");
        assert!(missed <= 0.08, "{rounds} rounds: {missed}");
    }
}
