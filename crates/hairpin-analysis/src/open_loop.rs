//! How much of the rate asked for an open loop reached.

use hairpin_model::case::Case;
use hairpin_model::fact;
use hairpin_model::fact_names;
use hairpin_model::flow::ConnectionUse;
use hairpin_model::round::Measured;
use hairpin_model::summary::CaseSummary;

use crate::statistics::location::median;

/// Below this share of the rate asked for, the generator was saturated and the round says nothing of that rate.
pub const SATURATED_BELOW: f64 = 0.99;

/// A case whose generator's median lateness is a greater share of its median latency ranks no transport: that much of the
/// figure is the generator's.
pub const RANKED_UP_TO: f64 = 0.2;

/// Whether the generator's median lateness is more than [`RANKED_UP_TO`] of the median latency. False in a closed loop, where
/// lateness is that of a connection, and of a probe under load: what the load adds is a difference within each round, and to send
/// late is part of it.
#[must_use]
pub fn is_too_late_to_rank(case: &CaseSummary) -> bool {
    if case.case.flow().connection_use != ConnectionUse::Own || case.case.is_under_load() {
        return false;
    }
    let lateness = case.flow().lateness_ns.and_then(|lateness| lateness.p50);
    let medians = lateness.zip(case.flow().latency_ns.p50);
    medians.is_some_and(|(lateness, latency)| lateness.value > RANKED_UP_TO * latency.value)
}

/// Why a generator had to wait, and what helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// A sentence without its end.
    pub cause: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Whether answers that did not come kept the generator from sending: as many messages were unanswered as their numbers
/// tell apart. Null where that held up fewer messages than the rate may be short of.
#[must_use]
pub fn held_up(case: &Case, rounds: &[&Measured]) -> Option<HeldUp> {
    let waited = |measured: &&Measured| fact::number(&measured.client().facts, fact_names::WAITED_FOR_ANSWERS);
    let waited: f64 = rounds.iter().filter_map(waited).sum();
    let sent: f64 = rounds.iter().map(|measured| measured.flow().ledger.sent as f64).sum();
    if waited == 0.0 || waited < (1.0 - SATURATED_BELOW) * sent {
        return None;
    }
    Some(match (case.flow().load.size_bytes(), case.flow().load.reply_size_bytes()) {
        (1, _) => HeldUp {
            cause: "at most 128 messages can be unanswered where their number has one byte",
            remedy: "--size 2 or more, or a shorter --timeout",
        },
        (_, 1) => HeldUp {
            cause: "at most 128 messages can be unanswered where their number has one byte",
            remedy: "--reply-size 2 or more, or a shorter --timeout",
        },
        _ => HeldUp {
            cause: "at most 32 768 messages can be unanswered",
            remedy: "a lower --rate, or a shorter --timeout",
        },
    })
}

/// The rate asked for, in messages a second; null in a closed loop.
#[must_use]
pub fn asked_per_s(case: &Case) -> Option<f64> {
    case.flow().load.rate_per_s()
}

/// The rate at which the generator sent in one round, in messages a second.
///
/// Messages sent over the time for which they were due plus the generator's lag at the end. A saturated generator
/// lags more and more, so that the lag at its end is about twice its median and never above its greatest lateness:
/// the smaller of the two is taken, and one stall that was caught up with counts for nothing. Where the round was
/// shorter than that (as it is counted to the last answer), the round's own length counts. Of a load without answers the sender
/// says how many it sent after the warm-up and for how long; that is shorter by one distance between messages.
#[must_use]
pub fn sent_per_s(asked_per_s: f64, measured: &Measured) -> f64 {
    let flow = measured.flow();
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

/// The share of the rate asked for that was sent, median over `rounds`; null in a closed loop or without rounds.
#[must_use]
pub fn share_reached(case: &Case, rounds: &[&Measured]) -> Option<f64> {
    let asked = asked_per_s(case)?;
    let shares: Vec<f64> = rounds.iter().map(|measured| sent_per_s(asked, measured) / asked).collect();
    median(&shares)
}
