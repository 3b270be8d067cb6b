//! Finds the exchanges of a connection: bytes of the client, then those of the server, until the client sends again.

use hairpin_model::trace::End;
use hairpin_model::{Packet, RoundTrace};

use crate::trace::Extent;

/// Maximum number of lost packets of a direction that are searched for when they are sent again.
const MAX_LOST: usize = 64;

/// Finds the exchanges in packets with their times at both ends, in order of departure.
pub(super) fn exchanges(packets: &[Packet]) -> Vec<Extent> {
    let mut found = Vec::new();
    let mut current: Option<Extent> = None;
    let mut ends = [0, 0];
    let mut lost: [Vec<(u64, u64)>; 2] = [Vec::new(), Vec::new()];
    for packet in packets.iter().filter(|packet| packet.end_byte > packet.first_byte) {
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

/// Finds the exchanges in samples of the client's socket, else of the server's: when its program had written and read more.
pub(super) fn exchanges_of_samples(trace: &RoundTrace) -> Vec<Extent> {
    let is_client = !trace.client.samples.is_empty();
    let samples = if is_client { &trace.client.samples } else { &trace.server.samples };
    let mut found = Vec::new();
    let mut current: Option<Extent> = None;
    let mut ends = [0, 0];
    for sample in samples {
        let written = sample.acked_bytes.saturating_add(sample.unacked_bytes).saturating_add(sample.not_sent_bytes);
        // Bytes that have arrived end an answer at the client; the server's program must read a request.
        let [of_client, of_server] = if is_client {
            [written, sample.received_bytes.saturating_sub(sample.unread_bytes)]
        } else {
            [sample.received_bytes, sample.acked_bytes]
        };
        if of_client > ends[0] {
            if let Some(extent) = current.take_if(|extent| !extent.reply.is_empty() || of_server > ends[1]) {
                found.push(extent);
            }
            let extent = current.get_or_insert_with(|| Extent {
                began_ns: sample.at_ns,
                ended_ns: sample.at_ns,
                request: ends[0]..ends[0],
                reply: ends[1]..ends[1],
            });
            (extent.request.end, extent.ended_ns, ends[0]) = (of_client, sample.at_ns, of_client);
        }
        if of_server > ends[1] {
            let extent = current.get_or_insert_with(|| Extent {
                began_ns: sample.at_ns,
                ended_ns: sample.at_ns,
                request: ends[0]..ends[0],
                reply: ends[1]..ends[1],
            });
            (extent.reply.end, extent.ended_ns, ends[1]) = (of_server, sample.at_ns, of_server);
        }
    }
    found.extend(current);
    found
}
