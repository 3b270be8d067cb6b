//! Orders rounds in blocks. Each block has every case once, in a seeded random order.
//!
//! With this order, slow changes of the machine affect all cases alike. Rounds of one block are close in time, so
//! comparisons may pair them.

use hairpin_model::phases::Phase;
use hairpin_model::{Case, Extent, HostCapabilities, PhaseLengths, Refused, RoundOrder};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::estimate;
use crate::knobs::Knobs;
use crate::links;

/// Maximum rounds of a plan. Every command can read a saved run of this size.
pub const MAX_ROUNDS: u64 = 20_000;
pub const MAX_CASES: u64 = 2000;

/// Returns the round order of a case for block 0, with this warm-up and this length, and the settings that all
/// experiments share. The time-out is that of `--timeout`, or else the default of the case's link.
pub fn template(case: Case, extents: [Extent; 2], knobs: &Knobs, capabilities: &HostCapabilities) -> RoundOrder {
    let timeout_ns = knobs.value("timeout").unwrap_or_else(|| links::timeout_ns(&case, capabilities));
    let port: u64 = knobs.value("port").unwrap_or(0);
    let [warm_up, extent] = extents;
    RoundOrder {
        extent,
        warm_up,
        timeout_ns,
        deadline_ns: estimate::deadline_ns(&case, extents, timeout_ns, capabilities),
        keep_samples: knobs.value("keep-samples").unwrap_or(100_000),
        allow_unmet_options: knobs.is_on("allow-unmet-options"),
        port: u16::try_from(port).unwrap_or(0),
        ..RoundOrder::of(case, 0)
    }
}

/// Returns the round order with a shorter round. A load that must first fill a link is at most halved.
pub fn shortened(order: &RoundOrder, divisor: u64) -> RoundOrder {
    let fills = order.case.flows.iter().any(|flow| flow.load.is_one_way()) && order.case.crosses_a_network();
    let divisor = if fills { divisor.min(2) } else { divisor };
    let shorter = |extent: Extent| match extent {
        Extent::Count(count) => Extent::Count((count / divisor).max(count.min(links::MIN_MESSAGES))),
        Extent::DurationNs(duration_ns) => Extent::DurationNs(duration_ns / divisor),
    };
    // A ramp that is too short does not fill the queue, which makes the round invalid.
    let divisor_of = |phase: Phase| if phase == Phase::Ramp { 1 } else { divisor };
    let phases = order.phases.map(|lengths| PhaseLengths::of(|phase| lengths.get(phase) / divisor_of(phase)));
    let extent = phases.map_or_else(|| shorter(order.extent), |lengths| Extent::DurationNs(lengths.total_ns()));
    RoundOrder { extent, warm_up: shorter(order.warm_up), phases, ..order.clone() }
}

/// Blocks at even intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    pub first: u32,
    pub count: u32,
    /// When the first block begins, in ns since the start of the run.
    pub begin_ns: u64,
    /// Interval between block starts, in ns; 0 runs blocks back to back.
    pub apart_ns: u64,
}

/// Returns every template once in each block, with the start time of the block.
pub fn orders(templates: &[RoundOrder], blocks: Blocks, seed: u64) -> Result<Vec<RoundOrder>, Refused> {
    let total = (templates.len() as u64).saturating_mul(u64::from(blocks.count));
    if total > MAX_ROUNDS {
        return Err(Refused::new(
            format!("{} cases x {} rounds are {total} rounds, more than {MAX_ROUNDS}", templates.len(), blocks.count),
            "use fewer values, or lower --rounds",
        ));
    }
    let mut orders = interleaved(templates, blocks.first, blocks.count, seed);
    for order in &mut orders {
        let before = u64::from(order.block - blocks.first);
        order.not_before_ns = if blocks.apart_ns == 0 { 0 } else { blocks.begin_ns + before * blocks.apart_ns };
    }
    Ok(orders)
}

/// Returns every template once in each of `blocks` blocks from `first_block` on, in a seeded random order per block.
///
/// The seed of emulated links is `seed` plus the block number: all cases of a block see the same random events, and
/// each block sees different ones.
pub fn interleaved(templates: &[RoundOrder], first_block: u32, blocks: u32, seed: u64) -> Vec<RoundOrder> {
    let numbers = (0..blocks).map(|number| first_block.saturating_add(number));
    let in_order = numbers.flat_map(|block| {
        let indices = permutation(templates.len(), seed, block);
        indices.into_iter().map(move |index| {
            let template = &templates[index];
            let link_seed = if template.case.is_emulated() { seed.wrapping_add(u64::from(block)) } else { 0 };
            RoundOrder { block, link_seed, ..template.clone() }
        })
    });
    in_order.collect()
}

/// Returns a random permutation of `0..len` that depends only on the seed and the block number.
///
/// Fisher-Yates (Knuth, The Art of Computer Programming, volume 2, algorithm P), implemented here because the order
/// of a saved run must be reproducible from its seed with every version of a library.
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

/// Returns a uniform random number below `bound`, by rejection, so that all permutations are equally likely.
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
        // Saved runs are reproducible only if this order does not change.
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
