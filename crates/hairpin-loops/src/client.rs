//! Code that all clients share: the parameters, the recorder, and the check whether an extent is complete.

use std::sync::atomic::AtomicBool;

use hairpin_model::round::Purpose;
use hairpin_model::{ByPhase, Extent, RoundOrder, Span};

use super::undamaged;
use crate::recorder::Recorder;

/// Consecutive time-outs that end a round. Without this limit, a silent peer would prolong the round to its deadline.
pub(super) const MAX_TIME_OUTS: u32 = 10;

/// The parameters of a client, other than its wire.
pub struct Client<'a, C> {
    /// The only clock that the client reads.
    pub clock: &'a C,
    pub order: &'a RoundOrder,
    /// Whether the transport may lose messages. If so, a time-out is a loss, not a failure.
    pub lossy: bool,
    /// Whether the transport keeps message boundaries. If so, each receive returns one answer.
    pub boundaries: bool,
    /// The phases of the round, in ns of the clock; `None` if the round has no phases.
    pub phases: Option<ByPhase<Span>>,
    /// Set when the user ends the run.
    pub stop: &'a AtomicBool,
}

impl<C> Client<'_, C> {
    /// Whether answers must contain exactly the bytes that were sent. Not if a link may damage them (see [`undamaged`]), and
    /// not datagrams from another host: anyone can send some, and a short code may be guessed.
    pub(super) fn is_undamaged(&self) -> bool {
        let case = &self.order.case;
        !(self.lossy && (undamaged::may_be_damaged(case) || case.path.across.is_some()))
    }
}

/// Creates the recorder of a round. It has room for every message if the number of messages is known and below the
/// limit. The warm-up uses at most a quarter of the limit; in a traced round, which shows it, it may use all.
pub(super) fn recorder<C>(client: &Client<'_, C>, open_loop: bool) -> Recorder {
    let order = client.order;
    let wanted = match (order.warm_up, order.extent) {
        (Extent::Count(warm_up), Extent::Count(count)) => warm_up.saturating_add(count),
        _ => u64::MAX,
    };
    let rows = |count: u64| usize::try_from(count).expect("the limit fits memory");
    // The warm-up continues until the server measures too. Warm-up messages beyond the ordered number are not kept.
    let asked = if let Extent::Count(warm_up) = order.warm_up { warm_up } else { u64::MAX };
    let most = if order.purpose == Purpose::Traced { order.keep_samples } else { order.keep_samples / 4 };
    let warm_up = most.min(asked);
    Recorder::new(rows(wanted.min(order.keep_samples)), rows(warm_up), open_loop).in_phases(client.phases)
}

#[inline]
pub(super) fn is_done(extent: Extent, count: u64, elapsed_ns: u64) -> bool {
    match extent {
        Extent::Count(wanted) => count >= wanted,
        Extent::DurationNs(wanted) => elapsed_ns >= wanted,
    }
}
