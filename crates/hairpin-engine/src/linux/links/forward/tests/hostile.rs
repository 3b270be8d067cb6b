//! Arbitrary traffic of a program in a namespace: nothing panics, every ledger adds up, and memory is released.
//!
//! For a longer run: `PROPTEST_CASES=20000 cargo test -p hairpin-engine --lib hostile`. 20 000 cases took 67 s on a
//! virtual machine with 2 CPUs.

use hairpin_link::Direction;
use proptest::prelude::*;

use super::packets::{datagram, ipv4, ipv6, udp, udp_in_parts};
use super::{Coming, Fixture, carrier};
use crate::links::Numbered;
use crate::links::forward::frames::{Content, content};

const LINES: [&str; 4] = [
    "delay=0ms",
    "mtu=600B rate=20mbit queue=5packets delay=1ms",
    "outage=1ms-2ms rate=1gbit codel=5ms/100ms burst-loss=5%/20% corrupt=30% duplicate=30% delay=2ms±2ms order=free \
     reorder=10%/1ms",
    "up.corrupt=100% down.duplicate=100% loss=20% delay=300us",
];

/// A valid frame, random bytes, or a valid frame with some bytes changed, truncated or extended. The interface may
/// report any length.
fn frames() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let payload = prop::collection::vec(any::<u8>(), 0..200);
    let right = (payload, any::<u8>(), any::<u8>()).prop_map(|(payload, kind, next)| match kind % 8 {
        0 => payload,
        1 => ipv4(next, &payload),
        2 => ipv6(next, &payload),
        3 => ipv4(1, &datagram(next, &payload)),
        4 => ipv6(44, &[&[next, 0, 0, next, 0, 0, 0, 1][..], &payload].concat()),
        5 => udp_in_parts(u16::from(next), &payload, 64).pop().expect("there is a last part"),
        6 => [vec![0; 12], vec![0x08, 0x06], payload].concat(),
        _ => udp(&payload),
    });
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let lengths = prop_oneof![4 => Just(None), 1 => (0..3_000_usize).prop_map(Some)];
    (right, changes, prop::option::weighted(0.2, 0..300_usize), lengths).prop_map(
        |(mut frame, changes, cut, length)| {
            for (at, byte) in changes.iter().filter(|_| !frame.is_empty()).collect::<Vec<_>>() {
                let at = at.index(frame.len());
                frame[at] = *byte;
            }
            frame.resize(cut.unwrap_or(frame.len()), 0xa5);
            let length_bytes = length.unwrap_or(frame.len());
            (frame, length_bytes)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_ledger_closes(
        frames in prop::collection::vec((frames(), any::<bool>(), 0..200_000_u64, prop::bool::weighted(0.05)), 0..200),
        line in prop::sample::select(&LINES[..]),
        widths in (1..=8_usize, 1..=8_usize),
        bound_bytes in prop::sample::select(&[20_000_usize, 1 << 28][..]),
        refuses in any::<bool>(),
        ends_ns in prop::sample::select(&[1_000_000_u64, 60_000_000_000][..]),
    ) {
        let mut at_ns = 0;
        let coming: Vec<Coming> = frames.into_iter().map(|((bytes, length_bytes), is_up, gap_ns, had_tag)| {
            at_ns += gap_ns;
            let direction = if is_up { Direction::Up } else { Direction::Down };
            Coming { at_ns, stamped_before_ns: at_ns.min(gap_ns * 2), direction, bytes, length_bytes, had_tag }
        }).collect();
        let numbered = Numbered { message_bytes: widths.0, answer_bytes: widths.1, one_way: None, flow_match: None };
        let mut relay = carrier(line, bound_bytes, Some(numbered), None);
        let refused = if refuses { |send: usize| send % 7 == 5 } else { |_: usize| false };
        let mut interfaces = Fixture::new(coming, ends_ns).refusing(refused);
        relay.carry(&mut interfaces).unwrap();
        let kept = relay.kept.packets().count();
        let count = |wanted: fn(&Content) -> bool| {
            let contents = interfaces.came.iter().filter(|one| !one.had_tag);
            contents.filter(|one| wanted(&content(one.direction, &one.bytes, one.length_bytes))).count() as u64
        };
        let packets = count(|content| matches!(content, Content::Ip(_)));
        let tagged = interfaces.came.iter().filter(|one| one.had_tag).count() as u64;
        let other = count(|content| *content == Content::Other);
        let beside = count(|content| *content == Content::Arp);
        let left = relay.finish();

        prop_assert_eq!(left.record.packets.entered + left.overrun, packets);
        prop_assert_eq!(left.not_carried, tagged + other);
        for counts in [&left.record.packets, &left.record.up.packets, &left.record.down.packets] {
            prop_assert_eq!(counts.unexplained(), 0);
        }
        for stage in left.record.up.stages.iter().chain(&left.record.down.stages) {
            prop_assert_eq!(stage.packets.unexplained(), 0);
        }
        prop_assert!(kept as u64 <= left.record.packets.inside, "stored packets are inside");
        if ends_ns > at_ns + 1_000_000_000 {
            prop_assert_eq!((kept, left.record.packets.inside), (0, 0));
        }
        let gone = interfaces.gone.len() as u64;
        if refuses {
            prop_assert!(gone <= left.record.packets.out + beside);
        } else {
            prop_assert_eq!(gone, left.record.packets.out + beside);
            prop_assert_eq!(left.record.packets.dropped.get("release"), None);
        }
    }
}
