//! Matches the packets captured at both ends of a link.
//!
//! A link carries IP packets unchanged, so the sent and the received packet differ only in their Ethernet headers. A
//! packet that the link damaged has no match.

use std::collections::{HashMap, VecDeque};

use super::frame::Frame;
use crate::packets::headers::segment;

/// Size of the Ethernet header, which is ignored.
const HEADER_BYTES: usize = 14;

/// A sent packet and its arrival at the other end (CLOCK_REALTIME, in ns); `None` if the packet did not arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing<'f> {
    pub(super) frame: &'f Frame,
    pub(super) arrived_realtime_ns: Option<u64>,
}

/// Returns all packets that either end sent between the two ports, in sending order. If a packet arrives several
/// times, the first arrival counts; identical packets are assumed to arrive in sending order.
pub(super) fn crossings<'f>(
    client: &'f [Frame],
    server: &'f [Frame],
    client_port: u16,
    server_port: u16,
) -> Vec<Crossing<'f>> {
    let mut all = one_way(client, server, client_port);
    all.extend(one_way(server, client, server_port));
    all.sort_by_key(|crossing| crossing.frame.realtime_ns);
    all
}

/// Matches the packets from `port` in the captures at the sender and at the receiver.
fn one_way<'f>(sender: &'f [Frame], receiver: &'f [Frame], port: u16) -> Vec<Crossing<'f>> {
    let is_from =
        |frame: &&Frame| segment(&frame.bytes, frame.length_bytes).is_some_and(|segment| segment.source_port == port);
    let mut came: HashMap<&[u8], VecDeque<u64>> = HashMap::new();
    for frame in receiver.iter().filter(is_from) {
        came.entry(packet(frame)).or_default().push_back(frame.realtime_ns);
    }
    let crossing = |frame| {
        let arrivals = came.get_mut(packet(frame));
        Crossing { frame, arrived_realtime_ns: arrivals.and_then(VecDeque::pop_front) }
    };
    sender.iter().filter(is_from).map(crossing).collect()
}

fn packet(frame: &Frame) -> &[u8] {
    frame.bytes.get(HEADER_BYTES..).unwrap_or_default()
}
