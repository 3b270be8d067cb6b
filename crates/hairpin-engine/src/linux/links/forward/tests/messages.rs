//! Tests which messages count as lost, on fixture links.

use std::collections::BTreeMap;

use hairpin_link::Direction::{self, Down, Up};
use hairpin_model::FlowId;
use hairpin_transports::{HELLO_BYTES, is_hello};

use super::packets::{datagram, ipv4, ipv6, udp, udp_in_parts};
use super::{Carried, Coming, Fixture, carried, carrier, coming};
use crate::links::{FlowMatch, Numbered};

const MS: u64 = 1_000_000;
const END: u64 = 10_000 * MS;
const WIDE: Numbered = Numbered { message_bytes: 8, answer_bytes: 8, one_way: None, flow_match: None };

/// A message and, 100 ms later, its answer; each is one datagram with a payload of `bytes` bytes.
fn exchange(number: u64, bytes: usize) -> [Coming; 2] {
    let mut payload = vec![7; bytes.max(8)];
    payload[..8].copy_from_slice(&number.to_le_bytes());
    let frame = udp(&payload[..bytes]);
    [coming(number * MS, Up, frame.clone()), coming(number * MS + 100 * MS, Down, frame)]
}

fn exchanges(count: u64) -> Vec<Coming> {
    (0..count).flat_map(|number| exchange(number, 32)).collect()
}

fn lost(line: &str, numbered: Numbered, packets: Vec<Coming>) -> BTreeMap<String, u64> {
    lost_refusing(line, numbered, packets, |_| false)
}

fn lost_refusing(
    line: &str,
    numbered: Numbered,
    packets: Vec<Coming>,
    refused: fn(usize) -> bool,
) -> BTreeMap<String, u64> {
    by_cause(&carried(line, Some(numbered), Fixture::new(packets, END).refusing(refused)).1)
}

fn by_cause(left: &Carried) -> BTreeMap<String, u64> {
    left.lost[&FlowId::default()].by_cause.clone()
}

fn causes<const N: usize>(causes: [(&str, u64); N]) -> BTreeMap<String, u64> {
    causes.into_iter().map(|(cause, count)| (cause.to_owned(), count)).collect()
}

fn unanswered(mut packets: Vec<Coming>, numbers: &[u64]) -> Vec<Coming> {
    let answers: Vec<u64> = numbers.iter().map(|number| number * MS + 100 * MS).collect();
    packets.retain(|one| one.direction == Up || !answers.contains(&one.at_ns));
    packets
}

#[test]
fn a_message_is_lost_on_its_way_up_or_its_answer_on_the_way_down() {
    assert_eq!(lost("delay=1ms", WIDE, exchanges(20)), causes([]));
    let up = unanswered(exchanges(20), &[3, 5]);
    assert_eq!(lost("up.drop=3,5", WIDE, up), causes([("link-loss", 2)]));
    assert_eq!(
        lost("down.drop=0,19 down.outage=105ms-107ms", WIDE, exchanges(20)),
        causes([("link-loss", 2), ("link-outage", 2)])
    );
    // The link did not lose an unanswered message that it carried.
    assert_eq!(lost("up.drop=3", WIDE, unanswered(exchanges(20), &[3, 8, 9])), causes([("link-loss", 1)]));
    let too_large = vec![exchange(0, 1_480)[0].clone()];
    assert_eq!(lost("delay=1ms", WIDE, too_large), causes([("link-mtu", 1)]));
}

#[test]
fn hellos_and_errors_are_not_messages() {
    let [hello, welcome] = [4, 7].map(|kind| {
        let mut bytes = [1; HELLO_BYTES];
        bytes[0] = kind;
        bytes[HELLO_BYTES - 6..].copy_from_slice(b"hrpn\xb5\x1e");
        assert!(is_hello(&bytes));
        udp(&bytes)
    });
    let unreachable = ipv4(1, &datagram(3, &udp(&[0; 8])));
    let packets = vec![
        coming(0, Up, hello),
        coming(1, Down, welcome),
        coming(2, Down, unreachable),
        coming(3, Up, ipv4(6, &[0; 40])),
        coming(4, Down, udp(&[0; 8])),
    ];
    let narrow = Numbered { message_bytes: 1, answer_bytes: 1, one_way: None, flow_match: None };
    assert_eq!(lost("loss=100%", narrow, packets), causes([]), "an answer without a message does not count");
}

#[test]
fn a_message_and_its_copy_must_both_be_lost() {
    // Each exchange has four packets, which are sent without delay: message, copy, answer, copy of the answer.
    let line = "duplicate=100% delay=1ms";
    let one = || exchanges(1);
    assert_eq!(lost_refusing(line, WIDE, one(), |send| send == 0), causes([]));
    assert_eq!(lost_refusing(line, WIDE, one(), |send| send == 3), causes([]));
    let no_answer = unanswered(one(), &[0]);
    assert_eq!(lost_refusing(line, WIDE, no_answer, |send| send < 2), causes([("link-release", 1)]));
    assert_eq!(lost_refusing(line, WIDE, one(), |send| send >= 2), causes([("link-release", 1)]));
    assert_eq!(lost_refusing(line, WIDE, one(), |send| send % 2 == 0), causes([]));
}

#[test]
fn two_answers_must_both_be_lost() {
    let [message, answer] = exchange(0, 32);
    let both = vec![message, answer.clone(), Coming { at_ns: answer.at_ns + MS, ..answer }];
    assert_eq!(lost("down.drop=0", WIDE, both.clone()), causes([]));
    assert_eq!(lost("down.drop=1", WIDE, both.clone()), causes([]));
    assert_eq!(lost("down.drop=0,1", WIDE, both.clone()), causes([("link-loss", 1)]));
    let later = vec![both[0].clone(), both[1].clone(), Coming { at_ns: END - MS, ..both[2].clone() }];
    assert_eq!(lost("down.drop=0 down.delay=5ms", WIDE, later), causes([("link-inside", 1)]));
}

#[test]
fn a_damaged_packet_is_lost_if_a_checksum_covers_the_bit() {
    let ipv4 = unanswered(exchanges(50), &(0..50).collect::<Vec<_>>());
    assert_eq!(lost("up.corrupt=100%", WIDE, ipv4), causes([("link-corrupt", 50)]));
    let count = 2_000_u64;
    let message = |number: u64| coming(number * MS, Up, ipv6(17, &datagram(0, &number.to_le_bytes())));
    let (gone, left) = carried("up.corrupt=100%", Some(WIDE), Fixture::new((0..count).map(message).collect(), END));
    let is_noticed = |(number, gone): (u64, &super::Gone)| {
        let mut differs = message(number).bytes.into_iter().zip(&gone.bytes).map(|(sent, gone)| sent ^ gone).skip(14);
        let (at, byte) = (0..).zip(differs.by_ref()).find(|(_, byte)| *byte != 0).unwrap();
        // Checksums cover version, payload length, next header and addresses, but not class, label and hop limit.
        !(matches!(at, 1..=3 | 7) || at == 0 && byte < 0x10)
    };
    let noticed = (0..).zip(&gone).filter(|one| is_noticed(*one)).count();
    assert!(noticed < 2_000);
    assert_eq!(by_cause(&left), causes([("link-corrupt", u64::try_from(noticed).unwrap())]));
    // A copy has the same damage as the packet.
    let copied = unanswered(exchanges(5), &(0..5).collect::<Vec<_>>());
    assert_eq!(lost("up.corrupt=100% up.duplicate=100%", WIDE, copied), causes([("link-corrupt", 5)]));
}

#[test]
fn a_fragmented_message_is_lost_with_any_fragment() {
    let parts = |at_ns: u64, direction: Direction, number: u64| {
        let mut payload = vec![3; 3_000];
        payload[..8].copy_from_slice(&number.to_le_bytes());
        let identification = u16::try_from(number).unwrap() * 2 + u16::from(direction == Down);
        udp_in_parts(identification, &payload, 1_480).into_iter().map(move |part| coming(at_ns, direction, part))
    };
    let up: Vec<_> = (0..10).flat_map(|number| parts(number * MS, Up, number)).collect();
    let down = (0..10).flat_map(|number| parts(number * MS + 100 * MS, Down, number));
    let both: Vec<_> = up.iter().cloned().chain(down).collect();
    assert_eq!(lost("delay=1ms", WIDE, both.clone()), causes([]));
    assert_eq!(lost("up.drop=1,2,9,15", WIDE, up), causes([("link-loss", 3)]), "three messages lost fragments");
    assert_eq!(lost("down.drop=0,13,14", WIDE, both.clone()), causes([("link-loss", 2)]));
    // The answer to a damaged message that passed the checksum does not count.
    assert_eq!(lost("up.corrupt=100%", WIDE, both.clone()), causes([("link-corrupt", 10)]));
    assert_eq!(lost("down.corrupt=100%", WIDE, both.clone()), causes([("link-corrupt", 10)]));
    // Both answers to a message are fragmented: one fragment of each is lost.
    let mut twice = both;
    twice.extend(parts(105 * MS, Down, 5).map(|part| Coming { at_ns: 200 * MS, ..part }));
    assert_eq!(lost("down.drop=16", WIDE, twice.clone()), causes([]));
    assert_eq!(lost("down.drop=16,31", WIDE, twice), causes([("link-loss", 1)]));
}

#[test]
fn truncated_numbers_are_resolved_by_the_newest() {
    for (bytes, count) in [(1, 1_000_u64), (2, 70_000)] {
        let numbered = Numbered { message_bytes: bytes, answer_bytes: bytes, one_way: None, flow_match: None };
        let packets: Vec<_> = (0..count)
            .flat_map(|number| {
                let frame = udp(&number.to_le_bytes()[..bytes]);
                [coming(number * 1_000, Up, frame.clone()), coming(number * 1_000 + 50_000, Down, frame)]
            })
            .collect();
        let line = format!("delay=1us up.drop=0,300-302 down.drop={}-{}", count - 14, count - 5);
        let gone = |one: &Coming| {
            one.direction == Down && [0, 300, 301, 302].map(|lost| lost * 1_000 + 50_000).contains(&one.at_ns)
        };
        let answered = packets.into_iter().filter(|one| !gone(one)).collect();
        assert_eq!(lost(&line, numbered, answered), causes([("link-loss", 14)]), "{bytes}");
    }
    // The relay missed so many messages that the next number is nearer to an older one. The message counts as new.
    let narrow = Numbered { message_bytes: 1, answer_bytes: 1, one_way: None, flow_match: None };
    let packets = vec![coming(0, Up, udp(&[3])), coming(1, Up, udp(&[200]))];
    assert_eq!(lost("up.drop=1", narrow, packets), causes([("link-loss", 1)]));
}

#[test]
fn an_answer_may_have_a_shorter_number_than_its_message() {
    let numbered = Numbered { message_bytes: 8, answer_bytes: 1, one_way: None, flow_match: None };
    let packets = (0..600_u64).flat_map(|number| {
        let [message, answer] = exchange(number, 8);
        [
            message,
            Coming { at_ns: number * MS + 500_000, ..coming(answer.at_ns, Down, udp(&number.to_le_bytes()[..1])) },
        ]
    });
    assert_eq!(lost("down.drop=10,400-410", numbered, packets.collect()), causes([("link-loss", 12)]));
}

#[test]
fn echo_requests_and_replies_are_messages_too() {
    type Make = fn(u8, &[u8]) -> Vec<u8>;
    for (make, protocol, request, reply) in [(ipv4 as Make, 1, 8, 0), (ipv6 as Make, 58, 128, 129)] {
        let frame = |kind, number: u64| make(protocol, &datagram(kind, &number.to_le_bytes()));
        let packets = (0..10_u64)
            .flat_map(|number| {
                [
                    coming(number * MS, Up, frame(request, number)),
                    coming(number * MS + 500_000, Down, frame(reply, number)),
                ]
            })
            .collect();
        assert_eq!(lost("down.drop=2,4", WIDE, packets), causes([("link-loss", 2)]));
    }
}

#[test]
fn a_flow_loses_its_own_messages_only() {
    let to_port = |port: u16, number: u64| {
        let mut transport = datagram(0, &number.to_le_bytes());
        transport[2..4].copy_from_slice(&port.to_be_bytes());
        coming(number * MS, Up, ipv4(17, &transport))
    };
    let echo = |number: u64| coming(number * MS, Up, ipv4(1, &datagram(8, &number.to_le_bytes())));
    let packets: Vec<Coming> = (0..6)
        .map(|number| match number {
            0..3 => to_port(40_000, number),
            3..5 => to_port(40_001, number),
            _ => echo(number),
        })
        .collect();
    for (flow_match, count) in
        [(None, 6), (Some(FlowMatch::Udp(40_000)), 3), (Some(FlowMatch::Udp(40_001)), 2), (Some(FlowMatch::Icmp), 1)]
    {
        let numbered = Numbered { flow_match, ..WIDE };
        assert_eq!(lost("loss=100%", numbered, packets.clone()), causes([("link-loss", count)]), "{flow_match:?}");
    }
}

#[test]
fn messages_inside_at_the_end_are_lost_inside() {
    let packets = vec![exchange(0, 32)[0].clone(), exchange(1, 32)[0].clone(), exchange(0, 32)[1].clone()];
    let (gone, left) =
        carried("up.delay=90ms down.delay=1min up.drop=1", Some(WIDE), Fixture::new(packets.clone(), END));
    assert_eq!((gone.len(), by_cause(&left)), (1, causes([("link-inside", 1), ("link-loss", 1)])));
    let (_, left) = carried("up.delay=1min", Some(WIDE), Fixture::new(packets, 50 * MS));
    assert_eq!(by_cause(&left), causes([("link-inside", 2)]));
}

#[test]
fn messages_without_memory_are_lost_by_the_relay() {
    let mut relay = carrier("delay=1s", 4 * (256 + 128), Some(WIDE), None);
    let packets = unanswered(exchanges(10), &(0..10).collect::<Vec<_>>());
    relay.carry(&mut Fixture::new(packets, END)).unwrap();
    let left = relay.finish();
    assert_eq!((left.overrun, by_cause(&left)), (6, causes([("link-overrun", 6)])));
}

#[test]
fn numbers_beyond_the_limit_are_ignored() {
    let frame = |number: u64| udp(&number.to_le_bytes());
    let packets = [u64::MAX, 1 << 24, (1 << 24) - 1, 5].map(|number| coming(0, Up, frame(number)));
    assert_eq!(lost("loss=100%", WIDE, packets.to_vec()), causes([("link-loss", 2)]));
}

/// A message of a one-way load in the up direction, with its number including the phase.
fn one_way(at_ns: u64, number: u64) -> Coming {
    coming(at_ns, Up, udp(&number.to_le_bytes()))
}

#[test]
fn messages_without_answers_are_lost_by_phase_and_cause() {
    let numbered = Numbered { one_way: Some(Up), ..WIDE };
    // Five messages of the warm-up, then five measured ones.
    let numbers = (0..5).map(|one| one << 1).chain((0..5).map(|one| one << 1 | 1));
    let packets: Vec<_> = (0..).zip(numbers).map(|(at, number)| one_way(at * MS, number)).collect();
    let lost = |line, packets| {
        let left = carried(line, Some(numbered), Fixture::new(packets, END)).1;
        (by_cause(&left), left.lost[&FlowId::default()].in_warm_up)
    };
    assert_eq!(lost("up.drop=1,6,7 up.duplicate=100%", packets.clone()), (causes([("link-loss", 2)]), 1));
    // Packets in the other direction are not part of the load.
    let back = packets.into_iter().map(|one| Coming { direction: Down, ..one }).collect();
    assert_eq!(lost("loss=100%", back), (causes([]), 0));
}

#[test]
fn messages_without_answers_are_counted_however_high_their_number() {
    let numbered = Numbered { one_way: Some(Up), ..WIDE };
    let packets = [u64::MAX, 1 << 40 | 1, 1].map(|number| one_way(0, number)).to_vec();
    assert_eq!(lost("loss=100%", numbered, packets), causes([("link-loss", 3)]));
}

#[test]
fn a_fragmented_message_without_an_answer_is_lost_once_per_connection() {
    let numbered = Numbered { one_way: Some(Up), ..WIDE };
    let parts = |identification: u16, port: u8| {
        let mut payload = vec![3; 3_000];
        payload[..8].copy_from_slice(&1_u64.to_le_bytes());
        udp_in_parts(identification, &payload, 1_480).into_iter().map(move |mut part| {
            // The lower byte of the source port, which is only in the first fragment.
            if part[14 + 6] & 0x1f == 0 && part[14 + 7] == 0 {
                part[14 + 20 + 1] = port;
            }
            coming(0, Up, part)
        })
    };
    assert_eq!(lost("loss=100%", numbered, parts(1, 7).collect()), causes([("link-loss", 1)]));
    let both = parts(1, 7).chain(parts(2, 8)).collect();
    assert_eq!(lost("loss=100%", numbered, both), causes([("link-loss", 2)]));
}
