//! Computes the share of its requested rate that an open loop reached.

use hairpin_model::flow::ConnectionUse;
use hairpin_model::held_up::HeldUp;
use hairpin_model::{Case, CaseSummary, Measured, fact, fact_names};

use crate::statistics::location::median;

/// Minimum share of the requested rate; below it the generator was saturated and did not offer that rate.
pub const MIN_SHARE_REACHED: f64 = 0.99;

/// Maximum median lateness of the generator, as a share of the median latency, for ranking. Beyond it, latency shows
/// the generator rather than the transport.
pub const MAX_RANKED_LATENESS: f64 = 0.2;

/// Whether the generator's median lateness exceeds [`MAX_RANKED_LATENESS`] of the median latency. False in a closed
/// loop, where messages are late because the connection is busy, and for a probe under load, because late sends are
/// part of the load's effect.
pub fn is_too_late_to_rank(case: &CaseSummary) -> bool {
    let flow = case.case.primary();
    if flow.connection_use != ConnectionUse::Own || flow.load.periodic().is_some() || case.case.is_under_load() {
        return false;
    }
    let lateness = case.primary().lateness_ns.and_then(|lateness| lateness.p50);
    let medians = lateness.zip(case.primary().latency_ns.p50);
    medians.is_some_and(|(lateness, latency)| lateness.value > MAX_RANKED_LATENESS * latency.value)
}

/// Returns the limit on unanswered messages that blocked the generator; `None` if the share of messages that waited is
/// below 1 - [`MIN_SHARE_REACHED`].
pub fn why_blocked(case: &Case, rounds: &[&Measured]) -> Option<HeldUp> {
    let waited = |measured: &&Measured| fact::number(&measured.client().facts, fact_names::WAITED_FOR_ANSWERS);
    let waited: f64 = rounds.iter().filter_map(waited).sum();
    let sent: f64 = rounds.iter().map(|measured| measured.primary().ledger.sent as f64).sum();
    if waited == 0.0 || waited < (1.0 - MIN_SHARE_REACHED) * sent {
        return None;
    }
    Some(match (case.primary().load.size_bytes(), case.primary().load.reply_size_bytes()) {
        (1, _) => HeldUp::SizeOfOneByte,
        (_, 1) => HeldUp::ReplyOfOneByte,
        _ => HeldUp::Unanswered,
    })
}

/// Returns the rate at which the generator sent in one round, in messages per second.
///
/// Divides the messages sent by the scheduled time plus the generator's lag at the end. The lag of a saturated
/// generator keeps growing, so its final value is about twice its median and at most its maximum. The smaller of the
/// two is used, so that a single stall that the generator caught up with does not count. If the round, which lasts
/// until the last answer, was shorter than this time, its length is used. For a load without answers the sender
/// reports the messages sent after the warm-up and the time from the first to the last, and one interval is added.
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

pub fn share_reached(case: &Case, rounds: &[&Measured]) -> Option<f64> {
    let asked = case.primary().load.rate_per_s()?;
    let shares: Vec<f64> = rounds.iter().map(|measured| sent_per_s(asked, measured) / asked).collect();
    median(&shares)
}
