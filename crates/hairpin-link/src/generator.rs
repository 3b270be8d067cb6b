//! Seeded random numbers. Each stage and direction has its own stream, with separate numbers for each packet.
//!
//! A packet's numbers depend only on the seed, the direction, the stage and the packet. So adding a stage, or dropping
//! a packet in one stage, changes no other choice.
//!
//! The generators are xoshiro256++ and, for seeding, SplitMix64 (Blackman and Vigna, ACM TOMS 47(4), 2021). Only
//! floating-point operations that IEEE 754 rounds correctly are used (+, -, *, /, square root). Library logarithms
//! differ between machines, so this file implements its own.

use hairpin_model::digest::fnv1a;
use hairpin_model::link::Direction;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::packet::InFlight;
use crate::quantity::Share;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    stream: u64,
}

impl Generator {
    pub fn new(seed: u64, direction: Direction, stage: &str) -> Self {
        let name = direction.word().bytes().chain(*b"/").chain(stage.bytes());
        Self { stream: Xoshiro256PlusPlus::seed_from_u64(seed ^ fnv1a(name)).next_u64() }
    }

    /// The random numbers of one packet. A copy of the packet has different numbers.
    pub fn draws_for(&self, packet: &InFlight) -> Draws {
        let key = packet.packet.number.wrapping_mul(2).wrapping_add(u64::from(packet.copy));
        Draws(Xoshiro256PlusPlus::seed_from_u64(self.stream.wrapping_add(key)))
    }
}

/// The random numbers of one packet in one stage, in order.
#[derive(Clone, Debug)]
pub struct Draws(Xoshiro256PlusPlus);

impl Draws {
    /// Returns true with probability `share`, to within 2^-64.
    pub fn happens(&mut self, share: Share) -> bool {
        u128::from(self.0.next_u64()) < share.of_u64_range()
    }

    /// A whole number from 0 to `bound` - 1, or 0 if `bound` is 0. Probabilities are equal to within `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.0.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).expect("less than the bound")
    }

    /// A uniform number above 0 and at most 1.
    pub fn unit(&mut self) -> f64 {
        let steps = ((self.0.next_u64() >> 11) + 1) as f64;
        steps / 9_007_199_254_740_992.0
    }

    /// A normally distributed number with mean 0 and standard deviation 1, by the polar method (Marsaglia and Bray,
    /// SIAM Review 6(3), 1964).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                return x * (-2.0 * natural_logarithm(square) / square).sqrt();
            }
        }
    }

    /// A Pareto number with shape 3, shifted and scaled to mean 0 and standard deviation 1; at least -0.577.
    ///
    /// U^(-1/3) has mean 3/2 and variance 3/4. iproute2's table for netem has the same shape (netem/pareto.c).
    pub fn pareto(&mut self) -> f64 {
        (1.0 / cube_root(self.unit()) - 1.5) / 0.75_f64.sqrt()
    }
}

/// ln x for a normal, positive x: x = m 2^e with m near 1, and ln m = 2 artanh((m - 1) / (m + 1)) as a series.
fn natural_logarithm(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let raised = i32::try_from((bits >> 52) & 0x7ff).expect("11 bits") - 1023;
    let mantissa = f64::from_bits((bits & MANTISSA) | (1023 << 52));
    let (mantissa, exponent) =
        if mantissa > std::f64::consts::SQRT_2 { (mantissa / 2.0, raised + 1) } else { (mantissa, raised) };
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..12).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    2.0 * s * series + f64::from(exponent) * std::f64::consts::LN_2
}

/// The cube root of a normal, positive x by Newton's method. The first estimate has a third of x's exponent.
fn cube_root(x: f64) -> f64 {
    let estimate = f64::from_bits(x.to_bits() / 3 + 0x2aa0_0000_0000_0000);
    (0..6).fold(estimate, |y, _| (2.0 * y + x / (y * y)) / 3.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;

    fn packet(number: u64, copy: u8) -> InFlight {
        let packet = Packet { number, size_bytes: 1500, carries_data: true };
        InFlight {
            packet,
            copy,
            outcomes: 1,
            data_number: None,
            arrived_ns: 0,
            corrupted_bit: None,
            turn: 0,
            entered_ns: 0,
        }
    }

    fn generator() -> Generator {
        Generator::new(7, Direction::Up, "loss")
    }

    /// The sample's mean and standard deviation.
    fn moments(draw: impl Fn(&mut Draws) -> f64) -> (f64, f64) {
        let generator = generator();
        let values: Vec<f64> =
            (0..200_000).map(|number| draw(&mut generator.draws_for(&packet(number, 0)))).collect();
        let count = f64::from(u32::try_from(values.len()).unwrap());
        let mean = values.iter().sum::<f64>() / count;
        (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
    }

    #[test]
    fn each_seed_stage_direction_packet_and_copy_has_its_own_numbers() {
        let first = |generator: Generator, number, copy| generator.draws_for(&packet(number, copy)).below(u64::MAX);
        let numbers = [
            first(generator(), 0, 0),
            first(Generator::new(8, Direction::Up, "loss"), 0, 0),
            first(Generator::new(7, Direction::Down, "loss"), 0, 0),
            first(Generator::new(7, Direction::Up, "delay"), 0, 0),
            first(generator(), 1, 0),
            first(generator(), 0, 1),
        ];
        let distinct: std::collections::BTreeSet<u64> = numbers.iter().copied().collect();
        assert_eq!(distinct.len(), numbers.len());
        assert_eq!(first(generator(), 0, 0), numbers[0]);
    }

    /// These values are from an earlier build: a saved seed must always give the same fates.
    #[test]
    fn a_seed_gives_the_same_numbers_on_every_machine_and_in_every_version() {
        let mut draws = generator().draws_for(&packet(5, 0));
        let integers = [draws.below(1_000_000), draws.below(1_000_000)];
        let floats = [draws.normal().to_bits(), draws.pareto().to_bits()];
        assert_eq!((integers, floats), ([819_043, 805_887], [4_602_301_625_490_245_027, 13_826_213_351_683_511_107]));
    }

    #[test]
    fn the_logarithm_and_the_root_agree_with_the_library_to_the_last_bits() {
        for step in 1..10_000_u32 {
            let x = f64::from(step) / 9973.0;
            assert!((natural_logarithm(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1.0), "ln {x}");
            assert!((cube_root(x) / x.cbrt() - 1.0).abs() < 1e-15, "cube root of {x}");
        }
        let least = 1.0 / 9_007_199_254_740_992.0;
        assert!((natural_logarithm(least) - least.ln()).abs() < 1e-14);
        assert!((cube_root(least) / least.cbrt() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn normal_and_pareto_numbers_have_mean_0_and_standard_deviation_1() {
        let (mean, deviation) = moments(Draws::normal);
        // Five standard errors of 200 000 draws: 5 / sqrt(200 000), and 5 / sqrt(400 000).
        assert!(mean.abs() < 0.0112 && (deviation - 1.0).abs() < 0.0080, "{mean} {deviation}");
        let (mean, _) = moments(Draws::pareto);
        assert!(mean.abs() < 0.0112, "{mean}");
    }

    /// Kolmogorov-Smirnov: the largest distance to the closed form is below 1.95 / sqrt(n), which 1 in 1000 samples
    /// exceeds.
    #[test]
    fn pareto_numbers_follow_the_closed_form() {
        let generator = generator();
        let mut values: Vec<f64> =
            (0..50_000).map(|number| generator.draws_for(&packet(number, 0)).pareto()).collect();
        values.sort_by(f64::total_cmp);
        let distance = values.iter().zip(1..).map(|(value, rank)| {
            let closed = 1.0 - (value * 0.75_f64.sqrt() + 1.5).powi(-3);
            (closed - f64::from(rank) / 50_000.0).abs()
        });
        assert!(distance.fold(0.0, f64::max) < 1.95 / 50_000_f64.sqrt());
        assert!(values[0] >= -0.5 / 0.75_f64.sqrt() - 1e-12);
    }

    #[test]
    fn extreme_bounds_and_shares() {
        let mut draws = generator().draws_for(&packet(1, 0));
        assert_eq!(draws.below(0), 0);
        assert_eq!(draws.below(1), 0);
        assert!((0..1000).all(|_| !draws.happens(Share::NONE) && draws.happens(Share::ALL)));
    }
}
