//! Links and packets for tests.

use hairpin_model::link::Direction;

use crate::link::Link;
use crate::packet::{Fate, Outcome, Packet};
use crate::simulate::{Arrival, simulate};

/// The seed of all tests that do not test seeds.
pub(crate) const SEED: u64 = 20_261_121;

pub(crate) fn link(line: &str) -> Link {
    let profile = line.parse().unwrap_or_else(|error| panic!("{error}"));
    Link::new(&profile, SEED, &[]).unwrap()
}

/// Packets of the `Up` direction from `(time, size)`, numbered from 0. Packets larger than 52 bytes carry data.
pub(crate) fn packets(times_and_sizes: impl IntoIterator<Item = (u64, u32)>) -> Vec<Arrival> {
    let packet = |(number, (at_ns, size_bytes))| Arrival {
        at_ns,
        direction: Direction::Up,
        packet: Packet { number, size_bytes, carries_data: size_bytes > 52 },
    };
    (0..).zip(times_and_sizes).map(packet).collect()
}

/// `count` packets of 1500 bytes, `gap_ns` apart, the first at 0.
pub(crate) fn stream(count: u64, gap_ns: u64) -> Vec<Arrival> {
    packets((0..count).map(|number| (number * gap_ns, 1500)))
}

/// The outcomes of the packets, in order of time.
pub(crate) fn fates(line: &str, arrivals: &[Arrival]) -> Vec<Outcome> {
    simulate(&mut link(line), arrivals).into_iter().map(|line| line.outcome).collect()
}

/// The packets that leave, as `(number, due time)`, in order of time.
pub(crate) fn departures(outcomes: &[Outcome]) -> Vec<(u64, u64)> {
    let leaves = |outcome: &Outcome| match outcome.fate {
        Fate::Leaves { due_ns, .. } => Some((outcome.number, due_ns)),
        Fate::Dropped { .. } | Fate::Inside { .. } => None,
    };
    outcomes.iter().filter_map(leaves).collect()
}

/// The dropped packets, as `(number, time, reason)`, in order of time.
pub(crate) fn drops(outcomes: &[Outcome]) -> Vec<(u64, u64, &'static str)> {
    let dropped = |outcome: &Outcome| match outcome.fate {
        Fate::Leaves { .. } | Fate::Inside { .. } => None,
        Fate::Dropped { at_ns, reason, .. } => Some((outcome.number, at_ns, reason)),
    };
    outcomes.iter().filter_map(dropped).collect()
}

/// Asserts that the number of successes in `trials` independent trials is within five standard deviations of the
/// mean. With random seeds, 1 in 1.7 million counts would be outside.
pub(crate) fn assert_binomial(count: usize, trials: u64, chance: f64) {
    let (count, trials) = (count as f64, trials as f64);
    let deviation = (trials * chance * (1.0 - chance)).sqrt();
    assert!((count - trials * chance).abs() <= 5.0 * deviation, "{count} of {trials}, expected {}", trials * chance);
}

/// The Kolmogorov-Smirnov statistic: the largest distance between a sample's distribution and a closed form, times the
/// square root of the sample size. 1 in 1000 samples exceeds 1.95.
pub(crate) fn distance(mut values: Vec<f64>, closed_form: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = f64::from(u32::try_from(values.len()).unwrap());
    let steps = values.iter().zip(0..).flat_map(|(value, below)| {
        let at = closed_form(*value);
        [(at - f64::from(below) / count).abs(), (at - f64::from(below + 1) / count).abs()]
    });
    steps.fold(0.0, f64::max) * count.sqrt()
}
