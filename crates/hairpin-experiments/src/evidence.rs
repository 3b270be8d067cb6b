//! Evidence rounds: a few exchanges of each case, traced, and as many untraced, after the timed rounds are done.
//!
//! Their figures are no answer. The traced ones say why an exchange takes as long as it does. The untraced ones are
//! the same but for the tracing, so the difference between the two is what the observer costs. Blocks have numbers
//! of their own, so that a comparison never pairs them with timed rounds.

use std::collections::BTreeMap;

use hairpin_model::case::Case;
use hairpin_model::exchange::Exchange;
use hairpin_model::ground::{Candidate, Ground};
use hairpin_model::round::{Extent, Purpose, RoundOrder, RoundRecord};
use hairpin_model::run::Skipped;

use crate::exchange_time::window_ns;
use crate::links;
use crate::possible;
use crate::selection::several;
use crate::sequence::{self, Planned};

/// Blocks of evidence rounds: each holds a traced and an untraced round of every case. Cases that take long for an
/// exchange over a link are in the first one only.
pub const BLOCKS: u32 = 3;
/// From this on an exchange takes long, in ns.
const LONG_NS: u64 = 250_000_000;
/// The most cases that one run traces: the first ones of its plan.
pub const MOST_CASES: usize = 20;
/// How long an evidence round lasts, where more than two windows fit that.
const LASTS_NS: u64 = 180_000_000;
/// The fewest and the most windows of an evidence round: the first of a connection, and some past it.
const WINDOWS: (u64, u64) = (2, 5);
/// The most writes that are traced in one round, where two exchanges do not need more.
const MOST_WRITES: u64 = 20_000;

/// Whether such a case has evidence rounds, once it is measured. Only TCP has segments and acknowledgements to see; an A/A
/// pair is traced once.
#[must_use]
pub fn is_traced(case: &Case, ground: &Ground) -> bool {
    let is_tcp = |candidate: &Candidate| possible::is_tcp(&candidate.card);
    case.exchange.is_some() && case.twin == 0 && ground.candidate(&case.transport).is_some_and(is_tcp)
}

/// The evidence rounds for those of the planned cases that were measured, in the order in which they run, and what is
/// not traced with the reasons.
#[must_use]
pub fn rounds(
    planned: &[Planned],
    done: &[RoundRecord],
    ground: &Ground,
    seed: u64,
) -> (Vec<RoundOrder>, Vec<Skipped>) {
    let mut measured: BTreeMap<&str, &RoundRecord> = BTreeMap::new();
    for record in done.iter().filter(|record| record.measured().is_some()) {
        measured.entry(&record.case_id).or_insert(record);
    }
    let (mut templates, mut quick) = (Vec::new(), Vec::new());
    let mut left_out = Vec::new();
    for Planned { case, .. } in planned.iter().filter(|planned| is_traced(&planned.case, ground)) {
        let candidate = ground.candidate(&case.transport);
        let record = measured.get(case.id().as_str());
        let (Some(exchange), Some(candidate), Some(record)) = (&case.exchange, candidate, record) else { continue };
        if templates.len() == 2 * MOST_CASES {
            left_out.push(case);
            continue;
        }
        let window_ns = window_ns(case, exchange, &candidate.card, links::travel_ns(case, ground));
        let extent = Extent::Count(exchanges(exchange, window_ns));
        let of = |purpose| RoundOrder { purpose, extent, warm_up: Extent::Count(0), ..record.order.clone() };
        let both = [Purpose::Traced, Purpose::Untraced].map(of);
        if window_ns < LONG_NS || !case.is_emulated() {
            quick.extend(both.clone());
        }
        templates.extend(both);
    }
    let skipped = left_out.first().map(|first| Skipped {
        transport: first.transport.clone(),
        case: Some(format!("the traces of {}", several(&left_out))),
        reason: format!("only the first {MOST_CASES} cases of a plan are traced (hint: sweep fewer values at once)"),
    });
    let first_block = block_after(done);
    let mut rounds = sequence::interleaved(&templates, first_block, 1, seed);
    rounds.extend(sequence::interleaved(&quick, first_block.saturating_add(1), BLOCKS - 1, seed));
    (rounds, skipped.into_iter().collect())
}

/// How many exchanges one evidence round holds.
fn exchanges(exchange: &Exchange, window_ns: u64) -> u64 {
    let (fewest, most) = WINDOWS;
    let windows = (LASTS_NS / window_ns).clamp(fewest, most);
    let writes = exchange.writes.sizes().len() as u64;
    (windows * exchange.pipeline).min((MOST_WRITES / writes).max(fewest))
}

/// The first block that none of these rounds belongs to.
fn block_after(done: &[RoundRecord]) -> u32 {
    done.iter().map(|record| record.order.block.saturating_add(1)).max().unwrap_or(0)
}
