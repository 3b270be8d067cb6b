//! Detects the states of the machine during a run from the probe that runs before and after each round.
//!
//! The probe always does the same work. The probe times on each CPU are divided by their lower quartile. The slowdown
//! of an end is the geometric mean of both probes, and the slowdown of a round is that of its slower end. The rounds
//! are split in two so as to explain the most variance (Otsu, "A threshold selection method from gray-level
//! histograms", IEEE Transactions on Systems, Man, and Cybernetics 9, 1979). The split counts as two states only if
//! they differ by [`MIN_STATE_RATIO`], each has at least a tenth of the rounds, and little variance remains within
//! them. Otherwise the run has one state.

use std::collections::BTreeMap;

use hairpin_model::{EndReport, Machine, MachineState, Measured, Probe, RoundRecord};

use crate::statistics::location::{mean, median, median_of_sorted};

/// Minimum ratio of the slower state's probe time to the faster one's.
pub const MIN_STATE_RATIO: f64 = 1.06;
const MIN_SHARE: f64 = 0.1;
/// Minimum share of the variance that the split explains: for a normal distribution it is 0.64, for a uniform one 0.75.
const MIN_EXPLAINED_SHARE: f64 = 0.8;
const MIN_ROUNDS: usize = 16;

#[derive(Clone, Debug, Default)]
pub struct States {
    /// The states, for the saved run.
    pub machine: Machine,
    of_round: BTreeMap<u32, usize>,
}

impl States {
    pub fn of(rounds: &[RoundRecord]) -> Self {
        let mut probed: Vec<(u32, Slowness)> = Vec::new();
        let usual_probe_ns = usual_probe_ns(rounds);
        for round in rounds {
            if let Some(slowness) = round.measured().and_then(|measured| slowness(measured, &usual_probe_ns)) {
                probed.push((round.number, slowness));
            }
        }
        probed.sort_by_key(|(number, _)| *number);
        let logarithms: Vec<f64> = probed.iter().map(|(_, slowness)| slowness.logarithm).collect();
        let threshold = threshold(&logarithms);
        let index = |slowness: &Slowness| usize::from(threshold.is_some_and(|from| slowness.logarithm > from));
        let of_round: BTreeMap<u32, usize> =
            probed.iter().map(|(number, slowness)| (*number, index(slowness))).collect();
        let state = |wanted: usize| {
            let within = || probed.iter().filter(|(_, slowness)| index(slowness) == wanted);
            let probes: Vec<f64> = within().map(|(_, slowness)| slowness.probe_ns).collect();
            let share = probes.len() as f64 / probed.len() as f64;
            Some(MachineState { probe_ns: median(&probes)?, share, rounds: probes.len() as u64 })
        };
        let places: Vec<usize> = of_round.values().copied().collect();
        let switches = places.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
        let waking: Vec<f64> =
            rounds.iter().filter_map(|round| Some(round.measured()?.client().waking_ns? as f64)).collect();
        let states = (0..2).filter_map(state).collect();
        Self { machine: Machine { states, switches, waking_ns: median(&waking) }, of_round }
    }

    /// Returns the state of a round by its number; the first state if the round was not probed.
    pub fn of_round(&self, number: u32) -> usize {
        self.of_round.get(&number).copied().unwrap_or(0)
    }

    pub fn count(&self) -> usize {
        self.machine.states.len()
    }
}

/// The slowdown of the machine in a round.
#[derive(Clone, Copy, Debug)]
struct Slowness {
    /// Logarithm of the probe time / the usual probe time on that CPU.
    logarithm: f64,
    /// Probe time at the slower end.
    probe_ns: f64,
}

fn ends(measured: &Measured) -> impl Iterator<Item = (Option<usize>, Probe)> {
    let probe = |end: &EndReport| Some((end.pinned_cpu, end.probe_ns?));
    [probe(measured.client()), measured.server().and_then(probe)].into_iter().flatten()
}

fn usual_probe_ns(rounds: &[RoundRecord]) -> BTreeMap<Option<usize>, f64> {
    let mut readings: BTreeMap<Option<usize>, Vec<f64>> = BTreeMap::new();
    for (cpu, probe) in rounds.iter().filter_map(RoundRecord::measured).flat_map(ends) {
        readings.entry(cpu).or_default().extend([probe.before.max(1) as f64, probe.after.max(1) as f64]);
    }
    let quartile = |mut readings: Vec<f64>| {
        readings.sort_unstable_by(f64::total_cmp);
        median_of_sorted(&readings[..readings.len().div_ceil(2)])
    };
    readings.into_iter().filter_map(|(cpu, readings)| Some((cpu, quartile(readings)?))).collect()
}

fn slowness(measured: &Measured, usual_probe_ns: &BTreeMap<Option<usize>, f64>) -> Option<Slowness> {
    let of_end = |(cpu, probe): (Option<usize>, Probe)| {
        let base = usual_probe_ns.get(&cpu)?;
        let probe_ns = (probe.before.max(1) as f64 * probe.after.max(1) as f64).sqrt();
        Some(Slowness { logarithm: (probe_ns / base).ln(), probe_ns })
    };
    ends(measured).filter_map(of_end).max_by(|one, other| one.logarithm.total_cmp(&other.logarithm))
}

/// Returns the logarithm above which a round is in the slower of two states; `None` if there is only one state.
fn threshold(logarithms: &[f64]) -> Option<f64> {
    if logarithms.len() < MIN_ROUNDS {
        return None;
    }
    let mut sorted = logarithms.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    // A few outliers are not a state, but would dominate the variance.
    let (low, high) = (at_share(&sorted, 0.02), at_share(&sorted, 0.98));
    sorted.iter_mut().for_each(|value| *value = value.clamp(low, high));
    let centre = mean(&sorted)?;
    let total: f64 = sorted.iter().map(|value| (value - centre).powi(2)).sum();
    let all = sorted.len() as f64;
    let least = (MIN_SHARE * all).ceil() as usize;
    let (mut best, mut sum) = (None::<(f64, usize)>, 0.0);
    for (place, value) in sorted.iter().enumerate() {
        sum += value;
        let below = place + 1;
        if below < least || sorted.len() - below < least || sorted[below] <= *value {
            continue;
        }
        let fast = sum / below as f64 - centre;
        let between = fast.powi(2) * below as f64 * all / (all - below as f64);
        if best.is_none_or(|(explained, _)| between > explained) {
            best = Some((between, below));
        }
    }
    let (between, below) = best?;
    let (fast, slow) = (median_of_sorted(&sorted[..below])?, median_of_sorted(&sorted[below..])?);
    let are_two = slow - fast >= MIN_STATE_RATIO.ln() && between >= MIN_EXPLAINED_SHARE * total;
    are_two.then(|| f64::midpoint(sorted[below - 1], sorted[below]))
}

fn at_share(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;

    use super::*;
    use crate::fixture::{Fixture, back_to_back};

    /// Rounds with these probe times, in ns, at both ends.
    fn probed(probes: &[u64]) -> Fixture {
        let mut fixture = Fixture::new();
        for (block, probe) in (0..).zip(probes) {
            let samples = back_to_back(&[], &[probe / 10; 50]);
            fixture.round_with(&Case::ping_pong("tcp"), block, &samples, |measured| {
                let probe_ns = Some(Probe { before: *probe, after: *probe });
                measured.ends[0].probe_ns = probe_ns;
                measured.ends[1].probe_ns = probe_ns;
            });
        }
        fixture
    }

    /// About `base` ns, plus and minus two percent.
    fn about(base: u64, count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |k| base - base / 50 + k * 7 % 5 * base / 100)
    }

    #[test]
    fn two_levels_are_two_states_with_their_shares_and_switches() {
        let probes: Vec<u64> = about(85_000, 20).chain(about(103_000, 8)).chain(about(85_000, 12)).collect();
        let states = States::of(&probed(&probes).rounds);
        let machine = &states.machine;
        assert_eq!((machine.states.len(), machine.switches), (2, 2));
        assert_eq!((machine.states[0].rounds, machine.states[1].rounds), (32, 8));
        assert!((machine.states[0].probe_ns / 85_000.0 - 1.0).abs() < 0.02, "{machine:?}");
        assert!((machine.states[1].probe_ns / 103_000.0 - 1.0).abs() < 0.02, "{machine:?}");
        assert_eq!([0, 19, 20, 27, 28].map(|round| states.of_round(round)), [0, 0, 1, 1, 0]);
    }

    #[test]
    fn one_level_is_one_state_and_a_few_spikes_are_not_a_state() {
        let one = |probes: Vec<u64>| States::of(&probed(&probes).rounds).machine.clone();
        let steady = one(about(85_000, 40).collect());
        assert_eq!((steady.states.len(), steady.switches, steady.states[0].rounds), (1, 0, 40));
        let mut spiky: Vec<u64> = about(85_000, 40).collect();
        (spiky[7], spiky[22], spiky[30]) = (200_000, 900_000, 120_000);
        assert_eq!(one(spiky).states.len(), 1);
        let wide: Vec<u64> = (0..60).map(|k| 85_000 + k * 37 % 60 * 300).collect();
        assert_eq!(one(wide).states.len(), 1, "evenly spread, without two levels");
        let client: Vec<u64> = about(85_000, 20).chain(about(88_000, 20)).collect();
        assert_eq!(one(client).states.len(), 1, "3.5 % apart");
    }

    #[test]
    fn the_slower_end_decides_and_each_cpu_has_its_own_base() {
        let mut fixture = probed(&[85_000; 24]);
        for (place, round) in fixture.rounds.iter_mut().enumerate() {
            let hairpin_model::round::Outcome::Measured(measured) = &mut round.outcome else { panic!("measured") };
            measured.ends[0].pinned_cpu = Some(0);
            let server = &mut measured.ends[1];
            server.pinned_cpu = Some(1);
            // The second CPU is always slower. In the last third of the rounds, another tenant slows it further.
            let probe = if place >= 16 { 130_000 } else { 100_000 };
            server.probe_ns = Some(Probe { before: probe, after: probe });
        }
        let states = States::of(&fixture.rounds);
        assert_eq!(states.machine.states.iter().map(|state| state.rounds).collect::<Vec<_>>(), [16, 8]);
        assert_eq!(states.machine.states[1].probe_ns, 130_000.0);
    }

    #[test]
    fn runs_without_a_probe_have_no_states() {
        let mut fixture = Fixture::new();
        fixture.rounds_of(&Case::ping_pong("tcp"), &[10_000; 20]);
        let states = States::of(&fixture.rounds);
        assert_eq!(states.machine, Machine::default());
        assert_eq!(states.of_round(3), 0);
    }
}
