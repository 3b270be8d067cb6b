//! Packets that were captured at both ends of a link: which of those that came in is which of those that went out.
//!
//! A link carries IP packets as they are, so one that came in has the bytes of one that went out. Only its Ethernet
//! header is another. What a link damaged comes in as no packet that was sent.

use std::collections::{HashMap, VecDeque};

use super::headers::segment;
use crate::system::packet_ring::Frame;

/// Bytes that tell nothing: the Ethernet header.
const HEADER_BYTES: usize = 14;

/// A packet that went out, and when it came in at the other end (CLOCK_REALTIME, in ns); null where it never did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing<'f> {
    pub(super) frame: &'f Frame,
    pub(super) arrived_realtime_ns: Option<u64>,
}

/// All packets that went out between the two ports, at either end, in the order in which they did. Of a packet that came
/// in several times the first counts; of several alike, that went out one after the other, the earlier came in earlier.
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

/// Those from that port, by what was captured at the sender and at the receiver.
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
