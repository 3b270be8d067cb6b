//! Simulates how often intervals contain the true value, and how often verdicts are wrong. Seeds make these rates
//! equal on every machine. Each series has 100 rounds over 10 s; `HAIRPIN_SERIES` sets how many of each kind.

mod recorded;
#[path = "../support/mod.rs"]
mod support;

use hairpin_analysis::statistics::interval::{ALPHA, Estimate, Over, median_over};
use hairpin_analysis::{States, comparisons};
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{Case, CaseSummary, Probe};
use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

use crate::support::{Fixture, back_to_back};

/// Rounds of a run of 10 s, 100 ms apart.
const ROUNDS: usize = 100;
const SPAN_S: f64 = 10.0;
/// The true long-run median of the rounds, in ns.
const TRUTH_NS: f64 = 10_000.0;

fn series() -> u64 {
    std::env::var("HAIRPIN_SERIES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

struct Simulation {
    random: Xoshiro256PlusPlus,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    fn uniform(&mut self) -> f64 {
        self.random.random_range(1e-12..1.0)
    }

    /// A standard normal number (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Logarithms of rounds around 0, with a standard deviation of 5 %; an AR(1) process with this lag-1 correlation.
    fn correlated(&mut self, correlation: f64) -> Vec<f64> {
        let mut slow = self.normal();
        (0..ROUNDS)
            .map(|_| {
                slow = correlation * slow + (1.0 - correlation * correlation).sqrt() * self.normal();
                0.05 * slow
            })
            .collect()
    }

    /// Rounds of a machine that is 1.4 times slower in its slow state, with exponential times in each state; and
    /// whether each round was slow.
    fn in_states(&mut self, dwell_s: f64) -> Vec<(f64, bool)> {
        let mut is_slow = self.uniform() < 0.4;
        let mut left_s = -dwell_s * self.uniform().ln();
        (0..ROUNDS)
            .map(|_| {
                left_s -= SPAN_S / ROUNDS as f64;
                while left_s <= 0.0 {
                    is_slow = !is_slow;
                    // Slow for 40 % of the time.
                    let mean_s = if is_slow { 0.8 * dwell_s } else { 1.2 * dwell_s };
                    left_s -= mean_s * self.uniform().ln();
                }
                (0.03 * self.normal() + if is_slow { 1.4_f64.ln() } else { 0.0 }, is_slow)
            })
            .collect()
    }
}

/// The results for the intervals of many series.
#[derive(Default)]
struct Coverage {
    held: u64,
    missed: u64,
    none: u64,
}

impl Coverage {
    fn of(simulation: &mut Simulation, draw: impl Fn(&mut Simulation) -> Option<(f64, f64)>) -> Self {
        let mut all = Self::default();
        for _ in 0..series() {
            match draw(simulation) {
                Some((low, high)) if low <= TRUTH_NS && TRUTH_NS <= high => all.held += 1,
                Some(_) => all.missed += 1,
                None => all.none += 1,
            }
        }
        all
    }

    fn share(&self) -> f64 {
        self.held as f64 / (self.held + self.missed).max(1) as f64
    }

    fn share_without(&self) -> f64 {
        self.none as f64 / (self.held + self.missed + self.none) as f64
    }
}

fn interval(logarithms: &[f64]) -> Option<(f64, f64)> {
    let values: Vec<f64> = logarithms.iter().map(|value| TRUTH_NS * value.exp()).collect();
    let figure = median_over(&values, Over::seconds(SPAN_S)).unwrap();
    figure.low.zip(figure.high)
}

#[test]
fn correlated_rounds_are_covered_or_have_no_interval() {
    for (seed, at_50_ms) in [(1, 0.0), (2, 0.3), (3, 0.6), (4, 0.8), (5, 0.9), (6, 0.95_f64)] {
        let correlation = at_50_ms.powi(2);
        let coverage = Coverage::of(&mut Simulation::new(seed), |one| interval(&one.correlated(correlation)));
        let (held, without) = (coverage.share(), coverage.share_without());
        assert!(held >= 0.93 || without >= 0.8, "correlation {correlation}: {held:.3} held, {without:.3} without");
        assert!(correlation > 0.6 || without < 0.2, "correlation {correlation}: {without:.3} have none");
    }
}

#[test]
fn skewed_rounds_and_outliers_are_covered() {
    let lognormal = Coverage::of(&mut Simulation::new(7), |one| {
        let skewed: Vec<f64> = (0..ROUNDS).map(|_| (0.5 * one.normal()).exp() * 0.1 - 0.1).collect();
        interval(&skewed)
    });
    assert!(lognormal.share() >= 0.93, "{:.3}", lognormal.share());
    let outliers = Coverage::of(&mut Simulation::new(8), |one| {
        let rounds: Vec<f64> =
            (0..ROUNDS).map(|_| 0.03 * one.normal() + if one.uniform() < 0.05 { 0.4 } else { 0.0 }).collect();
        interval(&rounds)
    });
    assert!(outliers.share() >= 0.93, "{:.3}", outliers.share());
}

#[test]
fn a_drift_is_covered_or_has_no_interval() {
    // 5 % over the run; the true value is the value in the middle of the run.
    let coverage = Coverage::of(&mut Simulation::new(9), |one| {
        let rounds: Vec<f64> =
            (0..ROUNDS).map(|k| 0.03 * one.normal() + 0.05 * (k as f64 / ROUNDS as f64 - 0.5)).collect();
        interval(&rounds)
    });
    assert!(coverage.share() >= 0.93 || coverage.share_without() >= 0.8, "{:.3}", coverage.share());
}

/// The interval of the run's figure for its faster state, if the probe distinguishes the states; `None` if the figure
/// is for another state or has no interval.
fn of_the_fast_state(rounds: &[(f64, bool)], simulation: &mut Simulation) -> Option<(f64, f64)> {
    let case = Case::ping_pong("tcp");
    let mut fixture = Fixture::new();
    let apart_ns = (SPAN_S * 1e9) as u64 / ROUNDS as u64;
    for (block, (logarithm, is_slow)) in (0..).zip(rounds) {
        let latency_ns = (TRUTH_NS * logarithm.exp()) as u64;
        let probe = (90_000.0 * (if *is_slow { 1.2 } else { 1.0 }) * (0.01 * simulation.normal()).exp()) as u64;
        fixture.round_with(&case, block, &back_to_back(&[], &[latency_ns; 2]), |measured| {
            measured.ends[0].probe_ns = Some(Probe { before: probe, after: probe });
        });
        fixture.rounds.last_mut().unwrap().started_ns = u64::from(block) * apart_ns;
    }
    let states = States::of(&fixture.rounds);
    let run = fixture.run();
    // If the whole run is in one state, the probe shows whether this is the fast state.
    let is_fast = states.machine.states.first().is_some_and(|state| state.probe_ns < 99_000.0);
    let p50 = run.cases[0]
        .primary()
        .latency_ns
        .p50
        .filter(|_| is_fast && run.cases[0].state.is_some_and(|state| state.index == 0))?;
    p50.low.zip(p50.high)
}

#[test]
fn states_that_the_probe_sees_are_covered() {
    for (seed, dwell_s) in [(11, 0.05), (12, 0.5), (13, 2.0), (14, 8.0)] {
        let mut simulation = Simulation::new(seed);
        let mut covered = Coverage::default();
        for _ in 0..(series() / 10).max(50) {
            let rounds = simulation.in_states(dwell_s);
            match of_the_fast_state(&rounds, &mut simulation) {
                // The histogram's step is 1/1024.
                Some((low, high)) if low * 0.999 <= TRUTH_NS && TRUTH_NS <= high * 1.001 => covered.held += 1,
                Some(_) => covered.missed += 1,
                None => covered.none += 1,
            }
        }
        let (held, without) = (covered.share(), covered.share_without());
        assert!(held >= 0.93 || without >= 0.8, "dwell {dwell_s} s: {held:.3} held, {without:.3} without");
    }
}

/// The verdict on a case against itself, slower by `scale` the second time, over rounds with a common slow variation.
fn verdict(simulation: &mut Simulation, scale: f64) -> Verdict {
    let shared = simulation.correlated(0.9);
    let case = Case::ping_pong("tcp");
    let of = |simulation: &mut Simulation, case: &Case, scale: f64| -> CaseSummary {
        let mut fixture = Fixture::new();
        fixture.rounds_of(case, &[10_000; 6]);
        let mut summary = fixture.run().cases.remove(0);
        let template = summary.round_points[0];
        summary.round_points = (0..)
            .zip(&shared)
            .map(|(block, shared)| {
                let mut point = template;
                (point.block, point.number) = (block, block);
                point.started_ns = u64::from(block) * 100_000_000;
                point.p50_ns = TRUTH_NS * scale * (shared + 0.03 * simulation.normal()).exp();
                point
            })
            .collect();
        summary
    };
    let pair =
        [of(simulation, &case, 1.0), of(simulation, &case.clone().with(|changed| changed.replicate = 1), scale)];
    let compared = comparisons(&pair, ALPHA);
    assert_eq!((compared.len(), compared[0].role), (1, Role::AgainstItself));
    compared[0].verdict
}

#[test]
fn identical_cases_are_rarely_called_different_and_a_small_effect_is_found() {
    let pairs = (series() / 5).max(50);
    let share = |seed: u64, scale: f64, wanted: fn(Verdict) -> bool| {
        let mut simulation = Simulation::new(seed);
        (0..pairs).filter(|_| wanted(verdict(&mut simulation, scale))).count() as f64 / pairs as f64
    };
    let different = share(21, 1.0, |verdict| verdict != Verdict::CannotTell);
    assert!(different <= 0.06, "{different}");
    let slower = share(22, 1.05, |verdict| verdict == Verdict::Slower);
    assert!(slower >= 0.9, "{slower}");
}

#[test]
fn runs_that_are_alike_are_seldom_called_different_and_the_smallest_detectable_effect_is_found() {
    let mut simulation = Simulation::new(31);
    let estimate = |one: &mut Simulation, effect: f64| {
        let rounds: Vec<f64> = one.correlated(0.5).into_iter().map(|value| value + effect).collect();
        Estimate::of(&rounds, Over::seconds(SPAN_S)).unwrap()
    };
    let (mut different, mut found, mut all) = (0, 0, 0);
    for _ in 0..series() {
        let (one, other) = (estimate(&mut simulation, 0.0), estimate(&mut simulation, 0.0));
        let Some(smallest) = other.minus(&one).smallest_detectable(ALPHA) else { continue };
        all += 1;
        different += u32::from(other.minus(&one).p_value(0.0) <= ALPHA);
        let changed = estimate(&mut simulation, smallest);
        found += u32::from(changed.minus(&one).p_value(0.0) <= ALPHA);
    }
    let of_all = |count: u32| f64::from(count) / f64::from(all);
    assert!(f64::from(all) >= 0.7 * series() as f64, "{all} have an interval");
    assert!(of_all(different) <= 0.05, "{}", of_all(different));
    assert!(of_all(found) >= 0.8, "{}", of_all(found));
}
