//! Requests follow each other on a long path, each after the answer of the one before.

use hairpin_model::Cause;
use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;

use super::super::connection::{Connection, Exchange};
use super::super::peer::{Peer, quantile};
use super::application_window::is_windowed;
use super::{Judged, Rule};

pub(super) const RULE: Rule = Rule { code: Cause::OneRequestPerRoundTrip, judge, explains: &[] };

/// A path is long from this round trip, in ns.
const MIN_ROUND_TRIP_NS: u64 = 1_000_000;
/// Exchanges of this number form a sequence.
const MIN_SEQUENCE: usize = 5;
/// The client sends its next request within this share of the round trip.
const MAX_PAUSE_SHARE: f64 = 0.5;
const MIN_PATH_SHARE: f64 = 0.5;

const PATH: [ExchangeState; 2] = [ExchangeState::Propagation, ExchangeState::Path];

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    judge_sequence(peer).filter(|_| !is_windowed(peer))
}

/// Judges the time that exchanges which follow each other spend on the path.
pub(super) fn judge_sequence(peer: &Peer) -> Option<Judged<'_>> {
    let round_trip_ns = peer.round_trip_ns().filter(|ns| *ns >= MIN_ROUND_TRIP_NS)?;
    let follows = |connection: &Connection, exchange: &Exchange| {
        let pause_ns = MAX_PAUSE_SHARE * connection.vantage.round_trip_ns().unwrap_or(round_trip_ns) as f64;
        exchange.is_complete() && exchange.place > 0 && (exchange.idle_before_ns as f64) <= pause_ns
    };
    let waits =
        peer.waits(|connection, exchange| if follows(connection, exchange) { exchange.ns_in(&PATH) } else { 0 });
    if waits.affected.len() < MIN_SEQUENCE {
        return None;
    }
    let judged = Judged::of(&waits, MIN_PATH_SHARE)?;
    let sizes = waits.affected.iter().map(|(_, one)| (one.request_bytes() + one.reply_bytes()) as f64);
    Some(
        judged
            .with(evidence::ROUND_TRIP_NS, Some(round_trip_ns as f64))
            .with(evidence::MESSAGE_BYTES, quantile(sizes.collect(), 0.5)),
    )
}
