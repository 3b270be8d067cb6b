//! Large packets never arrive although smaller ones do: a router drops them, and its message is lost or ignored.

use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;
use hairpin_model::{Cause, Packet};

use super::super::connection::Connection;
use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};

pub(super) const RULE: Rule = Rule {
    code: Cause::PathMtu,
    judge,
    explains: &[
        Cause::RetransmissionTimeOut,
        Cause::Retransmission,
        Cause::ServerWork,
        Cause::CongestionWindow,
        Cause::ServerStalled,
    ],
};

const MIN_MTU_V4: u64 = 576;
const MIN_MTU_V6: u64 = 1_280;
/// Minimum number of times that a packet is sent without an acknowledgment until chance is excluded.
const MIN_SENT: u64 = 4;

struct NeverArrived {
    from: End,
    /// Length of the smallest of them, on the interface.
    lost_bytes: u64,
    /// Time for which they were sent again and again.
    lasted_ns: u64,
}

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let both = [End::Client, End::Server];
    // Every path carries packets of this size (RFC 791, RFC 8200): a smaller one was lost for another reason.
    let min_bytes = if peer.server.is_ipv4() { MIN_MTU_V4 } else { MIN_MTU_V6 };
    let is_large = |connection: &Connection, one: &NeverArrived| {
        one.lost_bytes.saturating_sub(connection.observed.link_header_bytes) > min_bytes
    };
    let found = |connection: &Connection| {
        both.iter().find_map(|from| never_arrived(connection, *from).filter(|one| is_large(connection, one)))
    };
    let all: Vec<_> = peer.connections.iter().filter_map(|one| Some((one, found(one)?))).collect();
    let (worst, one) = all.iter().max_by_key(|(_, one)| one.lasted_ns)?;
    let lasted: Vec<f64> = all.iter().map(|(_, one)| one.lasted_ns as f64).collect();
    let share = lasted.iter().sum::<f64>() / peer.elapsed_ns().max(1) as f64;
    let header_bytes = worst.observed.link_header_bytes;
    let arrived_bytes =
        peer.connections.iter().filter_map(|other| arrived_bytes(other, one.from, one.lost_bytes)).max();
    let of_packet = |bytes: u64| bytes.saturating_sub(header_bytes) as f64;
    let mtu_bytes = peer.connections.iter().filter_map(|one| one.observed.path_mtu_bytes).min();
    Some(
        Judged::lasting(lasted, share, worst.longest())
            .with_end(Some(one.from))
            .with(evidence::AFFECTED, Some(all.len() as f64))
            .with(evidence::EXCHANGES, Some(peer.exchanges().count() as f64))
            .with(evidence::LOST_PACKET_BYTES, Some(of_packet(one.lost_bytes)))
            .with(evidence::ARRIVED_PACKET_BYTES, arrived_bytes.map(of_packet))
            .with(evidence::PATH_MTU_BYTES, mtu_bytes.map(|bytes| bytes as f64)),
    )
}

/// Returns the packets of a direction that were sent again and again until the connection ended or smaller ones carried their
/// bytes; `None` if there are none, or smaller ones were lost too.
fn never_arrived(connection: &Connection, from: End) -> Option<NeverArrived> {
    let carries = |packet: &&Packet| packet.from == from && packet.end_byte > packet.first_byte;
    let sent: Vec<&Packet> = connection.packets().iter().filter(carries).collect();
    let answers = connection.packets().iter().filter(|packet| packet.from != from);
    let acks: Vec<(u64, u64)> = answers.filter_map(|packet| Some((packet.at_ns, packet.ack_byte?))).collect();
    // The first byte that was sent most often, by packets of one size.
    let mut again: std::collections::BTreeMap<(u64, u64), (u64, u64, u64)> = std::collections::BTreeMap::new();
    for packet in &sent {
        let size = (packet.first_byte, packet.length_bytes);
        let (times, _, last_ns) = again.entry(size).or_insert((0, packet.at_ns, packet.at_ns));
        (*times, *last_ns) = (*times + 1, packet.at_ns);
    }
    let (&(first_byte, lost_bytes), &(_, began_ns, last_ns)) =
        again.iter().filter(|(_, (times, ..))| *times >= MIN_SENT).min_by_key(|((_, length), _)| *length)?;
    // Was it acknowledged before a smaller packet carried the byte?
    let smaller =
        sent.iter().find(|one| one.first_byte == first_byte && one.length_bytes < lost_bytes && one.at_ns > began_ns);
    let until_ns = smaller.map_or(u64::MAX, |packet| packet.at_ns);
    if acks.iter().any(|(at_ns, byte)| *byte > first_byte && *at_ns < until_ns) {
        return None;
    }
    let acked_byte = acks.iter().map(|(_, byte)| *byte).max().unwrap_or(0);
    let arrived = connection.packets().iter().filter(|one| one.from == from && one.end_byte <= acked_byte);
    let arrived = arrived.filter(|one| one.length_bytes < lost_bytes || one.at_ns < began_ns);
    let arrived_bytes = arrived.map(|one| one.length_bytes).max().unwrap_or(0);
    (arrived_bytes < lost_bytes).then_some(NeverArrived { from, lost_bytes, lasted_ns: last_ns - began_ns })
}

/// The length of the largest packet that is shorter than this and was acknowledged, on the interface.
fn arrived_bytes(connection: &Connection, from: End, lost_bytes: u64) -> Option<u64> {
    let packets = connection.packets();
    let acked_byte = packets.iter().filter(|one| one.from != from).filter_map(|one| one.ack_byte).max()?;
    let arrived = packets.iter().filter(|one| one.from == from && one.end_byte <= acked_byte);
    arrived.map(|one| one.length_bytes).filter(|bytes| *bytes < lost_bytes).max()
}
