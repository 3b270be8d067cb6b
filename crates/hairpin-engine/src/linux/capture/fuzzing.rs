//! The fuzz target `packets`: parses packets from arbitrary captured frames, and writes a file with them.

use super::Frame;
use super::crossing::crossings;
use super::packets::{crossed, packets};
use super::pcapng::{FileInfo, file};
use crate::fuzzing::Input;
use crate::realtime::{Bracket, RealtimeMap};

const CLIENT: u16 = 5;
const SERVER: u16 = 4000;

/// Reads frames captured at the client or at the server. A frame is encoded as 1 byte for the end, 1 byte for the
/// time since the previous frame, 2 bytes for the number of bytes not captured, and the captured bytes preceded by
/// their length. Returns true if all frames are packets of the connection.
pub fn captured_frames(input: &[u8]) -> bool {
    let [client, server] = frames(Input(input));
    let map = map();
    let read = packets(&client, CLIENT, SERVER, &map);
    assert!(read.iter().all(|packet| packet.first_byte <= packet.end_byte && packet.length_bytes > 0));
    assert!(read.len() <= client.len());
    let across = crossings(&client, &server, CLIENT, SERVER);
    assert!(across.len() <= client.len() + server.len());
    assert!(crossed(across, CLIENT, SERVER, &map).len() <= client.len() + server.len());
    assert_eq!(kept_of_file(&pcapng(&client)), client.iter().map(|frame| frame.bytes.clone()).collect::<Vec<_>>());
    !read.is_empty() && read.len() == client.len()
}

fn frames(mut input: Input<'_>) -> [Vec<Frame>; 2] {
    let mut all = [Vec::new(), Vec::new()];
    let mut realtime_ns = 0;
    while !input.is_empty() {
        let end = input.number(1) & 1;
        realtime_ns += input.number(1) << 24;
        let missing = u32::try_from(input.number(2)).expect("two bytes");
        let bytes = input.prefixed_bytes().to_vec();
        let length_bytes = missing + u32::try_from(bytes.len()).expect("an input is short");
        all[usize::from(end == 1)].push(Frame { realtime_ns, length_bytes, bytes });
    }
    all
}

fn map() -> RealtimeMap {
    let bracket = |ns| Bracket { engine_before_ns: ns, realtime_ns: ns, engine_after_ns: ns };
    RealtimeMap::between(bracket(0), bracket(1 << 40), 0)
}

fn pcapng(frames: &[Frame]) -> Vec<u8> {
    file(&FileInfo { comment: "c", operating_system: "o", interface: "lo", received: 3, dropped: 1 }, frames)
}

/// The captured bytes of each packet in a pcapng file. Checks that each block states its length at both ends.
fn kept_of_file(file: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut rest = Input(file);
    while !rest.is_empty() {
        let kind = rest.number(4);
        let length = rest.number(4);
        let mut body =
            Input(rest.bytes(usize::try_from(length).expect("four bytes").checked_sub(12).expect("a block")));
        assert_eq!(rest.number(4), length);
        if kind == 6 {
            body.bytes(12);
            let kept = usize::try_from(body.number(4)).expect("four bytes");
            body.bytes(4);
            packets.push(body.bytes(kept).to_vec());
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ACK, FIN, HELLO, RST, SYN, frame_ipv6, sent};
    use super::*;

    /// Encodes frames as an input. With two sides, frames alternate between client and server.
    fn input(frames: &[Frame], sides: u8) -> Vec<u8> {
        let one = |(number, frame): (u8, &Frame)| {
            let kept = u32::try_from(frame.bytes.len()).unwrap();
            let missing = u16::try_from(frame.length_bytes - kept).unwrap();
            [&[number % sides, 1][..], &missing.to_le_bytes(), &kept.to_le_bytes(), &frame.bytes].concat()
        };
        (0..).zip(frames).flat_map(one).collect()
    }

    #[test]
    fn the_corpus_of_packets_is_replayed() {
        let connection = [
            sent(true, SYN, 100, 0, 0),
            sent(false, SYN | ACK, 900, 101, 0),
            sent(true, ACK, 101, 901, HELLO),
            sent(true, ACK, 141, 901, 200),
            sent(false, ACK, 901, 341, 4),
            sent(true, FIN | ACK, 341, 905, 0),
            sent(false, RST, 905, 0, 0),
        ];
        let at_both_ends: Vec<Frame> = connection.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
        let wrapped = [sent(true, SYN, u32::MAX - 9, 0, 0), sent(true, ACK, 31, 0, 8), sent(true, ACK, 31, 0, 8)];
        let mut bytes = frame_ipv6((CLIENT, SERVER), 6);
        bytes[67] = SYN;
        let over_ipv6 = [Frame { realtime_ns: 0, length_bytes: 74, bytes }];
        let valid = [
            ("connection", input(&connection, 1)),
            ("at-both-ends", input(&at_both_ends, 2)),
            ("wrapped", input(&wrapped, 1)),
            ("over-ipv6", input(&over_ipv6, 1)),
        ];
        hairpin_testing::corpus::replay("packets", &valid, captured_frames);
    }
}
