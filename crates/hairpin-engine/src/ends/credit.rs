//! Credit: a sender of datagrams to another host continues only while the receiver confirms receipt.
//!
//! Every message carries a random nonce, which the sender changes periodically. Over control, the receiver quotes the
//! last nonce it received, so nobody but the receiver can keep the load running. The time until a quote arrives is the
//! loaded round-trip time.

use hairpin_model::{Card, Case};

/// Shortest time-out for a quote, in ns.
const MIN_TIMEOUT_NS: u64 = 500_000_000;
/// Longest time-out for a quote, in ns.
const MAX_TIMEOUT_NS: u64 = 10_000_000_000;
/// Time-out before the first quote, while the loaded round-trip time is unknown, in ns.
const INITIAL_TIMEOUT_NS: u64 = 3_000_000_000;
/// Maximum number of nonces in flight: enough for the longest time-out.
const MAX_IN_FLIGHT: usize = 128;

pub(super) struct Credit {
    /// Nonces sent and not yet quoted, with the time each was first sent, in ns of the clock; oldest first.
    in_flight: Vec<(u64, u64)>,
    /// The nonce that messages carry now; 0 before the first nonce is set.
    nonce: u64,
    /// Time of the last quote, or of the start of the load, in ns of the clock.
    granted_ns: u64,
    /// Slowest of the recent quotes, in ns; `None` before the first quote.
    loaded_ns: Option<u64>,
}

impl Credit {
    /// Only datagram loads to another host need credit; reliable transports stop by themselves.
    pub(super) fn is_needed(case: &Case, card: &Card) -> bool {
        case.path.across.is_some() && !card.reliable
    }

    pub(super) fn new(now_ns: u64) -> Self {
        Self { in_flight: Vec::with_capacity(MAX_IN_FLIGHT), nonce: 0, granted_ns: now_ns, loaded_ns: None }
    }

    /// Whether the receiver has confirmed a message.
    pub(super) fn is_granted(&self) -> bool {
        self.loaded_ns.is_some()
    }

    /// Sets the nonce that messages carry.
    pub(super) fn set_nonce(&mut self, nonce: u64, now_ns: u64) {
        if self.in_flight.len() == MAX_IN_FLIGHT {
            self.in_flight.remove(0);
        }
        self.in_flight.push((nonce, now_ns));
        self.nonce = nonce;
    }

    /// The nonce that messages carry; 0 before the first nonce is set.
    pub(super) fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Handles a quote. Unknown, repeated and outdated nonces grant nothing: a receiver that gets no more data repeats
    /// its last quote.
    pub(super) fn on_quote(&mut self, nonce: u64, now_ns: u64) {
        let Some(place) = self.in_flight.iter().position(|(sent, _)| *sent == nonce) else { return };
        let took_ns = now_ns.saturating_sub(self.in_flight[place].1);
        let slowest_ns = self.loaded_ns.map_or(took_ns, |loaded_ns| took_ns.max(loaded_ns - loaded_ns / 8));
        self.loaded_ns = Some(slowest_ns);
        self.in_flight.drain(..=place);
        self.granted_ns = now_ns;
    }

    /// Time since the last quote in ns, if it exceeds the time-out.
    pub(super) fn overdue_ns(&self, now_ns: u64) -> Option<u64> {
        let limit_ns = self.loaded_ns.map_or(INITIAL_TIMEOUT_NS, |loaded_ns| {
            loaded_ns.saturating_mul(2).clamp(MIN_TIMEOUT_NS, MAX_TIMEOUT_NS)
        });
        let silent_ns = now_ns.saturating_sub(self.granted_ns);
        (silent_ns >= limit_ns).then_some(silent_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_a_nonce_in_flight_grants_time() {
        let mut credit = Credit::new(0);
        credit.set_nonce(7, 0);
        credit.on_quote(8, 400 * MS);
        credit.on_quote(0, 400 * MS);
        assert_eq!(credit.overdue_ns(2_999 * MS), None);
        assert_eq!(credit.overdue_ns(3_000 * MS), Some(3_000 * MS), "no quote was received");
        credit.on_quote(7, 3_000 * MS);
        assert_eq!(credit.overdue_ns(3_400 * MS), None);
    }

    #[test]
    fn the_limit_is_twice_the_loaded_round_trip_within_bounds() {
        let limit_ms = |took_ms: u64| {
            let mut credit = Credit::new(0);
            credit.set_nonce(7, 0);
            credit.on_quote(7, took_ms * MS);
            (1..20_000).find(|ms| credit.overdue_ns((took_ms + ms) * MS).is_some())
        };
        assert_eq!(limit_ms(10), Some(500));
        assert_eq!(limit_ms(400), Some(800));
        assert_eq!(limit_ms(9_000), Some(10_000));
    }

    #[test]
    fn an_outdated_nonce_grants_nothing_after_a_newer_quote() {
        let mut credit = Credit::new(0);
        for (nonce, at_ms) in [(1, 0), (2, 100), (3, 200)] {
            credit.set_nonce(nonce, at_ms * MS);
        }
        credit.on_quote(3, 250 * MS);
        credit.on_quote(1, 700 * MS);
        credit.on_quote(3, 700 * MS);
        assert_eq!(credit.overdue_ns(750 * MS), Some(500 * MS));
        for nonce in 10..10 + 2 * MAX_IN_FLIGHT as u64 {
            credit.set_nonce(nonce, 800 * MS);
        }
        assert_eq!((credit.in_flight.len(), credit.nonce()), (MAX_IN_FLIGHT, 9 + 2 * MAX_IN_FLIGHT as u64));
    }
}
