//! Converts captured segments to packets of the connection, with bytes counted from 0 in each direction.

use hairpin_model::Packet;
use hairpin_model::trace::End;
use hairpin_transports::HELLO_BYTES;

use super::crossing::Crossing;
use super::frame::Frame;
use crate::packets::headers::segment;
use crate::packets::numbering::{Numbering, packet};
use crate::realtime::RealtimeMap;

/// The packets between the two ports, in the order in which they passed the interface. Omits frames without a
/// complete TCP header. Omits directions whose SYN was not captured, because their bytes cannot be counted.
pub(super) fn packets(frames: &[Frame], client_port: u16, server_port: u16, map: &RealtimeMap) -> Vec<Packet> {
    let passed = frames.iter().map(|frame| Crossing { frame, arrived_realtime_ns: None });
    crossed(passed, client_port, server_port, map)
}

/// Like [`packets`], for packets that crossed a link, in sending order.
pub(super) fn crossed<'f>(
    crossings: impl IntoIterator<Item = Crossing<'f>>,
    client_port: u16,
    server_port: u16,
    map: &RealtimeMap,
) -> Vec<Packet> {
    let (mut client, mut server) = (None, None);
    let one = |Crossing { frame, arrived_realtime_ns }: Crossing<'_>| {
        let segment = segment(&frame.bytes, frame.length_bytes)?;
        let ports = (segment.source_port, segment.destination_port);
        let (from, hello_bytes, own, other) = if ports == (client_port, server_port) {
            (End::Client, HELLO_BYTES, &mut client, &mut server)
        } else if ports == (server_port, client_port) {
            (End::Server, 0, &mut server, &mut client)
        } else {
            return None;
        };
        if segment.syn {
            own.get_or_insert_with(|| Numbering::beginning(&segment, hello_bytes));
        }
        let sent = (map.engine_ns(frame.realtime_ns), frame.length_bytes);
        let arrived_ns = arrived_realtime_ns.map(|ns| map.engine_ns(ns));
        Some(Packet { arrived_ns, ..packet(&segment, from, sent, own.as_mut()?, other.as_ref()) })
    };
    crossings.into_iter().filter_map(one).collect()
}
