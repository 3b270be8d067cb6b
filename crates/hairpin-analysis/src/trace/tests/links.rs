//! Traces over a link of 2 ms each way: a packet has two times, and its travel time is not a wait.

use super::*;
use crate::statistics::location::median;

const WAY: u64 = 2 * MS;

pub(super) fn packet(from: End, at_ns: u64, arrived: bool, bytes: Range<u64>, ack_byte: u64) -> Packet {
    Packet {
        at_ns,
        arrived_ns: arrived.then_some(at_ns + WAY),
        from,
        first_byte: bytes.start,
        end_byte: bytes.end,
        ack_byte: Some(ack_byte),
        ..Packet::default()
    }
}

pub(super) fn call(kind: CallKind, at_ns: u64, bytes: Range<u64>) -> Call {
    Call { kind, began_ns: at_ns, ended_ns: at_ns + US, first_byte: bytes.start, end_byte: bytes.end }
}

/// One exchange of a write of 2 and a write of 198 bytes. The second write is held until the first is acknowledged,
/// `held_ns` after the first arrived. With `lost`, the first segment is lost and sent again at this time.
fn exchange(held_ns: u64, lost: Option<u64>) -> RoundTrace {
    let first_ns = lost.unwrap_or(0);
    let acked_ns = first_ns + WAY + held_ns;
    let second_ns = acked_ns + WAY;
    let answered_ns = second_ns + WAY;
    let mut packets = vec![packet(End::Client, 10, lost.is_none(), 0..2, 0)];
    packets.extend(lost.map(|at_ns| packet(End::Client, at_ns, true, 0..2, 0)));
    packets.extend([
        packet(End::Server, acked_ns, true, 0..0, 2),
        packet(End::Client, second_ns, true, 2..REQUEST, 0),
        packet(End::Server, answered_ns, true, 0..4, REQUEST),
    ]);
    let client = vec![
        call(CallKind::Write, 0, 0..2),
        call(CallKind::Write, 2 * US, 2..REQUEST),
        call(CallKind::Read, answered_ns + WAY, 0..4),
    ];
    let server = vec![
        call(CallKind::Read, first_ns + WAY, 0..2),
        call(CallKind::Read, second_ns + WAY, 2..REQUEST),
        call(CallKind::Write, answered_ns, 0..4),
    ];
    RoundTrace {
        exchange_began_ns: vec![0],
        exchange_ended_ns: vec![answered_ns + WAY + US],
        request_bytes: REQUEST,
        reply_bytes: 4,
        clock_error_ns: 200,
        client: EndTrace { calls: client, ..EndTrace::default() },
        server: EndTrace { calls: server, ..EndTrace::default() },
        capture: Capture::Saved { file: String::new(), packets: 4, dropped: 0 },
        packets,
        ..RoundTrace::default()
    }
}

pub(super) fn waits(trace: &RoundTrace) -> Vec<(ExchangeState, i64, i64)> {
    let figures = figures(trace, "default", &switches("off", "off"));
    figures.exchanges[0].waits.iter().map(|wait| (wait.cause, wait.from_ns, wait.until_ns)).collect()
}

pub(super) fn ms(ms: i64) -> i64 {
    ms * 1_000_000
}

#[test]
fn nagle_waits_a_round_trip_and_an_acknowledgment_in_transit_is_not_late() {
    assert_eq!(waits(&exchange(0, None)), [(ExchangeState::Nagle, 3_000, ms(4))]);
    let far_away = exchange(9 * MS, None);
    assert_eq!(waits(&far_away), [(ExchangeState::Nagle, 3_000, ms(13))], "below the threshold");
}

#[test]
fn nagle_waits_for_the_last_small_segment_and_not_for_the_full_ones_after_it() {
    let mut trace = exchange(0, None);
    let (acked_ns, full_ns) = (2 * WAY, 2 * US);
    let answered_ns = acked_ns + WAY;
    trace.packets = vec![
        packet(End::Client, 10, true, 0..2, 0),
        packet(End::Client, full_ns, true, 2..72, 0),
        packet(End::Client, full_ns + US, true, 72..142, 0),
        packet(End::Server, WAY, true, 0..0, 72),
        packet(End::Client, acked_ns, true, 142..REQUEST, 0),
        packet(End::Server, answered_ns, true, 0..4, REQUEST),
    ];
    trace.server.calls[1] = call(CallKind::Read, answered_ns, 2..REQUEST);
    assert_eq!(waits(&trace), [(ExchangeState::Nagle, 3_000, ms(4))]);
}

#[test]
fn a_late_acknowledgment_is_late_until_it_leaves() {
    let expected = [(ExchangeState::Nagle, 3_000, ms(44)), (ExchangeState::DelayedAck, ms(2) + 10, ms(42))];
    assert_eq!(waits(&exchange(40 * MS, None)), expected);
}

#[test]
fn link_losses_are_not_late_acknowledgments() {
    assert_eq!(waits(&exchange(0, Some(200 * MS))), [(ExchangeState::Nagle, 3_000, ms(204))]);
}

#[test]
fn arrows_of_the_ladder_end_when_packets_arrive_and_have_no_end_if_lost() {
    let sequence = figures(&exchange(0, Some(200 * MS)), "default", &switches("off", "off")).sequence.unwrap();
    let arrows: Vec<(EventKind, i64, Option<i64>)> = sequence
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Segment | EventKind::PureAck))
        .map(|event| (event.kind, event.at_ns, event.until_ns))
        .collect();
    assert_eq!(
        arrows,
        [
            (EventKind::Segment, 10, None),
            (EventKind::Segment, ms(200), Some(ms(202))),
            (EventKind::PureAck, ms(202), Some(ms(204))),
            (EventKind::Segment, ms(204), Some(ms(206))),
            (EventKind::Segment, ms(206), Some(ms(208))),
        ]
    );
    let taken: Vec<f64> = arrows.iter().filter_map(|(_, at, until)| Some((until.as_ref()? - at) as f64)).collect();
    assert_eq!(median(&taken), Some(WAY as f64));
}
