//! The server's program takes the time between a request and its answer, or requests wait while it does something else.

use std::ops::Range;

use hairpin_model::Cause;
use hairpin_model::exchange_state::{ExchangeState, StateSpan};
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, MIN_SHARE, OF_SERVER, Rule};
use super::receive_window::is_window_used;

/// The program works on the requests.
pub(super) const SERVER_WORK: Rule = Rule { code: Cause::ServerWork, judge: judge_work, explains: &[] };

/// Requests of several connections wait, and are answered together.
pub(super) const SERVER_STALLED: Rule =
    Rule { code: Cause::ServerStalled, judge: judge_stalls, explains: &[Cause::ServerWork] };

const MIN_WORK_SHARE: f64 = 0.5;
/// A shorter time between two packets of an answer is no pause.
const MIN_PAUSE_NS: u64 = 2_000_000;
/// An answer with more pauses is a stream, whose program decides when it sends.
const MAX_PAUSES: usize = 16;
/// Fewer slow exchanges are outliers.
const MIN_AFFECTED: f64 = 0.1;

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

fn judge_work(peer: &Peer) -> Option<Judged<'_>> {
    let waits = peer.waits(at_server_ns);
    let is_usual = waits.affected.len() as f64 >= MIN_AFFECTED * waits.exchanges as f64;
    let judged = Judged::of(&waits, MIN_WORK_SHARE).filter(|_| is_usual)?;
    let durations = waits.affected.iter().map(|(_, exchange)| exchange.duration_ns() as f64).collect();
    Some(judged.with(evidence::EXCHANGE_NS, quantile(durations, 0.5)))
}

/// The time that the server's program takes: until it reads the request, until the answer begins, and in pauses of the answer if they
/// are few, in ns. While an answer leaves without pauses its program writes as fast as it can be sent.
fn at_server_ns(connection: &Connection, exchange: &Exchange) -> u64 {
    if !exchange.is_complete() {
        return 0;
    }
    let began_ns = exchange.extent.began_ns;
    let mut last_ns = 0;
    let mut pauses: Vec<Range<u64>> = Vec::new();
    for packet in connection.sent_within(End::Server, began_ns, exchange.extent.ended_ns) {
        let at_ns = packet.at_ns - began_ns;
        if last_ns == 0 || at_ns.saturating_sub(last_ns) >= MIN_PAUSE_NS {
            pauses.push(last_ns..at_ns);
        }
        last_ns = at_ns.max(1);
    }
    if pauses.len() > MAX_PAUSES {
        pauses.truncate(1);
    }
    // Without packets, the answer is one moment.
    if pauses.is_empty() {
        pauses.push(0..exchange.duration_ns());
    }
    let is_work = |span: &&StateSpan| {
        let is_unread = span.state == ExchangeState::SlowReader && span.who.end() == Some(End::Server);
        OF_SERVER.contains(&span.state) || (is_unread && !is_window_used(exchange, span))
    };
    // Both are in order of time.
    let within = |span: &StateSpan| -> u64 {
        let first = pauses.partition_point(|pause| pause.end <= span.from_ns);
        let during = pauses[first..].iter().take_while(|pause| pause.start < span.until_ns);
        during.map(|pause| span.until_ns.min(pause.end).saturating_sub(span.from_ns.max(pause.start))).sum()
    };
    exchange.spans.iter().filter(is_work).map(within).sum()
}

fn judge_stalls(peer: &Peer) -> Option<Judged<'_>> {
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
