//! The fuzz target `link_frames`: parses arbitrary frames that a program sends into a link, and counts their losses.

use hairpin_link::{Direction, stages};
use hairpin_model::FlowId;

use super::frames::{Content, content, is_damage_noticed};
use super::messages::{Flows, RELEASE};
use crate::fuzzing::Input;
use crate::links::{FlowMatch, Numbered};

/// The port of a flow whose packets are recognized by their port.
const PORT: u16 = 4000;

/// Reads frames that arrive at a link. The input is 3 bytes that define how messages are recognized, then the frames.
/// Each is 1 byte for direction and fate, 2 for a bit to flip, 2 for the number of bytes not captured, and the length
/// and the captured bytes. Returns whether all frames are carried and each IP packet is part of a message.
pub fn link_frames(input: &[u8]) -> bool {
    let mut input = Input(input);
    let mut flows = Flows::new(&[(FlowId::default(), numbered(&mut input))].into());
    let (mut all_known, mut parts, mut lost) = (true, 0_u64, 0_u64);
    while !input.is_empty() {
        let (fate, bit, missing) = (input.number(1), input.number(2), input.number(2));
        let bytes = input.prefixed_bytes();
        let direction = if fate & 1 == 0 { Direction::Up } else { Direction::Down };
        let length_bytes = bytes.len() + usize::try_from(missing).expect("two bytes");
        is_damage_noticed(bytes, u32::try_from(bit).expect("two bytes"));
        let packet = match content(direction, bytes, length_bytes) {
            Content::Ip(packet) => packet,
            Content::Arp => continue,
            Content::Other => {
                all_known = false;
                continue;
            }
        };
        assert!(packet.size_bytes <= length_bytes);
        assert!(packet.payload.as_ref().is_none_or(|range| range.start < range.end && range.end <= bytes.len()));
        let Some(part) = flows.on_packet(direction, &packet, bytes) else {
            all_known = false;
            continue;
        };
        parts += 1;
        if fate & 2 != 0 {
            let causes: Vec<_> = stages::ALL.iter().map(|stage| stage.name).chain([RELEASE, "unknown"]).collect();
            flows.lost(part, causes[usize::try_from(fate >> 2).expect("a byte") % causes.len()]);
            lost += 1;
        }
    }
    let by_cause = flows.lost_by_cause();
    let told: u64 = by_cause.values().map(|flow| flow.by_cause.values().sum::<u64>() + flow.in_warm_up).sum();
    assert!(told <= lost, "{told} messages of {lost} lost packets");
    all_known && parts > 0
}

fn numbered(input: &mut Input<'_>) -> Numbered {
    let sort = input.number(1);
    let one_way = [None, Some(Direction::Up), Some(Direction::Down), None];
    let flow_match = [None, Some(FlowMatch::Udp(PORT)), Some(FlowMatch::Icmp), None];
    let mut width = || 1 + usize::try_from(input.number(1) % 8).expect("a byte");
    Numbered {
        message_bytes: width(),
        answer_bytes: width(),
        one_way: one_way[usize::try_from(sort & 3).expect("two bits")],
        flow_match: flow_match[usize::try_from(sort >> 2 & 3).expect("two bits")],
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packets::{datagram, ipv4, ipv6, udp, udp_in_parts};
    use super::*;

    const UP: u8 = 0;
    const DOWN: u8 = 1;
    const LOST: u8 = 2;

    /// Encodes frames with their fates as an input.
    fn input(numbered: [u8; 3], frames: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let one = |(fate, bytes): &(u8, Vec<u8>)| {
            [&[*fate, 0, 0, 0, 0][..], &u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
        };
        numbered.into_iter().chain(frames.iter().flat_map(one)).collect()
    }

    /// A UDP datagram from and to [`PORT`].
    fn to_port(payload: &[u8]) -> Vec<u8> {
        let ports = [PORT.to_be_bytes(), PORT.to_be_bytes()].concat();
        [&ports, &[0; 4][..], payload].concat()
    }

    #[test]
    fn the_corpus_of_link_frames_is_replayed() {
        let message = |number: u64| udp(&number.to_le_bytes());
        let answered = [
            (UP, message(0)),
            (DOWN, message(0)),
            (UP | LOST, message(1)),
            (UP, message(2)),
            (DOWN | LOST, message(2)),
        ];
        let duplicated = [(UP, message(0)), (DOWN | LOST, message(0)), (DOWN | LOST, message(0))];
        let narrow: Vec<_> = (250..260).map(|number| (UP | LOST, message(number))).collect();
        let in_parts: Vec<_> = udp_in_parts(7, &[3; 100], 48).into_iter().map(|part| (UP | LOST, part)).collect();
        let one_way = [(UP | LOST, message(3)), (UP | LOST, message(4)), (UP, message(6))];
        let echo = [(UP, ipv4(1, &datagram(8, &[0; 8]))), (DOWN, ipv4(1, &datagram(0, &[0; 8])))];
        let echo_v6 = [(UP, ipv6(58, &datagram(128, &[0; 8]))), (DOWN | LOST, ipv6(58, &datagram(129, &[0; 8])))];
        let options = [&[60, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0][..], &to_port(&[0; 8])].concat();
        let fragment = [&[17, 0, 0, 1, 0, 0, 0, 9][..], &to_port(&[0; 8])].concat();
        let arp = [vec![0; 12], vec![0x08, 0x06], vec![0; 28]].concat();
        let valid = [
            ("answered", input([0, 7, 7], &answered)),
            ("duplicated", input([0, 7, 7], &duplicated)),
            ("narrow", input([0, 0, 0], &narrow)),
            ("in-parts", input([1, 7, 7], &in_parts)),
            ("one-way", input([1, 7, 7], &one_way)),
            ("echo", input([8, 7, 7], &echo)),
            ("echo-over-ipv6", input([0, 7, 7], &echo_v6)),
            ("extensions", input([4, 7, 7], &[(UP, ipv6(0, &options)), (UP, arp)])),
            ("fragment-over-ipv6", input([4, 7, 7], &[(UP, ipv6(44, &fragment))])),
        ];
        hairpin_testing::corpus::replay("link_frames", &valid, link_frames);
    }
}
