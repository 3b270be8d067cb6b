//! Requests of several connections wait while the server's program does something else, and are answered together.

use hairpin_model::Cause;
use hairpin_model::explanation::evidence;

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, MIN_SHARE, Rule};
use super::server_work::at_server_ns;

pub(super) const RULE: Rule = Rule { code: Cause::ServerStalled, judge, explains: &[Cause::ServerWork] };

/// Minimum time of a stalled exchange: as a multiple of the median, and in ns.
const MIN_RATIO: f64 = 5.0;
const MIN_STALL_NS: u64 = 5_000_000;
/// Exchanges are answered together if their answers arrive within this share of the stall.
const MAX_SPREAD_SHARE: f64 = 0.2;
/// At least this share of the stalled exchanges, and three, must be answered together with one of another connection, at two
/// times: once, it may be work for several of them.
const MIN_TOGETHER_SHARE: f64 = 0.5;
const MIN_TOGETHER: usize = 3;
const MIN_STALLS: usize = 2;
/// Maximum number of other connections that a stalled exchange is compared with.
const MAX_COMPARED: usize = 1_000;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let works: Vec<(&Connection, &Exchange, u64)> =
        peer.complete().map(|(connection, one)| (connection, one, at_server_ns(connection, one))).collect();
    let typical_ns = quantile(works.iter().map(|(.., ns)| *ns as f64).collect(), 0.5)?;
    let min_ns = MIN_STALL_NS.max((MIN_RATIO * typical_ns) as u64);
    let mut stalled: Vec<(&Connection, &Exchange, u64)> =
        works.into_iter().filter(|(.., ns)| *ns >= min_ns).collect();
    stalled.retain(|(connection, exchange, _)| !is_other_answered(peer, connection, exchange));
    stalled.sort_by_key(|(_, exchange, _)| exchange.extent.ended_ns);
    // Requests of clients that ask at the same time and are served in turn are also answered one after the other, but then
    // most exchanges are slow, not few.
    let is_together = |pair: &&[(&Connection, &Exchange, u64)]| {
        let [(one, first, of_first), (other, second, of_second)] = pair else { return false };
        let apart_ns = (second.extent.ended_ns - first.extent.ended_ns) as f64;
        !std::ptr::eq(*one, *other)
            && apart_ns <= MAX_SPREAD_SHARE * (*of_first).min(*of_second) as f64
            && second.extent.began_ns < first.extent.ended_ns
    };
    let pairs: Vec<bool> = stalled.windows(2).map(|pair| is_together(&pair)).collect();
    let together = pairs.iter().filter(|pair| **pair).count() + 1;
    let stalls = pairs.chunk_by(|one, other| one == other).filter(|run| run[0]).count();
    let is_usual = together as f64 >= MIN_TOGETHER_SHARE * stalled.len() as f64;
    if together < MIN_TOGETHER || stalls < MIN_STALLS || !is_usual {
        return None;
    }
    let waits = peer.waits(|connection, exchange| {
        let ns = at_server_ns(connection, exchange);
        if ns >= min_ns { ns } else { 0 }
    });
    let usual_ns = quantile(peer.complete().map(|(_, exchange)| exchange.duration_ns() as f64).collect(), 0.5);
    Some(Judged::of(&waits, MIN_SHARE)?.with(evidence::EXCHANGE_NS, usual_ns))
}

/// Whether the server answered a later request of another connection before this one: then it was not busy elsewhere.
fn is_other_answered(peer: &Peer, connection: &Connection, exchange: &Exchange) -> bool {
    let mut others = peer.connections.iter().filter(|other| !std::ptr::eq(*other, connection)).take(MAX_COMPARED);
    others.any(|other| {
        let later = other.exchanges.partition_point(|one| one.extent.began_ns <= exchange.extent.began_ns);
        let next = other.exchanges.get(later);
        next.is_some_and(|next| {
            next.is_complete() && next.extent.ended_ns < exchange.extent.ended_ns.saturating_sub(MIN_STALL_NS)
        })
    })
}
