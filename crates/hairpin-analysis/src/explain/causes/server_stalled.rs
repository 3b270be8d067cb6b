//! Requests of several connections wait while the server's program does something else, and are answered together.

use hairpin_model::Cause;
use hairpin_model::explanation::evidence;

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::server_work::at_server_ns;
use super::{Judged, Rule};

pub(super) const RULE: Rule = Rule { code: Cause::ServerStalled, judge, explains: &[Cause::ServerWork] };

/// An exchange stalls if it takes this many times the median, and so long, in ns.
const MIN_RATIO: f64 = 5.0;
const MIN_STALL_NS: u64 = 5_000_000;
/// Exchanges are answered together if their answers arrive within this share of the stall.
const MAX_SPREAD_SHARE: f64 = 0.2;
/// At least this share of the stalled exchanges, and three, must be answered together with one of another connection.
const MIN_TOGETHER_SHARE: f64 = 0.5;
const MIN_TOGETHER: usize = 3;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let works = at_server_ns;
    let typical_ns = quantile(peer.complete().map(|(_, exchange)| works(exchange) as f64).collect(), 0.5)?;
    let min_ns = MIN_STALL_NS.max((MIN_RATIO * typical_ns) as u64);
    let mut stalled: Vec<(&Connection, &Exchange)> =
        peer.complete().filter(|(_, exchange)| works(exchange) >= min_ns).collect();
    stalled.sort_by_key(|(_, exchange)| exchange.extent.ended_ns);
    // Requests of clients that ask at the same time and are served in turn are also answered one after the other, but then
    // most exchanges are slow, not few.
    let is_together = |pair: &&[(&Connection, &Exchange)]| {
        let [(one, first), (other, second)] = pair else { return false };
        let apart_ns = (second.extent.ended_ns - first.extent.ended_ns) as f64;
        !std::ptr::eq(*one, *other)
            && apart_ns <= MAX_SPREAD_SHARE * works(first).min(works(second)) as f64
            && second.extent.began_ns < first.extent.ended_ns
    };
    let together = stalled.windows(2).filter(is_together).count() + 1;
    if together < MIN_TOGETHER || (together as f64) < MIN_TOGETHER_SHARE * stalled.len() as f64 {
        return None;
    }
    let waits = peer.waits(|_, exchange| if works(exchange) >= min_ns { works(exchange) } else { 0 });
    Some(Judged::of(&waits, super::MIN_SHARE)?.with(evidence::EXCHANGE_NS, Some(typical_ns)))
}
