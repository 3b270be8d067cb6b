//! Parses the TCP segment in a frame: Ethernet, IPv4 (RFC 791) or IPv6 (RFC 8200), TCP (RFC 9293). These sixty lines
//! replace a crate of ten thousand lines for all protocols.

use crate::linux::big_endian::{half, word};

/// Ethertype of IPv4.
pub(super) const IPV4: u16 = 0x0800;
/// Ethertype of IPv6.
pub(super) const IPV6: u16 = 0x86dd;
/// Protocol number of TCP.
pub(super) const TCP: u8 = 6;
/// Protocol number of UDP.
pub(super) const UDP: u8 = 17;

const ETHERNET_BYTES: usize = 14;
const IPV6_BYTES: usize = 40;

/// The fields of the TCP segment in a captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// The sequence number of the segment's first byte, or of its SYN.
    pub(super) sequence: u32,
    /// The acknowledgment number; `None` without the ACK flag.
    pub(super) acknowledged: Option<u32>,
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) rst: bool,
    pub(super) psh: bool,
    /// The window as written, before scaling.
    pub(super) window: u16,
    /// Bits by which later windows of this sender are shifted (RFC 7323, section 2); only in a SYN.
    pub(super) window_shift: Option<u8>,
    pub(super) payload_bytes: u64,
}

/// Parses a frame of `length_bytes` on the interface, of which `bytes` were captured. `None` if the frame holds no TCP
/// segment or has inconsistent headers.
pub(super) fn segment(bytes: &[u8], length_bytes: u32) -> Option<Segment> {
    let network = bytes.get(ETHERNET_BYTES..)?;
    let on_the_wire = usize::try_from(length_bytes).ok()?.checked_sub(ETHERNET_BYTES)?;
    // The kernel creates packets of more than 64 KiB with a length field of 0: their length exceeds 16 bits.
    let stated_or = |stated: usize, all: usize| if stated == 0 { all } else { stated };
    let (header_bytes, packet_bytes, protocol) = match half(bytes, 12)? {
        IPV4 if network.first()? >> 4 == 4 => {
            let header = usize::from(network[0] & 0xf) * 4;
            (header, stated_or(usize::from(half(network, 2)?), on_the_wire), *network.get(9)?)
        }
        IPV6 if network.first()? >> 4 == 6 => {
            let payload = stated_or(usize::from(half(network, 4)?), on_the_wire.checked_sub(IPV6_BYTES)?);
            (IPV6_BYTES, IPV6_BYTES + payload, *network.get(6)?)
        }
        _ => return None,
    };
    if protocol != TCP || header_bytes < 20 {
        return None;
    }
    let tcp = network.get(header_bytes..)?;
    let flags = *tcp.get(13)?;
    let tcp_header_bytes = usize::from(tcp[12] >> 4) * 4;
    if tcp_header_bytes < 20 {
        return None;
    }
    let payload_bytes = packet_bytes.checked_sub(header_bytes + tcp_header_bytes)?;
    Some(Segment {
        source_port: half(tcp, 0)?,
        destination_port: half(tcp, 2)?,
        sequence: word(tcp, 4)?,
        acknowledged: if flags & 0x10 == 0 { None } else { Some(word(tcp, 8)?) },
        syn: flags & 0x02 != 0,
        fin: flags & 0x01 != 0,
        rst: flags & 0x04 != 0,
        psh: flags & 0x08 != 0,
        window: half(tcp, 14)?,
        window_shift: tcp.get(20..tcp_header_bytes).filter(|_| flags & 0x02 != 0).and_then(window_shift),
        payload_bytes: u64::try_from(payload_bytes).ok()?,
    })
}

/// Finds the window scale among the options of a TCP header.
fn window_shift(mut options: &[u8]) -> Option<u8> {
    loop {
        options = match options {
            [3, 3, shift, ..] => return Some((*shift).min(14)),
            [1, rest @ ..] => rest,
            [2..=255, length @ 2..=255, ..] => options.get(usize::from(*length)..)?,
            _ => return None,
        };
    }
}
