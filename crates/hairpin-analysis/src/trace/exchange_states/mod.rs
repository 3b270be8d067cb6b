//! Computes the states of exchanges from whatever evidence a trace has: calls, kernel timestamps, packets, samples of the
//! sockets.
//!
//! An exchange passes ten stages: in each direction the sender's program, its last write call, the sender's kernel, the
//! path, and the receiver's read. Stages end at times that calls, packets or samples show; stages without such a time
//! between them are one union. Within a stage, layers name what is known better: why bytes were held, lost data, delayed
//! acknowledgments, the shortest travel time. So the spans always cover the exchange exactly.

mod held;
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
use hairpin_model::{Call, Packet, SocketSample};

pub(super) use shares::separate_cpu_waits;
pub(crate) use shares::times_in_states;

use recovery::Retransmission;
use tiling::{Rank, Tiling};

use super::direction::{Direction, Segment, end_of, other};
use super::exchange::{ConnectionWait, Extent};
use super::reading::Reading;

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
    /// When arrived bytes waited for a call of the receiver's program, in order; `None` if unknown.
    unread: Option<Vec<(u64, u64)>>,
    retransmissions: Vec<Retransmission>,
    /// Delayed acknowledgments of this direction's data, by time of arrival.
    delayed: Vec<&'r ConnectionWait>,
    /// The shortest travel time of a packet, in ns.
    min_travel_ns: Option<u64>,
}

/// One exchange, with its layers so far.
struct Layers<'s> {
    states: &'s States<'s>,
    extent: &'s Extent,
    tiling: Tiling,
}

impl<'r> States<'r> {
    pub(super) fn new(reading: &'r Reading<'r>, waits: &'r [ConnectionWait]) -> Self {
        Self { reading, ways: [0, 1].map(|place| Way::new(reading, place, waits)) }
    }

    /// Returns the states of an exchange, which cover it exactly. `at_server_ns` is the time that the server's program took
    /// by a clock of its own.
    pub(super) fn of(&self, extent: &Extent, at_server_ns: Option<u64>) -> Vec<StateSpan> {
        let mut layers = Layers { states: self, extent, tiling: Tiling::default() };
        let known =
            self.ways.each_ref().map(|way| way.stage_ends(extent, self.reading.trace.clock_error_ns)).concat();
        // Stage n is from `at[n]` to `at[n + 1]`; the last one ends with the exchange.
        // A message of the server without a request begins with the server's stages.
        let begin = if extent.request.is_empty() { STAGES } else { 0 };
        let (mut at, mut from_ns, mut first) = ([None; 2 * STAGES + 1], extent.began_ns, begin);
        at[begin] = Some(from_ns);
        for (stage, end_ns) in known.into_iter().enumerate().skip(begin) {
            let end_ns = if stage + 1 == 2 * STAGES { Some(extent.ended_ns) } else { end_ns };
            let Some(until_ns) = end_ns.map(|ns| ns.min(extent.ended_ns).max(from_ns)) else { continue };
            let (state, at_end) = self.stage(first, stage, at_server_ns.is_some());
            layers.tiling.add(Rank::Stage, from_ns..until_ns, state, at_end);
            if first / STAGES != stage / STAGES && first % STAGES >= PATH {
                layers.beyond(&(from_ns..until_ns), first % STAGES == PATH, at_server_ns.unwrap_or(0));
            }
            at[stage + 1] = Some(until_ns);
            (from_ns, first) = (until_ns, stage + 1);
        }
        for place in [0, 1] {
            let at = &at[place * STAGES..];
            // Samples also show why bytes were held whose departure nothing shows.
            if let Some((began_ns, left_ns)) = at[PROGRAM].zip(at[PATH..].iter().copied().flatten().next()) {
                layers.sending(place, &(began_ns..left_ns), at[KERNEL]);
            }
            if let Some((left_ns, arrived_ns)) = at[PATH].zip(at[READ]) {
                layers.travelling(place, &(left_ns..arrived_ns));
            }
            if let Some((arrived_ns, read_ns)) = at[READ].zip(at[STAGES]) {
                layers.arrived(place, &(arrived_ns..read_ns));
            }
        }
        layers.tiling.spans(extent.began_ns, extent.ended_ns)
    }

    /// Returns the state of a stage, or of stages that the evidence does not separate, and the end that is in it.
    fn stage(&self, first: usize, last: usize, is_server_timed: bool) -> (ExchangeState, End) {
        let way = &self.ways[first / STAGES];
        let (sender, is_one_way) = (way.direction.from, first / STAGES == last / STAGES);
        let [program, union] = match sender {
            End::Client => [ExchangeState::ClientIdle, ExchangeState::IdleOrHeld],
            End::Server => [ExchangeState::ServerProgram, ExchangeState::WorkOrHeld],
        };
        let state = match (first % STAGES, last % STAGES) {
            (PROGRAM, _) if first == last => program,
            (CALL, _) if first == last => ExchangeState::SendCall,
            (KERNEL, _) if first == last => ExchangeState::Unexplained,
            (PATH, _) if first == last && way.min_travel_ns.is_some() => ExchangeState::Queueing,
            (PATH, _) if first == last => ExchangeState::Path,
            (READ, _) if first == last => ExchangeState::WakeUp,
            (PROGRAM | CALL, CALL | KERNEL) if is_one_way => union,
            (PATH, _) if is_one_way || is_server_timed => ExchangeState::PathOrWakeUp,
            (PATH | READ, _) => return (ExchangeState::WorkOrHeld, End::Server),
            (CALL | KERNEL, _) if is_one_way => ExchangeState::BetweenCalls,
            _ => ExchangeState::NoEvidence,
        };
        (state, if first % STAGES == READ { other(sender) } else { sender })
    }
}

impl<'s> Layers<'s> {
    fn way(&self, place: usize) -> &'s Way<'s> {
        &self.states.ways[place]
    }

    /// Returns the exchange's bytes and first transmissions in a direction.
    fn sent(&self, place: usize) -> (&'s Range<u64>, &'s [Segment]) {
        let direction = self.way(place).direction;
        let bytes = self.extent.bytes(direction.from);
        (bytes, direction.first_sent_with(bytes))
    }

    /// Adds what packets alone tell of the time at the server: from the arrival of the request, or with `has_path` from its
    /// departure, to the departure of the answer, or to its arrival.
    fn beyond(&mut self, during: &Range<u64>, has_path: bool, at_server_ns: u64) {
        let travel_ns = self.way(0).min_travel_ns.filter(|_| has_path);
        let way_ns = travel_ns.unwrap_or(0).min((during.end - during.start) / 2);
        let segments = if self.way(1).arrivals_only || !has_path { self.sent(1).1 } else { &[] };
        let reached_ns = during.start + way_ns;
        let first_ns = segments.first().map_or(during.end, |first| first.left_ns.min(during.end));
        let answered_ns = first_ns.saturating_sub(way_ns).max(reached_ns);
        for from_ns in [during.start, answered_ns, during.end - way_ns] {
            let way = from_ns..from_ns.saturating_add(way_ns);
            self.tiling.add(Rank::Within, way, ExchangeState::Propagation, End::Server);
        }
        let worked = answered_ns - at_server_ns.min(answered_ns - reached_ns)..answered_ns;
        self.tiling.add(Rank::Within, worked, ExchangeState::ServerProgram, End::Server);
        // Parts of the answer that followed an acknowledgment of the client were held at the server.
        for pair in segments.windows(2) {
            self.held(1, &pair[1], pair[0].left_ns.max(during.start)..pair[1].left_ns.min(during.end), false);
        }
    }

    /// Adds lost data and the shortest travel time, while the last bytes are on their way.
    fn travelling(&mut self, place: usize, during: &Range<u64>) {
        let (way, (bytes, _)) = (self.way(place), self.sent(place));
        let mut from_ns = during.start;
        let begin = way.retransmissions.partition_point(|one| one.during.end < during.start);
        for lost in way.retransmissions[begin..].iter().take_while(|one| during.contains(&one.during.end)) {
            if lost.bytes.start < bytes.end && lost.bytes.end > bytes.start {
                let waited = lost.during.start.max(during.start)..lost.during.end;
                self.tiling.add(Rank::Held, waited, lost.state, way.direction.from);
                from_ns = from_ns.max(lost.during.end);
            }
        }
        let until_ns = from_ns.saturating_add(way.min_travel_ns.unwrap_or(0)).min(during.end);
        self.tiling.add(Rank::Within, from_ns..until_ns, ExchangeState::Propagation, way.direction.from);
    }

    /// Adds why arrived bytes were not read: the program was in another call, such as the write that the peer has answered
    /// already, or had not called.
    fn arrived(&mut self, place: usize, during: &Range<u64>) {
        let (way, (bytes, _)) = (self.way(place), self.sent(place));
        let read = way.direction.reads_with(bytes).iter().find(|call| call.end_byte >= bytes.end);
        let called_ns = read.map(|call| call.began_ns).or_else(|| Some(way.unread_within(during).last()?.end));
        let called_ns = called_ns.unwrap_or(0).clamp(during.start, during.end);
        let before = &way.receiver_calls[..way.receiver_calls.partition_point(|call| call.began_ns < called_ns)];
        let returned_ns = before.last().map_or(0, |call| call.ended_ns).clamp(during.start, called_ns);
        let receiver = other(way.direction.from);
        self.tiling.add(Rank::Within, during.start..returned_ns, ExchangeState::SendCall, receiver);
        self.tiling.add(Rank::Within, returned_ns..called_ns, ExchangeState::SlowReader, receiver);
    }
}

impl<'r> Way<'r> {
    fn new(reading: &'r Reading<'r>, place: usize, waits: &'r [ConnectionWait]) -> Self {
        let (trace, direction) = (reading.trace, &reading.directions[place]);
        let (sender, receiver) = (end_of(trace, direction.from), end_of(trace, other(direction.from)));
        let packets = if reading.source == Source::Capture { trace.packets.as_slice() } else { &[] };
        let is_delayed =
            |wait: &&ConnectionWait| wait.cause == ExchangeState::DelayedAck && wait.from == direction.from;
        let mut delayed: Vec<&ConnectionWait> = waits.iter().filter(is_delayed).collect();
        delayed.sort_by_key(|wait| wait.ack_arrived_ns);
        Self {
            direction,
            receiver_calls: &receiver.calls,
            samples: [&sender.samples, &receiver.samples],
            arrivals_only: trace.server_has_own_clock && direction.from == End::Server,
            edges: edges(packets, direction.from),
            unread: unread(direction, &receiver.samples),
            retransmissions: recovery::retransmissions(direction, packets, sender),
            delayed,
            min_travel_ns: min_travel_ns(reading, packets, direction),
        }
    }

    /// Returns when each stage of this direction ended; `None` if unknown.
    fn stage_ends(&self, extent: &Extent, clock_error_ns: u64) -> [Option<u64>; STAGES] {
        let bytes = extent.bytes(self.direction.from);
        if bytes.is_empty() {
            return [None; STAGES];
        }
        let sampled_ns = |end: usize, value: fn(&SocketSample) -> u64| {
            let samples = self.samples[end];
            let place = samples.partition_point(|one| value(one) < bytes.end);
            // What the first sample shows happened before it.
            samples.get(place).filter(|one| place > 0 || one.at_ns <= extent.began_ns).map(|one| one.at_ns)
        };
        let sent = |one: &SocketSample| one.acked_bytes.saturating_add(one.unacked_bytes);
        let written =
            |one: &SocketSample| one.acked_bytes.saturating_add(one.unacked_bytes).saturating_add(one.not_sent_bytes);
        let write = self.direction.writes_with(bytes).iter().find(|call| call.end_byte >= bytes.end);
        let seen_ns = self.direction.first_segment(bytes.end).map(|segment| segment.left_ns);
        let left_ns = seen_ns.filter(|_| !self.arrivals_only).or_else(|| sampled_ns(0, sent));
        let written_ns = match (write, left_ns) {
            (Some(call), Some(left_ns)) if left_ns <= call.ended_ns.saturating_add(clock_error_ns) => Some(left_ns),
            (Some(call), _) => Some(call.ended_ns),
            (None, _) => sampled_ns(0, written).map(|ns| ns.min(left_ns.unwrap_or(ns))),
        };
        let called_ns = write.map(|call| call.began_ns).or(written_ns);
        let arrived_ns = if self.arrivals_only { seen_ns } else { self.direction.all_arrived_ns(bytes) };
        let arrived_ns = arrived_ns.or_else(|| sampled_ns(1, |one| one.received_bytes));
        let read = self.direction.reads_with(bytes).iter().find(|call| call.end_byte >= bytes.end);
        let read_ns = read.map(|call| call.ended_ns);
        let read_ns = read_ns.or_else(|| sampled_ns(1, |one| one.received_bytes.saturating_sub(one.unread_bytes)));
        [called_ns, written_ns, left_ns, arrived_ns, read_ns]
    }

    /// Returns the parts of a time in which arrived bytes waited for a call of the receiver's program.
    fn unread_within<'w>(&'w self, time: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<'w, 'r> {
        let Range { start, end } = *time;
        let all = self.unread.as_deref().unwrap_or_default();
        let parts = all[all.partition_point(|(_, until)| *until <= start)..].iter();
        parts.take_while(move |(from, _)| *from < end).map(move |(from, until)| (*from).max(start)..(*until).min(end))
    }
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
        most.replace(most.map_or(*admitted, |most: u64| most.max(*admitted))) < Some(*admitted)
    });
    all
}

/// Returns when arrived bytes waited for a call of the receiver's program. Samples show bytes that no call has read yet.
fn unread(direction: &Direction<'_>, samples: &[SocketSample]) -> Option<Vec<(u64, u64)>> {
    if !direction.reads.is_empty() {
        let waited = |segment: &Segment| {
            let read =
                direction.reads.get(direction.reads.partition_point(|call| call.end_byte < segment.end_byte))?;
            Some((direction.exact_arrival_ns(segment).unwrap_or(segment.left_ns), read.began_ns))
        };
        return Some(direction.first_sent.iter().filter_map(waited).collect());
    }
    let spans = samples.windows(2).filter(|pair| pair[0].unread_bytes > 0);
    (!samples.is_empty()).then(|| spans.map(|pair| (pair[0].at_ns, pair[1].at_ns)).collect())
}

/// Returns the shortest travel time of any packet of the direction, or half of the shortest round trip.
fn min_travel_ns(reading: &Reading<'_>, packets: &[Packet], direction: &Direction<'_>) -> Option<u64> {
    let (trace, is_one_clock) = (reading.trace, !reading.trace.server_has_own_clock);
    let travels = packets.iter().filter(|packet| packet.from == direction.from && is_one_clock);
    let travel_ns = travels.filter_map(|packet| packet.arrived_ns?.checked_sub(packet.at_ns)).min();
    let of_client = reading.directions[0].travel_ns;
    let round_trip_ns = if is_one_clock { direction.travel_ns.saturating_mul(2) } else { of_client };
    let sampled = trace.client.samples.iter().chain(&trace.server.samples).map(|one| one.min_rtt_ns);
    travel_ns.or_else(|| sampled.chain([round_trip_ns]).filter(|ns| *ns > 0).min().map(|ns| ns / 2))
}
