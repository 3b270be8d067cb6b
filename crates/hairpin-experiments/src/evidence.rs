//! Evidence rounds run after the timed rounds. Each runs a few exchanges or messages of a case, traced or untraced.
//!
//! Their figures are not results. Traced rounds show what an exchange waits for. Untraced rounds are otherwise
//! identical, so the difference in duration is the cost of tracing. Block numbers of evidence rounds differ from
//! those of timed rounds, so that a comparison never pairs the two kinds.

use std::collections::BTreeSet;

use hairpin_model::round::Purpose;
use hairpin_model::{
    Candidate, Card, Case, Exchange, Extent, HostCapabilities, Load, RoundOrder, RoundRecord, Skipped,
};

use crate::estimate;
use crate::exchange_time::window_ns;
use crate::experiment::{Forecast, Step};
use crate::links;
use crate::possible;
use crate::selection::brief_list;
use crate::sequence;

/// Blocks of evidence rounds, each with a traced and an untraced round of every case. Cases with long exchanges over
/// a link run only in the first block.
pub const BLOCKS: u32 = 3;
/// Minimum duration of an exchange that counts as long, in ns.
const MIN_LONG_NS: u64 = 250_000_000;
/// Maximum number of cases traced in one run, in plan order.
pub const MAX_CASES: usize = 20;
/// Target duration of an evidence round, in ns. The minimum number of windows may take longer.
const TARGET_NS: u64 = 180_000_000;
/// Minimum and maximum windows of an evidence round. The first window of a connection differs from later ones.
const WINDOW_RANGE: (u64, u64) = (2, 5);
/// Minimum and maximum messages of an evidence round of an open loop. Messages begin to wait for each other at a
/// random time, and then the waiting continues. At 2000 messages/s, a third of 50 ms rounds and 90 % of 250 ms rounds
/// stalled.
const MESSAGE_RANGE: (u64, u64) = (3, 2000);
const OPEN_LOOP_TARGET_NS: u64 = 400_000_000;
/// Maximum delay of an ACK in ns (RFC 1122, 4.2.3.2). Messages at longer intervals never wait for each other.
const MAX_ACK_DELAY_NS: f64 = 500e6;
/// Maximum writes traced in one round, unless two exchanges need more.
const MAX_WRITES: u64 = 20_000;

/// Whether a measured case gets evidence rounds. Only TCP has segments and ACKs to trace; the framing of transports
/// with message boundaries hides segments. Only data written while other data is in flight can wait. In an A/A pair
/// only the first case is traced.
pub fn is_traced(case: &Case, capabilities: &HostCapabilities) -> bool {
    let is_tcp = |candidate: &Candidate| possible::is_tcp(&candidate.card) && !candidate.card.boundaries;
    let may_wait = match case.primary().load {
        Load::PingPong { .. }
        | Load::Messages { .. }
        | Load::Stream { .. }
        | Load::Offered { .. }
        | Load::Periodic { .. } => false,
        Load::Paced { rate_per_s, .. } => interval_ns(rate_per_s) < MAX_ACK_DELAY_NS,
        Load::Exchange { .. } => true,
    };
    may_wait
        && case.replicate == 0
        && !case.is_under_load()
        && capabilities.candidate(&case.primary().transport).is_some_and(is_tcp)
}

/// Returns the step after the timed rounds: the evidence rounds of all cases with a measured round, or [`Step::Done`]
/// if they have run. With `left_ns`, only the rounds that fit this time.
pub fn step(
    planned: &[RoundOrder],
    done: &[RoundRecord],
    capabilities: &HostCapabilities,
    seed: u64,
    left_ns: Option<u64>,
) -> Step {
    if done.iter().any(|record| record.order.purpose != Purpose::Timed) {
        return Step::Done;
    }
    let measured = done.iter().filter(|record| record.measured().is_some());
    let measured: BTreeSet<&str> = measured.map(|record| record.case_id.as_str()).collect();
    let is_measured = |order: &&RoundOrder| measured.contains(order.case.id().as_str());
    let first_unused = done.iter().map(|record| record.order.block.saturating_add(1)).max().unwrap_or(0);
    let (mut rounds, skipped) = orders(planned.iter().filter(is_measured), capabilities, first_unused, seed);
    if let Some(left_ns) = left_ns {
        keep_fitting(&mut rounds, planned, left_ns, capabilities);
    }
    if rounds.is_empty() {
        return Step::Done;
    }
    Step::Run { cases: Vec::new(), rounds, skipped, forecast: Forecast::default() }
}

/// Duration of the evidence rounds if every case has a measured round, in ns.
pub fn expected_ns(planned: &[RoundOrder], capabilities: &HostCapabilities) -> u64 {
    let (orders, _) = orders(planned.iter(), capabilities, 0, 0);
    estimate::orders_ns(&orders, capabilities)
}

/// Keeps the evidence rounds that fit `left_ns`, one traced round of each case, in plan order.
fn keep_fitting(rounds: &mut Vec<RoundOrder>, planned: &[RoundOrder], left_ns: u64, capabilities: &HostCapabilities) {
    let place = |order: &RoundOrder| planned.iter().position(|planned| planned.case == order.case);
    let first = rounds.iter().map(|order| order.block).min();
    rounds.retain(|order| order.purpose == Purpose::Traced && Some(order.block) == first);
    rounds.sort_by_key(place);
    let fits = |count: &usize| estimate::orders_ns(&rounds[..*count], capabilities) <= left_ns;
    let count = (0..=rounds.len()).rev().find(fits).unwrap_or(0);
    rounds.truncate(count);
}

fn orders<'o>(
    planned: impl Iterator<Item = &'o RoundOrder>,
    capabilities: &HostCapabilities,
    first_block: u32,
    seed: u64,
) -> (Vec<RoundOrder>, Vec<Skipped>) {
    let (mut templates, mut quick) = (Vec::new(), Vec::new());
    let mut left_out = Vec::new();
    for order in planned.filter(|order| is_traced(&order.case, capabilities)) {
        let case = &order.case;
        let Some(candidate) = capabilities.candidate(&case.primary().transport) else { continue };
        if templates.len() == 2 * MAX_CASES {
            left_out.push(case);
            continue;
        }
        let Some((count, window_ns)) = count(case, &candidate.card, links::travel_ns(case, capabilities)) else {
            continue;
        };
        let (extent, warm_up) = (Extent::Count(count), Extent::Count(0));
        let both = [Purpose::Traced, Purpose::Untraced];
        let both = both.map(|purpose| RoundOrder { purpose, extent, warm_up, ..order.clone() });
        if window_ns < MIN_LONG_NS || !case.crosses_a_network() {
            quick.extend(both.clone());
        }
        templates.extend(both);
    }
    let skipped = left_out.first().map(|first| Skipped {
        transport: first.primary().transport.clone(),
        case: Some(format!("the traces of {}", brief_list(&left_out))),
        reason: format!("only the first {MAX_CASES} cases of a plan are traced (hint: use fewer values at once)"),
    });
    let mut rounds = sequence::interleaved(&templates, first_block, 1, seed);
    rounds.extend(sequence::interleaved(&quick, first_block.saturating_add(1), BLOCKS - 1, seed));
    (rounds, skipped.into_iter().collect())
}

/// Returns the number of exchanges or messages in an evidence round, and the duration in ns of one window or message.
fn count(case: &Case, card: &Card, travel_ns: u64) -> Option<(u64, u64)> {
    match &case.primary().load {
        Load::Paced { rate_per_s, .. } => {
            let (min, max) = MESSAGE_RANGE;
            // At most MAX_ACK_DELAY_NS, so the cast is safe.
            let interval_ns = interval_ns(*rate_per_s).clamp(1.0, MAX_ACK_DELAY_NS) as u64;
            Some(((OPEN_LOOP_TARGET_NS / interval_ns).clamp(min, max), interval_ns.saturating_add(travel_ns)))
        }
        Load::Exchange { exchange, .. } => {
            let window_ns = window_ns(case, exchange, card, travel_ns);
            Some((exchanges(exchange, window_ns), window_ns))
        }
        Load::PingPong { .. }
        | Load::Messages { .. }
        | Load::Stream { .. }
        | Load::Offered { .. }
        | Load::Periodic { .. } => None,
    }
}

fn interval_ns(rate_per_s: f64) -> f64 {
    1e9 / rate_per_s
}

fn exchanges(exchange: &Exchange, window_ns: u64) -> u64 {
    let (min, max) = WINDOW_RANGE;
    let windows = (TARGET_NS / window_ns).clamp(min, max);
    let writes = (exchange.writes.sizes().len() + exchange.sizes_answered().len()) as u64;
    (windows * exchange.pipeline).min((MAX_WRITES / writes).max(min))
}
