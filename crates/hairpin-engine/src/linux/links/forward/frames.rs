//! Parses an Ethernet frame for the link: IPv4 (RFC 791), IPv6 with extension headers (RFC 8200), UDP (RFC 768), TCP
//! (RFC 9293), ICMP echo (RFC 792, RFC 4443).
//!
//! Any input is accepted. If a packet's headers contradict each other or the frame, the frame's length counts. A link
//! carries only IP. ARP bypasses the link, and all other frames are dropped and counted.

use std::ops::Range;

use hairpin_link::Direction;

use crate::packets::big_endian::{half, word};

pub(super) const ETHERNET_BYTES: usize = 14;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

const IPV6_BYTES: usize = 40;
const FRAGMENT_BYTES: usize = 8;

/// Protocol numbers (IANA).
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const NO_NEXT: u8 = 59;
/// Extension headers with a length field in units of 8 bytes: hop-by-hop options, routing, destination options,
/// mobility, host identity, shim6.
const EXTENSIONS: [u8; 6] = [0, 43, 60, 135, 139, 140];
/// Size of the header of a UDP datagram and of an ICMP echo message.
const DATAGRAM_HEADER_BYTES: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Ip(IpPacket),
    /// An ARP request or reply.
    Arp,
    /// Anything else, or an incomplete Ethernet header.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IpPacket {
    /// The packet size that the header states, or the frame's size if the stated size is impossible.
    pub(super) size_bytes: usize,
    /// Whether the packet carries transport payload.
    pub(super) carries_data: bool,
    pub(super) fragment: Option<Fragment>,
    /// The payload's position in the frame, if the packet is a possible message or its first fragment: a UDP
    /// datagram, an ICMP echo request in the up direction, or an echo reply in the down direction.
    pub(super) payload: Option<Range<usize>>,
    /// Whether the packet is a UDP datagram.
    pub(super) is_udp: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) identification: u32,
    pub(super) is_first: bool,
}

/// Parses a frame of `length_bytes` on the interface, of which `bytes` were captured.
pub(super) fn content(direction: Direction, bytes: &[u8], length_bytes: usize) -> Content {
    let Some(network) = bytes.get(ETHERNET_BYTES..) else { return Content::Other };
    let all_bytes = length_bytes.max(bytes.len()) - ETHERNET_BYTES;
    match half(bytes, 12) {
        Some(IPV4) => Content::Ip(ipv4(direction, network, all_bytes)),
        Some(IPV6) => Content::Ip(ipv6(direction, network, all_bytes)),
        Some(ARP) => Content::Arp,
        _ => Content::Other,
    }
}

fn ipv4(direction: Direction, network: &[u8], all_bytes: usize) -> IpPacket {
    let nonsense =
        IpPacket { size_bytes: all_bytes, carries_data: true, fragment: None, payload: None, is_udp: false };
    let header_bytes = network.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    let stated_bytes = half(network, 2).map_or(0, usize::from);
    let is_version_4 = network.first().is_some_and(|first| first >> 4 == 4);
    let (Some(identification), Some(offset), Some(protocol)) = (half(network, 4), half(network, 6), network.get(9))
    else {
        return nonsense;
    };
    if !is_version_4 || header_bytes < 20 || stated_bytes < header_bytes || stated_bytes > network.len() {
        return nonsense;
    }
    let is_first = offset & 0x1fff == 0;
    let fragment = (offset & 0x3fff != 0).then_some(Fragment { identification: u32::from(identification), is_first });
    transport(direction, network, *protocol, header_bytes..stated_bytes, fragment)
}

fn ipv6(direction: Direction, network: &[u8], all_bytes: usize) -> IpPacket {
    let nonsense =
        IpPacket { size_bytes: all_bytes, carries_data: true, fragment: None, payload: None, is_udp: false };
    let is_version_6 = network.first().is_some_and(|first| first >> 4 == 6);
    let (Some(payload_bytes), Some(next)) = (half(network, 4), network.get(6)) else { return nonsense };
    let stated_bytes = IPV6_BYTES + usize::from(payload_bytes);
    if !is_version_6 || stated_bytes > network.len() {
        return nonsense;
    }
    let packet = &network[..stated_bytes];
    let (mut at, mut protocol, mut fragment) = (IPV6_BYTES, *next, None);
    // Every header has a positive length, so the loop ends at the end of the packet at the latest.
    while let Some((header_bytes, next)) = extension(packet, at, protocol) {
        if protocol == FRAGMENT {
            let (Some(offset), Some(identification)) = (half(packet, at + 2), word(packet, at + 4)) else { break };
            fragment = Some(Fragment { identification, is_first: offset >> 3 == 0 });
        }
        (at, protocol) = (at + header_bytes, next);
        if fragment.is_some_and(|fragment| !fragment.is_first) {
            break;
        }
    }
    transport(direction, network, protocol, at.min(stated_bytes)..stated_bytes, fragment)
}

/// The length of the extension header at `at` and the number of the next header; `None` if `number` is no extension
/// header, or the header is truncated.
fn extension(packet: &[u8], at: usize, number: u8) -> Option<(usize, u8)> {
    let (next, length) = (*packet.get(at)?, usize::from(*packet.get(at + 1)?));
    let header_bytes = match number {
        FRAGMENT => FRAGMENT_BYTES,
        AUTHENTICATION => (length + 2) * 4,
        _ if EXTENSIONS.contains(&number) => (length + 1) * 8,
        _ => return None,
    };
    (at + header_bytes <= packet.len()).then_some((header_bytes, next))
}

/// The packet whose transport header and payload are at `range`.
fn transport(
    direction: Direction,
    network: &[u8],
    protocol: u8,
    range: Range<usize>,
    fragment: Option<Fragment>,
) -> IpPacket {
    let bytes = &network[range.clone()];
    let is_first = fragment.is_none_or(|fragment| fragment.is_first);
    let header_bytes = match protocol {
        _ if !is_first => 0,
        TCP => bytes.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4),
        UDP | ICMP | ICMP_V6 => DATAGRAM_HEADER_BYTES,
        NO_NEXT => bytes.len(),
        _ => 0,
    };
    let may_be_message = match (protocol, direction) {
        _ if !is_first => false,
        (UDP, _) => true,
        (ICMP, Direction::Up) => bytes.first() == Some(&8),
        (ICMP, Direction::Down) => bytes.first() == Some(&0),
        (ICMP_V6, Direction::Up) => bytes.first() == Some(&128),
        (ICMP_V6, Direction::Down) => bytes.first() == Some(&129),
        _ => false,
    };
    let payload = range.start + header_bytes..range.end;
    IpPacket {
        size_bytes: range.end,
        carries_data: !payload.is_empty(),
        fragment,
        payload: (may_be_message && !payload.is_empty())
            .then(|| payload.start + ETHERNET_BYTES..payload.end + ETHERNET_BYTES),
        is_udp: protocol == UDP,
    }
}

/// Whether the receiver's kernel drops the packet if this bit, counted from the start of the IP packet, is flipped.
///
/// In IPv4, checksums cover every bit. In IPv6, no checksum covers the traffic class, the flow label and the hop
/// limit, or the reserved bits and the next-header field of a fragment header. The next-header field matters only in
/// the first fragment. A flipped congestion mark of a fragment may be noticed: the kernel never reassembles fragments
/// with and without marks (ECN; RFC 3168, section 5.3; `ip_frag_ecn_table`, net/ipv4/ip_fragment.c).
pub(super) fn is_damage_noticed(frame: &[u8], bit: u32) -> bool {
    if half(frame, 12) != Some(IPV6) {
        return true;
    }
    let fragment = frame.get(ETHERNET_BYTES + 6) == Some(&FRAGMENT);
    let is_first = half(frame, ETHERNET_BYTES + IPV6_BYTES + 2).is_none_or(|offset| offset >> 3 == 0);
    match bit {
        10..12 if fragment => {
            let marks = frame.get(ETHERNET_BYTES + 1).map_or(0, |byte| byte & 0x30);
            marks == 0 || marks == 0x80 >> (bit % 8)
        }
        4..32 | 56..64 => false,
        320..328 if fragment => is_first,
        328..336 | 349..351 if fragment => false,
        _ => true,
    }
}
