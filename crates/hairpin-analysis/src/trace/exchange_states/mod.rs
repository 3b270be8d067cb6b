//! Computes the states of exchanges from whatever evidence a trace has: calls, kernel timestamps, packets, samples of the
//! sockets.
//!
//! An exchange passes ten stages: in each direction the sender's program, its last write call, the sender's kernel, the
//! path, and the receiver's read. Stages end at times that calls, packets or samples show; stages without such a time
//! between them are one union. Within a stage, layers name what is known better: why bytes were held, lost data, delayed
//! acknowledgments, the shortest travel time. So the spans always cover the exchange exactly.

mod held;
mod intervals;
mod recovery;
mod sampled;
mod shares;
#[cfg(test)]
mod tests;
mod tiling;

use std::ops::Range;

use hairpin_model::exchange_state::{ExchangeState, StateSpan};
use hairpin_model::time_sequence::Source;
use hairpin_model::trace::End;
use hairpin_model::{Call, Packet, RoundTrace, SocketSample};

pub(super) use shares::{over_rounds, separate_cpu_waits, times_in_states};

use intervals::Intervals;
use recovery::Retransmission;
use tiling::{Layer, Rank};

use super::direction::{Direction, Segment, end_of, other};
use super::exchange::{ConnectionWait, Extent};
use super::reading::Reading;

/// Stages of a direction, and of an exchange.
const STAGES: usize = 5;
const PROGRAM: usize = 0;
const CALL: usize = 1;
const KERNEL: usize = 2;
const PATH: usize = 3;
const READ: usize = 4;

/// The states of a trace's exchanges.
pub(super) struct States<'r> {
    reading: &'r Reading<'r>,
    ways: [Way<'r>; 2],
}

/// What a direction's evidence shows in addition to [`Direction`].
struct Way<'r> {
    direction: &'r Direction<'r>,
    receiver_calls: &'r [Call],
    /// Samples of the sender's and of the receiver's socket.
    samples: [&'r [SocketSample]; 2],
    /// Whether times of segments are those at the receiver.
    arrivals_only: bool,
    /// Times at which the receiver's window grew, each with the end of the bytes that it admits since then.
    edges: Vec<(u64, u64)>,
    /// When arrived bytes waited until the receiver's program called; `None` if unknown.
    unread: Option<Intervals>,
    retransmissions: Vec<Retransmission>,
    /// Delayed acknowledgments of this direction's data, by time of arrival.
    delayed: Vec<&'r ConnectionWait>,
    /// The shortest travel time of a packet, in ns.
    min_travel_ns: Option<u64>,
}

impl<'r> States<'r> {
    pub(super) fn new(reading: &'r Reading<'r>, waits: &'r [ConnectionWait]) -> Self {
        let [out, back] = &reading.directions;
        Self { reading, ways: [Way::new(reading, out, back, waits), Way::new(reading, back, out, waits)] }
    }

    /// Returns the states of an exchange, which cover it exactly. `at_server_ns` is the time that the server's program took
    /// by a clock of its own.
    pub(super) fn of(&self, extent: &Extent, at_server_ns: Option<u64>) -> Vec<StateSpan> {
        tiling::tile(extent.began_ns, extent.ended_ns, &self.layers(extent, at_server_ns))
    }

    fn layers(&self, extent: &Extent, at_server_ns: Option<u64>) -> Vec<Layer> {
        let mut layers = Vec::new();
        let known =
            self.ways.each_ref().map(|way| way.stage_ends(extent, self.reading.trace.clock_error_ns)).concat();
        // The end of stage n is `at[n + 1]`.
        let mut at = [None; 2 * STAGES + 1];
        let (mut from_ns, mut first) = (extent.began_ns, 0);
        at[0] = Some(from_ns);
        for stage in 0..2 * STAGES {
            let end_ns = if stage + 1 == 2 * STAGES { Some(extent.ended_ns) } else { known[stage] };
            let Some(until_ns) = end_ns.map(|ns| ns.min(extent.ended_ns).max(from_ns)) else { continue };
            let (state, at_end) = self.stage(first, stage, at_server_ns.is_some());
            layers.push(Layer { from_ns, until_ns, rank: Rank::Stage, state, at: at_end });
            if first / STAGES != stage / STAGES && first % STAGES >= PATH {
                self.beyond(&mut layers, extent, from_ns..until_ns, at_server_ns);
            }
            at[stage + 1] = Some(until_ns);
            (from_ns, first) = (until_ns, stage + 1);
        }
        for (place, way) in self.ways.iter().enumerate() {
            // Samples also show why bytes were held whose departure nothing shows.
            let left_ns = at[place * STAGES + PATH..].iter().copied().flatten().next();
            if let Some(during) = at[place * STAGES].zip(left_ns).map(|(from_ns, until_ns)| from_ns..until_ns) {
                self.sending(&mut layers, place, extent, during, at[place * STAGES + KERNEL]);
            }
            let stage = |from: usize, until: usize| Some(at[place * STAGES + from]?..at[place * STAGES + until]?);
            if let Some(during) = stage(PATH, READ) {
                way.travelling(&mut layers, extent, during);
            }
            if let Some(during) = stage(READ, STAGES) {
                way.arrived(&mut layers, extent, during);
            }
        }
        layers
    }

    /// Returns the state of a stage, or of stages that the evidence does not separate, and the end that is in it.
    fn stage(&self, first: usize, last: usize, is_server_timed: bool) -> (ExchangeState, End) {
        let way = &self.ways[first / STAGES];
        let (sender, is_one_way) = (way.direction.from, first / STAGES == last / STAGES);
        let state = match (first % STAGES, last % STAGES) {
            (PROGRAM, _) if first == last && sender == End::Client => ExchangeState::ClientIdle,
            (PROGRAM, _) if first == last => ExchangeState::ServerProgram,
            (CALL, _) if first == last => ExchangeState::SendCall,
            (KERNEL, _) if first == last => ExchangeState::Unexplained,
            (PATH, _) if first == last && way.min_travel_ns.is_some() => ExchangeState::Queueing,
            (PATH, _) if first == last => ExchangeState::Path,
            (READ, _) if first == last => ExchangeState::WakeUp,
            (PROGRAM | CALL, CALL | KERNEL) if is_one_way && sender == End::Client => ExchangeState::IdleOrHeld,
            (PROGRAM | CALL, CALL | KERNEL) if is_one_way => ExchangeState::WorkOrHeld,
            (PATH, _) if is_one_way || is_server_timed => ExchangeState::PathOrWakeUp,
            (PATH | READ, _) => return (ExchangeState::WorkOrHeld, End::Server),
            (CALL | KERNEL, _) if is_one_way => ExchangeState::BetweenCalls,
            _ => ExchangeState::NoEvidence,
        };
        (state, if first % STAGES == READ { other(sender) } else { sender })
    }

    /// What the client alone can know of the time from the departure of its request to the arrival of the answer.
    fn beyond(&self, layers: &mut Vec<Layer>, extent: &Extent, during: Range<u64>, at_server_ns: Option<u64>) {
        let [out, back] = &self.ways;
        let way_ns = out.min_travel_ns.unwrap_or(0).min((during.end - during.start) / 2);
        let segments = back.segments(extent);
        let first_ns = segments.first().filter(|_| back.arrivals_only).map_or(during.end, |first| first.left_ns);
        let (reached_ns, answered_ns) = (during.start + way_ns, first_ns.min(during.end).saturating_sub(way_ns));
        let answered_ns = answered_ns.max(reached_ns);
        let mut layer = |from_ns, until_ns, state| {
            layers.push(Layer { from_ns, until_ns, rank: Rank::Within, state, at: End::Server });
        };
        layer(during.start, reached_ns, ExchangeState::Propagation);
        layer(answered_ns, answered_ns.saturating_add(way_ns), ExchangeState::Propagation);
        layer(during.end - way_ns, during.end, ExchangeState::Propagation);
        let worked_ns = at_server_ns.unwrap_or(0).min(answered_ns - reached_ns);
        layer(answered_ns - worked_ns, answered_ns, ExchangeState::ServerProgram);
        // Parts of the answer that followed an acknowledgment of the client were held at the server.
        for pair in segments.windows(2).filter(|_| back.arrivals_only) {
            let gap = pair[0].left_ns.max(during.start)..pair[1].left_ns.min(during.end);
            self.held(layers, 1, &pair[1], gap, false);
        }
    }
}

impl<'r> Way<'r> {
    fn new(
        reading: &'r Reading<'r>,
        direction: &'r Direction<'r>,
        back: &'r Direction<'r>,
        waits: &'r [ConnectionWait],
    ) -> Self {
        let trace = reading.trace;
        let (sender, receiver) = (end_of(trace, direction.from), end_of(trace, other(direction.from)));
        let packets = if reading.source == Source::Capture { trace.packets.as_slice() } else { &[] };
        let mut delayed: Vec<&ConnectionWait> = waits
            .iter()
            .filter(|wait| wait.cause == ExchangeState::DelayedAck && wait.from == direction.from)
            .collect();
        delayed.sort_by_key(|wait| wait.ack_arrived_ns);
        let samples = [sender.samples.as_slice(), receiver.samples.as_slice()];
        Self {
            direction,
            receiver_calls: &receiver.calls,
            samples,
            arrivals_only: trace.server_has_own_clock && direction.from == End::Server,
            edges: edges(packets, direction.from),
            unread: unread(direction, samples[1]),
            retransmissions: recovery::retransmissions(direction, packets, sender),
            delayed,
            min_travel_ns: min_travel_ns(trace, packets, [direction, back], samples),
        }
    }

    /// Returns the exchange's first transmissions in this direction.
    fn segments(&self, extent: &Extent) -> &'r [Segment] {
        self.direction.first_sent_with(extent.bytes(self.direction.from))
    }

    /// Returns when each stage of this direction ended; `None` if unknown.
    fn stage_ends(&self, extent: &Extent, clock_error_ns: u64) -> [Option<u64>; STAGES] {
        let bytes = extent.bytes(self.direction.from);
        if bytes.is_empty() {
            return [None; STAGES];
        }
        let [sender, receiver] = self.samples;
        let write = self.direction.writes_with(bytes).iter().find(|call| call.end_byte >= bytes.end);
        let seen_ns = self.direction.first_segment(bytes.end).map(|segment| segment.left_ns);
        let left_ns = seen_ns
            .filter(|_| !self.arrivals_only)
            .or_else(|| reached_ns(sender, bytes.end, |one| one.acked_bytes.saturating_add(one.unacked_bytes)));
        let returned = |ended_ns: u64| match left_ns {
            Some(left_ns) if left_ns <= ended_ns.saturating_add(clock_error_ns) => left_ns,
            _ => ended_ns,
        };
        let written_ns = write.map(|call| returned(call.ended_ns)).or_else(|| {
            let written = |one: &SocketSample| {
                one.acked_bytes.saturating_add(one.unacked_bytes).saturating_add(one.not_sent_bytes)
            };
            Some(reached_ns(sender, bytes.end, written)?.min(left_ns.unwrap_or(u64::MAX)))
        });
        let called_ns = write.map(|call| call.began_ns).or(written_ns);
        let arrived_ns = if self.arrivals_only { seen_ns } else { self.direction.all_arrived_ns(bytes) };
        let arrived_ns = arrived_ns.or_else(|| reached_ns(receiver, bytes.end, |one| one.received_bytes));
        let read = self.direction.reads_with(bytes).iter().find(|call| call.end_byte >= bytes.end);
        let read_ns = read
            .map(|call| call.ended_ns)
            .or_else(|| reached_ns(receiver, bytes.end, |one| one.received_bytes.saturating_sub(one.unread_bytes)));
        [called_ns, written_ns, left_ns, arrived_ns, read_ns]
    }

    /// Lost data and the shortest travel time, while the last bytes are on their way.
    fn travelling(&self, layers: &mut Vec<Layer>, extent: &Extent, during: Range<u64>) {
        let bytes = extent.bytes(self.direction.from);
        let mut from_ns = during.start;
        for lost in self.retransmissions.iter().filter(|one| one.left_ns > during.start && one.lost_ns < during.end) {
            if lost.bytes.start < bytes.end && lost.bytes.end > bytes.start && lost.left_ns < during.end {
                self.layer(layers, Rank::Held, lost.lost_ns.max(during.start), lost.left_ns, lost.state);
                from_ns = from_ns.max(lost.left_ns);
            }
        }
        let until_ns = from_ns.saturating_add(self.min_travel_ns.unwrap_or(0)).min(during.end);
        self.layer(layers, Rank::Within, from_ns, until_ns, ExchangeState::Propagation);
    }

    /// Arrived bytes whose reader has not called yet.
    fn arrived(&self, layers: &mut Vec<Layer>, extent: &Extent, during: Range<u64>) {
        let bytes = extent.bytes(self.direction.from);
        let read = self.direction.reads_with(bytes).iter().find(|call| call.end_byte >= bytes.end);
        let called_ns = match (read, &self.unread) {
            (Some(call), _) => call.began_ns,
            (None, Some(unread)) => {
                unread.within(during.start, during.end).map(|(_, until)| until).last().unwrap_or(0)
            }
            (None, None) => 0,
        };
        // Until then, the program may be in another call, such as the write that the peer has answered already.
        let calls_before =
            &self.receiver_calls[..self.receiver_calls.partition_point(|call| call.began_ns < called_ns)];
        let returned_ns = calls_before.last().map_or(0, |call| call.ended_ns).min(called_ns);
        let [returned_ns, called_ns] = [returned_ns, called_ns].map(|ns| ns.clamp(during.start, during.end));
        let mut layer = |from_ns, until_ns, state| {
            layers.push(Layer { from_ns, until_ns, rank: Rank::Within, state, at: other(self.direction.from) });
        };
        layer(during.start, returned_ns, ExchangeState::SendCall);
        layer(returned_ns, called_ns, ExchangeState::SlowReader);
    }

    /// Adds a state of the sender.
    fn layer(&self, layers: &mut Vec<Layer>, rank: Rank, from_ns: u64, until_ns: u64, state: ExchangeState) {
        layers.push(Layer { from_ns, until_ns, rank, state, at: self.direction.from });
    }
}

/// Returns the time of the first sample whose value reaches `end_byte`. Samples are in order of time.
fn reached_ns(samples: &[SocketSample], end_byte: u64, value: impl Fn(&SocketSample) -> u64) -> Option<u64> {
    samples.get(samples.partition_point(|one| value(one) < end_byte)).map(|one| one.at_ns)
}

fn edges(packets: &[Packet], from: End) -> Vec<(u64, u64)> {
    let edge = |packet: &Packet| {
        let admitted = packet.ack_byte?.saturating_add(packet.window_bytes?);
        Some((packet.arrived_ns.unwrap_or(packet.at_ns), admitted))
    };
    let mut all: Vec<(u64, u64)> = packets.iter().filter(|packet| packet.from != from).filter_map(edge).collect();
    all.sort_unstable();
    let mut most = None;
    all.retain(|(_, admitted)| {
        let grows = most.is_none_or(|most| most < *admitted);
        most = most.max(Some(*admitted));
        grows
    });
    all
}

/// Returns when arrived bytes waited for a call of the receiver's program. Samples show bytes that no call has read yet.
fn unread(direction: &Direction<'_>, samples: &[SocketSample]) -> Option<Intervals> {
    if !direction.reads.is_empty() {
        let waited = |segment: &Segment| {
            let read =
                direction.reads.get(direction.reads.partition_point(|call| call.end_byte < segment.end_byte))?;
            Some((direction.exact_arrival_ns(segment).unwrap_or(segment.left_ns), read.began_ns))
        };
        return Some(Intervals::new(direction.first_sent.iter().filter_map(waited)));
    }
    let spans = samples.windows(2).filter(|pair| pair[0].unread_bytes > 0);
    (!samples.is_empty()).then(|| Intervals::new(spans.map(|pair| (pair[0].at_ns, pair[1].at_ns))))
}

/// Returns the shortest travel time of any packet of the direction; with one vantage point half of the shortest round trip.
fn min_travel_ns(
    trace: &RoundTrace,
    packets: &[Packet],
    [direction, back]: [&Direction<'_>; 2],
    samples: [&[SocketSample]; 2],
) -> Option<u64> {
    let known = |ns: u64| (ns > 0).then_some(ns);
    if !trace.server_has_own_clock {
        let travel = |packet: &Packet| packet.arrived_ns?.checked_sub(packet.at_ns);
        let seen = packets.iter().filter(|packet| packet.from == direction.from).filter_map(travel).min();
        if let Some(ns) = seen.or_else(|| known(direction.travel_ns)) {
            return Some(ns);
        }
    }
    let sampled = samples.concat().iter().filter_map(|one| known(one.min_rtt_ns)).min();
    let round_trip_ns =
        if trace.server_has_own_clock { known(direction.travel_ns.max(back.travel_ns)) } else { None };
    round_trip_ns.into_iter().chain(sampled).min().map(|ns| ns / 2)
}
