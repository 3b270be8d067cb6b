//! Parses captured packets: link headers, IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293), UDP, and the ICMP messages that say
//! that a packet was too large (RFC 1191, RFC 8201). These lines replace a crate of ten thousand for all protocols.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::big_endian::{half, word};

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Ethertypes of VLAN tags (IEEE 802.1Q).
const VLANS: [u16; 2] = [0x8100, 0x88a8];
/// Maximum number of VLAN tags, and of extension headers of IPv6, that are skipped.
const MAX_SKIPPED: usize = 8;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;

/// The header before the IP packet (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    Ethernet,
    /// `LINKTYPE_LINUX_SLL`.
    Cooked,
    /// `LINKTYPE_LINUX_SLL2`.
    CookedV2,
    /// The packet begins with its IP header.
    Raw,
    /// `LINKTYPE_NULL` and `LINKTYPE_LOOP`: four bytes with the address family.
    Null,
}

impl LinkLayer {
    /// The layer with this number in a capture file; `None` for those that are not supported.
    pub fn of_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            113 => Some(Self::Cooked),
            276 => Some(Self::CookedV2),
            12 | 14 | 101 | 228 | 229 => Some(Self::Raw),
            0 | 108 => Some(Self::Null),
            _ => None,
        }
    }

    /// Returns the length of the header, the ethertype of what follows, and whether the capturing host sent the packet.
    fn header(self, bytes: &[u8]) -> Option<(usize, u16, Option<bool>)> {
        /// `PACKET_OUTGOING` (packet(7)).
        const OUTGOING: u16 = 4;
        match self {
            Self::Ethernet => {
                let mut at = ETHERNET_BYTES - 2;
                for _ in 0..MAX_SKIPPED {
                    let ethertype = half(bytes, at)?;
                    if !VLANS.contains(&ethertype) {
                        return Some((at + 2, ethertype, None));
                    }
                    at += 4;
                }
                None
            }
            Self::Cooked => Some((16, half(bytes, 14)?, Some(half(bytes, 0)? == OUTGOING))),
            Self::CookedV2 => Some((20, half(bytes, 0)?, Some(u16::from(*bytes.get(10)?) == OUTGOING))),
            Self::Raw | Self::Null => {
                let at = if self == Self::Raw { 0 } else { 4 };
                let ethertype = if *bytes.get(at)? >> 4 == 4 { IPV4 } else { IPV6 };
                Some((at, ethertype, None))
            }
        }
    }
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    /// Whether the capturing host sent it; `None` if the capture does not say.
    pub(crate) is_outgoing: Option<bool>,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) link_bytes: usize,
    /// The identification of an IPv4 packet, which tells a retransmission from a second copy; 0 for IPv6.
    pub(crate) identification: u16,
    pub(crate) content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Tcp(Segment),
    Udp,
    /// A router says that a packet from `source` to `destination` was larger than this many bytes.
    TooLarge(u64),
}

/// The fields of the TCP segment in a captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    /// The sequence number of the segment's first byte, or of its SYN.
    pub(crate) sequence: u32,
    /// The acknowledgment number; `None` without the ACK flag.
    pub(crate) acknowledged: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) psh: bool,
    /// The window as written, before scaling.
    pub(crate) window: u16,
    /// Only in a SYN; `None` if the capture lacks a part of them.
    pub(crate) options: Option<SynOptions>,
    pub(crate) payload_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SynOptions {
    /// Bits by which later windows of this sender are shifted (RFC 7323, section 2).
    pub(crate) window_shift: Option<u8>,
    /// The largest segment that the sender of the SYN accepts (RFC 9293, section 3.7.1).
    pub(crate) mss_bytes: Option<u16>,
    /// Whether later segments carry time stamps, which take 12 bytes of each.
    pub(crate) has_timestamps: bool,
}

/// Parses the segment in an Ethernet frame of `length_bytes` on the interface, of which `bytes` were captured. `None` if the
/// frame holds no TCP segment or has inconsistent headers.
pub(crate) fn segment(bytes: &[u8], length_bytes: u32) -> Option<Segment> {
    match headers(LinkLayer::Ethernet, bytes, length_bytes)?.content {
        Content::Tcp(segment) => Some(segment),
        Content::Udp | Content::TooLarge(_) => None,
    }
}

/// Like [`segment`], for frames of any layer, and with addresses and other content.
pub(crate) fn headers(layer: LinkLayer, bytes: &[u8], length_bytes: u32) -> Option<Headers> {
    let (link_bytes, ethertype, is_outgoing) = layer.header(bytes)?;
    let packet = bytes.get(link_bytes..)?;
    let on_the_wire = usize::try_from(length_bytes).ok()?.checked_sub(link_bytes)?;
    let ip = Ip::of(ethertype, packet, on_the_wire)?;
    let body = packet.get(ip.header_bytes..)?;
    let body_bytes = ip.packet_bytes.checked_sub(ip.header_bytes)?;
    let ports = || Some((half(body, 0)?, half(body, 2)?));
    let (content, (source, destination)) = match ip.protocol {
        TCP => (Content::Tcp(tcp(body, body_bytes)?), ports()?),
        UDP => (Content::Udp, ports()?),
        ICMP | ICMPV6 => return too_large(ip.protocol, body, link_bytes, is_outgoing),
        _ => return None,
    };
    let [source, destination] = [(ip.source, source), (ip.destination, destination)].map(SocketAddr::from);
    Some(Headers { is_outgoing, source, destination, link_bytes, identification: ip.identification, content })
}

/// The header of an IP packet, with extension headers.
struct Ip {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    identification: u16,
    header_bytes: usize,
    packet_bytes: usize,
}

impl Ip {
    /// `None` for fragments other than the first, which have no ports.
    fn of(ethertype: u16, packet: &[u8], on_the_wire: usize) -> Option<Self> {
        // The kernel creates packets of more than 64 KiB with a length field of 0: their length exceeds 16 bits.
        let stated_or = |stated: usize, all: usize| if stated == 0 { all } else { stated };
        match ethertype {
            IPV4 if packet.first()? >> 4 == 4 => {
                let header_bytes = usize::from(packet[0] & 0xf) * 4;
                let address = |at: usize| Some(IpAddr::from(Ipv4Addr::from_bits(word(packet, at)?)));
                let is_first = half(packet, 6)? & 0x1fff == 0;
                (header_bytes >= IPV4_BYTES && is_first).then_some(())?;
                Some(Self {
                    source: address(12)?,
                    destination: address(16)?,
                    protocol: packet[9],
                    identification: half(packet, 4)?,
                    header_bytes,
                    packet_bytes: stated_or(usize::from(half(packet, 2)?), on_the_wire),
                })
            }
            IPV6 if packet.first()? >> 4 == 6 => {
                let stated = usize::from(half(packet, 4)?);
                let address = |at: usize| {
                    let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                    Some(IpAddr::from(Ipv6Addr::from(octets)))
                };
                let (protocol, header_bytes) = beyond_extensions(packet)?;
                Some(Self {
                    source: address(8)?,
                    destination: address(24)?,
                    protocol,
                    identification: 0,
                    header_bytes,
                    packet_bytes: IPV6_BYTES + stated_or(stated, on_the_wire.checked_sub(IPV6_BYTES)?),
                })
            }
            _ => None,
        }
    }
}

/// Returns the protocol after the extension headers of an IPv6 packet, and where its header begins.
fn beyond_extensions(packet: &[u8]) -> Option<(u8, usize)> {
    let (mut next, mut at) = (*packet.get(6)?, IPV6_BYTES);
    for _ in 0..MAX_SKIPPED {
        let length = || Some((usize::from(*packet.get(at + 1)?) + 1) * 8);
        let bytes = match next {
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => length()?,
            44 if half(packet, at + 2)? >> 3 == 0 => 8,
            44 => return None,
            // Authentication header (RFC 4302).
            51 => (usize::from(*packet.get(at + 1)?) + 2) * 4,
            _ => return Some((next, at)),
        };
        (next, at) = (*packet.get(at)?, at + bytes);
    }
    None
}

fn tcp(tcp: &[u8], body_bytes: usize) -> Option<Segment> {
    let flags = *tcp.get(13)?;
    let header_bytes = usize::from(tcp[12] >> 4) * 4;
    let payload_bytes = body_bytes.checked_sub(header_bytes).filter(|_| header_bytes >= TCP_BYTES)?;
    let syn = flags & 0x02 != 0;
    Some(Segment {
        source_port: half(tcp, 0)?,
        destination_port: half(tcp, 2)?,
        sequence: word(tcp, 4)?,
        acknowledged: if flags & 0x10 == 0 { None } else { Some(word(tcp, 8)?) },
        syn,
        fin: flags & 0x01 != 0,
        rst: flags & 0x04 != 0,
        psh: flags & 0x08 != 0,
        window: half(tcp, 14)?,
        options: tcp.get(TCP_BYTES..header_bytes).filter(|_| syn).map(syn_options),
        payload_bytes: u64::try_from(payload_bytes).ok()?,
    })
}

fn syn_options(mut options: &[u8]) -> SynOptions {
    let mut found = SynOptions::default();
    loop {
        match options {
            [3, 3, shift, ..] => found.window_shift = Some((*shift).min(14)),
            [2, 4, high, low, ..] => found.mss_bytes = Some(u16::from_be_bytes([*high, *low])),
            [8, 10, ..] => found.has_timestamps = true,
            _ => {}
        }
        options = match options {
            [1, rest @ ..] => rest,
            [2..=255, length @ 2..=255, ..] => options.get(usize::from(*length)..).unwrap_or_default(),
            _ => return found,
        };
    }
}

/// Parses `fragmentation needed` (type 3, code 4) and `packet too big` (type 2). Its body begins with the packet that was too
/// large.
fn too_large(protocol: u8, icmp: &[u8], link_bytes: usize, is_outgoing: Option<bool>) -> Option<Headers> {
    let (ethertype, mtu_bytes) = match (protocol, icmp.get(..2)?) {
        (ICMP, [3, 4]) => (IPV4, u64::from(half(icmp, 6)?)),
        (ICMPV6, [2, 0]) => (IPV6, u64::from(word(icmp, 4)?)),
        _ => return None,
    };
    // Old routers do not say how much they accept (RFC 1191, section 5).
    (mtu_bytes > 0).then_some(())?;
    let packet = icmp.get(8..)?;
    let ip = Ip::of(ethertype, packet, usize::MAX)?;
    let ports = packet.get(ip.header_bytes..).filter(|_| ip.protocol == TCP)?;
    Some(Headers {
        is_outgoing,
        source: (ip.source, half(ports, 0)?).into(),
        destination: (ip.destination, half(ports, 2)?).into(),
        link_bytes,
        identification: 0,
        content: Content::TooLarge(mtu_bytes),
    })
}
