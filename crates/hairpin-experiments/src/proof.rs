//! The rounds that prove or refute: each pair of cases differs in one thing, and both are measured in turn.

use hairpin_model::capabilities::HostCapabilities;
use hairpin_model::case::Case;
use hairpin_model::exchange::Remedy;
use hairpin_model::round::{Extent, Purpose, RoundOrder, RoundRecord};

use crate::budget::QUICK_BLOCKS;
use crate::estimate;
use crate::quantity::SECOND_NS;
use crate::sequence;

/// Rounds of each case of a pair.
const ROUNDS: u64 = 10;
/// Where these last longer than this, in ns, there are fewer, but one more than an interval needs.
const LASTS_NS: u64 = 60 * SECOND_NS;
const MIN_ROUNDS: u64 = QUICK_BLOCKS + 1;

/// The rounds that settle these pairs, as many as an interval needs and the time allows, and how long they take, in ns.
#[must_use]
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

/// `blocks` blocks of every case of the pairs, interleaved in a seeded random order, from `first_block` on.
///
/// A case that stands in several pairs is measured once in a block. Everything but the case is taken from the timed
/// round of `like` that is nearest to it; without any such round there is nothing to order.
#[must_use]
pub fn orders(
    pairs: &[[Case; 2]],
    like: &[RoundRecord],
    blocks: u32,
    seed: u64,
    first_block: u32,
) -> Vec<RoundOrder> {
    let mut templates: Vec<RoundOrder> = Vec::new();
    for case in pairs.iter().flatten() {
        let known = templates.iter().any(|template| template.case == *case);
        if let Some(nearest) = nearest(case, like).filter(|_| !known) {
            templates.push(RoundOrder { case: case.clone(), ..nearest.clone() });
        }
    }
    sequence::interleaved(&templates, first_block, blocks, seed)
}

/// The timed round nearest to the case. Of equally near ones that with the least to do, since a case that stalls may
/// be like one that does not; of those the first.
fn nearest<'r>(case: &Case, like: &'r [RoundRecord]) -> Option<&'r RoundOrder> {
    let timed = like.iter().map(|record| &record.order).filter(|order| order.purpose == Purpose::Timed);
    timed.min_by_key(|order| {
        let far_in_what_stalls = remedy(&order.case) != remedy(case);
        let far_in_link = order.case.path.link != case.path.link;
        let far_in_transport = order.case.flow().transport != case.flow().transport;
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
    case.flow().load.exchange().map(|exchange| exchange.remedy)
}

fn length(extent: Extent) -> u64 {
    match extent {
        Extent::Count(length) | Extent::DurationNs(length) => length,
    }
}
