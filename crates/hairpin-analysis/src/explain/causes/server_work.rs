//! The server's program takes the time between a request and its answer.

use std::ops::Range;

use hairpin_model::Cause;
use hairpin_model::exchange_state::{ExchangeState, StateSpan};
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, OF_SERVER, Rule};
use super::slow_reader::is_window_used;

pub(super) const RULE: Rule = Rule { code: Cause::ServerWork, judge, explains: &[] };

const MIN_WORK_SHARE: f64 = 0.5;
/// A shorter time between two packets of an answer is no pause.
const MIN_PAUSE_NS: u64 = 2_000_000;
/// An answer with more pauses is a stream, whose program decides when it sends.
const MAX_PAUSES: usize = 16;
/// Fewer slow exchanges are outliers.
const MIN_AFFECTED: f64 = 0.1;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let waits = peer.waits(at_server_ns);
    let is_usual = waits.affected.len() as f64 >= MIN_AFFECTED * waits.exchanges as f64;
    let judged = Judged::of(&waits, MIN_WORK_SHARE).filter(|_| is_usual)?;
    let durations = waits.affected.iter().map(|(_, exchange)| exchange.duration_ns() as f64).collect();
    Some(judged.with(evidence::EXCHANGE_NS, quantile(durations, 0.5)))
}

/// The time that the server's program takes: until it reads the request, until the answer begins, and in pauses of the answer if they
/// are few, in ns. While an answer leaves without pauses its program writes as fast as it can be sent.
pub(super) fn at_server_ns(connection: &Connection, exchange: &Exchange) -> u64 {
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
