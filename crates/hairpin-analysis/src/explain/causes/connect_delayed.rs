//! The first packet of connections was lost, and sent again after a second and more (RFC 6298, section 2.1).

use hairpin_model::Cause;
use hairpin_model::explanation::evidence;

use super::super::connection::Connection;
use super::super::peer::{Peer, middle_half, quantile};
use super::super::rule::{Judged, Rule};

pub(super) const RULE: Rule = Rule { code: Cause::ConnectDelayed, judge, explains: &[Cause::ConnectionPerRequest] };

/// Connections whose first packet was sent again are named from this share of all.
const MIN_DELAYED_SHARE: f64 = 0.02;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let delayed: Vec<&Connection> = peer.connections.iter().filter(|one| one.opening.syns[0] > 1).collect();
    judge_openings(peer, &delayed, |connection| connection.opening.lost_ns())
}

/// What openings that were delayed show.
pub(super) fn judge_openings<'p>(
    peer: &'p Peer,
    delayed: &[&'p Connection],
    lost_ns: impl Fn(&Connection) -> u64,
) -> Option<Judged<'p>> {
    let all = peer.connections.len();
    if delayed.is_empty() || (delayed.len() as f64) < MIN_DELAYED_SHARE * all as f64 {
        return None;
    }
    let mut lost: Vec<f64> = delayed.iter().map(|connection| lost_ns(connection) as f64).collect();
    lost.sort_by(f64::total_cmp);
    let elapsed_ns = peer.elapsed_ns().saturating_add(peer.opening_ns()).max(1) as f64;
    let worst = delayed.iter().filter_map(|connection| Some((*connection, connection.exchanges.first()?))).next();
    let judged = Judged { share: Some((lost.iter().sum::<f64>() / elapsed_ns).min(1.0)), worst, ..Judged::default() };
    Some(
        Judged { saved: middle_half(&lost), ..judged }
            .with(evidence::AFFECTED, Some(delayed.len() as f64))
            .with(evidence::CONNECTIONS, Some(all as f64))
            .with(evidence::WAIT_NS, quantile(lost, 0.5)),
    )
}
