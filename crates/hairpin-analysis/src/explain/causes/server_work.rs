//! The server's program takes the time between a request and its answer.

use hairpin_model::Cause;
use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;

use super::super::connection::Exchange;
use super::super::peer::{Peer, quantile};
use super::slow_reader::is_window_used;
use super::{Judged, Rule};

pub(super) const RULE: Rule = Rule { code: Cause::ServerWork, judge, explains: &[] };

const MIN_WORK_SHARE: f64 = 0.5;

/// Without samples of the server's socket, packets do not tell its work from bytes that its kernel holds. These would follow
/// an acknowledgment, and are then in a state of their own.
const STATES: [ExchangeState; 4] = [
    ExchangeState::ServerProgram,
    ExchangeState::WorkOrHeld,
    ExchangeState::ProgramOrCpu,
    ExchangeState::NoEvidence,
];

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let waits = peer.waits(|_, exchange| at_server_ns(exchange));
    let judged = Judged::of(&waits, MIN_WORK_SHARE)?;
    let durations = peer.complete().map(|(_, exchange)| exchange.duration_ns() as f64).collect();
    Some(judged.with(evidence::EXCHANGE_NS, quantile(durations, 0.5)))
}

/// The time that the server's program takes: until it reads the request, and for the answer, in ns.
pub(super) fn at_server_ns(exchange: &Exchange) -> u64 {
    if !exchange.is_complete() {
        return 0;
    }
    let unread = exchange.spans_in(&[ExchangeState::SlowReader]);
    let unread = unread.filter(|span| span.who.end() == Some(End::Server) && !is_window_used(exchange, span));
    exchange.ns_in(&STATES) + unread.map(|span| span.until_ns - span.from_ns).sum::<u64>()
}
