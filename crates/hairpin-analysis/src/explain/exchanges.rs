//! Finds the exchanges of a connection: bytes of the client, then those of the server, until the client sends again.

use hairpin_model::trace::End;
use hairpin_model::{Packet, RoundTrace, SocketSample};

use crate::trace::Extent;

/// Messages that only give permission to send are at most this long, with TLS.
const MAX_PERMISSION_BYTES: u64 = 64;
/// They belong to answers of at least this length.
const MIN_BURST_BYTES: u64 = 16_384;

/// Maximum number of lost packets of a direction that are searched for when they are sent again.
const MAX_LOST: usize = 64;

/// Finds the exchanges in packets with their times at both ends, in order of departure.
pub(super) fn exchanges(packets: &[Packet]) -> Vec<Extent> {
    let mut found = Vec::new();
    let mut current: Option<Extent> = None;
    let mut ends = [0, 0];
    // The next packet of the server with payload.
    let mut next = 0;
    let mut lost: [Vec<(u64, u64)>; 2] = [Vec::new(), Vec::new()];
    for (place, packet) in packets.iter().enumerate().filter(|(_, packet)| packet.end_byte > packet.first_byte) {
        let sender = usize::from(packet.from == End::Server);
        let (first_byte, end_byte) = (packet.first_byte.max(ends[sender]), packet.end_byte);
        let was_lost = lost[sender].iter().any(|(first, end)| packet.first_byte < *end && packet.end_byte > *first);
        match packet.arrived_ns {
            None if lost[sender].len() < MAX_LOST => lost[sender].push((packet.first_byte, packet.end_byte)),
            None => {}
            Some(_) => lost[sender].retain(|(first, end)| packet.first_byte > *first || packet.end_byte < *end),
        }
        if end_byte <= ends[sender] && !was_lost {
            continue;
        }
        ends[sender] = ends[sender].max(end_byte);
        // Without an answer, a request ends when it has arrived.
        let arrived_ns = packet.arrived_ns.unwrap_or(packet.at_ns);
        let is_next = packet.from == End::Client
            && end_byte > first_byte
            && current.as_ref().is_none_or(|extent| !extent.reply.is_empty());
        let is_burst =
            current.as_ref().is_some_and(|extent| extent.reply.end - extent.reply.start >= MIN_BURST_BYTES);
        let is_of_server = |packet: &Packet| packet.from == End::Server && packet.end_byte > packet.first_byte;
        while next < packets.len() && (next <= place || !is_of_server(&packets[next])) {
            next += 1;
        }
        if is_next && is_burst && is_permission(packet, packets.get(next).map(|packet| packet.at_ns)) {
            continue;
        }
        if is_next {
            found.extend(current.take());
            let request = first_byte..end_byte;
            let (reply, began_ns) = (ends[1]..ends[1], packet.at_ns);
            current = Some(Extent { began_ns, ended_ns: arrived_ns, request, reply });
            continue;
        }
        let extent = current.get_or_insert_with(|| Extent {
            began_ns: packet.at_ns,
            ended_ns: arrived_ns,
            request: ends[0]..ends[0],
            reply: first_byte..first_byte,
        });
        match packet.from {
            End::Client => {
                extent.request.end = extent.request.end.max(end_byte);
                if extent.reply.is_empty() {
                    extent.ended_ns = extent.ended_ns.max(arrived_ns);
                }
            }
            End::Server => {
                // The answer ends the exchange, not the arrival of the request.
                let ended_ns = if extent.reply.is_empty() { arrived_ns } else { extent.ended_ns.max(arrived_ns) };
                extent.ended_ns = ended_ns.max(extent.began_ns);
                extent.reply.end = extent.reply.end.max(end_byte);
            }
        }
    }
    found.extend(current);
    found
}

/// Whether a packet of the client only permits more of the answer before it: it is short, and the server continued before it arrived.
/// HTTP/2 calls it WINDOW_UPDATE (RFC 9113, section 6.9).
fn is_permission(packet: &Packet, next_of_server_ns: Option<u64>) -> bool {
    packet.end_byte - packet.first_byte <= MAX_PERMISSION_BYTES
        && packet.arrived_ns.zip(next_of_server_ns).is_some_and(|(arrived_ns, next_ns)| next_ns < arrived_ns)
}

/// What both programs had written and read by a sample, in bytes.
#[derive(Clone, Copy, Default)]
struct Moved {
    at_ns: u64,
    request: u64,
    reply: u64,
    /// Whether a socket shows that something is on its way: unsent, unread or unacknowledged bytes.
    is_busy: bool,
}

/// Finds the exchanges in samples of the client's socket, else of the server's.
///
/// Several exchanges may pass between two samples. If both directions grow at once, the exchange before was either in progress,
/// and ends now, or over. It was in progress if a socket shows bytes on their way, or if the answers so far had
/// fewer bytes for each byte of a request than those of the whole connection.
pub(super) fn exchanges_of_samples(trace: &RoundTrace) -> Vec<Extent> {
    let all = moved(trace);
    let Some(total) = all.last().copied() else { return Vec::new() };
    let is_behind = |moved: &Moved| {
        u128::from(moved.reply) * u128::from(total.request) < u128::from(moved.request) * u128::from(total.reply)
    };
    let mut found = Vec::new();
    let mut current: Option<Extent> = None;
    let mut last = Moved::default();
    for moved in all {
        let (sends, answers) = (moved.request > last.request, moved.reply > last.reply);
        let begin = |from: &Moved| Extent {
            began_ns: moved.at_ns,
            ended_ns: moved.at_ns,
            request: last.request..moved.request,
            reply: from.reply..moved.reply,
        };
        if sends && answers && (last.is_busy || is_behind(&last)) {
            if let Some(extent) = &mut current {
                (extent.reply.end, extent.ended_ns) = (moved.reply, moved.at_ns);
            }
            found.extend(current.replace(begin(&moved)));
        } else if sends {
            if let Some(extent) = current.take_if(|extent| !extent.reply.is_empty() || answers) {
                found.push(extent);
            }
            match &mut current {
                Some(extent) => (extent.request.end, extent.ended_ns) = (moved.request, moved.at_ns),
                None => current = Some(begin(&last)),
            }
        } else if answers {
            let extent = current.get_or_insert_with(|| begin(&last));
            (extent.reply.end, extent.ended_ns) = (moved.reply, moved.at_ns);
        }
        last = moved;
    }
    found.extend(current);
    found
}

fn moved(trace: &RoundTrace) -> Vec<Moved> {
    let written =
        |one: &SocketSample| one.acked_bytes.saturating_add(one.unacked_bytes).saturating_add(one.not_sent_bytes);
    let read = |one: &SocketSample| one.received_bytes.saturating_sub(one.unread_bytes);
    let is_client = !trace.client.samples.is_empty();
    let (own, other) = (&trace.client.samples, &trace.server.samples);
    let (own, other) = if is_client { (own, other) } else { (other, own) };
    let mut at_other = other.iter().peekable();
    let mut latest: Option<&SocketSample> = None;
    let moved = |sample: &SocketSample| {
        while let Some(next) = at_other.next_if(|next| next.at_ns <= sample.at_ns) {
            latest = Some(next);
        }
        let (request, reply) =
            if is_client { (written(sample), read(sample)) } else { (sample.received_bytes, sample.acked_bytes) };
        let has_bytes = |one: &SocketSample| one.not_sent_bytes > 0 || one.unread_bytes > 0;
        Moved { at_ns: sample.at_ns, request, reply, is_busy: has_bytes(sample) || latest.is_some_and(has_bytes) }
    };
    own.iter().map(moved).collect()
}
