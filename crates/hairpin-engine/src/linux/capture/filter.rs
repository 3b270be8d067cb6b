//! The capture filter: a classic BPF program (Documentation/networking/filter.rst) that the kernel runs on every packet
//! of the interface.

use hairpin_transports::bpf::{jump, statement};
use libc::sock_filter;
use libc::{BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET};

use super::frame::SNAP_BYTES;
use crate::packets::headers;

/// Offsets in a frame with 14 bytes of Ethernet header.
const ETHERTYPE: u32 = 12;
const IPV4_HEADER: u32 = 14;
const IPV4_FRAGMENT: u32 = 20;
const IPV4_PROTOCOL: u32 = 23;
const IPV6_NEXT_HEADER: u32 = 20;
const IPV6_PORTS: u32 = 54;

/// Mask of the fragment offset and the "more fragments" flag.
const IS_FRAGMENT: u32 = 0x3fff;

/// Accepts packets of `protocol` from or to `port`, over IPv4 (header of any length, no fragments) or IPv6 (no extension headers), in
/// Ethernet frames.
pub(super) fn of_port(protocol: u8, port: u16) -> [sock_filter; 20] {
    let (port, protocol) = (u32::from(port), u32::from(protocol));
    let (ipv4, ipv6) = (u32::from(headers::IPV4), u32::from(headers::IPV6));
    // The operands of a jump: instructions to skip if true, and if false.
    [
        statement(BPF_LD | BPF_H | BPF_ABS, ETHERTYPE),
        jump(BPF_JEQ, ipv4, 0, 9),
        statement(BPF_LD | BPF_B | BPF_ABS, IPV4_PROTOCOL),
        jump(BPF_JEQ, protocol, 0, 15),
        statement(BPF_LD | BPF_H | BPF_ABS, IPV4_FRAGMENT),
        jump(BPF_JSET, IS_FRAGMENT, 13, 0),
        statement(BPF_LDX | BPF_B | BPF_MSH, IPV4_HEADER),
        statement(BPF_LD | BPF_H | BPF_IND, IPV4_HEADER),
        jump(BPF_JEQ, port, 9, 0),
        statement(BPF_LD | BPF_H | BPF_IND, IPV4_HEADER + 2),
        jump(BPF_JEQ, port, 7, 8),
        jump(BPF_JEQ, ipv6, 0, 7),
        statement(BPF_LD | BPF_B | BPF_ABS, IPV6_NEXT_HEADER),
        jump(BPF_JEQ, protocol, 0, 5),
        statement(BPF_LD | BPF_H | BPF_ABS, IPV6_PORTS),
        jump(BPF_JEQ, port, 2, 0),
        statement(BPF_LD | BPF_H | BPF_ABS, IPV6_PORTS + 2),
        jump(BPF_JEQ, port, 0, 1),
        statement(BPF_RET | BPF_K, SNAP_BYTES),
        statement(BPF_RET | BPF_K, 0),
    ]
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::capture::tests::{frame_ipv4, frame_ipv6};
    use crate::system::packet_ring;

    /// The number of bytes of `frame` that pass the filter; `None` if it is rejected. The test uses a Unix socket,
    /// which needs no privilege: the kernel runs filters in the same way on all sockets.
    fn kept(frame: &[u8]) -> Option<usize> {
        kept_by(headers::TCP, frame)
    }

    fn kept_by(protocol: u8, frame: &[u8]) -> Option<usize> {
        let (from, to) = UnixDatagram::pair().unwrap();
        packet_ring::attach_filter(to.as_fd(), &of_port(protocol, 4000)).unwrap();
        to.set_nonblocking(true).unwrap();
        drop(from.send(frame));
        let mut bytes = [0; 4096];
        to.recv(&mut bytes).ok()
    }

    #[test]
    fn only_tcp_of_the_port_passes() {
        for frame in [frame_ipv4, frame_ipv6] {
            let length = frame((4000, 5), 6).len();
            assert_eq!(kept(&frame((4000, 5), 6)), Some(length));
            assert_eq!(kept(&frame((5, 4000), 6)), Some(length));
            assert_eq!(kept(&frame((5, 6), 6)), None, "another port");
            assert_eq!(kept(&frame((4000, 5), 17)), None, "UDP of the port");
            assert_eq!(kept_by(headers::UDP, &frame((4000, 5), 17)), Some(length));
            assert_eq!(kept_by(headers::UDP, &frame((4000, 5), 6)), None, "TCP of the port");
            let mut other = frame((4000, 5), 6);
            other[12..14].copy_from_slice(&0x88cc_u16.to_be_bytes());
            assert_eq!(kept(&other), None, "another protocol");
            assert_eq!(kept(&frame((4000, 5), 6)[..34]), None, "truncated");
        }
    }

    #[test]
    fn a_header_with_options_passes_and_a_fragment_does_not() {
        let plain = frame_ipv4((4000, 5), 6);
        let mut with_options = [&plain[..34], &[1; 8], &plain[34..]].concat();
        assert_eq!(kept(&with_options), None, "the filter reads options as ports");
        with_options[14] = 0x47;
        assert_eq!(kept(&with_options), Some(plain.len() + 8));
        for fragment in [0x2000_u16, 0x0001, 0x1fff] {
            let mut frame = plain.clone();
            frame[20..22].copy_from_slice(&fragment.to_be_bytes());
            assert_eq!(kept(&frame), None, "{fragment:#x}");
        }
        let mut whole = plain.clone();
        whole[20..22].copy_from_slice(&0x4000_u16.to_be_bytes());
        assert_eq!(kept(&whole), Some(plain.len()), "do not fragment");
    }

    #[test]
    fn only_the_beginning_of_a_long_packet_is_kept() {
        let mut frame = frame_ipv4((4000, 5), 6);
        frame.resize(2000, 7);
        assert_eq!(kept(&frame), Some(usize::try_from(SNAP_BYTES).unwrap()));
    }
}
