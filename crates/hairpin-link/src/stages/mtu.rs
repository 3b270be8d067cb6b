//! Drops packets larger than the path's MTU, like a router that may not fragment (RFC 1191: the DF bit is set).
//!
//! No ICMP message is sent: the interfaces at both ends have the same MTU, so only programs that write raw packets
//! exceed it. The word `mtu=` applies to both directions, so it belongs to the profile and not to a direction.

use crate::packet::InFlight;
use crate::stage::{Card, Outbox, Stage};

pub const CARD: Card = Card {
    name: "mtu",
    models: "the largest packet that the path carries",
    words: &[],
    reasons: &["too-large"],
    check: |_, _| None,
    figures: |_, mtu_bytes| Some(format!("packets of at most {mtu_bytes} B")),
    build: |_, site| Some(Box::new(Mtu { mtu_bytes: site.mtu_bytes })),
};

#[derive(Clone, Copy, Debug)]
struct Mtu {
    mtu_bytes: u32,
}

impl Stage for Mtu {
    fn arrive(&mut self, packet: InFlight, _now_ns: u64, out: &mut Outbox) {
        if packet.packet.size_bytes > self.mtu_bytes {
            out.drop(packet, "too-large");
        } else {
            out.pass(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::fixture::{departures, drops, fates, packets};

    #[test]
    fn a_packet_of_the_mtu_passes_and_one_byte_more_does_not() {
        let outcomes = fates("mtu=1400B", &packets([(0, 1400), (5, 1401), (9, 1), (10, u32::MAX)]));
        assert_eq!(departures(&outcomes), [(0, 0), (2, 9)]);
        assert_eq!(drops(&outcomes), [(1, 5, "too-large"), (3, 10, "too-large")]);
    }
}
