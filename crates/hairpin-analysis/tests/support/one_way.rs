//! Rounds of loads without answers, with given counts.

use hairpin_model::flow::{Direction, Pacing, Source};
use hairpin_model::ledger::RECEIVE_BUFFER;
use hairpin_model::{Arrivals, Case, Flow, GapPercentiles, Load, Measured, PacingError, Placement, Received, Sent};

use super::{Fixture, back_to_back};

/// Messages of 64 B in batches.
pub fn messages(transport: &str, batch: u64) -> Case {
    Case::of(Flow::one_way(
        transport,
        Load::Messages { size_bytes: 64, batch, observer: hairpin_model::flow::Observer::Sampled },
        Direction::Up,
    ))
}

pub fn stream(transport: &str, write_size_bytes: u64) -> Case {
    Case::of(Flow::one_way(transport, Load::Stream { write_size_bytes, source: Source::Buffer }, Direction::Up))
}

/// Messages of 64 B at that rate, between two CPUs.
pub fn offered(transport: &str, offered_per_s: f64) -> Case {
    let (arrivals, pacing) = (Arrivals::Fixed, Pacing::SleepSpin);
    let load = Load::Offered { offered_per_s, size_bytes: 64, arrivals, pacing };
    Case::of(Flow::one_way(transport, load, Direction::Up)).with(|case| case.ends.placement = Placement::CrossCpu)
}

#[derive(Clone, Copy)]
pub struct Counted {
    /// Messages sent per second; each round sends for one second.
    pub sent_per_s: f64,
    /// The share that arrived; the others met a full receive buffer.
    pub arrived: f64,
    /// One-way latency of the messages that arrived.
    pub latency_ns: u64,
}

/// Rounds that vary by half a percent.
const SCATTER: [f64; 12] = [2.0, 5.0, 0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 0.0, 3.0, 1.0, 4.0];

impl Fixture {
    /// Twelve rounds with these counts.
    pub fn one_way(&mut self, case: &Case, counted: Counted) {
        for (block, scatter) in SCATTER.iter().enumerate() {
            let more = 1.0 + scatter / 1000.0;
            let latency_ns = (counted.latency_ns as f64 * more) as u64;
            let samples = back_to_back(&[], &[latency_ns; 100]);
            let rate = if case.primary().load.rate_per_s().is_some() { 1.0 } else { more };
            let counted = Counted { sent_per_s: counted.sent_per_s * rate, ..counted };
            self.round_with(case, block as u32, &samples, |measured| count(measured, case, counted));
        }
    }
}

/// Puts these counts into a round of one second.
fn count(measured: &mut Measured, case: &Case, counted: Counted) {
    const SECOND_NS: u64 = 1_000_000_000;
    let sent = counted.sent_per_s.round() as u64;
    let received = (counted.sent_per_s * counted.arrived).round() as u64;
    let bytes = received * case.primary().load.size_bytes();
    let offered = case.primary().load.rate_per_s();
    measured.duration_ns = SECOND_NS;
    let flow = measured.primary_mut();
    flow.ledger.sent = sent;
    flow.ledger.received = received;
    flow.ledger.lost.clear();
    if sent > received {
        flow.ledger.lost.insert(RECEIVE_BUFFER.to_owned(), sent - received);
    }
    flow.received = Some(Received { bytes, bytes_after_first: bytes, over_ns: SECOND_NS, ..Received::default() });
    let gap_ns = offered.map(|rate| 1e9 / rate);
    let pacing = gap_ns.map(|gap_ns| PacingError {
        gaps: sent,
        nominal_ns: gap_ns,
        gap_ns: GapPercentiles { p50: gap_ns, p99: gap_ns, p999: gap_ns },
        share_below_half: 0.0,
    });
    flow.sent = Some(Sent { messages: sent, over_ns: SECOND_NS, pacing, ..Sent::default() });
    hairpin_analysis::one_way_figures(flow, &case.primary().load);
}
