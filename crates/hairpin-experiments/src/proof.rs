//! Rounds that check a claim by measuring pairs of cases. The two cases of a pair differ in one setting.

use hairpin_model::names::distinct;
use hairpin_model::round::Purpose;
use hairpin_model::{Case, Extent, HostCapabilities, Remedy, RoundOrder, RoundRecord};

use crate::budget::INTERVAL_BLOCKS;
use crate::estimate;
use crate::quantity::SECOND_NS;
use crate::sequence;

const ROUNDS: u64 = 10;
/// Maximum duration of all rounds, in ns. [`MIN_ROUNDS`] rounds of each case run even if they take longer.
const LASTS_NS: u64 = 60 * SECOND_NS;
const MIN_ROUNDS: u64 = INTERVAL_BLOCKS + 1;

/// Returns the rounds that check these pairs, at most ten per case, and their total duration in ns.
pub fn rounds(
    pairs: &[[Case; 2]],
    like: &[RoundRecord],
    capabilities: &HostCapabilities,
    seed: u64,
    first_block: u32,
) -> (Vec<RoundOrder>, u64) {
    let block_ns = estimate::orders_ns(&orders(pairs, like, 1, seed, first_block), capabilities);
    let blocks = (LASTS_NS / block_ns.max(1)).clamp(MIN_ROUNDS, ROUNDS);
    let orders = orders(pairs, like, u32::try_from(blocks).unwrap_or(1), seed, first_block);
    (orders, blocks.saturating_mul(block_ns))
}

/// Returns `blocks` blocks of every case of the pairs, starting at `first_block`, in seeded random order.
///
/// A case that is in several pairs is measured once per block. Everything but the case is copied from the most
/// similar timed round in `like`; without timed rounds the result is empty.
pub fn orders(
    pairs: &[[Case; 2]],
    like: &[RoundRecord],
    blocks: u32,
    seed: u64,
    first_block: u32,
) -> Vec<RoundOrder> {
    let template = |case: &Case| Some(RoundOrder { case: case.clone(), ..nearest(case, like)?.clone() });
    let templates: Vec<RoundOrder> = distinct(pairs.iter().flatten()).into_iter().filter_map(template).collect();
    sequence::interleaved(&templates, first_block, blocks, seed)
}

/// Returns the timed round whose case is most similar to `case`. Among equally similar rounds the shortest wins,
/// because `case` may stall where the other case does not.
fn nearest<'r>(case: &Case, like: &'r [RoundRecord]) -> Option<&'r RoundOrder> {
    let timed = like.iter().map(|record| &record.order).filter(|order| order.purpose == Purpose::Timed);
    timed.min_by_key(|order| {
        let far_in_what_stalls = remedy(&order.case) != remedy(case);
        let far_in_link = order.case.path.link != case.path.link;
        let far_in_transport = order.case.primary().transport != case.primary().transport;
        (
            order.case != *case,
            far_in_link,
            far_in_what_stalls,
            far_in_transport,
            length(order.extent),
            length(order.warm_up),
        )
    })
}

fn remedy(case: &Case) -> Option<Remedy> {
    case.primary().load.exchange().map(|exchange| exchange.remedy)
}

fn length(extent: Extent) -> u64 {
    match extent {
        Extent::Count(length) | Extent::DurationNs(length) => length,
    }
}
