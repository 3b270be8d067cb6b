//! One direction of the connection: its writes, segments, arrivals and acknowledgments.

use std::ops::Range;

use hairpin_model::time_sequence::Source;
use hairpin_model::trace::{CallKind, End, StampKind};
use hairpin_model::{Call, EndTrace, Packet, RoundTrace, Stamp};

/// Maximum time between the stamps that one acknowledgment causes, in ns.
const MAX_ONE_ACK_NS: u64 = 2_000;

/// Earlier segments than that many are acknowledged.
const MAX_IN_FLIGHT: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) left_ns: u64,
    /// When the segment was captured at the other end; `None` without a capture there, or if it never arrived.
    pub(super) seen_ns: Option<u64>,
    pub(super) first_byte: u64,
    pub(super) end_byte: u64,
}

/// An acknowledgment of new data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    /// When the acknowledgment arrived.
    pub(super) at_ns: u64,
    /// When the acknowledgment was captured leaving the other end; `None` without a capture there.
    pub(super) left_ns: Option<u64>,
    pub(super) first_byte: u64,
    pub(super) end_byte: u64,
    /// A pure acknowledgment, without payload; for kernel timestamps see [`Direction::classify_acks`].
    pub(super) is_pure: bool,
}

pub(super) struct Direction<'t> {
    pub(super) from: End,
    /// Calls that wrote bytes of this direction, in order.
    pub(super) writes: Vec<&'t Call>,
    pub(super) reads: Vec<&'t Call>,
    /// In order of departure, including retransmissions; empty without retransmissions.
    all_segments: Vec<Segment>,
    /// First transmissions, in byte order.
    pub(super) first_sent: Vec<Segment>,
    largest_bytes: u64,
    /// When each of these arrived, first or sent again, by the capture at the receiver.
    first_seen_ns: Vec<Option<u64>>,
    pub(super) acks: Vec<Ack>,
    /// The arrival of the last segment that each read call returned, in byte order.
    received: Vec<&'t Stamp>,
    /// The shortest travel time of a segment, in ns; 0 if unknown.
    pub(super) travel_ns: u64,
    pub(super) longest_travel_ns: u64,
    /// Whether the segments are packets captured on an interface.
    captured: bool,
    /// Whether packets were captured at both ends of a link, each end with its own time.
    crosses_link: bool,
    /// Whether the receiver's times are unknown; `travel_ns` is then the whole round trip.
    sender_only: bool,
    /// Time from the departure of an acknowledgment to the arrival of what it released, in ns, if the segments' times
    /// are those of their arrival; else 0.
    pub(super) release_ns: u64,
}

pub(super) fn other(end: End) -> End {
    match end {
        End::Client => End::Server,
        End::Server => End::Client,
    }
}

pub(super) fn end_of(trace: &RoundTrace, end: End) -> &EndTrace {
    match end {
        End::Client => &trace.client,
        End::Server => &trace.server,
    }
}

impl<'t> Direction<'t> {
    pub(super) fn new(trace: &'t RoundTrace, source: Source, from: End) -> Self {
        let (sender, receiver) = (end_of(trace, from), end_of(trace, other(from)));
        let (segments, acks) = match source {
            Source::Capture => (sent_segments(&trace.packets, from), acknowledged(&trace.packets, from)),
            Source::KernelTimestamps => (stamped_segments(sender), stamped_acks(sender)),
        };
        let mut received: Vec<&Stamp> =
            receiver.stamps.iter().filter(|stamp| stamp.kind == StampKind::Received).collect();
        received.sort_by_key(|stamp| (stamp.end_byte, stamp.at_ns));
        let first_sent = first_sent(&segments);
        let first_seen_ns = first_seen(&segments, &first_sent);
        let is_clean = first_sent.len() == segments.len()
            && first_sent.iter().zip(&segments).all(|(first, segment)| first.first_byte == segment.first_byte);
        let all_segments = if is_clean { Vec::new() } else { segments };
        let mut direction = Self {
            from,
            writes: calls_of_kind(sender, CallKind::Write),
            reads: calls_of_kind(receiver, CallKind::Read),
            travel_ns: 0,
            longest_travel_ns: 0,
            first_seen_ns,
            largest_bytes: first_sent.iter().map(|segment| segment.end_byte - segment.first_byte).max().unwrap_or(0),
            first_sent,
            all_segments,
            acks,
            received,
            captured: source == Source::Capture,
            crosses_link: source == Source::Capture && crosses_link(&trace.packets),
            sender_only: false,
            release_ns: 0,
        };
        let travels = direction.first_sent.iter().filter_map(|segment| {
            let arrived_ns = direction.exact_arrival_ns(segment)?;
            Some(arrived_ns - segment.left_ns)
        });
        let travels: Vec<u64> = travels.collect();
        direction.travel_ns = travels.iter().min().copied().unwrap_or(0);
        direction.longest_travel_ns = travels.iter().max().copied().unwrap_or(0);
        direction
    }

    pub(super) fn segments(&self) -> &[Segment] {
        if self.all_segments.is_empty() { &self.first_sent } else { &self.all_segments }
    }

    /// Marks the direction as captured only at the sender. `least_round_trip_ns` is the minimum time to an answer; any
    /// additional time is a delay at the receiver or on the path.
    pub(super) fn set_sender_only(&mut self, least_round_trip_ns: u64) {
        (self.sender_only, self.travel_ns) = (true, least_round_trip_ns);
    }

    /// Returns an upper bound of the time at which the bytes up to `end_byte` had arrived: the earliest of the
    /// capture, the kernel's receive stamps and the calls that read the bytes. `None` if unknown.
    pub(super) fn arrived_ns(&self, end_byte: u64) -> Option<u64> {
        let stamp = self.received.partition_point(|stamp| stamp.end_byte < end_byte);
        let stamp = self.received.get(stamp).map(|stamp| stamp.at_ns);
        let read = self.reads.get(self.reads.partition_point(|call| call.end_byte < end_byte));
        let read = read.map(|call| call.ended_ns);
        [stamp, read, self.captured_arrival_ns(end_byte)].into_iter().flatten().min()
    }

    /// Like [`Self::arrived_ns`], from the capture only; with both ends captured, the arrival of the last byte.
    fn captured_arrival_ns(&self, end_byte: u64) -> Option<u64> {
        if self.crosses_link {
            let place = self.first_sent.partition_point(|segment| segment.end_byte < end_byte);
            return self.first_seen_ns.get(place).copied().flatten();
        }
        let left = self.first_segment(end_byte).filter(|_| self.captured || self.sender_only);
        left.map(|segment| segment.left_ns.saturating_add(self.travel_ns))
    }

    /// Returns the arrival of the segment; `None` if neither the capture nor a receive stamp shows the arrival.
    pub(super) fn exact_arrival_ns(&self, segment: &Segment) -> Option<u64> {
        if self.crosses_link {
            return segment.seen_ns.filter(|seen_ns| *seen_ns >= segment.left_ns);
        }
        let place = self.received.partition_point(|stamp| stamp.end_byte < segment.end_byte);
        let stamp = self.received.get(place).filter(|stamp| stamp.end_byte == segment.end_byte)?;
        // Merged segments in the receive queue share the last one's stamp (net/ipv4/tcp_input.c, `tcp_try_coalesce`).
        let merged = self.received.get(place + 1).is_some_and(|next| next.at_ns == stamp.at_ns);
        (stamp.at_ns >= segment.left_ns && !merged).then_some(stamp.at_ns)
    }

    pub(super) fn first_segment(&self, end_byte: u64) -> Option<&Segment> {
        let place = self.first_sent.partition_point(|segment| segment.end_byte < end_byte);
        self.first_sent.get(place).filter(|segment| segment.first_byte < end_byte)
    }

    /// Returns the end of the last segment before `first_byte` that is smaller than the direction's largest segment.
    pub(super) fn last_small_before(&self, first_byte: u64) -> Option<u64> {
        let is_small = |segment: &&Segment| segment.end_byte - segment.first_byte < self.largest_bytes;
        let before = &self.first_sent[..self.first_sent.partition_point(|segment| segment.end_byte <= first_byte)];
        before.iter().rev().take(MAX_IN_FLIGHT).find(is_small).map(|segment| segment.end_byte)
    }

    pub(super) fn first_sent_with(&self, bytes: &Range<u64>) -> &[Segment] {
        let first = self.first_sent.partition_point(|segment| segment.end_byte <= bytes.start);
        let end = self.first_sent.partition_point(|segment| segment.first_byte < bytes.end);
        &self.first_sent[first.min(end)..end]
    }

    /// Returns when all of the bytes had arrived; `None` if only the calls that read them are known.
    pub(super) fn all_arrived_ns(&self, bytes: &Range<u64>) -> Option<u64> {
        if self.crosses_link {
            let arrivals =
                self.first_sent_with(bytes).iter().map(|segment| self.captured_arrival_ns(segment.end_byte));
            return arrivals.collect::<Option<Vec<u64>>>()?.into_iter().max();
        }
        let is_seen = (self.captured && !self.sender_only) || !self.received.is_empty();
        if is_seen { self.arrived_ns(bytes.end) } else { None }
    }

    pub(super) fn acknowledged(&self, end_byte: u64) -> Option<&Ack> {
        self.acks.get(self.acks.partition_point(|ack| ack.end_byte < end_byte))
    }

    pub(super) fn segments_with(&self, bytes: &Range<u64>) -> impl Iterator<Item = &Segment> {
        self.segments().iter().filter(move |segment| segment.first_byte < bytes.end && segment.end_byte > bytes.start)
    }

    pub(super) fn writes_with(&self, bytes: &Range<u64>) -> &[&'t Call] {
        calls_with(&self.writes, bytes)
    }

    pub(super) fn reads_with(&self, bytes: &Range<u64>) -> &[&'t Call] {
        calls_with(&self.reads, bytes)
    }

    /// Determines which acknowledgments known by kernel timestamps were pure, because the timestamps do not show it.
    /// An acknowledgment is pure unless a segment left the other end between the arrival of the acknowledged data and
    /// the acknowledgment: every segment carries the newest acknowledgment (RFC 9293, section 3.10.7.4).
    pub(super) fn classify_acks(&mut self, back: &[Segment], clock_error_ns: u64) {
        if self.captured {
            return;
        }
        let is_pure = |ack: &Ack| {
            let Some(arrived_ns) = self.arrived_ns(ack.first_byte + 1) else { return true };
            let until_ns = ack.at_ns.saturating_add(clock_error_ns.saturating_mul(2));
            let after = back.partition_point(|segment| segment.left_ns < arrived_ns);
            back.get(after).is_none_or(|segment| segment.left_ns > until_ns)
        };
        let is_pure_ack: Vec<bool> = self.acks.iter().map(is_pure).collect();
        self.acks.iter_mut().zip(is_pure_ack).for_each(|(ack, is_pure)| ack.is_pure = is_pure);
    }
}

fn calls_with<'a, 't>(calls: &'a [&'t Call], bytes: &Range<u64>) -> &'a [&'t Call] {
    let first = calls.partition_point(|call| call.end_byte <= bytes.start);
    let end = calls.partition_point(|call| call.first_byte < bytes.end);
    &calls[first.min(end)..end]
}

pub(super) fn calls_of_kind(end: &EndTrace, kind: CallKind) -> Vec<&Call> {
    end.calls.iter().filter(|call| call.kind == kind && call.end_byte > call.first_byte).collect()
}

fn sent_segments(packets: &[Packet], from: End) -> Vec<Segment> {
    let with_payload = packets.iter().filter(|packet| packet.from == from && packet.end_byte > packet.first_byte);
    let segment = |packet: &Packet| Segment {
        left_ns: packet.at_ns,
        seen_ns: packet.arrived_ns,
        first_byte: packet.first_byte,
        end_byte: packet.end_byte,
    };
    with_payload.map(segment).collect()
}

fn crosses_link(packets: &[Packet]) -> bool {
    packets.iter().any(|packet| packet.arrived_ns.is_some())
}

/// Returns the first transmissions: each byte counts in the first segment that carried it.
fn first_sent(segments: &[Segment]) -> Vec<Segment> {
    let mut next_byte = 0;
    let mut all = Vec::new();
    for segment in segments {
        if segment.end_byte > next_byte {
            all.push(Segment { first_byte: segment.first_byte.max(next_byte), ..*segment });
            next_byte = segment.end_byte;
        }
    }
    all
}

fn first_seen(segments: &[Segment], first_sent: &[Segment]) -> Vec<Option<u64>> {
    let mut seen: Vec<Option<u64>> = vec![None; first_sent.len()];
    for segment in segments {
        let Some(seen_ns) = segment.seen_ns else { continue };
        let first = first_sent.partition_point(|one| one.end_byte <= segment.first_byte);
        let end = first_sent.partition_point(|one| one.end_byte <= segment.end_byte);
        for known in seen.get_mut(first..end).unwrap_or_default() {
            *known = Some(known.map_or(seen_ns, |known| known.min(seen_ns)));
        }
    }
    seen
}

fn acknowledged(packets: &[Packet], from: End) -> Vec<Ack> {
    let crosses_link = crosses_link(packets);
    let answer = |packet: &Packet| {
        // A packet lost on the link acknowledges nothing.
        let at_ns = if crosses_link { packet.arrived_ns? } else { packet.at_ns };
        let (left_ns, is_pure) = (Some(packet.at_ns), packet.end_byte == packet.first_byte);
        Some(Ack { at_ns, left_ns, first_byte: 0, end_byte: packet.ack_byte?, is_pure })
    };
    let mut answers: Vec<Ack> = packets.iter().filter(|packet| packet.from != from).filter_map(answer).collect();
    answers.sort_by_key(|came| came.at_ns);
    new_acks(answers)
}

/// Converts stamps to segments. A stamp has a segment's last byte; the segment starts where the previous one ended.
fn stamped_segments(sender: &EndTrace) -> Vec<Segment> {
    let stamps = in_time(sender, StampKind::Driver);
    let ends: Vec<Segment> = stamps
        .into_iter()
        .map(|stamp| Segment { left_ns: stamp.at_ns, seen_ns: None, first_byte: 0, end_byte: stamp.end_byte })
        .collect();
    first_sent(&ends)
}

fn stamped_acks(sender: &EndTrace) -> Vec<Ack> {
    let stamps = in_time(sender, StampKind::Acknowledged);
    let one = stamps.chunk_by(|a, b| b.at_ns - a.at_ns <= MAX_ONE_ACK_NS);
    new_acks(one.filter_map(|stamps| {
        let newest = stamps.iter().map(|stamp| stamp.end_byte).max()?;
        Some(Ack { at_ns: stamps.first()?.at_ns, left_ns: None, first_byte: 0, end_byte: newest, is_pure: true })
    }))
}

fn in_time(end: &EndTrace, kind: StampKind) -> Vec<&Stamp> {
    let mut stamps: Vec<&Stamp> = end.stamps.iter().filter(|stamp| stamp.kind == kind).collect();
    stamps.sort_by_key(|stamp| (stamp.at_ns, stamp.end_byte));
    stamps
}

/// Returns the acknowledgments of new data, from all acknowledgments including duplicates, and sets their first bytes.
fn new_acks(acks: impl IntoIterator<Item = Ack>) -> Vec<Ack> {
    let mut first_byte = 0;
    let mut all = Vec::new();
    for ack in acks {
        if ack.end_byte > first_byte {
            all.push(Ack { first_byte, ..ack });
            first_byte = ack.end_byte;
        }
    }
    all
}
