//! The order of rounds: block by block, each block holding every case once, in a seeded random order.
//!
//! Slow changes of the machine then fall on all cases alike, and rounds of one block are neighbours in time, so a
//! comparison may pair them.

use hairpin_model::case::Case;
use hairpin_model::phases::PhaseLengths;
use hairpin_model::refused::Refused;
use hairpin_model::round::{Extent, Purpose, RoundOrder};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The most rounds that one plan may hold: as many as every command can read again.
pub const MAX_ROUNDS: u64 = 20_000;
/// The most cases.
pub const MAX_CASES: u64 = 2000;

/// A case and how much to do of it in each round.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The case.
    pub case: Case,
    /// How much to measure.
    pub extent: Extent,
    /// How much to send first, unmeasured.
    pub warm_up: Extent,
    /// How long an answer may take, in nanoseconds.
    pub timeout_ns: u64,
    /// How long the round may take, in ns: see [`crate::estimate::deadline_ns`].
    pub deadline_ns: u64,
    /// How long each phase lasts, where a load begins and ends beside a probe.
    pub phases: Option<PhaseLengths>,
}

/// What all rounds of a plan have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Samples to keep raw in each round, at most.
    pub keep_samples: u64,
    /// Go on although an option was not granted.
    pub allow_unmet_options: bool,
    /// The port to listen on; 0 for any.
    pub port: u16,
}

/// So many blocks, which begin this far apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The first block's number.
    pub first: u32,
    /// How many blocks.
    pub count: u32,
    /// When the first begins, in ns since the run began.
    pub begin_ns: u64,
    /// From the beginning of one to that of the next, in ns; 0 where each follows at once.
    pub apart_ns: u64,
}

/// The orders of these blocks of every planned case.
///
/// # Errors
/// [`Refused`] when there would be more than [`MAX_ROUNDS`].
pub fn orders(planned: &[Planned], blocks: Blocks, seed: u64, common: Common) -> Result<Vec<RoundOrder>, Refused> {
    let total = (planned.len() as u64).saturating_mul(u64::from(blocks.count));
    if total > MAX_ROUNDS {
        return Err(Refused::new(
            format!("{} cases x {} rounds are {total} rounds, more than {MAX_ROUNDS}", planned.len(), blocks.count),
            "use fewer values, or lower --rounds",
        ));
    }
    let templates: Vec<RoundOrder> = planned.iter().map(|planned| order(planned, common)).collect();
    Ok(spread(&templates, blocks, seed))
}

/// Every template once in each of these blocks, which begin as far apart as they say.
#[must_use]
pub fn spread(templates: &[RoundOrder], blocks: Blocks, seed: u64) -> Vec<RoundOrder> {
    let mut orders = interleaved(templates, blocks.first, blocks.count, seed);
    for order in &mut orders {
        let before = u64::from(order.block - blocks.first);
        order.not_before_ns = if blocks.apart_ns == 0 { 0 } else { blocks.begin_ns + before * blocks.apart_ns };
    }
    orders
}

/// Every template once in each of `blocks` blocks from `first_block` on, in the seeded random order of that block.
///
/// The seed of their links is `seed` plus the block's number: all cases of a block meet the same chances, and no two
/// blocks do.
#[must_use]
pub fn interleaved(templates: &[RoundOrder], first_block: u32, blocks: u32, seed: u64) -> Vec<RoundOrder> {
    let numbers = (0..blocks).map(|number| first_block.saturating_add(number));
    let in_order = numbers.flat_map(|block| {
        let places = permutation(templates.len(), seed, block);
        places.into_iter().map(move |place| {
            let template = &templates[place];
            let link_seed = if template.case.is_emulated() { seed.wrapping_add(u64::from(block)) } else { 0 };
            RoundOrder { block, link_seed, ..template.clone() }
        })
    });
    in_order.collect()
}

/// The round of one case, in block 0.
pub(crate) fn order(planned: &Planned, common: Common) -> RoundOrder {
    RoundOrder {
        case: planned.case.clone(),
        purpose: Purpose::Timed,
        block: 0,
        extent: planned.extent,
        warm_up: planned.warm_up,
        timeout_ns: planned.timeout_ns,
        deadline_ns: planned.deadline_ns,
        keep_samples: common.keep_samples,
        allow_unmet_options: common.allow_unmet_options,
        port: common.port,
        not_before_ns: 0,
        link_seed: 0,
        phases: planned.phases,
    }
}

/// A random order of `0..len` that depends on the seed and on the block's number, and on nothing else.
///
/// Fisher-Yates (Knuth, The Art of Computer Programming, volume 2, algorithm P), written out here because the order
/// of a seed is part of the saved run and must not change with a library's version.
#[must_use]
pub fn permutation(len: usize, seed: u64, block: u32) -> Vec<usize> {
    // The odd constant (2^64 divided by the golden ratio) spreads block numbers over the seed's bits.
    let mixed = seed ^ u64::from(block).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(mixed);
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last, below(&mut random, last as u64 + 1));
    }
    order
}

/// A uniform number below `bound`, by rejection, so that no order is likelier than another.
// The result is below a length.
fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> usize {
    let unfair = u64::MAX - u64::MAX % bound;
    loop {
        let number = random.next_u64();
        if number < unfair {
            return (number % bound) as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_seed_never_changes() {
        // Saved runs can be repeated only while these stay as they are.
        assert_eq!(permutation(8, 42, 0), [4, 5, 6, 3, 7, 2, 1, 0]);
    }

    #[test]
    fn every_order_of_three_is_about_equally_likely() {
        let mut counts = std::collections::BTreeMap::<Vec<usize>, u32>::new();
        for block in 0..6000 {
            *counts.entry(permutation(3, 7, block)).or_default() += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
