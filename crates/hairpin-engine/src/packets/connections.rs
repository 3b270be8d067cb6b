//! Sorts captured frames into TCP connections.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use hairpin_model::observed::{ObservedConnection, ObservedPackets};
use hairpin_model::trace::End;
use hairpin_model::{Capture, ExplainedPackets, Packet, RoundTrace};

use super::headers::{Content, Headers, LinkLayer, Segment, headers};
use super::numbering::{self, Numbering};

/// Maximum number of packets that are kept, and of connections. Both bound the memory that a capture can take.
const MAX_PACKETS: u64 = 4_000_000;
const MAX_CONNECTIONS: usize = 50_000;
/// A second copy of a packet is searched among this many packets of its connection: those in flight on a long path.
const MAX_COPY_DISTANCE: usize = 8_192;
/// Number of packets of a connection until a capture of several places has shown one of them twice.
const MAX_UNTIL_TOLD: usize = 256;
/// Bytes that every segment spends on time stamps (RFC 7323, appendix A).
const TIMESTAMP_BYTES: u64 = 12;
/// Shorter frames of TCP packets lack a part of their TCP header.
const MIN_CAPTURED_BYTES: usize = 54;
/// Ports from here on are given to clients (RFC 6335, section 6; Linux begins lower).
const FIRST_CLIENT_PORT: u16 = 32_768;

#[derive(Clone, Copy, Debug)]
pub struct CapturedFrame<'f> {
    /// Since 1970-01-01 UTC.
    pub realtime_ns: u64,
    /// The interface, as the capture numbers it.
    pub interface: u32,
    pub layer: LinkLayer,
    pub bytes: &'f [u8],
    pub length_bytes: u32,
    /// Whether this host sent the frame, if its layer does not say.
    pub is_outgoing: Option<bool>,
}

/// The connections of the frames so far.
#[derive(Default)]
pub struct Connections {
    all: Vec<Connection>,
    /// The newest connection between two addresses, the smaller address first.
    newest: HashMap<[SocketAddr; 2], usize>,
    figures: ExplainedPackets,
    kept: u64,
    /// Where the first packet was seen, and whether others were seen elsewhere.
    first_seen: Option<Seen>,
    is_seen_twice: bool,
    /// The time of the first frame, and of the latest one.
    times: Option<(u64, u64)>,
}

struct Connection {
    client: SocketAddr,
    server: SocketAddr,
    numbering: [Option<Numbering>; 2],
    mss_bytes: [Option<u64>; 2],
    link_header_bytes: u64,
    path_mtu_bytes: Option<u64>,
    packets: Vec<Packet>,
    /// The newest packets: what tells each from all others, in order; and where it was seen, and its place in `packets`.
    recent: VecDeque<Fingerprint>,
    originals: HashMap<Fingerprint, (Seen, usize)>,
    has_ended: bool,
    has_payload: bool,
}

/// Sender, sequence number, acknowledgment, payload, flags and identification of a packet.
type Fingerprint = (usize, u32, Option<u32>, u64, [bool; 3], u16, u16);
/// Interface, and whether the host sent the packet.
type Seen = (u32, Option<bool>);

impl Connections {
    /// Adds a frame. Times before the first frame count as its time.
    pub fn add(&mut self, frame: CapturedFrame<'_>) {
        self.figures.frames += 1;
        let (first_ns, latest_ns) = self.times.unwrap_or((frame.realtime_ns, frame.realtime_ns));
        self.times = Some((first_ns, latest_ns.max(frame.realtime_ns)));
        let at_ns = frame.realtime_ns.saturating_sub(first_ns);
        let Some(mut found) = headers(frame.layer, frame.bytes, frame.length_bytes) else {
            self.figures.not_tcp += 1;
            self.figures.cut += u64::from(frame.bytes.len() < MIN_CAPTURED_BYTES.min(frame.length_bytes as usize));
            return;
        };
        found.is_outgoing = found.is_outgoing.or(frame.is_outgoing);
        match found.content {
            Content::Tcp(segment) => self.add_segment(at_ns, &frame, &found, &segment),
            Content::Udp => self.figures.datagrams += 1,
            Content::TooLarge(mtu_bytes) => {
                let known = self.newest.get(&sorted(found.source, found.destination));
                if let Some(connection) = known.and_then(|place| self.all.get_mut(*place)) {
                    connection.path_mtu_bytes = Some(mtu_bytes);
                }
            }
        }
    }

    /// Counts a frame that cannot be read.
    pub(crate) fn add_unreadable(&mut self) {
        self.figures.frames += 1;
        self.figures.not_tcp += 1;
    }

    pub fn add_lost(&mut self, packets: u64) {
        self.figures.lost_by_capture += packets;
    }

    /// The time of the first frame, in ns since 1970-01-01 UTC; `None` without frames.
    pub fn began_realtime_ns(&self) -> Option<u64> {
        self.times.map(|(first_ns, _)| first_ns)
    }

    fn add_segment(&mut self, at_ns: u64, frame: &CapturedFrame<'_>, found: &Headers, segment: &Segment) {
        let key = sorted(found.source, found.destination);
        let known = self.newest.get(&key).copied();
        let is_new = |connection: &Connection| {
            let opens = segment.syn && segment.acknowledged.is_none();
            // Without a FIN in the capture, another sequence number after data shows that the port was used again.
            let is_other = connection.has_payload
                && connection.numbering[0].as_ref().is_some_and(|numbering| !numbering.begins_with(segment));
            opens && (connection.has_ended || is_other) && found.source == connection.client
        };
        let place = match known.filter(|place| !is_new(&self.all[*place])) {
            Some(place) => place,
            None if self.all.len() < MAX_CONNECTIONS => {
                self.all.push(Connection::new(found, segment));
                self.newest.insert(key, self.all.len() - 1);
                self.all.len() - 1
            }
            None => {
                self.figures.not_kept += 1;
                return;
            }
        };
        let connection = &mut self.all[place];
        let fingerprint = connection.fingerprint(found, segment);
        let seen = (frame.interface, found.is_outgoing);
        if let Some(original) = connection.original(&fingerprint, seen) {
            let packet = &mut connection.packets[original];
            // Packets of two interfaces may be read in another order than they passed them.
            let (left_ns, arrived_ns) = (packet.at_ns.min(at_ns), packet.at_ns.max(at_ns));
            (packet.at_ns, packet.arrived_ns) = (left_ns, Some(arrived_ns));
            self.figures.copies += 1;
        } else if self.kept < MAX_PACKETS {
            self.kept += 1;
            let packet = connection.packet(at_ns, frame.length_bytes, found, segment);
            // Second copies are those of another place.
            self.is_seen_twice |= *self.first_seen.get_or_insert(seen) != seen;
            if self.is_seen_twice || connection.packets.len() < MAX_UNTIL_TOLD {
                connection.originals.insert(fingerprint, (seen, connection.packets.len()));
                connection.recent.push_back(fingerprint);
            }
            if connection.recent.len() > MAX_COPY_DISTANCE
                && let Some(oldest) = connection.recent.pop_front()
            {
                connection.originals.remove(&oldest);
            }
            connection.packets.push(packet);
        } else {
            self.figures.not_kept += 1;
        }
    }

    /// Returns what was observed; connections in the order of their first packet.
    pub fn finish(self, ended_early: Option<String>) -> ObservedPackets {
        let (first_ns, latest_ns) = self.times.unwrap_or_default();
        ObservedPackets {
            connections: self.all.into_iter().map(Connection::finish).collect(),
            figures: ExplainedPackets { duration_ns: latest_ns - first_ns, ended_early, ..self.figures },
        }
    }
}

fn sorted(one: SocketAddr, other: SocketAddr) -> [SocketAddr; 2] {
    if one <= other { [one, other] } else { [other, one] }
}

impl Connection {
    /// The connection of which this segment is the first that was captured. Without a SYN, the end with the port that is
    /// given to clients is the client, else the one with the larger port.
    fn new(found: &Headers, segment: &Segment) -> Self {
        let (source, destination) = (found.source, found.destination);
        let is_client_port = |end: SocketAddr| end.port() >= FIRST_CLIENT_PORT;
        let from_client = match (segment.syn, segment.acknowledged) {
            (true, acknowledged) => acknowledged.is_none(),
            _ if is_client_port(source) != is_client_port(destination) => is_client_port(source),
            _ => source.port() >= destination.port(),
        };
        let (client, server) = if from_client { (source, destination) } else { (destination, source) };
        Self {
            client,
            server,
            numbering: [None, None],
            mss_bytes: [None; 2],
            link_header_bytes: found.link_bytes as u64,
            path_mtu_bytes: None,
            packets: Vec::new(),
            recent: VecDeque::new(),
            originals: HashMap::new(),
            has_ended: false,
            has_payload: false,
        }
    }

    fn sender(&self, found: &Headers) -> usize {
        usize::from(found.source != self.client)
    }

    fn fingerprint(&self, found: &Headers, segment: &Segment) -> Fingerprint {
        let flags = [segment.syn, segment.fin, segment.rst];
        let Segment { sequence, acknowledged, payload_bytes, window, .. } = *segment;
        (self.sender(found), sequence, acknowledged, payload_bytes, flags, found.identification, window)
    }

    /// Returns the place of the packet of which this one is a second copy: the same packet, at another interface or in
    /// another direction. The same packet at the same place is a retransmission.
    fn original(&self, fingerprint: &Fingerprint, seen: Seen) -> Option<usize> {
        let (at_other, place) = *self.originals.get(fingerprint)?;
        (at_other != seen && self.packets[place].arrived_ns.is_none()).then_some(place)
    }

    fn packet(&mut self, at_ns: u64, length_bytes: u32, found: &Headers, segment: &Segment) -> Packet {
        let sender = self.sender(found);
        let [client, server] = &mut self.numbering;
        let (own, other) = if sender == 0 { (client, server) } else { (server, client) };
        if segment.syn {
            // A client whose first SYN was never answered may choose another number for the next.
            *own = Some(Numbering::beginning(segment, 0));
            self.mss_bytes[sender] = segment.options.and_then(|options| {
                let stamps_bytes = if options.has_timestamps { TIMESTAMP_BYTES } else { 0 };
                Some(u64::from(options.mss_bytes?).saturating_sub(stamps_bytes))
            });
        }
        let own = own.get_or_insert_with(|| Numbering::from_the_middle(segment.sequence));
        if let (None, Some(acknowledged)) = (other.as_ref(), segment.acknowledged) {
            *other = Some(Numbering::from_the_middle(acknowledged));
        }
        self.has_ended |= segment.fin || segment.rst;
        self.has_payload |= segment.payload_bytes > 0;
        let from = if sender == 0 { End::Client } else { End::Server };
        numbering::packet(segment, from, (at_ns, length_bytes), own, other.as_ref())
    }

    fn finish(self) -> ObservedConnection {
        let Self { client, server, mut packets, mss_bytes, link_header_bytes, path_mtu_bytes, .. } = self;
        // A capture of several queues or interfaces may have its frames in another order.
        if !packets.is_sorted_by_key(|packet| packet.at_ns) {
            packets.sort_by_key(|packet| packet.at_ns);
        }
        let has_handshake = packets.iter().any(|packet| packet.syn);
        let capture = Capture::Saved { file: String::new(), packets: packets.len() as u64, dropped: 0 };
        let mss_bytes = mss_bytes.into_iter().flatten().min();
        let trace = RoundTrace { packets, capture, ..RoundTrace::default() };
        ObservedConnection {
            client,
            server,
            programs: [None, None],
            trace,
            has_handshake,
            mss_bytes,
            link_header_bytes,
            blocked_sends: Default::default(),
            path_mtu_bytes,
        }
    }
}
