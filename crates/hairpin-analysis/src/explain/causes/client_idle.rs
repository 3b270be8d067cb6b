//! The client's program sends rarely: most of the time no exchange is in progress.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::{Cause, Fact};

use super::super::connection::Exchange;
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, Rule};

pub(super) const RULE: Rule = Rule { code: Cause::ClientIdle, judge, explains: &[] };

/// The client is idle for this share of the time of its connections, or of its exchanges.
const MIN_IDLE_SHARE: f64 = 0.5;
const MIN_PAUSE_NS: f64 = 1e6;
/// Fewer pauses are those of a program that begins or ends.
const MIN_PAUSES: usize = 3;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let inside = [ExchangeState::ClientIdle, ExchangeState::IdleOrHeld];
    let idle = |exchange: &Exchange| exchange.idle_before_ns.saturating_add(exchange.ns_in(&inside));
    let all: Vec<f64> = peer.exchanges().map(|(_, exchange)| idle(exchange) as f64).collect();
    let (idle_ns, pauses) = (all.iter().sum::<f64>(), all.len());
    let between_ns = peer.exchanges().map(|(_, exchange)| exchange.idle_before_ns).fold(0, u64::saturating_add);
    let share = idle_ns / peer.elapsed_ns().saturating_add(between_ns).max(1) as f64;
    let median_ns = quantile(all, 0.5)?;
    let worst = peer.complete().max_by_key(|(_, exchange)| idle(exchange));
    (pauses >= MIN_PAUSES && share >= MIN_IDLE_SHARE && median_ns >= MIN_PAUSE_NS).then(|| Judged {
        share: Some(share),
        saved: None,
        evidence: vec![Fact::number(evidence::EXCHANGES, pauses as f64), Fact::number(evidence::WAIT_NS, median_ns)],
        worst,
    })
}
