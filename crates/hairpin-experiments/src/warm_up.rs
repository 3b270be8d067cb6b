//! Warm-up of rounds in which CPUs may sleep between messages.

use hairpin_model::{AnsweredBy, Card, Case, Placement};

/// Warm-up in ns if a CPU may sleep between messages.
pub const WARM_UP_NS: u64 = 40_000_000;

/// Whether a CPU may sleep between two messages: the ends do not spin, and the load pauses, the case crosses a
/// network, or the ends run on different CPUs.
pub fn cpus_may_sleep(case: &Case, card: &Card) -> bool {
    let load = &case.primary().load;
    let pauses = load.rate_per_s().is_some()
        || load.periodic().is_some()
        || load.exchange().is_some_and(|exchange| exchange.gap_ns > 0);
    let hands_over_to_another_cpu =
        case.ends.placement != Placement::SameCpu && card.answered_by == AnsweredBy::Server;
    !case.ends.waiting.spins() && (pauses || hands_over_to_another_cpu || case.crosses_a_network())
}
