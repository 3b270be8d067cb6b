//! The share of its requested rate that an open loop reached.

use hairpin_model::flow::ConnectionUse;
use hairpin_model::held_up::HeldUp;
use hairpin_model::{Case, CaseSummary, Measured, fact, fact_names};

use crate::statistics::location::median;

/// Minimum share of the requested rate; below it the generator was saturated and the round does not measure that rate.
pub const SATURATED_BELOW: f64 = 0.99;

/// Maximum median lateness of a generator, as a share of the median latency, for ranking; beyond it the figure is too
/// much the generator's.
pub const RANKED_UP_TO: f64 = 0.2;

/// Whether the generator's median lateness exceeds [`RANKED_UP_TO`] of the median latency. False in a closed loop,
/// where lateness is that of a connection, and for a probe under load: the load's effect is a difference within each
/// round, and sending late is part of it.
pub fn is_too_late_to_rank(case: &CaseSummary) -> bool {
    if case.case.primary().connection_use != ConnectionUse::Own || case.case.is_under_load() {
        return false;
    }
    let lateness = case.primary().lateness_ns.and_then(|lateness| lateness.p50);
    let medians = lateness.zip(case.primary().latency_ns.p50);
    medians.is_some_and(|(lateness, latency)| lateness.value > RANKED_UP_TO * latency.value)
}

/// Whether missing answers blocked the generator: the number of unanswered messages reached the range of their sequence
/// numbers. `None` if this blocked fewer messages than the rate may lack.
pub fn held_up(case: &Case, rounds: &[&Measured]) -> Option<HeldUp> {
    let waited = |measured: &&Measured| fact::number(&measured.client().facts, fact_names::WAITED_FOR_ANSWERS);
    let waited: f64 = rounds.iter().filter_map(waited).sum();
    let sent: f64 = rounds.iter().map(|measured| measured.primary().ledger.sent as f64).sum();
    if waited == 0.0 || waited < (1.0 - SATURATED_BELOW) * sent {
        return None;
    }
    Some(match (case.primary().load.size_bytes(), case.primary().load.reply_size_bytes()) {
        (1, _) => HeldUp::SizeOfOneByte,
        (_, 1) => HeldUp::ReplyOfOneByte,
        _ => HeldUp::Unanswered,
    })
}

/// The requested rate, in messages per second; `None` in a closed loop.
pub fn asked_per_s(case: &Case) -> Option<f64> {
    case.primary().load.rate_per_s()
}

/// The rate at which the generator sent in one round, in messages per second.
///
/// Messages sent over the scheduled time plus the generator's lag at the end. The lag of a saturated generator keeps
/// growing, so its final value is about twice its median and never above its maximum lateness: the smaller of the two
/// is used, so a single stall that was made up for does not count. If the round was shorter than that (it lasts until
/// the last answer), its own length is used. For a load without answers the sender reports the messages sent after the
/// warm-up and their duration, which is one interval between messages too short.
pub fn sent_per_s(asked_per_s: f64, measured: &Measured) -> f64 {
    let flow = measured.primary();
    let (sent, over_ns) = match &flow.sent {
        Some(sent) => (sent.messages as f64, sent.over_ns as f64 + 1e9 / asked_per_s),
        None => (flow.ledger.sent as f64, measured.duration_ns as f64),
    };
    let by_length = if over_ns > 0.0 { sent * 1e9 / over_ns } else { 0.0 };
    let by_lag = flow.figures.lateness_ns.map_or(0.0, |lateness| {
        let lag_ns = lateness.max.min(2.0 * lateness.p50);
        sent / (sent / asked_per_s + lag_ns / 1e9)
    });
    by_length.max(by_lag).min(asked_per_s)
}

/// The share of the requested rate that was sent, median over `rounds`; `None` in a closed loop or without rounds.
pub fn share_reached(case: &Case, rounds: &[&Measured]) -> Option<f64> {
    let asked = asked_per_s(case)?;
    let shares: Vec<f64> = rounds.iter().map(|measured| sent_per_s(asked, measured) / asked).collect();
    median(&shares)
}
