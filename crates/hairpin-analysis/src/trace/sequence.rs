//! Lists the events of one exchange in time order: all events at both ends and between them.

use hairpin_model::time_sequence::{Event, EventKind, Source};
use hairpin_model::trace::{CallKind, End};
use hairpin_model::{Call, Packet, StateSpan, TimeSequence, TracedExchange};

use super::direction::{Direction, end_of, other};
use super::exchange::{ConnectionWait, Extent};
use super::reading::Reading;
use crate::statistics::location::median;

/// A duration is typical if it differs from the median by at most this share of the median.
const MAX_TYPICAL_DEVIATION: f64 = 0.25;

impl Reading<'_> {
    /// Returns the last typical exchange after the first; `None` if no exchange ended.
    /// `spans` are the states of each exchange.
    pub(super) fn typical_sequence(
        &self,
        exchanges: &[TracedExchange],
        waits: &[ConnectionWait],
        mut spans: Vec<Vec<StateSpan>>,
    ) -> Option<TimeSequence> {
        let place = typical_index(exchanges)?;
        Some(self.sequence(place, &self.extents().nth(place)?, waits, spans.swap_remove(place)))
    }

    pub(super) fn sequence(
        &self,
        place: usize,
        extent: &Extent,
        waits: &[ConnectionWait],
        states: Vec<StateSpan>,
    ) -> TimeSequence {
        let mut events = self.handshake(extent);
        for end in [End::Client, End::Server] {
            events.extend(self.calls(extent, end));
        }
        match self.source {
            Source::Capture => events.extend(self.packets(extent)),
            Source::KernelTimestamps => events.extend(self.directions.iter().flat_map(|direction| {
                let back = self.directions.iter().find(|back| back.from != direction.from);
                stamp_events(extent, direction, back.map_or(0, |back| back.travel_ns))
            })),
        }
        events.sort_by_key(|event| event.at_ns);
        TimeSequence {
            exchange: place as u64 + 1,
            source: self.source,
            clock_error_ns: self.trace.clock_error_ns,
            of_client_alone: self.trace.server_has_own_clock,
            duration_ns: extent.time(extent.ended_ns),
            events,
            waits: self.waits_of(extent, waits),
            states,
        }
    }

    /// Returns the calls of `end` in the exchange: reads and writes selected by their bytes, other calls by their time.
    /// A cork belongs to the write that follows it.
    fn calls<'a>(&'a self, extent: &'a Extent, end: End) -> impl Iterator<Item = Event> + 'a {
        let writes_before = self.directions.iter().find(|direction| direction.from == end).and_then(|direction| {
            let first = direction.writes.partition_point(|call| call.end_byte <= extent.bytes(end).start);
            direction.writes.get(first.checked_sub(1)?)
        });
        let from_ns = writes_before.map_or(0, |call| call.ended_ns).min(extent.began_ns);
        let of_it = move |call: &&Call| {
            let from = if call.kind == CallKind::Read { other(end) } else { end };
            let bytes = extent.bytes(from);
            match call.kind {
                CallKind::Write | CallKind::Read => call.first_byte < bytes.end && call.end_byte > bytes.start,
                CallKind::Cork => (from_ns..=extent.ended_ns).contains(&call.began_ns),
                CallKind::Uncork | CallKind::Quickack => (extent.began_ns..=extent.ended_ns).contains(&call.began_ns),
            }
        };
        end_of(self.trace, end).calls.iter().filter(of_it).map(move |call| call_event(extent, end, call))
    }

    fn handshake(&self, extent: &Extent) -> Vec<Event> {
        let packets = if self.source == Source::Capture { self.trace.packets.as_slice() } else { &[] };
        let Some(syn) = packets.iter().position(|packet| packet.syn && packet.from == End::Client) else {
            return Vec::new();
        };
        let rest = &packets[syn..];
        let answer = rest.iter().position(|packet| packet.syn && packet.from == End::Server).map(|at| &rest[at..]);
        let is_ack_of_client =
            |packet: &&Packet| packet.from == End::Client && !packet.syn && packet.ack_byte.is_some();
        let ack = answer.and_then(|answer| answer.iter().find(is_ack_of_client));
        let all = [packets.get(syn), answer.and_then(<[Packet]>::first), ack];
        // Packets with bytes of the exchange or sent during it are already among its events.
        let before = all.into_iter().flatten().filter(|packet| packet.at_ns < extent.began_ns);
        before
            .filter(|packet| packet.syn || packet.first_byte == packet.end_byte && packet.ack_byte.is_some())
            .flat_map(|packet| packet_events(extent, packet))
            .collect()
    }

    /// Returns the packets of the exchange: packets with payload are selected by their bytes, others by their time.
    fn packets<'a>(&'a self, extent: &'a Extent) -> impl Iterator<Item = Event> + 'a {
        let of_it = |packet: &&Packet| {
            let bytes = extent.bytes(packet.from);
            let carries = packet.first_byte < bytes.end && packet.end_byte > bytes.start;
            let during = (extent.began_ns..=extent.ended_ns).contains(&packet.at_ns);
            carries || (during && packet.first_byte == packet.end_byte)
        };
        let with_arrivals = move |packet: &'a Packet| {
            let arrival_ns = packet.arrived_ns.or_else(|| self.arrival_ns(packet));
            packet_events(extent, packet).into_iter().map(move |event| match event.kind {
                EventKind::Segment => Event { until_ns: arrival_ns.map(|at_ns| extent.time(at_ns)), ..event },
                _ => event,
            })
        };
        self.trace.packets.iter().filter(of_it).flat_map(with_arrivals)
    }

    fn arrival_ns(&self, packet: &Packet) -> Option<u64> {
        let direction = self.directions.iter().find(|direction| direction.from == packet.from)?;
        let segment = direction.first_segment(packet.end_byte).filter(|segment| segment.left_ns == packet.at_ns)?;
        direction.exact_arrival_ns(segment)
    }
}

/// Returns the index of the last exchange with a typical duration; without one, of the exchange nearest to the
/// median. Ignores the first exchange unless it is the only one.
fn typical_index(exchanges: &[TracedExchange]) -> Option<usize> {
    let skipped = usize::from(exchanges.len() > 1);
    let durations: Vec<f64> = exchanges[skipped..].iter().map(|exchange| exchange.duration_ns as f64).collect();
    let middle = median(&durations)?;
    let distance = |duration: &f64| (duration - middle).abs();
    let client = durations.iter().rposition(|duration| distance(duration) <= MAX_TYPICAL_DEVIATION * middle);
    let nearest =
        || (0..durations.len()).min_by(|a, b| distance(&durations[*a]).total_cmp(&distance(&durations[*b])));
    client.or_else(nearest).map(|place| place + skipped)
}

fn call_event(extent: &Extent, end: End, call: &Call) -> Event {
    let kind = match call.kind {
        CallKind::Write => EventKind::Write,
        CallKind::Read => EventKind::Read,
        CallKind::Cork => EventKind::Cork,
        CallKind::Uncork => EventKind::Uncork,
        CallKind::Quickack => EventKind::Quickack,
    };
    let from = if call.kind == CallKind::Read { other(end) } else { end };
    Event {
        at_ns: extent.time(call.began_ns),
        until_ns: Some(extent.time(call.ended_ns)),
        end,
        kind,
        first_byte: extent.byte(from, call.first_byte),
        end_byte: extent.byte(from, call.end_byte),
    }
}

fn packet_events(extent: &Extent, packet: &Packet) -> Vec<Event> {
    let event = |kind, from: End, first_byte, end_byte| Event {
        at_ns: extent.time(packet.at_ns),
        until_ns: packet.arrived_ns.map(|at_ns| extent.time(at_ns)),
        end: packet.from,
        kind,
        first_byte: extent.byte(from, first_byte),
        end_byte: extent.byte(from, end_byte),
    };
    let at_its_byte = |kind| event(kind, packet.from, packet.first_byte, packet.first_byte);
    if packet.rst {
        return vec![at_its_byte(EventKind::Reset)];
    }
    if packet.syn {
        let kind = if packet.from == End::Client { EventKind::Syn } else { EventKind::SynAck };
        return vec![at_its_byte(kind)];
    }
    let mut all = Vec::new();
    if packet.end_byte > packet.first_byte {
        all.push(event(EventKind::Segment, packet.from, packet.first_byte, packet.end_byte));
    }
    if packet.fin {
        all.push(event(EventKind::Fin, packet.from, packet.end_byte, packet.end_byte));
    }
    if all.is_empty() {
        all.extend(packet.ack_byte.map(|byte| event(EventKind::PureAck, other(packet.from), byte, byte)));
    }
    all
}

/// Returns the events of one direction by kernel timestamps: segments and pure acknowledgments. The kernel stamps only
/// the arrival of an acknowledgment; its departure is estimated as `travel_ns` earlier.
fn stamp_events<'a>(
    extent: &'a Extent,
    direction: &'a Direction<'_>,
    travel_ns: u64,
) -> impl Iterator<Item = Event> + 'a {
    let from = direction.from;
    let segments = direction.segments_with(extent.bytes(from)).map(move |segment| Event {
        at_ns: extent.time(segment.left_ns),
        until_ns: direction.exact_arrival_ns(segment).map(|at_ns| extent.time(at_ns)),
        end: from,
        kind: EventKind::Segment,
        first_byte: extent.byte(from, segment.first_byte),
        end_byte: extent.byte(from, segment.end_byte),
    });
    let during = |at_ns: u64| (extent.began_ns..=extent.ended_ns).contains(&at_ns);
    let acks = direction.acks.iter().filter(move |ack| ack.is_pure && during(ack.at_ns)).map(move |ack| Event {
        at_ns: extent.time(ack.at_ns.saturating_sub(travel_ns)),
        until_ns: Some(extent.time(ack.at_ns)),
        end: other(from),
        kind: EventKind::PureAck,
        first_byte: extent.byte(from, ack.end_byte),
        end_byte: extent.byte(from, ack.end_byte),
    });
    segments.chain(acks)
}
