//! What the unmeasured start of a round is about: CPUs that sleep between messages.

use hairpin_model::card::{AnsweredBy, Card};
use hairpin_model::case::{Case, Placement, Waiting};

/// Warm-up, in nanoseconds, where a CPU may fall asleep between messages.
pub const WARM_UP_NS: u64 = 40_000_000;

/// Whether a CPU may fall asleep between two messages: an end sleeps while it waits, and either the ends are not on
/// one CPU, or a link is between them, or the pattern pauses.
#[must_use]
pub fn cpus_may_sleep(case: &Case, card: &Card) -> bool {
    let pauses = case.flow().load.rate_per_s().is_some()
        || case.flow().load.exchange().is_some_and(|exchange| exchange.gap_ns > 0);
    let hands_over_to_another_cpu =
        case.ends.placement != Placement::SameCpu && card.answered_by == AnsweredBy::Server;
    case.ends.waiting != Waiting::Spin && (pauses || hands_over_to_another_cpu || case.crosses_a_network())
}
