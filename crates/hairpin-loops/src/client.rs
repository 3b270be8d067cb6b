//! What every client starts from: what it is given, its recorder, and when an extent is used up.

use std::sync::atomic::AtomicBool;

use hairpin_model::phases::{ByPhase, Span};
use hairpin_model::round::{Extent, Purpose, RoundOrder};

use super::undamaged;
use crate::recorder::Recorder;

/// So many time-outs in a row without any answer end a round: a peer that lives and does not answer would keep it for ever.
pub(super) const MAX_TIME_OUTS: u32 = 10;

/// What the client needs besides its wire.
pub struct Client<'a, C> {
    /// The only clock.
    pub clock: &'a C,
    /// The order.
    pub order: &'a RoundOrder,
    /// The transport accepts that messages are lost: a time-out is then a loss and not a failure.
    pub lossy: bool,
    /// The transport keeps message boundaries: one receive is one answer.
    pub boundaries: bool,
    /// The phases of the round, in ns of the clock; none of a round without.
    pub phases: Option<ByPhase<Span>>,
    /// Raised when the user ends the run.
    pub stop: &'a AtomicBool,
}

impl<C> Client<'_, C> {
    /// Whether an answer has the bytes that were sent: see [`undamaged`].
    pub(super) fn is_undamaged(&self) -> bool {
        !(self.lossy && undamaged::may_be_damaged(&self.order.case))
    }
}

/// A recorder for the order: room for every message where their number is known and below the limit, and for a
/// warm-up of a quarter of the limit at most; a trace shows the warm-up too, so a traced round keeps all of it.
pub(super) fn recorder<C>(client: &Client<'_, C>, open_loop: bool) -> Recorder {
    let order = client.order;
    let wanted = match (order.warm_up, order.extent) {
        (Extent::Count(warm_up), Extent::Count(count)) => warm_up.saturating_add(count),
        _ => u64::MAX,
    };
    let rows = |count: u64| usize::try_from(count).expect("the limit fits memory");
    // The warm-up goes on until the server measures too: what comes beyond its count is not kept.
    let asked = if let Extent::Count(warm_up) = order.warm_up { warm_up } else { u64::MAX };
    let most = if order.purpose == Purpose::Traced { order.keep_samples } else { order.keep_samples / 4 };
    let warm_up = most.min(asked);
    Recorder::new(rows(wanted.min(order.keep_samples)), rows(warm_up), open_loop).in_phases(client.phases)
}

/// Whether an extent is used up after `count` messages and `elapsed_ns`.
#[inline]
pub(super) fn is_done(extent: Extent, count: u64, elapsed_ns: u64) -> bool {
    match extent {
        Extent::Count(wanted) => count >= wanted,
        Extent::DurationNs(wanted) => elapsed_ns >= wanted,
    }
}
