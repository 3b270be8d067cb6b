//! Tests with synthetic frames: parsing, byte counting, and robustness.

use std::io;

use hairpin_model::Packet;
use hairpin_model::trace::End;
use proptest::prelude::*;

use super::crossing::crossings;
use super::packets::{crossed, packets};
use super::{Frame, why_not};
use crate::packets::headers::{Segment, segment};
use crate::realtime::{Bracket, RealtimeMap};

/// An Ethernet frame with an IPv4 header.
pub(crate) fn ipv4(protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14 + 20];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&u16::try_from(20 + transport.len()).unwrap().to_be_bytes());
    frame[23] = protocol;
    frame.extend(transport);
    frame
}

/// An Ethernet frame with an IPv6 header.
pub(crate) fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14 + 40];
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    frame[14] = 0x60;
    frame[18..20].copy_from_slice(&u16::try_from(rest.len()).unwrap().to_be_bytes());
    frame[20] = next;
    frame.extend(rest);
    frame
}

/// An IPv4 frame with ports and an otherwise empty TCP header.
pub(crate) fn frame_ipv4(ports: (u16, u16), protocol: u8) -> Vec<u8> {
    ipv4(protocol, &header(ports))
}

pub(crate) fn frame_ipv6(ports: (u16, u16), protocol: u8) -> Vec<u8> {
    ipv6(protocol, &header(ports))
}

fn header((source, destination): (u16, u16)) -> Vec<u8> {
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0; 8], &[0x50], &[0; 7]].concat()
}

pub(super) const SYN: u8 = 0x02;
pub(super) const FIN: u8 = 0x01;
pub(super) const RST: u8 = 0x04;
pub(super) const ACK: u8 = 0x10;

/// A frame of the connection between ports 5 (client) and 4000 (server), over IPv4.
pub(super) fn sent(client: bool, flags: u8, sequence: u32, acknowledged: u32, payload: u16) -> Frame {
    let mut bytes = frame_ipv4(if client { (5, 4000) } else { (4000, 5) }, 6);
    bytes[16..18].copy_from_slice(&(40 + payload).to_be_bytes());
    bytes[38..42].copy_from_slice(&sequence.to_be_bytes());
    bytes[42..46].copy_from_slice(&acknowledged.to_be_bytes());
    bytes[47] = flags;
    let length_bytes = u32::try_from(bytes.len()).unwrap() + u32::from(payload);
    Frame { realtime_ns: 1_000, length_bytes, bytes }
}

fn map() -> RealtimeMap {
    let bracket = |ns| Bracket { engine_before_ns: ns, realtime_ns: ns, engine_after_ns: ns };
    RealtimeMap::between(bracket(0), bracket(1 << 40), 0)
}

pub(super) const HELLO: u16 = 40;

/// The sender, byte range start and end, and acknowledged byte of each packet.
fn told(frames: &[Frame]) -> Vec<(End, u64, u64, Option<u64>)> {
    let one = |packet: &Packet| (packet.from, packet.first_byte, packet.end_byte, packet.ack_byte);
    packets(frames, 5, 4000, &map()).iter().map(one).collect()
}

#[test]
fn a_segment_is_read_from_both_internet_protocols() {
    let expected = Segment {
        source_port: 4000,
        destination_port: 5,
        sequence: 0x0102_0304,
        acknowledged: Some(0x0506_0708),
        syn: false,
        fin: false,
        rst: false,
        psh: true,
        window: 0,
        options: None,
        payload_bytes: 2,
    };
    for (frame, tcp, length_at) in [(frame_ipv4 as fn(_, _) -> _, 34, 16), (frame_ipv6, 54, 18)] {
        let mut bytes: Vec<u8> = frame((4000, 5), 6);
        bytes[length_at + 1] += 12 + 2;
        bytes[tcp + 4..tcp + 14].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 0x80, ACK | 0x08]);
        // Ethernet pads frames to 60 bytes, so only the headers tell the payload length.
        bytes.extend([0; 30]);
        let length = u32::try_from(bytes.len()).unwrap();
        assert_eq!(segment(&bytes, length), Some(expected));
        // The kernel creates packets of more than 64 KiB with a length field of 0.
        bytes[length_at..length_at + 2].fill(0);
        let all = segment(&bytes, 100_000).map(|segment| segment.payload_bytes);
        assert_eq!(all, Some(100_000 - u64::try_from(tcp).unwrap() - 32));
        for flawed in [(tcp + 12, 0x40), (tcp + 12, 0xf0), (14, 0x55), (14, 0x44)] {
            let mut flawed_bytes: Vec<u8> = frame((4000, 5), 6);
            flawed_bytes[flawed.0] = flawed.1;
            let length = u32::try_from(flawed_bytes.len()).unwrap();
            // In an IPv6 header the length is fixed, so 0x44 is an invalid version.
            assert_eq!(segment(&flawed_bytes, length), None, "{flawed:?}");
        }
    }
}

/// A SYN with these options, and a window of 1000 in it.
fn syn(client: bool, options: &[u8]) -> Frame {
    let mut frame = with_window(sent(client, SYN, 100, 0, 0), 1000);
    frame.bytes[46] = u8::try_from(0x50 + options.len() / 4 * 16).unwrap();
    frame.bytes[17] += u8::try_from(options.len()).unwrap();
    frame.bytes.extend(options);
    Frame { length_bytes: u32::try_from(frame.bytes.len()).unwrap(), ..frame }
}

fn with_window(mut frame: Frame, window: u16) -> Frame {
    frame.bytes[48..50].copy_from_slice(&window.to_be_bytes());
    frame
}

#[test]
fn windows_are_scaled_after_the_handshake_if_both_ends_offer_it() {
    let shifts = [2, 4, 5, 0xb4, 1, 3, 3, 7];
    let damaged = [[3, 3, 200, 0], [1, 1, 8, 0], [5, 90, 3, 3], [0, 3, 3, 7]];
    let windows = |client: &[u8], server: &[u8]| -> Vec<Option<u64>> {
        let later = [true, false].map(|client| with_window(sent(client, ACK, 101, 101, 0), 10));
        let frames = [&[syn(true, client), syn(false, server)], &later[..]].concat();
        packets(&frames, 5, 4000, &map()).iter().map(|packet| packet.window_bytes).collect()
    };
    // Nothing was acknowledged before the first packet.
    let expected = |client, server| vec![None, Some(1000), Some(client), Some(server)];
    assert_eq!(windows(&shifts, &shifts), expected(1280, 1280));
    assert_eq!(windows(&shifts, &[3, 3, 2, 0]), expected(1280, 40));
    assert_eq!(windows(&shifts, &[]), expected(10, 10));
    assert_eq!(windows(&shifts, &damaged[0]), expected(1280, 10 << 14), "at most 14 bits");
    for options in &damaged[1..] {
        assert_eq!(windows(&shifts, options), expected(10, 10), "{options:?}");
    }
}

#[test]
fn bytes_count_from_the_syn_and_the_hello_in_each_direction() {
    let frames = [
        sent(true, SYN, 100, 0, 0),
        sent(false, SYN | ACK, 900, 101, 0),
        sent(true, ACK, 101, 901, 0),
        sent(true, ACK, 101, 901, HELLO),
        sent(true, ACK, 141, 901, 2),
        sent(true, ACK, 143, 901, 198),
        sent(false, ACK, 901, 341, 4),
        sent(true, FIN | ACK, 341, 905, 0),
        sent(false, FIN | ACK, 905, 342, 0),
        sent(true, ACK, 342, 906, 0),
    ];
    use End::{Client, Server};
    assert_eq!(
        told(&frames),
        [
            (Client, 0, 0, None),
            (Server, 0, 0, Some(0)),
            (Client, 0, 0, Some(0)),
            (Client, 0, 0, Some(0)),
            (Client, 0, 2, Some(0)),
            (Client, 2, 200, Some(0)),
            (Server, 0, 4, Some(200)),
            (Client, 200, 200, Some(4)),
            (Server, 4, 4, Some(200)),
            (Client, 200, 200, Some(4)),
        ]
    );
    let all = packets(&frames, 5, 4000, &map());
    assert!(all[0].syn && all[7].fin && !all[3].syn && all.iter().all(|packet| packet.at_ns == 1_000));
    assert_eq!([all[0].length_bytes, all[5].length_bytes], [54, 252], "the link header is counted");
}

#[test]
fn sequence_numbers_wrap_and_old_bytes_are_repeated() {
    // The first byte after the hello has the highest sequence number.
    let start = u32::MAX - 1 - u32::from(HELLO);
    let frames = [
        sent(true, SYN, start, 0, 0),
        sent(false, SYN | ACK, 7, start.wrapping_add(1), 0),
        sent(true, ACK, u32::MAX, 8, 1_000),
        sent(true, ACK, 999, 8, 1_000),
        sent(true, ACK, u32::MAX, 8, 1_000),
        sent(false, ACK, 8, 1_999, 0),
        sent(false, RST, 0, 0, 0),
        sent(false, ACK, 8, 1_999, 5),
    ];
    let client: Vec<_> = told(&frames).into_iter().map(|(_, first, end, ack)| (first, end, ack)).collect();
    assert_eq!(
        client[2..6],
        [(0, 1_000, Some(0)), (1_000, 2_000, Some(0)), (0, 1_000, Some(0)), (0, 0, Some(2_000))]
    );
    assert_eq!(client[7], (0, 5, Some(2_000)), "the sequence number of a reset is ignored");
    // Sequence numbers wrap around twice, in steps that fit a window.
    let mut frames = vec![sent(true, SYN, start, 0, 0)];
    let step = 65_000_u16;
    let steps = (1 << 33) / u64::from(step);
    frames.extend((0..steps).map(|step_number| {
        let at = u64::from(u32::MAX) + step_number * u64::from(step);
        sent(true, ACK, u32::try_from(at & 0xffff_ffff).unwrap(), 0, step)
    }));
    assert_eq!(told(&frames).last().unwrap().2, steps * u64::from(step));
}

#[test]
fn other_connections_and_directions_without_a_beginning_are_omitted() {
    let mut stranger = sent(true, SYN, 1, 0, 0);
    stranger.bytes[34..36].copy_from_slice(&6_u16.to_be_bytes());
    let frames = [stranger, sent(false, ACK, 900, 101, 4), sent(true, SYN, 100, 0, 0), sent(true, ACK, 141, 901, 2)];
    assert_eq!(told(&frames), [(End::Client, 0, 0, None), (End::Client, 0, 2, None)]);
}

#[test]
fn a_refusal_has_the_systems_message_and_a_hint() {
    let told = |number| why_not("open a packet socket", "lo", &io::Error::from_raw_os_error(number)).to_string();
    let expected = "cannot open a packet socket for a capture on lo: Operation not permitted (os error 1) \
                    (hint: run as root, or allow this program once with `setcap cap_net_raw+ep PROGRAM`)";
    assert_eq!(told(libc::EPERM), expected);
    assert!(told(libc::ENODEV).ends_with("(hint: `ip link` lists the interfaces of this network namespace)"));
    assert!(told(libc::ENETDOWN).contains("Network is down (os error 100) (hint: the interface is down"));
}

/// Nearly valid frames, which pass the parser's first checks.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let right = prop_oneof![Just(frame_ipv4((5, 4000), 6)), Just(frame_ipv6((4000, 5), 6))];
    let flaws = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12);
    (right, flaws, 0_usize..80).prop_map(|(mut bytes, flaws, kept)| {
        for (place, value) in flaws {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(kept);
        bytes
    })
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..120), nearly()],
        length_bytes in prop_oneof![any::<u32>(), 0_u32..200],
    ) {
        if let Some(segment) = segment(&bytes, length_bytes) {
            prop_assert!(segment.payload_bytes <= u64::from(length_bytes).max(1 << 16));
        }
    }

    #[test]
    fn no_order_of_segments_causes_a_panic(
        all in prop::collection::vec((any::<bool>(), any::<u8>(), any::<u32>(), any::<u32>(), 0_u16..60_000), 0..50),
    ) {
        let frames: Vec<Frame> = all
            .into_iter()
            .map(|(client, flags, sequence, acknowledged, payload)| sent(client, flags, sequence, acknowledged, payload))
            .collect();
        for packet in packets(&frames, 5, 4000, &map()) {
            prop_assert!(packet.first_byte <= packet.end_byte);
        }
    }
}

/// The frame at another time and with the Ethernet header of another interface.
fn at(realtime_ns: u64, frame: &Frame) -> Frame {
    let mut frame = Frame { realtime_ns, ..frame.clone() };
    frame.bytes[0] = 7;
    frame
}

#[test]
fn a_packet_across_a_link_has_two_times_and_a_lost_packet_has_one() {
    let [syn, answer] = [sent(true, SYN, 100, 0, 0), sent(false, SYN | ACK, 900, 101, 0)];
    let [lost, ack] = [sent(true, ACK, 101, 901, 5), sent(false, ACK, 901, 106, 0)];
    // The second copy of the segment arrived twice, and the server's acknowledgment is still in flight.
    let client = [at(10, &syn), at(40, &answer), at(50, &lost), at(90, &lost)];
    let server = [at(20, &syn), at(30, &answer), at(100, &lost), at(101, &lost), at(110, &ack)];
    let crossings = crossings(&client, &server, 5, 4000);
    let told: Vec<_> =
        crossed(crossings, 5, 4000, &map()).iter().map(|one| (one.at_ns, one.arrived_ns, one.from)).collect();
    let expected = [
        (10, Some(20), End::Client),
        (30, Some(40), End::Server),
        (50, Some(100), End::Client),
        (90, Some(101), End::Client),
        (110, None, End::Server),
    ];
    assert_eq!(told, expected, "identical packets are matched in sending order");
    let mut other = lost.clone();
    other.bytes[18] = 1;
    let client = [at(10, &syn), at(50, &lost), at(90, &other)];
    let server = [at(20, &syn), at(100, &other)];
    let told: Vec<_> = super::crossing::crossings(&client, &server, 5, 4000)
        .iter()
        .map(|crossing| (crossing.frame.realtime_ns, crossing.arrived_realtime_ns))
        .collect();
    assert_eq!(told, [(10, Some(20)), (50, None), (90, Some(100))], "the packets have different IP identifications");
}
