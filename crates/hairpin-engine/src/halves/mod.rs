//! What the two ends do: the client half in a closed loop ([`ping_pong`], [`small_writes`]) or an open one ([`paced`]),
//! and the [`echo`] half. They know a wire and a clock and nothing else, so the same code runs on a manual clock in tests.

mod closed_loop;
pub mod echo;
pub mod marks;
pub mod message;
pub mod paced;
pub mod ping_pong;
#[cfg(test)]
pub(crate) mod scripted;
pub mod small_writes;
pub mod stragglers;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod undamaged;

use std::sync::atomic::AtomicBool;

use hairpin_model::case::Pattern;
use hairpin_model::round::{ExchangeCounts, Extent, Failure, Purpose, RoundOrder};
use hairpin_transports::{Wire, WireError};

use crate::clock::Clock;
use crate::recorder::Recorder;
use marks::ClientMarks;
use stragglers::Stragglers;
use tally::Tally;

/// What the client half needs besides its wire.
pub struct Client<'a, C> {
    /// The only clock.
    pub clock: &'a C,
    /// The order.
    pub order: &'a RoundOrder,
    /// The transport accepts that messages are lost: a time-out is then a loss and not a failure.
    pub lossy: bool,
    /// The transport keeps message boundaries: one receive is one answer.
    pub boundaries: bool,
    /// Raised when the user ends the run.
    pub stop: &'a AtomicBool,
}

impl<C> Client<'_, C> {
    /// Whether an answer has the bytes that were sent: see [`undamaged`].
    fn is_undamaged(&self) -> bool {
        !(self.lossy && undamaged::may_be_damaged(&self.order.case))
    }
}

/// What the client half brings home.
#[derive(Debug)]
pub struct Journey {
    /// The stamps.
    pub recorder: Recorder,
    /// What was sent and what came back.
    pub tally: Tally,
    /// When the first message was sent, on the engine's clock.
    pub origin_ns: u64,
    /// From the first measured message to the end of the last, in ns.
    pub duration_ns: u64,
    /// The user ended it early.
    pub interrupted: bool,
    /// What the measured exchanges took, where the pattern has exchanges.
    pub exchange_counts: Option<ExchangeCounts>,
    /// What may still come back.
    pub stragglers: Stragglers,
}

/// Runs the client half over `wire` to its end.
///
/// # Errors
/// The wire failed, an answer was garbage, or a lossless transport did not answer in time.
pub fn run_client<C: Clock>(
    client: &Client<'_, C>,
    wire: &mut dyn Wire,
    marks: &mut dyn ClientMarks,
) -> Result<Journey, Failure> {
    match client.order.case.pattern {
        Pattern::PingPong => ping_pong::run(client, wire, marks),
        Pattern::Paced { rate_per_s } => paced::run(client, wire, marks, rate_per_s),
        Pattern::SmallWrites => small_writes::run(client, wire, marks),
    }
}

/// So many time-outs in a row without any answer end a round: a peer that lives and does not answer would keep it for ever.
const MOST_TIME_OUTS: u32 = 10;

/// Why a round is ended whose messages are all lost.
fn unanswered(sequence: u64, timeout_ns: u64) -> Failure {
    Failure {
        cause: format!(
            "no answer to {MOST_TIME_OUTS} messages in a row, each waited for {} ms, the last of them message {sequence}",
            timeout_ns / 1_000_000
        ),
        hint: "is the server stopped, or does the path lose everything?".to_owned(),
    }
}

/// A recorder for the order: room for every message where their number is known and below the limit, and for a
/// warm-up of a quarter of the limit at most; a trace shows the warm-up too, so a traced round keeps all of it.
fn recorder(order: &RoundOrder, open_loop: bool) -> Recorder {
    let wanted = match (order.warm_up, order.extent) {
        (Extent::Count(warm_up), Extent::Count(count)) => warm_up.saturating_add(count),
        _ => u64::MAX,
    };
    let rows = |count: u64| usize::try_from(count).expect("the limit fits memory");
    // The warm-up goes on until the server measures too: what comes beyond its count is not kept.
    let asked = if let Extent::Count(warm_up) = order.warm_up { warm_up } else { u64::MAX };
    let most = if order.purpose == Purpose::Traced { order.keep_samples } else { order.keep_samples / 4 };
    let warm_up = most.min(asked);
    Recorder::new(rows(wanted.min(order.keep_samples)), rows(warm_up), open_loop)
}

/// Whether an extent is used up after `count` messages and `elapsed_ns`.
#[inline]
fn is_done(extent: Extent, count: u64, elapsed_ns: u64) -> bool {
    match extent {
        Extent::Count(wanted) => count >= wanted,
        Extent::DurationNs(wanted) => elapsed_ns >= wanted,
    }
}

/// A wire's error as the cause of a failed round.
fn broken(what: &str, sequence: u64, error: &WireError) -> Failure {
    let hint = match error {
        WireError::Closed => "the other end ended early; its own cause, if it had one, stands beside this",
        WireError::TimedOut { .. } => "a longer --timeout tells a slow peer from a dead one",
        WireError::System { .. } => "the system's answer names what it refused",
    };
    Failure { cause: format!("cannot {what} message {sequence}: {error}"), hint: hint.to_owned() }
}

/// An answer that is not what was sent: a failure, or none at all where the link may have damaged it.
fn garbage(sequence: u64, difference: &str, is_undamaged: bool) -> Result<(), Failure> {
    if !is_undamaged {
        return Ok(());
    }
    Err(Failure {
        cause: format!("the answer to message {sequence} is not what was sent: {difference}"),
        hint: "is something else than Hairpin's echo half answering?".to_owned(),
    })
}
