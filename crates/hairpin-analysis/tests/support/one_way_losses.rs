//! Made-up rounds of loads without answers, with given counts of both ends.

use hairpin_model::flow::{Direction, Pacing};
use hairpin_model::{Arrivals, Case, Flow, Ledger, Load, Measured, PacingError, Received, Sent};

use super::{Fixture, back_to_back};

/// Messages of 100 B upwards at full rate.
pub fn messages(transport: &str) -> Case {
    Case::of(Flow::one_way(
        transport,
        Load::Messages { size_bytes: 100, batch: 1, observer: hairpin_model::flow::Observer::Sampled },
        Direction::Up,
    ))
}

/// 1 000 messages of 100 B per second upwards.
pub fn offered(arrivals: Arrivals, pacing: Pacing) -> Case {
    let load = Load::Offered { offered_per_s: 1000.0, size_bytes: 100, arrivals, pacing };
    Case::of(Flow::one_way("udp", load, Direction::Up))
}

/// Counts of both ends over one second with 1000 messages sent: these losses by cause, the rest received, and the
/// share of intervals between messages below half of the nominal interval.
pub fn counts(lost: &[(&str, u64)], below_half: f64) -> impl Fn(&mut Measured) {
    let lost: Vec<(String, u64)> = lost.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect();
    move |measured| {
        let received = 1000 - lost.iter().map(|(_, count)| count).sum::<u64>();
        let ledger = Ledger { sent: 1000, received, lost: lost.iter().cloned().collect(), ..Ledger::default() };
        let bytes = 100 * received;
        let flow = measured.primary_mut();
        flow.ledger = ledger.closed();
        flow.received =
            Some(Received { bytes, bytes_after_first: bytes, over_ns: 1_000_000_000, ..Received::default() });
        let pacing =
            PacingError { gaps: 999, nominal_ns: 1e6, share_below_half: below_half, ..PacingError::default() };
        flow.sent = Some(Sent { messages: 1000, over_ns: 999_000_000, pacing: Some(pacing), ..Sent::default() });
    }
}

type Counted<'a> = (&'a Case, &'a dyn Fn(&mut Measured));

/// Eight interleaved blocks of one round of each case, with the counts of the case.
pub fn interleaved(cases: &[Counted<'_>]) -> Fixture {
    let mut fixture = Fixture::new();
    for block in 0..8 {
        for (case, counts) in cases {
            fixture.round_with(case, block, &back_to_back(&[], &[50_000; 100]), |measured| counts(measured));
        }
    }
    fixture
}
