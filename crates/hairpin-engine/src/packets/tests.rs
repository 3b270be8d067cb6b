//! Tests with artificial frames and files: link headers, tags and extension headers, files of both formats, damaged ones.

use hairpin_model::observed::ObservedPackets;
use hairpin_model::trace::End;
use proptest::prelude::*;

use super::file::read;
use super::headers::{Content, headers};
use super::{CapturedFrame, Connections, LinkLayer};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// An IPv4 packet with a TCP segment.
fn ipv4(from_client: bool, flags: u8, sequence: u32, ack: u32, payload: usize, identification: u16) -> Vec<u8> {
    let (source, destination) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let ports: [u16; 2] = if from_client { [40_000, 80] } else { [80, 40_000] };
    let mut packet = vec![0x45, 0];
    packet.extend(u16::try_from(40 + payload).unwrap().to_be_bytes());
    packet.extend(identification.to_be_bytes());
    packet.extend([0x40, 0, 64, 6, 0, 0]);
    packet.extend(source);
    packet.extend(destination);
    packet.extend(tcp(ports, flags, sequence, ack));
    packet.extend(vec![7; payload]);
    packet
}

fn tcp([source, destination]: [u16; 2], flags: u8, sequence: u32, ack: u32) -> Vec<u8> {
    let mut header = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    header.extend(sequence.to_be_bytes());
    header.extend(ack.to_be_bytes());
    header.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
    header
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A request of 100 bytes and its answer of 50, with the handshake.
fn conversation() -> Vec<Vec<u8>> {
    vec![
        ipv4(true, SYN, 1_000, 0, 0, 1),
        ipv4(false, SYN | ACK, 5_000, 1_001, 0, 1),
        ipv4(true, ACK, 1_001, 5_001, 0, 2),
        ipv4(true, ACK, 1_001, 5_001, 100, 3),
        ipv4(false, ACK, 5_001, 1_101, 50, 2),
    ]
}

/// A pcap file with frames one millisecond apart.
fn pcap(link_type: u32, frames: &[Vec<u8>], is_big_endian: bool) -> Vec<u8> {
    let word = |number: u32| if is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
    let half = |number: u16| if is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
    let mut file = word(0xa1b2_c3d4).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65_535), word(link_type)].concat());
    for (number, frame) in (0_u32..).zip(frames) {
        let length = word(u32::try_from(frame.len()).unwrap());
        file.extend([word(100), word(number * 1_000), length, length].concat());
        file.extend(frame);
    }
    file
}

fn behind(header: &[u8], frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.into_iter().map(|frame| [header, &frame].concat()).collect()
}

fn observed(file: &[u8]) -> ObservedPackets {
    read(std::io::Cursor::new(file.to_vec())).unwrap()
}

fn check(observed: &ObservedPackets) {
    let [connection] = observed.connections.as_slice() else { panic!("{observed:?}") };
    assert_eq!(connection.client.to_string(), "10.0.0.1:40000");
    assert_eq!(connection.server.to_string(), "10.0.0.2:80");
    let all: Vec<_> =
        connection.trace.packets.iter().map(|one| (one.at_ns, one.from, one.first_byte, one.end_byte)).collect();
    let ms = 1_000_000;
    let expected = [
        (0, End::Client, 0, 0),
        (ms, End::Server, 0, 0),
        (2 * ms, End::Client, 0, 0),
        (3 * ms, End::Client, 0, 100),
        (4 * ms, End::Server, 0, 50),
    ];
    assert_eq!(all, expected);
    assert_eq!(connection.trace.packets[4].ack_byte, Some(100));
    assert!(connection.has_handshake && observed.figures.ended_early.is_none());
}

#[test]
fn files_of_every_link_layer_and_byte_order_have_the_same_connection() {
    let ethernet = [&[0; 12][..], &[0x08, 0]].concat();
    let tagged = [&[0; 12][..], &[0x81, 0, 0, 5, 0x08, 0]].concat();
    let cooked = [&[0, 0][..], &[0; 12], &[0x08, 0]].concat();
    let cooked_v2 = [&[0x08, 0][..], &[0; 18]].concat();
    for is_big_endian in [false, true] {
        for (number, header) in [
            (1, &ethernet),
            (1, &tagged),
            (113, &cooked),
            (276, &cooked_v2),
            (101, &Vec::new()),
            (0, &vec![2, 0, 0, 0]),
        ] {
            check(&observed(&pcap(number, &behind(header, conversation()), is_big_endian)));
        }
    }
}

#[test]
fn a_second_copy_is_an_arrival_and_a_retransmission_is_not() {
    let cooked = |kind: u8, frame: Vec<u8>| [&[0, kind][..], &[0; 12], &[0x08, 0], &frame].concat();
    let mut frames = Vec::new();
    for frame in conversation() {
        frames.extend([cooked(4, frame.clone()), cooked(0, frame)]);
    }
    let seen = observed(&pcap(113, &frames, false));
    assert_eq!((seen.figures.copies, seen.connections[0].trace.packets.len()), (5, 5));
    assert!(seen.connections[0].trace.packets.iter().all(|one| one.arrived_ns == Some(one.at_ns + 1_000_000)));
    let mut frames = conversation();
    frames.push(frames[3].clone());
    let seen = observed(&pcap(101, &frames, false));
    assert_eq!((seen.figures.copies, seen.connections[0].trace.packets.len()), (0, 6));
}

#[test]
fn a_file_that_ends_within_a_block_is_read_up_to_there() {
    let file = pcap(101, &conversation(), false);
    let seen = observed(&file[..file.len() - 10]);
    assert_eq!(seen.connections[0].trace.packets.len(), 4);
    assert!(seen.figures.ended_early.is_some());
    for (bytes, why) in [(&b""[..], "empty"), (&b"hello, this is no capture"[..], "no pcap")] {
        let refused = read(std::io::Cursor::new(bytes.to_vec())).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let refused = read(std::io::Cursor::new(pcap(147, &conversation(), false))).unwrap_err();
    assert!(refused.to_string().contains("link type 147"), "{refused}");
}

#[test]
fn extension_headers_are_skipped_and_later_fragments_have_no_ports() {
    let mut packet = vec![0x60, 0, 0, 0, 0, 36, 0, 64];
    packet.extend([0; 32]);
    // Hop-by-hop options of 8 bytes, then a first fragment.
    packet.extend([44, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 1, 0, 0, 0, 9]);
    packet.extend(tcp([1, 2], SYN, 7, 0));
    let length = u32::try_from(packet.len()).unwrap();
    let found = headers(LinkLayer::Raw, &packet, length).unwrap();
    assert!(matches!(found.content, Content::Tcp(segment) if segment.sequence == 7), "{found:?}");
    packet[50] = 0x10;
    assert_eq!(headers(LinkLayer::Raw, &packet, length), None);
    let mut fragment = ipv4(true, ACK, 1, 1, 0, 1);
    fragment[7] = 9;
    assert_eq!(headers(LinkLayer::Raw, &fragment, 40), None);
}

#[test]
fn a_router_that_refuses_a_packet_gives_the_connection_its_mtu() {
    let mut connections = Connections::default();
    let mut add = |bytes: &[u8]| {
        let length_bytes = u32::try_from(bytes.len()).unwrap();
        connections.add(CapturedFrame {
            realtime_ns: 1,
            interface: 0,
            layer: LinkLayer::Raw,
            bytes,
            length_bytes,
            is_outgoing: None,
        });
    };
    add(&ipv4(true, ACK, 1, 1, 1_000, 1));
    let mut icmp = ipv4(false, 0, 0, 0, 0, 9)[..20].to_vec();
    icmp[9] = 1;
    icmp.extend([3, 4, 0, 0, 0, 0, 2, 88]);
    icmp.extend(&ipv4(true, ACK, 1, 1, 0, 1)[..28]);
    icmp[2..4].copy_from_slice(&56_u16.to_be_bytes());
    add(&icmp);
    assert_eq!(connections.finish(None).connections[0].path_mtu_bytes, Some(600));
}

#[test]
fn a_port_that_is_used_again_without_a_fin_in_the_capture_is_another_connection() {
    let mut frames = conversation();
    frames.extend([ipv4(true, SYN, 9_000, 0, 0, 1), ipv4(true, ACK, 9_001, 1, 10, 1)]);
    let seen = observed(&pcap(101, &frames, false));
    assert_eq!(seen.connections.iter().map(|one| one.trace.packets.len()).collect::<Vec<_>>(), [5, 2]);
}

#[test]
fn the_corpus_of_captures_is_replayed() {
    let ethernet = behind(&[&[0; 12][..], &[0x08, 0]].concat(), conversation());
    let valid = [
        ("ethernet", pcap(1, &ethernet, false)),
        ("raw-big-endian", pcap(101, &conversation(), true)),
        ("loopback", pcap(0, &behind(&[2, 0, 0, 0], conversation()), false)),
    ];
    hairpin_testing::corpus::replay("captures", &valid, |input| {
        read(input).is_ok_and(|seen| !seen.connections.is_empty())
    });
}

proptest! {
    #[test]
    fn no_bytes_make_reading_fail(
        layer in 0..5_usize,
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        length_bytes in any::<u32>(),
    ) {
        let layers = [LinkLayer::Ethernet, LinkLayer::Cooked, LinkLayer::CookedV2, LinkLayer::Raw, LinkLayer::Null];
        let mut connections = Connections::default();
        let frame = CapturedFrame { realtime_ns: 5, interface: 1, layer: layers[layer], bytes: &bytes, length_bytes, is_outgoing: None };
        connections.add(frame);
        prop_assert_eq!(connections.finish(None).figures.frames, 1);
    }

    #[test]
    fn damaged_files_are_read_or_refused(
        at in 0..400_usize,
        byte in any::<u8>(),
        end in 0..500_usize,
        is_big_endian in any::<bool>(),
    ) {
        let mut file = pcap(101, &conversation(), is_big_endian);
        let place = at % file.len();
        file[place] = byte;
        file.truncate(end.max(1));
        drop(read(std::io::Cursor::new(file)));
    }
}
