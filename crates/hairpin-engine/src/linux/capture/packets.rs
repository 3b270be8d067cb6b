//! Converts captured segments to packets of the connection, with bytes counted from 0 in each direction.

use hairpin_model::Packet;
use hairpin_model::trace::End;
use hairpin_transports::HELLO_BYTES;

use super::crossing::Crossing;
use super::frame::Frame;
use super::headers::{Segment, segment};
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
            own.get_or_insert_with(|| Direction::beginning(&segment, hello_bytes));
        }
        let (first_byte, end_byte) = own.as_mut()?.range(&segment);
        Some(Packet {
            at_ns: map.engine_ns(frame.realtime_ns),
            arrived_ns: arrived_realtime_ns.map(|ns| map.engine_ns(ns)),
            from,
            syn: segment.syn,
            fin: segment.fin,
            rst: segment.rst,
            psh: segment.psh,
            first_byte,
            end_byte,
            ack_byte: acknowledged(&segment, other.as_ref()),
            window_bytes: window(&segment, own.as_ref(), other.as_ref()),
            length_bytes: u64::from(frame.length_bytes),
        })
    };
    crossings.into_iter().filter_map(one).collect()
}

fn acknowledged(segment: &Segment, other: Option<&Direction>) -> Option<u64> {
    Some(other?.byte(segment.acknowledged?))
}

/// Windows are scaled if both SYNs offered it, except in the SYNs themselves.
fn window(segment: &Segment, own: Option<&Direction>, other: Option<&Direction>) -> Option<u64> {
    let (shift, is_scaled) = (own?.window_shift, other?.window_shift.is_some() && !segment.syn);
    Some(u64::from(segment.window) << shift.filter(|_| is_scaled).unwrap_or(0))
}

struct Direction {
    window_shift: Option<u8>,
    /// The sequence number that counts as byte 0: the first one after the SYN (RFC 9293, section 3.4) and the hello.
    zero: u32,
    /// End of the highest byte seen, used to resolve the wrap-around of 32-bit sequence numbers.
    end: u64,
    /// The byte at which the direction was closed. The FIN has a sequence number too, but is not a byte.
    closed_at: Option<u64>,
}

impl Direction {
    fn beginning(syn: &Segment, hello_bytes: usize) -> Self {
        let hello_bytes = u32::try_from(hello_bytes).expect("a hello is short");
        let zero = syn.sequence.wrapping_add(1).wrapping_add(hello_bytes);
        Self { zero, end: 0, closed_at: None, window_shift: syn.window_shift }
    }

    /// The byte number of `sequence`; 0 within the hello.
    fn byte(&self, sequence: u32) -> u64 {
        self.bounded(self.position(sequence))
    }

    /// The position with this sequence number that is nearest to the current end; negative within the hello.
    fn position(&self, sequence: u32) -> i128 {
        #[expect(clippy::cast_possible_truncation, reason = "sequence numbers are the low 32 bits")]
        let here = self.zero.wrapping_add(self.end as u32);
        i128::from(self.end) + i128::from(sequence.wrapping_sub(here).cast_signed())
    }

    fn bounded(&self, place: i128) -> u64 {
        u64::try_from(place.max(0)).unwrap_or(u64::MAX).min(self.closed_at.unwrap_or(u64::MAX))
    }

    /// The byte range of the segment's payload.
    fn range(&mut self, segment: &Segment) -> (u64, u64) {
        let place = self.position(segment.sequence.wrapping_add(u32::from(segment.syn)));
        let (first, end) = (self.bounded(place), self.bounded(place + segment.payload_bytes as i128));
        // A reset may carry any sequence number, so its number is ignored.
        if !segment.rst {
            self.end = self.end.max(end);
            if segment.fin {
                self.closed_at = Some(end);
            }
        }
        (first, end)
    }
}
