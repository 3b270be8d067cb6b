//! Artificial traces in which the cause of every wait is known, with and without a capture.

mod links;
mod two_hosts;

use std::ops::Range;

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::time_sequence::EventKind;
use hairpin_model::{SocketSample, TimeSequence, TracedExchange};

use hairpin_model::options::OptionName;
use hairpin_model::trace::{CallKind, StampKind};
use hairpin_model::{Call, EndTrace, Packet, Stamp};
use proptest::prelude::*;

use super::*;
use crate::fixture::traces::{self, MS, REQUEST, US, Wiretap, switches, uncaptured};
use crate::fixture::{granted, small_writes};

/// Returns the trace without and with its capture; the results must be identical.
fn both(trace: RoundTrace) -> [RoundTrace; 2] {
    [uncaptured(trace.clone()), trace]
}

fn figures(trace: &RoundTrace, remedy: &str, client: &[Effective]) -> TraceFigures {
    let off = switches("off", "off");
    let [client, server]: [AtEnd<'_>; 2] = [(client, Some(0)), (&off, Some(0))];
    trace_figures(trace, small_writes(remedy).primary().load.exchange(), client, server)
}

fn causes(exchange: &TracedExchange) -> Vec<ExchangeState> {
    exchange.waits.iter().map(|wait| wait.cause).collect()
}

fn steady(figures: &TraceFigures) -> &TracedExchange {
    assert_eq!(figures.exchanges.len(), 6);
    let [_, second, .., last] = &figures.exchanges[..] else { panic!("six exchanges") };
    assert_eq!(causes(second), causes(last));
    last
}

#[test]
fn held_writes_are_blamed_on_nagle_and_the_late_acknowledgment_is_seen() {
    for trace in both(traces::none()) {
        let figures = figures(&trace, "default", &switches("off", "off"));
        let last = steady(&figures);
        assert_eq!((last.writes, last.segments), (100, 2));
        assert_eq!(causes(&figures.exchanges[0]), [], "the first exchange is acknowledged at once");
        let [nagle, delayed] = &last.waits[..] else { panic!("two waits: {:?}", last.waits) };
        assert_eq!((delayed.cause, delayed.end), (ExchangeState::DelayedAck, End::Server));
        assert_eq!((delayed.first_byte, delayed.end_byte), (0, 2));
        assert!((40 * MS..41 * MS).contains(&u64::try_from(delayed.until_ns - delayed.from_ns).unwrap()));
        assert_eq!((nagle.cause, nagle.end), (ExchangeState::Nagle, End::Client));
        assert_eq!((nagle.first_byte, nagle.end_byte), (2, 200));
        assert_eq!(nagle.from_ns, i64::try_from(2 * US).unwrap(), "from the second write's return");
        assert!(nagle.until_ns.abs_diff(delayed.until_ns) <= 2 * traces::TRAVEL);
        assert!(last.last_ack_ns.is_some_and(|late| late < MS), "the answer acknowledges the remaining bytes");
    }
}

#[test]
fn remedies_avoid_nagle_waits() {
    let off = || switches("off", "off");
    let nodelay = || switches("on", "off");
    let all = [
        ("nodelay", traces::nodelay(), nodelay(), 100),
        ("cork", traces::cork(), off(), 1),
        ("more", traces::more(0), off(), 1),
        ("one-write", traces::one_write(5 * US), off(), 1),
    ];
    for (remedy, trace, client, segments) in all {
        for trace in both(trace) {
            let figures = figures(&trace, remedy, &client);
            assert_eq!(causes(steady(&figures)), [], "{remedy}");
            assert_eq!(steady(&figures).segments, segments, "{remedy}");
        }
    }
}

#[test]
fn a_sleeping_server_is_blamed_on_the_server_program_and_its_late_acknowledgment_holds_no_bytes() {
    for trace in both(traces::one_write(40 * MS)) {
        let figures = figures(&trace, "default", &switches("off", "off"));
        let [server] = &steady(&figures).waits[..] else { panic!("one wait: {:?}", steady(&figures).waits) };
        assert_eq!((server.cause, server.end, server.end_byte), (ExchangeState::ServerProgram, End::Server, 200));
        assert!((server.until_ns - server.from_ns).unsigned_abs().abs_diff(40 * MS) <= US);
    }
    for trace in both(traces::one_write(50 * MS)) {
        let figures = figures(&trace, "default", &switches("off", "off"));
        assert_eq!(causes(steady(&figures)), [ExchangeState::ServerProgram, ExchangeState::DelayedAck]);
    }
    for trace in both(traces::acknowledged_in_time()) {
        let figures = figures(&trace, "default", &switches("off", "off"));
        assert_eq!(causes(steady(&figures)), [ExchangeState::ServerProgram]);
    }
}

#[test]
fn a_cork_explains_bytes_that_left_at_its_release_or_time_out() {
    for trace in both(traces::cork_forgotten()) {
        let figures = figures(&trace, "cork-forgotten", &switches("off", "on"));
        let [wait] = &steady(&figures).waits[..] else { panic!("one wait: {:?}", steady(&figures).waits) };
        assert_eq!((wait.cause, wait.first_byte, wait.end_byte), (ExchangeState::Cork, 0, 200));
        let uncorked = self::figures(&trace, "default", &switches("off", "off"));
        assert_eq!(causes(steady(&uncorked)), [ExchangeState::Unexplained], "the same wait without a cork");
    }
    for trace in both(traces::more(3 * MS)) {
        let figures = figures(&trace, "more", &switches("off", "off"));
        assert_eq!(causes(steady(&figures)), [ExchangeState::Cork], "MSG_MORE corks until the last write");
        let plain = self::figures(&trace, "default", &switches("off", "off"));
        assert_eq!(causes(steady(&plain)), [ExchangeState::Unexplained]);
    }
}

/// One exchange of two writes; the second leaves 20 ms after it was written.
fn held_without_a_reason() -> Wiretap {
    let mut tap = Wiretap::new();
    for _ in 0..6 {
        tap.begins();
        tap.write(End::Client, 2);
        tap.reaches_the_server();
        tap.acks(End::Server);
        tap.write(End::Client, REQUEST - 2);
        tap.wait(20 * MS);
        tap.reaches_the_server();
        tap.answered(US);
    }
    tap
}

#[test]
fn bytes_that_waited_for_no_acknowledgment_are_not_blamed_on_nagle() {
    for trace in both(held_without_a_reason().trace) {
        let figures = figures(&trace, "default", &switches("off", "off"));
        assert_eq!(causes(steady(&figures)), [ExchangeState::Unexplained]);
    }
}

#[test]
fn nagle_needs_an_option_that_is_known_to_be_off() {
    for trace in both(traces::none()) {
        for client in [Vec::new(), switches("on", "off")] {
            let figures = figures(&trace, "default", &client);
            assert_eq!(
                causes(steady(&figures)),
                [ExchangeState::Unexplained, ExchangeState::DelayedAck],
                "{client:?}"
            );
        }
    }
}

#[test]
fn autocorking_needs_its_counter() {
    let mut tap = held_without_a_reason();
    let nodelay = switches("on", "off");
    for (times, cause) in [(0, ExchangeState::Unexplained), (7, ExchangeState::Autocork)] {
        tap.autocorked(times);
        for trace in both(tap.trace.clone()) {
            let figures = figures(&trace, "nodelay", &nodelay);
            assert_eq!((causes(steady(&figures)), figures.autocorked), (vec![cause], Some(times)));
        }
    }
}

/// Three requests in flight: the first leaves at once, two are held until its acknowledgment arrives.
#[test]
fn a_segment_of_several_exchanges_counts_in_each_with_their_own_bytes() {
    let mut tap = Wiretap::new();
    for _ in 0..3 {
        tap.begins();
        tap.write(End::Client, REQUEST);
        if tap.trace.exchange_began_ns.len() == 1 {
            tap.leaves(End::Client);
        }
    }
    tap.acknowledged_after(40 * MS);
    (0..3).for_each(|_| tap.answered(US));
    for trace in both(tap.trace) {
        let figures = figures(&trace, "default", &switches("off", "off"));
        let bytes = |exchange: &TracedExchange| {
            let nagle = exchange.waits.iter().find(|wait| wait.cause == ExchangeState::Nagle);
            nagle.map(|wait| (wait.from_ns, wait.first_byte, wait.end_byte))
        };
        let held = Some((1_000, 0, 200));
        assert_eq!(figures.exchanges.iter().map(bytes).collect::<Vec<_>>(), [None, held, held]);
        assert!(figures.exchanges.iter().all(|exchange| (exchange.writes, exchange.segments) == (1, 1)));
    }
}

/// Two requests in flight, each written under a cork that is released: Nagle's algorithm holds the second.
#[test]
fn bytes_held_after_the_release_of_a_cork_may_wait_for_nagle() {
    let mut tap = Wiretap::new();
    for number in 0..2 {
        tap.begins();
        tap.call(End::Client, CallKind::Cork);
        (0..2).for_each(|_| tap.write(End::Client, REQUEST / 2));
        tap.call(End::Client, CallKind::Uncork);
        if number == 0 {
            tap.leaves(End::Client);
        }
    }
    tap.acknowledged_after(40 * MS);
    (0..2).for_each(|_| tap.answered(US));
    for trace in both(tap.trace) {
        let causes_of = |trace: &RoundTrace| {
            let figures = figures(trace, "cork", &switches("off", "off"));
            figures.exchanges.iter().map(causes).collect::<Vec<_>>()
        };
        let [first, second] = &causes_of(&trace)[..] else { panic!("two exchanges") };
        assert!(!first.contains(&ExchangeState::Nagle), "{first:?}");
        assert!(second.contains(&ExchangeState::Nagle), "{second:?}");
        let mut never_released = trace;
        never_released.client.calls.retain(|call| call.kind != CallKind::Uncork);
        assert!(causes_of(&never_released)[1].contains(&ExchangeState::Unexplained));
    }
}

#[test]
fn packets_with_gaps_are_replaced_by_the_stamps() {
    let mut trace = traces::none();
    trace.capture = Capture::Saved { file: "x".to_owned(), packets: 9, dropped: 1 };
    trace.packets.truncate(9);
    let figures = figures(&trace, "default", &switches("off", "off"));
    assert_eq!(figures.sequence.as_ref().unwrap().source, Source::KernelTimestamps);
    assert_eq!(causes(steady(&figures)), [ExchangeState::Nagle, ExchangeState::DelayedAck]);
}

#[test]
fn packets_without_stamps_show_the_waits_too() {
    let mut trace = traces::none();
    trace.client.stamps.clear();
    trace.server.stamps.clear();
    let figures = figures(&trace, "default", &switches("off", "off"));
    assert_eq!(causes(steady(&figures)), [ExchangeState::Nagle, ExchangeState::DelayedAck]);
}

fn kinds(sequence: &TimeSequence) -> Vec<(EventKind, End)> {
    sequence.events.iter().map(|event| (event.kind, event.end)).collect()
}

#[test]
fn the_sequence_is_a_late_exchange_with_the_handshake_before_it() {
    let [stamped, captured] = both(traces::none());
    let off = switches("off", "off");
    let sequence = figures(&captured, "default", &off).sequence.unwrap();
    assert_eq!((sequence.exchange, sequence.source), (6, Source::Capture));
    let all = kinds(&sequence);
    let (client, server) = (End::Client, End::Server);
    let opening = [(EventKind::Syn, client), (EventKind::SynAck, server), (EventKind::PureAck, client)];
    assert_eq!(all[..3], opening);
    assert!(sequence.events[2].at_ns < 0 && sequence.events[3].at_ns == 0);
    let count = |kind| all.iter().filter(|event| event.0 == kind).count();
    assert_eq!((count(EventKind::Write), count(EventKind::Segment), count(EventKind::PureAck)), (101, 3, 2));
    let closing = [
        (EventKind::PureAck, server),
        (EventKind::Segment, client),
        (EventKind::Read, server),
        (EventKind::Write, server),
        (EventKind::Segment, server),
        (EventKind::Read, client),
    ];
    assert_eq!(all[all.len() - 6..], closing);
    let held = sequence.events.iter().rfind(|event| event.kind == EventKind::Segment && event.end == client).unwrap();
    assert_eq!((held.first_byte, held.end_byte, held.until_ns), (2, 200, Some(held.at_ns + 2_000)));
    let late = sequence.events.iter().rfind(|event| event.kind == EventKind::PureAck).unwrap();
    assert_eq!((late.first_byte, late.end_byte), (2, 2), "the first write has arrived");
    assert_eq!(sequence.waits.len(), 2);

    let from_stamps = figures(&stamped, "default", &off).sequence.unwrap();
    assert_eq!((from_stamps.source, kinds(&from_stamps)), (Source::KernelTimestamps, all[3..].to_vec()));
    assert_eq!(from_stamps.duration_ns, sequence.duration_ns);
}

#[test]
fn a_cork_belongs_to_the_writes_after_it() {
    let sequence = figures(&traces::cork(), "cork", &switches("off", "off")).sequence.unwrap();
    let count = |kind| sequence.events.iter().filter(|event| event.kind == kind).count();
    assert_eq!((count(EventKind::Cork), count(EventKind::Uncork), count(EventKind::Segment)), (1, 1, 2));
}

#[test]
fn an_atypical_last_exchange_is_not_drawn() {
    let mut trace = traces::none();
    *trace.exchange_ended_ns.last_mut().unwrap() += 400 * MS;
    let figures = figures(&trace, "default", &switches("off", "off"));
    assert_eq!(figures.sequence.unwrap().exchange, 5);
}

#[test]
fn an_empty_or_broken_trace_has_no_figures() {
    let nothing = trace_figures(&RoundTrace::default(), None, AtEnd::default(), AtEnd::default());
    assert_eq!(nothing, TraceFigures::default());
    let mut broken = traces::none();
    broken.exchange_ended_ns.truncate(2);
    broken.client.calls.truncate(7);
    broken.server.stamps.clear();
    broken.packets.reverse();
    assert_eq!(figures(&broken, "default", &switches("off", "off")).exchanges.len(), 2);
    broken.request_bytes = 0;
    assert_eq!(figures(&broken, "more", &switches("off", "off")).exchanges.len(), 2);
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..500, Just(u64::MAX), any::<u64>()]
}

fn any_end() -> impl Strategy<Value = EndTrace> {
    let call =
        (proptest::sample::select(CallKind::ALL.to_vec()), any_number(), any_number(), any_number(), any_number());
    let calls = proptest::collection::vec(call, 0..12);
    let stamp = (proptest::sample::select(StampKind::ALL.to_vec()), any_number(), any_number());
    let stamps = proptest::collection::vec(stamp, 0..12);
    let samples = proptest::collection::vec(any_sample(), 0..6);
    (calls, stamps, samples).prop_map(|(calls, stamps, samples)| EndTrace {
        samples,
        calls: calls
            .into_iter()
            .map(|(kind, began_ns, ended_ns, first_byte, end_byte)| Call {
                kind,
                began_ns,
                ended_ns,
                first_byte,
                end_byte,
            })
            .collect(),
        stamps: stamps.into_iter().map(|(kind, at_ns, end_byte)| Stamp { kind, at_ns, end_byte }).collect(),
        ..EndTrace::default()
    })
}

fn any_sample() -> impl Strategy<Value = SocketSample> {
    let bytes = (any_number(), any_number(), any_number(), any_number());
    let rest = (any_number(), any_number(), any_number(), any_number(), any_number());
    (any_number(), bytes, rest).prop_map(|(at_ns, bytes, rest)| SocketSample {
        at_ns,
        acked_bytes: bytes.0,
        unacked_bytes: bytes.1,
        not_sent_bytes: bytes.2,
        received_bytes: bytes.3,
        unacked_segments: rest.0,
        cwnd_segments: rest.1,
        send_window_bytes: rest.2,
        unread_bytes: rest.3,
        min_rtt_ns: rest.4,
    })
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let ack = (proptest::option::of(any_number()), proptest::option::of(any_number()));
    let bytes = (any_number(), any_number(), ack);
    let times = (any_number(), proptest::option::of(any_number()));
    (times, any::<bool>(), flags, bytes).prop_map(|((at_ns, arrived_ns), client, (syn, fin, rst), bytes)| Packet {
        at_ns,
        from: if client { End::Client } else { End::Server },
        syn,
        fin,
        rst,
        psh: false,
        first_byte: bytes.0,
        end_byte: bytes.1,
        ack_byte: bytes.2.0,
        length_bytes: 66,
        window_bytes: bytes.2.1,
        arrived_ns,
    })
}

proptest! {
    /// Traces can come from damaged files.
    #[test]
    fn any_trace_is_read_without_panic(
        client in any_end(),
        server in any_end(),
        packets in proptest::collection::vec(any_packet(), 0..12),
        times in proptest::collection::vec((any_number(), any_number()), 0..4),
        (request_bytes, reply_bytes, clock_error_ns) in (any_number(), any_number(), any_number()),
        (own_clock, nodelay, sndbuf) in (any::<bool>(), any::<bool>(), any_number()),
    ) {
        let mut options = switches(if nodelay { "on" } else { "off" }, "on");
        let numbers = [OptionName::Sndbuf, OptionName::PacingRate];
        options.extend(numbers.map(|name| granted(name, &sndbuf.to_string())));
        let (exchange_began_ns, exchange_ended_ns) = times.into_iter().unzip();
        let trace = RoundTrace {
            exchange_began_ns, exchange_ended_ns, request_bytes, reply_bytes, clock_error_ns, client, server, packets,
            ..RoundTrace::default()
        };
        for mut trace in both(trace) {
            trace.server_has_own_clock = own_clock;
            let figures = figures(&trace, "more", &options);
            prop_assert_eq!(figures.exchanges.len(), trace.exchange_began_ns.len());
            // States cover each exchange exactly, without overlaps.
            let Some(sequence) = figures.sequence else { continue };
            let whole_ns = figures.exchanges[usize::try_from(sequence.exchange).unwrap() - 1].duration_ns;
            let mut at_ns = 0;
            for span in &sequence.states {
                prop_assert!(span.from_ns == at_ns && span.until_ns > at_ns, "{:?}", sequence.states);
                at_ns = span.until_ns;
            }
            prop_assert_eq!(at_ns, whole_ns);
            let shares: f64 = figures.states.iter().map(|time| time.share).sum();
            prop_assert!(figures.states.is_empty() || (shares - 1.0).abs() < 1e-9, "{:?}", figures.states);
        }
    }
}
