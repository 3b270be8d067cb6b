//! Builds frames for the tests, and tests their parser.

use hairpin_link::Direction::{self, Down, Up};

pub(in super::super) use crate::capture::tests::{ipv4, ipv6};
use crate::links::forward::frames::{Content, Fragment, IpPacket, content, is_damage_noticed};

pub(super) const UDP: u8 = 17;
pub(super) const TCP: u8 = 6;

/// A datagram (UDP, or an ICMP message of type `kind`) with this payload.
pub(in super::super) fn datagram(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0], payload].concat()
}

pub(in super::super) fn udp(payload: &[u8]) -> Vec<u8> {
    ipv4(UDP, &datagram(0, payload))
}

/// A UDP datagram over IPv4 with this payload, in fragments of `part_bytes` bytes.
pub(in super::super) fn udp_in_parts(identification: u16, payload: &[u8], part_bytes: usize) -> Vec<Vec<u8>> {
    let whole = datagram(0, payload);
    let parts = whole.chunks(part_bytes);
    let last = parts.len() - 1;
    let part = |(place, part): (usize, &[u8])| {
        let mut frame = ipv4(UDP, part);
        frame[18..20].copy_from_slice(&identification.to_be_bytes());
        let more = if place < last { 0x2000 } else { 0 };
        let offset = u16::try_from(place * part_bytes / 8).unwrap();
        frame[20..22].copy_from_slice(&(more | offset).to_be_bytes());
        frame
    };
    parts.enumerate().map(part).collect()
}

fn tcp(payload_bytes: usize) -> Vec<u8> {
    let mut segment = vec![0; 32 + payload_bytes];
    segment[12] = 8 << 4;
    segment
}

fn packet(direction: Direction, frame: &[u8]) -> IpPacket {
    match content(direction, frame, frame.len()) {
        Content::Ip(packet) => packet,
        other => panic!("{other:?}"),
    }
}

fn size_and_data(frame: &[u8]) -> (usize, bool) {
    let packet = packet(Up, frame);
    (packet.size_bytes, packet.carries_data)
}

#[test]
fn the_size_is_that_of_the_ip_packet_and_only_payload_is_data() {
    assert_eq!(size_and_data(&ipv4(TCP, &tcp(0))), (52, false), "a pure acknowledgment");
    assert_eq!(size_and_data(&ipv4(TCP, &tcp(1))), (53, true));
    assert_eq!(size_and_data(&ipv6(TCP, &tcp(0))), (72, false));
    assert_eq!(size_and_data(&ipv6(TCP, &tcp(1))), (73, true));
    assert_eq!((size_and_data(&udp(&[])), size_and_data(&udp(&[1]))), ((28, false), (29, true)));
    assert_eq!(size_and_data(&ipv4(1, &datagram(8, &[1; 56]))), (84, true));
    assert_eq!(size_and_data(&ipv4(132, &[1])), (21, true), "of other protocols, every byte counts");
    assert_eq!((size_and_data(&ipv4(132, &[])), size_and_data(&ipv6(59, &[1]))), ((20, false), (41, false)));
    let padded = [ipv4(TCP, &tcp(0)), vec![0; 40]].concat();
    assert_eq!(size_and_data(&padded), (52, false), "padding is not part of the packet");
    let mut options = ipv4(TCP, &[vec![1; 8], tcp(0)].concat());
    options[14] = 0x47;
    assert_eq!(size_and_data(&options), (60, false));
}

#[test]
fn an_inconsistent_packet_has_the_length_of_its_frame() {
    let plain = udp(&[1; 100]);
    let with = |changes: &[(usize, u8)]| {
        let mut frame = plain.clone();
        changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
        size_and_data(&frame)
    };
    assert_eq!(with(&[]), (128, true));
    for lies in [
        &[(14, 0x65)][..],
        &[(14, 0x44)],
        &[(16, 0), (17, 19)],
        &[(16, 0), (17, 129)],
        &[(16, 255)],
        &[(14, 0x4f), (17, 40)],
    ] {
        assert_eq!(with(lies), (128, true), "{lies:?}");
    }
    let mut jumbo = ipv6(0, &[1; 100]);
    jumbo[18..20].copy_from_slice(&101_u16.to_be_bytes());
    assert_eq!(size_and_data(&jumbo), (140, true));
    for length in 14..34 {
        assert_eq!(packet(Up, &plain[..length]).size_bytes, length - 14, "{length}");
    }
    let Content::Ip(cut) = content(Up, &plain[..60], 9_000) else { panic!("the frame is IPv4") };
    assert_eq!(cut.size_bytes, 8_986, "a truncated frame keeps its length");
    assert!(!packet(Up, &ipv4(TCP, &[0xff; 19])).carries_data, "the TCP header is longer than the packet");
}

#[test]
fn only_ip_is_carried() {
    let with_type = |kind: u16| [vec![0; 12], kind.to_be_bytes().to_vec(), vec![0x45; 46]].concat();
    assert_eq!(content(Up, &with_type(0x0806), 60), Content::Arp);
    for other in [0x8100, 0x88a8, 0x88cc, 0x0000, 0xffff] {
        assert_eq!(content(Up, &with_type(other), 60), Content::Other, "{other:#x}");
    }
    for length in 0..14 {
        assert_eq!(content(Up, &udp(&[1])[..length], length), Content::Other);
    }
}

#[test]
fn extension_headers_are_skipped_and_their_chain_ends() {
    let options = |next: u8| [vec![next, 1], vec![0; 14]].concat();
    let message = datagram(0, &[9; 4]);
    let chain = [options(43), options(60), options(UDP), message.clone()].concat();
    let read = packet(Up, &ipv6(0, &chain));
    assert_eq!((read.size_bytes, read.carries_data), (40 + 48 + 12, true));
    assert_eq!(read.payload, Some(14 + 40 + 48 + 8..14 + 40 + 48 + 12));
    let authenticated = [&[UDP, 4][..], &[0; 22], &message].concat();
    assert_eq!(packet(Up, &ipv6(51, &authenticated)).payload, Some(14 + 40 + 24 + 8..14 + 40 + 24 + 12));
    let endless = options(0).repeat(90);
    assert_eq!(packet(Up, &ipv6(0, &endless)).payload, None);
    let beyond = [&[UDP, 255][..], &[0; 30]].concat();
    assert_eq!(packet(Up, &ipv6(60, &beyond)).payload, None, "the header claims to be longer than the packet");
}

#[test]
fn fragments_of_a_datagram_share_its_identification() {
    let parts = udp_in_parts(0x1234, &[7; 50], 24);
    let read: Vec<_> = parts.iter().map(|part| packet(Up, part)).collect();
    let of = |is_first| Some(Fragment { identification: 0x1234, is_first });
    assert_eq!(read.iter().map(|part| part.fragment).collect::<Vec<_>>(), [of(true), of(false), of(false)]);
    assert_eq!(read[0].payload, Some(42..58));
    assert_eq!((&read[1].payload, read[2].carries_data), (&None, true));
    let part = |offset: u16| {
        let head = [&[UDP, 0][..], &(offset << 3 | 1).to_be_bytes(), &[1, 2, 3, 4]].concat();
        packet(Up, &ipv6(44, &[head, datagram(0, &[5; 8])].concat()))
    };
    assert_eq!(part(0).fragment, Some(Fragment { identification: 0x0102_0304, is_first: true }));
    assert_eq!(part(0).payload, Some(14 + 56..14 + 64));
    assert_eq!(part(3).fragment, Some(Fragment { identification: 0x0102_0304, is_first: false }));
    assert_eq!((part(3).payload, part(3).carries_data), (None, true));
}

#[test]
fn messages_are_datagrams_and_echo_requests_up_and_replies_down() {
    let is_message = |direction, frame: &[u8]| packet(direction, frame).payload.is_some();
    let frame = udp(&[1]);
    assert!(is_message(Up, &frame) && is_message(Down, &frame));
    for (request, reply, frame) in
        [(8, 0, ipv4 as fn(u8, &[u8]) -> Vec<u8>), (128, 129, ipv6)].map(|(request, reply, make)| {
            let protocol = if request == 8 { 1 } else { 58 };
            (request, reply, move |kind| make(protocol, &datagram(kind, &[1])))
        })
    {
        assert!(is_message(Up, &frame(request)) && is_message(Down, &frame(reply)));
        assert!(!is_message(Up, &frame(reply)) && !is_message(Down, &frame(request)));
        assert!(!is_message(Down, &frame(3)) && !is_message(Down, &frame(1)), "errors are no messages");
    }
    assert!(!is_message(Up, &ipv4(TCP, &tcp(10))) && !is_message(Up, &udp(&[])));
}

#[test]
fn some_bits_of_ipv6_are_covered_by_no_checksum() {
    let unnoticed = |frame: &[u8]| -> Vec<u32> {
        let bits = u32::try_from(frame.len() - 14).unwrap() * 8;
        (0..bits).filter(|bit| !is_damage_noticed(frame, *bit)).collect()
    };
    let fixed: Vec<u32> = (4..32).chain(56..64).collect();
    assert!(unnoticed(&udp(&[1; 8])).is_empty());
    assert_eq!(unnoticed(&ipv6(UDP, &datagram(0, &[1; 8]))), fixed);
    let part = |offset: u8| ipv6(44, &[&[UDP, 0, 0, offset << 3, 0, 0, 0, 1][..], &[1; 16]].concat());
    let fixed: Vec<u32> = fixed.into_iter().filter(|bit| !(10..12).contains(bit)).collect();
    let reserved: Vec<u32> = (328..336).chain(349..351).collect();
    assert_eq!(unnoticed(&part(0)), [fixed.clone(), reserved].concat());
    assert_eq!(unnoticed(&part(1)), [fixed, (320..336).collect(), vec![349, 350]].concat());
    let marked = |marks: u8| {
        let mut part = part(0);
        part[15] |= marks << 4;
        (is_damage_noticed(&part, 10), is_damage_noticed(&part, 11))
    };
    assert_eq!([0, 1, 2, 3].map(marked), [(true, true), (false, true), (true, false), (false, false)]);
}
