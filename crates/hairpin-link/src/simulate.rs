//! Runs a link on a manual clock.

use hairpin_model::link::Direction;

use crate::link::Link;
use crate::log::LogLine;
use crate::packet::Packet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time in ns since the link started.
    pub at_ns: u64,
    pub direction: Direction,
    pub packet: Packet,
}

/// Runs the link until it is empty. Returns the fate of every packet in order of time, `up` first at equal times.
///
/// Arrivals are sorted by time; simultaneous arrivals keep their order.
pub fn simulate(link: &mut Link, arrivals: &[Arrival]) -> Vec<LogLine> {
    let mut arrivals = arrivals.to_vec();
    arrivals.sort_by_key(|arrival| arrival.at_ns);
    let mut outcomes = Vec::with_capacity(arrivals.len());
    for arrival in arrivals {
        while let Some(next_ns) = link.next_event_ns().filter(|next_ns| *next_ns < arrival.at_ns) {
            link.advance(next_ns, &mut outcomes);
        }
        link.arrive(arrival.direction, arrival.packet, arrival.at_ns);
    }
    while let Some(next_ns) = link.next_event_ns() {
        link.advance(next_ns, &mut outcomes);
    }
    outcomes.sort_by_key(|outcome| (outcome.fate.at_ns(), outcome.direction));
    outcomes.into_iter().map(LogLine::exact).collect()
}
