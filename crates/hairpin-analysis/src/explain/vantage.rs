//! Estimates the times of packets at both ends from those at the place of the capture.
//!
//! Half of the shortest round trip from there to an end is the time to it. A packet that was sent again was lost, unless it was
//! acknowledged first; a gap that is filled later was a lost packet that the capture never saw.

use std::collections::BTreeMap;
use std::ops::Range;

use hairpin_model::trace::End;
use hairpin_model::{Packet, VantagePoint};

/// A gap that is filled sooner was reordering, on any path.
const MIN_LOSS_NS: u64 = 1_000_000;
/// If at least this share of the packets was seen at both ends, those without an arrival were lost.
const MIN_SEEN_TWICE: f64 = 0.5;
/// Number of times a packet is sent until its acknowledgment cannot be late.
const MIN_SENT: usize = 3;
/// Maximum number of such packets of a direction.
const MAX_OFTEN: usize = 1_000;
/// Maximum number of gaps, and of packets, that are remembered for each direction.
const MAX_GAPS: usize = 10_000;
const MAX_REMEMBERED: usize = 10_000;

/// How the packets of a connection were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vantage {
    /// The shortest round trip from the capture to the client, and to the server.
    pub(super) round_trips_ns: [Option<u64>; 2],
    pub(super) is_both_ends: bool,
    /// By how much times are later than those of the capture, in ns.
    pub(super) later_ns: u64,
}

/// A capture is at an end if the round trip from there to the other end is this many times as long.
const MIN_RATIO: u64 = 4;
/// Shorter round trips do not tell where a capture is.
const MIN_TELLING_NS: u64 = 200_000;

impl Vantage {
    pub(super) fn point(&self) -> VantagePoint {
        let [client_ns, server_ns] = self.round_trips_ns;
        match client_ns.zip(server_ns) {
            _ if self.is_both_ends => VantagePoint::Both,
            None => VantagePoint::Unknown,
            Some((client_ns, server_ns)) if client_ns.max(server_ns) < MIN_TELLING_NS => VantagePoint::Both,
            Some((client_ns, server_ns)) if server_ns >= MIN_RATIO.saturating_mul(client_ns) => VantagePoint::Client,
            Some((client_ns, server_ns)) if client_ns >= MIN_RATIO.saturating_mul(server_ns) => VantagePoint::Server,
            Some(_) => VantagePoint::Between,
        }
    }

    /// The shortest round trip from end to end; `None` if one part is unknown.
    pub(super) fn round_trip_ns(&self) -> Option<u64> {
        let [client_ns, server_ns] = self.round_trips_ns;
        client_ns?.checked_add(server_ns?)
    }
}

/// Gives the packets, in order of capture, the times at both ends; returns them in order of departure. `shortest_ns` are the
/// shortest round trips that the kernels of the client and of the server know.
pub(super) fn at_both_ends(packets: &mut Vec<Packet>, shortest_ns: [Option<u64>; 2]) -> Vantage {
    let with_payload = packets.iter().filter(|packet| packet.end_byte > packet.first_byte);
    let seen_twice = with_payload.clone().filter(|packet| packet.arrived_ns.is_some()).count() as f64;
    let is_both_ends = seen_twice > 0.0 && seen_twice >= MIN_SEEN_TWICE * with_payload.count() as f64;
    let mut round_trips_ns = round_trips_ns(packets);
    // Without a handshake, each acknowledgment may have waited for an answer.
    for (known, shortest) in round_trips_ns.iter_mut().zip(shortest_ns.iter().rev()) {
        *known = [*known, *shortest].into_iter().flatten().min();
    }
    if is_both_ends {
        for place in dropped_after_arrival(packets) {
            packets[place].arrived_ns = None;
        }
        return Vantage { round_trips_ns, is_both_ends, later_ns: 0 };
    }
    let [client_ns, server_ns] = round_trips_ns.map(|ns| ns.unwrap_or(0) / 2);
    let base_ns = client_ns.max(server_ns);
    let lost = lost(packets, round_trips_ns);
    for (place, packet) in packets.iter_mut().enumerate() {
        let (before_ns, after_ns) = match packet.from {
            End::Client => (client_ns, server_ns),
            End::Server => (server_ns, client_ns),
        };
        let seen_ns = packet.at_ns.saturating_add(base_ns);
        packet.at_ns = seen_ns.saturating_sub(before_ns);
        packet.arrived_ns = (!lost.again.contains(&place)).then(|| seen_ns.saturating_add(after_ns));
    }
    packets.extend(lost.never_seen.into_iter().map(|(from, at_ns, bytes)| {
        let before_ns = if from == End::Client { client_ns } else { server_ns };
        // Just before the packet that showed the gap.
        let at_ns = at_ns.saturating_add(base_ns).saturating_sub(before_ns).saturating_sub(1);
        Packet { at_ns, from, first_byte: bytes.start, end_byte: bytes.end, ..Packet::default() }
    }));
    // In place: a stable sort would need memory for half of the packets.
    packets.sort_unstable_by_key(|packet| (packet.at_ns, packet.from, packet.first_byte, packet.end_byte));
    Vantage { round_trips_ns, is_both_ends: false, later_ns: base_ns }
}

/// Returns the places of packets that were seen at the receiver's interface, and which a firewall dropped there: they were sent
/// `MIN_SENT` times, and not acknowledged before the next time. Fewer times, the acknowledgment may have been late.
fn dropped_after_arrival(packets: &[Packet]) -> Vec<usize> {
    let mut dropped = Vec::new();
    for from in [End::Client, End::Server] {
        let mut sent: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let (mut acks, mut highest, mut sent_until): (Vec<(u64, u64)>, u64, u64) = (Vec::new(), 0, 0);
        for (place, packet) in packets.iter().enumerate() {
            if packet.from == from && packet.end_byte > packet.first_byte {
                if packet.first_byte < sent_until {
                    sent.entry(packet.first_byte).or_default().push(place);
                }
                sent_until = sent_until.max(packet.end_byte);
            } else if packet.from != from && packet.ack_byte > Some(highest) {
                highest = packet.ack_byte.unwrap_or(highest);
                acks.push((highest, packet.at_ns));
            }
        }
        let often = sent.into_iter().filter(|(_, places)| places.len() + 1 >= MIN_SENT);
        for (first_byte, mut places) in often.take(MAX_OFTEN) {
            let is_first = |packet: &Packet| packet.from == from && packet.first_byte == first_byte;
            places.splice(0..0, packets[..places[0]].iter().position(is_first));
            let acked_ns = acks.get(acks.partition_point(|(byte, _)| *byte <= first_byte)).map(|(_, at_ns)| *at_ns);
            if acked_ns.is_none() {
                // Nothing after it reaches the program either.
                let is_later = |packet: &Packet| packet.from == from && packet.end_byte > first_byte;
                dropped.extend((0..packets.len()).filter(|place| is_later(&packets[*place])));
                break;
            }
            let next_ns = |place: usize| places.get(place + 1).map_or(u64::MAX, |next| packets[*next].at_ns);
            let lost = (0..places.len()).filter(|place| acked_ns.is_some_and(|acked_ns| acked_ns >= next_ns(*place)));
            dropped.extend(lost.map(|place| places[place]));
        }
    }
    dropped
}

/// Returns the shortest time from a packet to the acknowledgment of all it carried, to the client and to the server. Packets
/// that were sent again do not count (Karn's algorithm, RFC 6298).
fn round_trips_ns(packets: &[Packet]) -> [Option<u64>; 2] {
    let mut shortest: [Option<u64>; 2] = [None; 2];
    // Of each sender, what is not acknowledged: the end of the bytes, and when they were seen, if once.
    let mut open: [BTreeMap<u64, Option<u64>>; 2] = [BTreeMap::new(), BTreeMap::new()];
    let mut highest = [0, 0];
    let mut syns = [0_u64; 2];
    for packet in packets {
        let (sender, at_ns) = (usize::from(packet.from == End::Server), packet.at_ns);
        let peer = 1 - sender;
        if let Some(ack_byte) = packet.ack_byte {
            let rest = open[peer].split_off(&ack_byte.saturating_add(1));
            let newest = std::mem::replace(&mut open[peer], rest).last_key_value().and_then(|(_, seen_ns)| *seen_ns);
            let took_ns = newest.and_then(|seen_ns| at_ns.checked_sub(seen_ns));
            // The answer comes from the sender of this packet.
            shortest[sender] = [shortest[sender], took_ns].into_iter().flatten().min();
        }
        if packet.syn {
            syns[sender] += 1;
            open[sender].insert(0, (syns[sender] == 1).then_some(at_ns));
        } else if packet.end_byte > packet.first_byte {
            let is_new = packet.first_byte >= highest[sender];
            open[sender].insert(packet.end_byte, is_new.then_some(at_ns));
            highest[sender] = packet.end_byte.max(highest[sender]);
        }
    }
    shortest
}

#[derive(Default)]
struct Lost {
    /// Places of packets that were lost after the capture.
    again: std::collections::HashSet<usize>,
    /// Packets that were lost before it: the sender, when the next packet was seen, and the bytes.
    never_seen: Vec<(End, u64, Range<u64>)>,
}

/// A gap that is filled sooner than a round trip to the sender was reordering: the sender could not know of it.
fn lost(packets: &[Packet], round_trips_ns: [Option<u64>; 2]) -> Lost {
    let mut lost = Lost::default();
    for (from, round_trip_ns) in [End::Client, End::Server].into_iter().zip(round_trips_ns) {
        let min_loss_ns = MIN_LOSS_NS.max(round_trip_ns.unwrap_or(0) / 10 * 9);
        let (mut highest, mut acked) = (None, 0);
        let mut sent: BTreeMap<u64, usize> = BTreeMap::new();
        let mut gaps: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (place, packet) in packets.iter().enumerate() {
            if packet.from != from {
                acked = packet.ack_byte.unwrap_or(0).max(acked);
                continue;
            }
            if packet.end_byte == packet.first_byte {
                continue;
            }
            let bytes = packet.first_byte..packet.end_byte;
            let end = highest.unwrap_or(bytes.start);
            if bytes.start > end && gaps.len() < MAX_GAPS {
                gaps.insert(bytes.start, (end, packet.at_ns));
            }
            if bytes.start < end {
                let gap = gaps.range(bytes.start + 1..).next().map(|(until, gap)| (*until, *gap));
                if let Some((until, (begin, since_ns))) = gap.filter(|(_, (begin, _))| *begin <= bytes.start) {
                    gaps.remove(&until);
                    if bytes.end < until {
                        gaps.insert(until, (bytes.end, since_ns));
                    }
                    if bytes.start > begin {
                        gaps.insert(bytes.start, (begin, since_ns));
                    }
                    if packet.at_ns.saturating_sub(since_ns) >= min_loss_ns {
                        lost.never_seen.push((from, since_ns, bytes.start..bytes.end.min(until)));
                    }
                } else {
                    let before = sent.range(bytes.start + 1..=bytes.end);
                    lost.again.extend(before.filter(|(end, _)| **end > acked).map(|(_, place)| *place));
                }
            }
            highest = Some(end.max(bytes.end));
            sent.insert(bytes.end, place);
            if sent.len() > MAX_REMEMBERED {
                sent.pop_first();
            }
        }
    }
    lost
}
