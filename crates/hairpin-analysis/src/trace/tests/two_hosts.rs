//! Traces of two hosts: packets captured at the client, and server calls timed by an unsynchronized clock.

use hairpin_model::Fact;

use super::links::{call, ms, packet, waits};
use super::*;

/// Packets captured at the client, on a path of `way_ns` each way. One exchange of a write of 2 and a write of 198
/// bytes; the second write is held until the first is acknowledged, and the server delays this acknowledgment by
/// `held_ns`. The server takes 300 us to answer.
fn exchange(way_ns: u64, held_ns: u64, clock_off_ns: u64) -> RoundTrace {
    let seen = |from, at_ns, bytes, ack_byte| packet(from, at_ns, false, bytes, ack_byte);
    let (began_ns, round_trip_ns) = (100 * MS, 2 * way_ns);
    let first_ns = began_ns + 2 * US;
    let acked_ns = first_ns + round_trip_ns + held_ns;
    let second_ns = acked_ns + 5 * US;
    let answered_ns = second_ns + round_trip_ns + 300 * US;
    let there = |ns: u64| clock_off_ns + ns + way_ns;
    let syn = Packet { syn: true, ack_byte: None, ..seen(End::Client, 0, 0..0, 0) };
    RoundTrace {
        exchange_began_ns: vec![began_ns],
        exchange_ended_ns: vec![answered_ns + 2 * US],
        request_bytes: REQUEST,
        reply_bytes: 4,
        clock_error_ns: 200,
        client: EndTrace {
            calls: vec![
                call(CallKind::Write, began_ns, 0..2),
                call(CallKind::Write, began_ns + 3 * US, 2..REQUEST),
                call(CallKind::Read, answered_ns + US, 0..4),
            ],
            ..EndTrace::default()
        },
        server: EndTrace {
            calls: vec![
                call(CallKind::Read, there(first_ns), 0..2),
                call(CallKind::Read, there(second_ns), 2..REQUEST),
                call(CallKind::Write, there(second_ns) + 300 * US, 0..4),
            ],
            stamps: vec![Stamp { kind: StampKind::Received, at_ns: there(first_ns), end_byte: 2 }],
            ..EndTrace::default()
        },
        server_has_own_clock: true,
        capture: Capture::Saved { file: String::new(), packets: 6, dropped: 0 },
        packets: vec![
            syn,
            Packet { syn: true, ..seen(End::Server, round_trip_ns, 0..0, 0) },
            seen(End::Client, first_ns, 0..2, 0),
            seen(End::Server, acked_ns, 0..0, 2),
            seen(End::Client, second_ns, 2..REQUEST, 0),
            seen(End::Server, answered_ns, 0..4, REQUEST),
        ],
    }
}

fn of(trace: &RoundTrace) -> TraceFigures {
    figures(trace, "default", &switches("off", "off"))
}

#[test]
fn figures_do_not_depend_on_the_clock_offset() {
    let one = of(&exchange(2 * MS, 40 * MS, 0));
    for off_ns in [1, 77_000 * MS, 1 << 50] {
        assert_eq!(of(&exchange(2 * MS, 40 * MS, off_ns)), one);
    }
    assert_eq!(one.exchanges[0].at_server_ns, Some(300 * US - US), "from the end of the read, by the server's clock");
    let sequence = one.sequence.unwrap();
    assert!(sequence.of_client_alone);
    let calls = sequence.events.iter().filter(|event| matches!(event.kind, EventKind::Read | EventKind::Write));
    assert!(calls.clone().all(|event| event.end == End::Client) && calls.count() == 3, "{:?}", sequence.events);
}

#[test]
fn an_acknowledgment_is_late_by_its_time_beyond_the_minimum_rtt() {
    for way_ns in [US, 2 * MS, 60 * MS] {
        let round_trip_ns = i64::try_from(2 * way_ns).unwrap();
        let nagle = |held_ns: i64| (ExchangeState::Nagle, 4_000, 2_000 + round_trip_ns + held_ns + 5_000);
        let late = (ExchangeState::DelayedAck, 2_000 + round_trip_ns, 2_000 + round_trip_ns + ms(40));
        let mut expected = vec![nagle(ms(40)), late];
        expected.sort_by_key(|(_, from_ns, until_ns)| from_ns - until_ns);
        assert_eq!(waits(&exchange(way_ns, 40 * MS, 9)), expected, "{way_ns}");
        assert!(
            waits(&exchange(way_ns, 9 * MS, 9)).iter().all(|(cause, ..)| *cause == ExchangeState::Nagle),
            "{way_ns}"
        );
    }
    assert_eq!(waits(&exchange(60 * MS, 0, 9)).len(), 1, "a long path is not a delay");
}

#[test]
fn without_a_handshake_the_minimum_rtt_is_the_kernels() {
    let mut trace = exchange(30 * MS, 40 * MS, 9);
    trace.packets.drain(..2);
    let late = |trace: &RoundTrace| waits(trace).into_iter().find(|wait| wait.0 == ExchangeState::DelayedAck);
    let answer_took_ns = 60 * MS + 300 * US;
    let until_ns = 2_000 + ms(100);
    assert_eq!(
        late(&trace),
        Some((ExchangeState::DelayedAck, 2_000 + i64::try_from(answer_took_ns).unwrap(), until_ns))
    );
    trace.client.after = vec![Fact::number(fact_names::MIN_RTT_US, 60_000.0)];
    assert_eq!(late(&trace), Some((ExchangeState::DelayedAck, 2_000 + ms(60), until_ns)));
}
