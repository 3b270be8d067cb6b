//! ICMP echo over IPv4 (RFC 792). The other host's kernel answers, so this transport has no server.
//!
//! Uses an unprivileged ping socket if the system allows it, else a raw socket. For a raw socket this file computes the
//! checksum and filters the replies by identifier.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use hairpin_model::card::{self, IPV4_MTU_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::{AnsweredBy, Card, Fact, Reach, Receipt, RoughRoundTrip, WhyNot};
use socket2::{Domain, Protocol, Socket, Type};

use crate::options::{self, Family, Moment};
use crate::system::{socket, sockopt};
use crate::wire::{Connection, Listener, Setup, Transport, TransportError};
use crate::wires::descriptor::DescriptorWire;
use crate::wires::internet::server_end;
use crate::wires::one_wire::OneWire;
use crate::wires::port::{Miss, Port};
use crate::wires::socket::{facts, loopback_detail};
use crate::wires::{bad_address, check, failed};

pub(super) struct Icmp;

const NAME: &str = "icmp";

const OPTIONS: &[OptionName] =
    &[OptionName::Sndbuf, OptionName::Rcvbuf, OptionName::Tos, OptionName::Dscp, OptionName::Priority];

/// An ICMP echo header: type, code, checksum, identifier, sequence number (RFC 792).
const HEADER_BYTES: usize = 8;
/// Size of an IPv4 header without options. A reply has options only if the request has some.
const IP_HEADER_BYTES: usize = 20;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

impl Transport for Icmp {
    fn card(&self) -> Card {
        Card {
            name: NAME,
            summary: "ICMP echo over IPv4, answered by the kernel",
            ordered: false,
            reliable: false,
            boundaries: true,
            // 65535 bytes less the two headers.
            max_message_bytes: 65_507,
            min_mtu_bytes: IPV4_MTU_BYTES,
            answered_by: AnsweredBy::Kernel,
            reach: Reach::Network,
            protocol: card::Protocol::Icmp,
            rough_round_trip: RoughRoundTrip { blocking_ns: 4_000, spinning_ns: 4_000 },
            options: OPTIONS,
            ..Card::LOCAL
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        let (_, is_raw) = open().map_err(|error| {
            WhyNot::new(format!("neither a ping socket nor a raw socket can be opened: {error}"), HINT)
        })?;
        let socket = if is_raw { "raw socket" } else { "ping socket" };
        Ok(Receipt { detail: format!("{socket}, {}", loopback_detail("IPv4")) })
    }

    fn listen(&self, _setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        Err(TransportError::Impossible(WhyNot::new(
            "the kernel answers ICMP, so Hairpin has no server for it",
            "connect to 127.0.0.1",
        )))
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(&self.card(), setup)?;
        let at = server_end(Family::V4, setup);
        let is_there = |parsed: &Ipv4Addr| IpAddr::V4(*parsed) == at;
        let to = address.parse::<Ipv4Addr>().ok().filter(is_there);
        let to = to.ok_or_else(|| bad_address(address, &at.to_string()))?;
        let (socket, is_raw) = open().map_err(|source| failed("open", "an ICMP socket", source, HINT))?;
        options::apply(socket.as_fd(), Family::V4, &setup.options, Moment::Opened)?;
        let (number, identifier) = new_number_and_identifier();
        let prepared = if is_raw { receive_replies_only(&socket, to, number) } else { Ok(()) };
        prepared
            .and_then(|()| socket.connect(&SocketAddrV4::new(to, 0).into()))
            .map_err(|source| failed("connect to", address, source, "is the interface up (`ip link`)?"))?;
        let is_checked = is_raw && setup.server.is_some();
        let port = IcmpPort { socket, is_raw, is_checked, identifier, sequence: 0 };
        let wire = DescriptorWire::new(port, setup.waiting, setup.timeout);
        Ok(OneWire::connection(
            NAME,
            wire.map_err(|source| failed("set an alarm for", "an ICMP socket", source, HINT))?,
        ))
    }
}

const HINT: &str = "include your group in net.ipv4.ping_group_range, or run with CAP_NET_RAW";

/// Opens a ping socket or, if the system does not allow one, a raw socket. Returns whether the socket is raw.
fn open() -> io::Result<(Socket, bool)> {
    let ping = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4));
    match ping {
        Ok(socket) => Ok((socket, false)),
        Err(_) => Ok((Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?, true)),
    }
}

/// Makes the kernel drop all ICMP packets except echo replies on a raw socket (raw(7), `ICMP_FILTER`).
///
/// On the loopback device, a raw socket would also receive its own requests and the replies to other processes. If the
/// buffer is full, Linux counts such packets as dropped before it applies the filter, so `socket.drops` would count
/// foreign packets. A bound socket receives only packets to its address, and the loopback device has all addresses of
/// 127.0.0.0/8, so each wire binds to a different loopback address.
fn receive_replies_only(socket: &Socket, to: Ipv4Addr, number: u32) -> io::Result<()> {
    let unwanted = !(1_u32 << ECHO_REPLY);
    sockopt::set(socket.as_fd(), sockopt::ICMP_FILTER, unwanted.cast_signed())?;
    if to.is_loopback() { socket.bind(&SocketAddrV4::new(source_address(number, to), 0).into()) } else { Ok(()) }
}

/// Returns the address in 127.0.0.0/8 for a wire number; never `to`, the network address or the broadcast address.
fn source_address(number: u32, to: Ipv4Addr) -> Ipv4Addr {
    const HOST_BITS: u32 = 0x00ff_ffff;
    const NETWORK: u32 = 127 << 24;
    (0..4)
        .map(|next| number.wrapping_add(next) & HOST_BITS)
        .filter(|host| *host != 0 && *host != HOST_BITS)
        .map(|host| Ipv4Addr::from(NETWORK | host))
        .find(|address| *address != to)
        .expect("at most three of four consecutive numbers are excluded")
}

/// Returns a number for a wire's address, and an identifier for its requests. Each process uses four numbers; pids are
/// below 2^22 (proc(5), `pid_max`). Wires of one process that share an address have different identifiers.
fn new_number_and_identifier() -> (u32, u16) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (pid, count) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    // The identifier is a hash, so it may be truncated.
    let identifier = pid.wrapping_mul(0x9e37).wrapping_add(count) as u16;
    (pid.wrapping_mul(4).wrapping_add(count % 4), identifier)
}

struct IcmpPort {
    socket: Socket,
    is_raw: bool,
    /// Whether to verify checksums: a link may damage replies, and a raw socket receives replies unchecked.
    is_checked: bool,
    /// Identifies the requests of a raw socket. For a ping socket the kernel sets the identifier.
    identifier: u16,
    sequence: u16,
}

impl IcmpPort {
    fn request_header(&self, payload: &[u8]) -> [u8; HEADER_BYTES] {
        let [identifier_high, identifier_low] = self.identifier.to_be_bytes();
        let [sequence_high, sequence_low] = self.sequence.to_be_bytes();
        let mut header = [ECHO_REQUEST, 0, 0, 0, identifier_high, identifier_low, sequence_high, sequence_low];
        // For a ping socket the kernel fills in the checksum.
        if self.is_raw {
            [header[2], header[3]] = checksum(&header, payload).to_be_bytes();
        }
        header
    }
}

impl Port for IcmpPort {
    fn receive(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        let mut headers = [0; IP_HEADER_BYTES + HEADER_BYTES];
        let length = if self.is_raw { headers.len() } else { HEADER_BYTES };
        let headers = &mut headers[..length];
        let bytes = socket::receive_parted(self.socket.as_fd(), headers, into, may_block)?;
        let icmp = &headers[length - HEADER_BYTES..];
        let has_options = self.is_raw && headers[0] & 0x0f != 5;
        let is_ours = !self.is_raw || icmp[4..6] == self.identifier.to_be_bytes();
        // Ignores replies to other processes, and replies without payload.
        if has_options || !is_ours || icmp[0] != ECHO_REPLY || bytes <= length {
            return Err(Miss::Again);
        }
        let payload_bytes = bytes - length;
        if self.is_checked && checksum(icmp, into.get(..payload_bytes).unwrap_or_default()) != 0 {
            return Err(Miss::Again);
        }
        Ok(payload_bytes)
    }

    fn send(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        let header = self.request_header(bytes);
        let sent = socket::send_parted(self.socket.as_fd(), &header, bytes, may_block)?;
        self.sequence = self.sequence.wrapping_add(1);
        Ok(sent.saturating_sub(HEADER_BYTES))
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn writable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn facts(&self) -> Vec<Fact> {
        facts(&self.socket, Family::V4, OPTIONS)
    }
}

/// Returns the Internet checksum (RFC 1071) of a header of even length and a payload.
fn checksum(header: &[u8], payload: &[u8]) -> u16 {
    let words = |bytes: &[u8]| -> u64 {
        let pairs = bytes.chunks_exact(2);
        let odd = pairs.remainder().first().map_or(0, |byte| u64::from(*byte) << 8);
        odd + pairs.map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u64>()
    };
    let mut sum = words(header) + words(payload);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Fits in 16 bits after the loop.
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_matches_the_example_of_the_rfc() {
        // The example of RFC 1071, section 3: the sum is ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03], &[0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    proptest! {
        #[test]
        fn every_number_has_a_valid_loopback_address(number: u32, host in 0_u32..1 << 24) {
            let to = Ipv4Addr::from(127 << 24 | host);
            let own = source_address(number, to);
            prop_assert!(own.is_loopback() && own != to);
            prop_assert!(![Ipv4Addr::new(127, 0, 0, 0), Ipv4Addr::new(127, 255, 255, 255)].contains(&own));
        }

        #[test]
        fn a_packet_with_its_checksum_sums_to_zero(payload in proptest::collection::vec(any::<u8>(), 1..200)) {
            let mut header = [ECHO_REQUEST, 0, 0, 0, 1, 2, 3, 4];
            [header[2], header[3]] = checksum(&header, &payload).to_be_bytes();
            prop_assert_eq!(checksum(&header, &payload), 0);
        }
    }
}
