//! Packets of handshakes were lost.

use hairpin_model::Cause;
use hairpin_model::explanation::evidence;

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, Rule};

/// The first packet of connections was lost, and sent again after a second and more (RFC 6298, section 2.1).
pub(super) const CONNECT_DELAYED: Rule =
    Rule { code: Cause::ConnectDelayed, judge: judge_first_packets, explains: &[Cause::ConnectionPerRequest] };

/// The server's kernel dropped the last packet of handshakes because the queue of connections that the program has not accepted
/// was full (net/ipv4/tcp_minisocks.c, `tcp_check_req`): it sends its answer again although the client has acknowledged it.
pub(super) const ACCEPT_QUEUE_OVERFLOW: Rule = Rule {
    code: Cause::AcceptQueueOverflow,
    judge: judge_accept_queue,
    explains: &[
        Cause::ConnectDelayed,
        Cause::RetransmissionTimeOut,
        Cause::ServerWork,
        Cause::Retransmission,
        Cause::ConnectionPerRequest,
    ],
};

/// Connections whose first packet was sent again are named from this share of all.
const MIN_DELAYED_SHARE: f64 = 0.02;

fn judge_first_packets(peer: &Peer) -> Option<Judged<'_>> {
    let delayed: Vec<&Connection> = peer.connections.iter().filter(|one| one.opening.syns[0] > 1).collect();
    judge_openings(peer, &delayed, |connection| connection.opening.lost_ns())
}

fn judge_accept_queue(peer: &Peer) -> Option<Judged<'_>> {
    let dropped: Vec<&Connection> = peer.connections.iter().filter(|one| one.opening.syns_after_ack > 0).collect();
    // Until the queue has room, requests of these clients are lost too.
    judge_openings(peer, &dropped, |connection| {
        let first_ns = connection.exchanges.first().map_or(0, Exchange::duration_ns);
        first_ns.max(connection.opening.lost_ns())
    })
}

fn judge_openings<'p>(
    peer: &'p Peer,
    delayed: &[&'p Connection],
    lost_ns: impl Fn(&Connection) -> u64,
) -> Option<Judged<'p>> {
    let all = peer.connections.len();
    if delayed.is_empty() || (delayed.len() as f64) < MIN_DELAYED_SHARE * all as f64 {
        return None;
    }
    let lost: Vec<f64> = delayed.iter().map(|connection| lost_ns(connection) as f64).collect();
    let elapsed_ns = peer.elapsed_ns().saturating_add(peer.opening_ns()).max(1) as f64;
    let worst = delayed.iter().filter_map(|connection| Some((*connection, connection.exchanges.first()?))).next();
    let share = lost.iter().sum::<f64>() / elapsed_ns;
    Some(
        Judged::lasting(lost.clone(), share, worst)
            .with(evidence::AFFECTED, Some(delayed.len() as f64))
            .with(evidence::CONNECTIONS, Some(all as f64))
            .with(evidence::WAIT_NS, quantile(lost, 0.5)),
    )
}
