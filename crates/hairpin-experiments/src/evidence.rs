//! Evidence rounds: a few exchanges of each case, or messages of an open loop, traced, and as many untraced, after the
//! timed rounds.
//!
//! Their figures are not results. Traced rounds show why an exchange takes its time. Untraced ones differ only in the
//! tracing, so the difference is the cost of observing. Their blocks have separate numbers, so that a comparison never
//! pairs them with timed rounds.

use std::collections::BTreeMap;

use hairpin_model::round::Purpose;
use hairpin_model::{
    Candidate, Card, Case, Exchange, Extent, HostCapabilities, Load, RoundOrder, RoundRecord, Skipped,
};

use crate::estimate;
use crate::exchange_time::window_ns;
use crate::experiment::{Forecast, Step};
use crate::links;
use crate::possible;
use crate::selection::several;
use crate::sequence::{self, Common, Planned};

/// Blocks of evidence rounds, each with a traced and an untraced round of every case. Cases with long exchanges over a
/// link are only in the first.
pub const BLOCKS: u32 = 3;
/// Minimum duration of a long exchange, in ns.
const LONG_NS: u64 = 250_000_000;
/// Maximum cases that one run traces: the first ones of its plan.
pub const MAX_CASES: usize = 20;
/// Duration of an evidence round if more than two windows fit.
const LASTS_NS: u64 = 180_000_000;
/// Minimum and maximum windows of an evidence round: the first of a connection, and some past it.
const WINDOWS: (u64, u64) = (2, 5);
/// Minimum and maximum messages of an evidence round of an open loop, and its duration in ns between these. Whether and
/// when messages of a connection begin to wait for each other is random; then they continue to. Of rounds of 50 ms at
/// 2000/s a third stalled, of rounds of 250 ms nine in ten.
const MESSAGES: (u64, u64) = (3, 2000);
const MESSAGES_LAST_NS: u64 = 400_000_000;
/// Maximum delay of an acknowledgment (RFC 1122, 4.2.3.2), in ns: messages further apart never wait for each other.
const ALONE_NS: f64 = 500e6;
/// Maximum writes traced in one round, unless two exchanges need more.
const MAX_WRITES: u64 = 20_000;

/// Whether a measured case has evidence rounds. Only TCP has segments and acknowledgments to see, of which nothing is
/// known if they carry another framing; only data written while other data is in flight can wait for it; of an A/A pair
/// only the first is traced.
pub fn is_traced(case: &Case, capabilities: &HostCapabilities) -> bool {
    let is_tcp = |candidate: &Candidate| possible::is_tcp(&candidate.card) && !candidate.card.boundaries;
    let may_wait = match case.primary().load {
        Load::PingPong { .. } | Load::Messages { .. } | Load::Stream { .. } | Load::Offered { .. } => false,
        Load::Paced { rate_per_s, .. } => interval_ns(rate_per_s) < ALONE_NS,
        Load::Exchange { .. } => true,
    };
    may_wait
        && case.replicate == 0
        && !case.is_under_load()
        && capabilities.candidate(&case.primary().transport).is_some_and(is_tcp)
}

/// The evidence rounds of those planned cases that were measured, in execution order, and the cases that are not traced
/// with the reasons.
pub fn rounds(
    planned: &[Planned],
    done: &[RoundRecord],
    capabilities: &HostCapabilities,
    seed: u64,
) -> (Vec<RoundOrder>, Vec<Skipped>) {
    let mut measured: BTreeMap<&str, &RoundRecord> = BTreeMap::new();
    for record in done.iter().filter(|record| record.measured().is_some()) {
        measured.entry(&record.case_id).or_insert(record);
    }
    let order_of = |planned: &Planned| measured.get(planned.case.id().as_str()).map(|record| record.order.clone());
    let first_unused = done.iter().map(|record| record.order.block.saturating_add(1)).max().unwrap_or(0);
    orders(planned, order_of, capabilities, first_unused, seed)
}

/// Duration of the evidence rounds if all cases are measured, in ns.
pub fn expected_ns(planned: &[Planned], common: Common, capabilities: &HostCapabilities) -> u64 {
    let (orders, _) = orders(planned, |planned| Some(sequence::order(planned, common)), capabilities, 0, 0);
    estimate::orders_ns(&orders, capabilities)
}

fn orders(
    planned: &[Planned],
    order_of: impl Fn(&Planned) -> Option<RoundOrder>,
    capabilities: &HostCapabilities,
    first_block: u32,
    seed: u64,
) -> (Vec<RoundOrder>, Vec<Skipped>) {
    let (mut templates, mut quick) = (Vec::new(), Vec::new());
    let mut left_out = Vec::new();
    for planned in planned.iter().filter(|planned| is_traced(&planned.case, capabilities)) {
        let case = &planned.case;
        let (Some(candidate), Some(order)) = (capabilities.candidate(&case.primary().transport), order_of(planned))
        else {
            continue;
        };
        if templates.len() == 2 * MAX_CASES {
            left_out.push(case);
            continue;
        }
        let Some((count, window_ns)) = count(case, &candidate.card, links::travel_ns(case, capabilities)) else {
            continue;
        };
        let (extent, warm_up) = (Extent::Count(count), Extent::Count(0));
        let both = [Purpose::Traced, Purpose::Untraced].map(|purpose| RoundOrder {
            purpose,
            extent,
            warm_up,
            not_before_ns: 0,
            ..order.clone()
        });
        if window_ns < LONG_NS || !case.crosses_a_network() {
            quick.extend(both.clone());
        }
        templates.extend(both);
    }
    let skipped = left_out.first().map(|first| Skipped {
        transport: first.primary().transport.clone(),
        case: Some(format!("the traces of {}", several(&left_out))),
        reason: format!("only the first {MAX_CASES} cases of a plan are traced (hint: use fewer values at once)"),
    });
    let mut rounds = sequence::interleaved(&templates, first_block, 1, seed);
    rounds.extend(sequence::interleaved(&quick, first_block.saturating_add(1), BLOCKS - 1, seed));
    (rounds, skipped.into_iter().collect())
}

/// Number of exchanges or messages of an evidence round, and the minimum duration of one, in ns.
fn count(case: &Case, card: &Card, travel_ns: u64) -> Option<(u64, u64)> {
    match &case.primary().load {
        Load::Paced { rate_per_s, .. } => {
            let (fewest, most) = MESSAGES;
            // Bounded by ALONE_NS.
            let interval_ns = interval_ns(*rate_per_s).clamp(1.0, ALONE_NS) as u64;
            Some(((MESSAGES_LAST_NS / interval_ns).clamp(fewest, most), interval_ns.saturating_add(travel_ns)))
        }
        Load::Exchange { exchange, .. } => {
            let window_ns = window_ns(case, exchange, card, travel_ns);
            Some((exchanges(exchange, window_ns), window_ns))
        }
        Load::PingPong { .. } | Load::Messages { .. } | Load::Stream { .. } | Load::Offered { .. } => None,
    }
}

fn interval_ns(rate_per_s: f64) -> f64 {
    1e9 / rate_per_s
}

/// Number of exchanges of one evidence round.
fn exchanges(exchange: &Exchange, window_ns: u64) -> u64 {
    let (fewest, most) = WINDOWS;
    let windows = (LASTS_NS / window_ns).clamp(fewest, most);
    let writes = exchange.writes.sizes().len() as u64;
    (windows * exchange.pipeline).min((MAX_WRITES / writes).max(fewest))
}

/// The step after the timed rounds: the evidence, unless it is done.
pub fn step(planned: &[Planned], done: &[RoundRecord], capabilities: &HostCapabilities, seed: u64) -> Step {
    if done.iter().any(|record| record.order.purpose != Purpose::Timed) {
        return Step::Done;
    }
    let (rounds, skipped) = rounds(planned, done, capabilities, seed);
    if rounds.is_empty() {
        return Step::Done;
    }
    Step::Run { cases: Vec::new(), rounds, skipped, forecast: Forecast::default() }
}
