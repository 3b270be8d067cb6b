//! Reasons for an end to give up its round.

use std::io::ErrorKind;

use hairpin_model::{Failure, FailureKind, RoundOrder};
use hairpin_transports::WireError;

use super::client::MAX_TIME_OUTS;

/// A wire's error as the cause of a failed round.
pub(super) fn broken(what: &str, sequence: u64, error: &WireError) -> Failure {
    if let WireError::Foreign(refusal) = error {
        return refusal.failure(&format!("no answer to message {sequence}"));
    }
    Failure::new(error, format!("cannot {what} message {sequence}: {error}"), hint_of(error))
}

/// What to do about a wire's error.
pub fn hint_of(error: &WireError) -> &'static str {
    match error {
        WireError::Closed => "the other end ended early; see the cause it reported",
        WireError::TimedOut { .. } => {
            "is the path down, or has the other end stopped? for a slow path, raise --timeout"
        }
        WireError::Foreign(_) => "see the server's log",
        WireError::Refused => "is a queue discipline of the path full? send more slowly",
        WireError::System { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "does a firewall of this host drop the packets (`nft list ruleset`)?"
        }
        WireError::System { .. } => "the system error states the reason",
    }
}

/// Handles an answer that differs from what was sent: a failure, unless the link may have damaged it.
pub(super) fn garbage(sequence: u64, difference: &str, is_undamaged: bool) -> Result<(), Failure> {
    if !is_undamaged {
        return Ok(());
    }
    Err(Failure::new(
        FailureKind::Unexpected,
        format!("the answer to message {sequence} is not what was sent: {difference}"),
        "is a program other than Hairpin's server answering?",
    ))
}

/// The failure of a round that got no answer to its last messages.
pub(super) fn unanswered(sequence: u64, timeout_ns: u64) -> Failure {
    Failure::new(
        FailureKind::TimedOut,
        format!(
            "no answer to {MAX_TIME_OUTS} messages in a row, each within {} ms; the last was message {sequence}",
            timeout_ns / 1_000_000
        ),
        "is the server stopped, or does the path lose everything?",
    )
}

/// The failure of a round that exceeds its deadline.
pub(super) fn overdue(order: &RoundOrder, sequence: u64) -> Failure {
    Failure::new(
        FailureKind::TimedOut,
        format!(
            "message {sequence} was not sent before the deadline of the round, {} s",
            order.deadline_ns / 1_000_000_000
        ),
        "do most answers arrive just before the time-out? lower --timeout, or measure fewer messages (--count)"
            .to_owned(),
    )
}
