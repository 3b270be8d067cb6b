//! The server's kernel dropped the last packet of handshakes because the queue of connections that the program has not accepted
//! was full (net/ipv4/tcp_minisocks.c, `tcp_check_req`): it sends its answer again although the client has acknowledged it.

use hairpin_model::Cause;

use super::super::connection::{Connection, Exchange};
use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};
use super::connect_delayed::judge_openings;

pub(super) const RULE: Rule = Rule {
    code: Cause::AcceptQueueOverflow,
    judge,
    explains: &[
        Cause::ConnectDelayed,
        Cause::RetransmissionTimeOut,
        Cause::ServerWork,
        Cause::Retransmission,
        Cause::ConnectionPerRequest,
    ],
};

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let dropped: Vec<&Connection> = peer.connections.iter().filter(|one| one.opening.syns_after_ack > 0).collect();
    // Until the queue has room, requests of these clients are lost too.
    judge_openings(peer, &dropped, |connection| {
        let first_ns = connection.exchanges.first().map_or(0, Exchange::duration_ns);
        first_ns.max(connection.opening.lost_ns())
    })
}
