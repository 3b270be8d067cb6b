//! A server as its clients see it: all connections to one address.

use std::net::SocketAddr;

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::{RangeNs, TimeInState};

use super::connection::{Connection, Exchange};
use crate::statistics::location::median;
use crate::trace::times_in_states;

/// A wait is a part of an exchange of at least this length, in ns, and of at least this share.
const MIN_WAIT_NS: u64 = 1_000_000;
const MIN_WAIT_SHARE: f64 = 0.1;

/// A path is long from this round trip.
const MIN_LONG_NS: u64 = 1_000_000;

pub(super) struct Peer {
    pub(super) server: SocketAddr,
    pub(super) connections: Vec<Connection>,
}

/// The exchanges that spend time in some states.
#[derive(Default)]
pub(super) struct Waits<'p> {
    /// The exchanges in which it is a wait.
    pub(super) affected: Vec<(&'p Connection, &'p Exchange)>,
    pub(super) exchanges: usize,
    /// Share of the time of all exchanges.
    pub(super) share: f64,
    /// The middle half of the waits.
    pub(super) saved: Option<RangeNs>,
    pub(super) median_ns: f64,
}

impl Peer {
    /// Complete exchanges, and one-way transfers.
    pub(super) fn exchanges(&self) -> impl Iterator<Item = (&Connection, &Exchange)> {
        self.connections.iter().flat_map(|connection| connection.exchanges.iter().map(move |one| (connection, one)))
    }

    pub(super) fn complete(&self) -> impl Iterator<Item = (&Connection, &Exchange)> {
        self.exchanges().filter(|(_, exchange)| exchange.is_complete())
    }

    /// The time of all exchanges, in ns.
    pub(super) fn elapsed_ns(&self) -> u64 {
        self.exchanges().map(|(_, exchange)| exchange.duration_ns()).fold(0, u64::saturating_add)
    }

    /// The time that clients wait for connections to open, in ns.
    pub(super) fn opening_ns(&self) -> u64 {
        self.connections.iter().filter_map(|connection| connection.opening.took_ns()).fold(0, u64::saturating_add)
    }

    /// The shortest round trip to the server; `None` if unknown.
    pub(super) fn round_trip_ns(&self) -> Option<u64> {
        self.connections.iter().filter_map(|connection| connection.vantage.round_trip_ns()).min()
    }

    /// Whether a round trip takes notable time, or is unknown.
    pub(super) fn is_path_long(&self) -> bool {
        self.round_trip_ns().is_none_or(|ns| ns >= MIN_LONG_NS)
    }

    pub(super) fn waits_in(&self, states: &[ExchangeState]) -> Waits<'_> {
        self.waits(|_, exchange| exchange.ns_in(states))
    }

    /// What the exchanges spend on something, in ns.
    pub(super) fn waits(&self, spent_ns: impl Fn(&Connection, &Exchange) -> u64) -> Waits<'_> {
        let mut waits = Waits::default();
        let (mut sum_ns, mut each): (u64, Vec<f64>) = (0, Vec::new());
        for (connection, exchange) in self.exchanges() {
            let ns = spent_ns(connection, exchange);
            waits.exchanges += 1;
            sum_ns = sum_ns.saturating_add(ns);
            if ns >= MIN_WAIT_NS && ns as f64 >= MIN_WAIT_SHARE * exchange.duration_ns() as f64 {
                waits.affected.push((connection, exchange));
                each.push(ns as f64);
            }
        }
        each.sort_by(f64::total_cmp);
        waits.share = sum_ns as f64 / self.elapsed_ns().max(1) as f64;
        waits.median_ns = median(&each).unwrap_or(0.0);
        waits.saved = middle_half(&each);
        waits
    }

    pub(super) fn states(&self) -> Vec<TimeInState> {
        let spans = self.exchanges().flat_map(|(_, exchange)| &exchange.spans);
        let times = spans.map(|span| (span.state, span.who, (span.until_ns - span.from_ns) as f64));
        times_in_states(times, self.exchanges().count() as u64)
    }
}

/// The first and the third quartile of sorted values.
pub(super) fn middle_half(sorted: &[f64]) -> Option<RangeNs> {
    let at = |share: f64| sorted.get(((sorted.len().checked_sub(1)?) as f64 * share).round() as usize).copied();
    Some(RangeNs { low: at(0.25)?, high: at(0.75)? })
}

/// A quantile of values; `None` without values.
pub(super) fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(((values.len().checked_sub(1)?) as f64 * share).round() as usize).copied()
}
