//! Exchanges on the manual clock: the calls of each remedy, their times, and which calls are timed.

use std::io::IoSlice;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::samples::Fate;
use hairpin_model::{Case, Exchange, ExchangeCounts, Extent, Fact, Failure, Remedy, RoundOrder};
use hairpin_transports::{Segments, Stream, Wire, WireError};

use super::super::echo::Echo;
use super::super::marks::Alone;
use super::super::scripted::{Act, ScriptedCall, ScriptedWire};
use super::super::{Client, ClientResult, run_client};
use super::TIMEOUT_NS;
use crate::clock::{Clock, ManualClock};

/// Duration of a call that sends or corks, in ns.
const CALL_NS: u64 = 10;

fn exchange(writes: &str, remedy: Remedy) -> Exchange {
    Exchange { writes: writes.parse().unwrap(), gap_ns: 0, pipeline: 1, reply_writes: None, remedy }
}

fn order(exchange: Exchange, count: u64, warm_up: u64) -> RoundOrder {
    RoundOrder {
        case: Case::small_writes("memory", exchange),
        ..super::order(hairpin_model::flow::Load::PLAIN, count, warm_up)
    }
}

fn wire(order: &RoundOrder, clock: &ManualClock, acts: &[Act]) -> ScriptedWire {
    let size = |bytes: u64| usize::try_from(bytes).unwrap();
    let wire = ScriptedWire::new(clock, acts, TIMEOUT_NS).with_slow_sends(CALL_NS);
    wire.in_pieces(size(order.case.primary().load.size_bytes()), size(order.case.primary().load.reply_size_bytes()))
}

fn travel(order: &RoundOrder, acts: &[Act]) -> (Result<ClientResult, Failure>, Vec<(u64, ScriptedCall)>) {
    let (clock, stop) = (ManualClock::default(), AtomicBool::new(false));
    let mut wire = wire(order, &clock, acts);
    let client = Client { clock: &clock, order, lossy: false, boundaries: false, phases: None, stop: &stop };
    let client_result = run_client(&client, &mut wire, &mut Alone);
    (client_result, wire.made().to_vec())
}

fn calls(exchange: Exchange) -> Vec<ScriptedCall> {
    let (client_result, made) = travel(&order(exchange, 1, 0), &[Act::After(100)]);
    assert_eq!(client_result.unwrap().tally.received, 1);
    made.into_iter().map(|(_, made)| made).collect()
}

#[test]
fn every_remedy_makes_its_own_calls_and_no_other() {
    use ScriptedCall::{More, Receive, Send, Set, Vectored};
    let cork = |on| Set(OptionName::Cork, on);
    let of = |remedy| calls(exchange("1,3,2x4", remedy));
    let plain = [Send(1), Send(3), Send(4), Send(4), Receive(4)];
    // These remedies act when the socket is opened, or at the server.
    for remedy in [Remedy::Default, Remedy::Nodelay, Remedy::CorkForgotten, Remedy::Quickack, Remedy::Batch(1)] {
        assert_eq!(of(remedy), plain, "{remedy}");
    }
    assert_eq!(
        of(Remedy::Cork),
        [cork(true), Send(1), Send(3), Send(4), Send(4), cork(false), Receive(4)],
        "the cork is released after the last write, before the client waits for the answer"
    );
    assert_eq!(of(Remedy::More), [More(1), More(3), More(4), Send(4), Receive(4)]);
    assert_eq!(of(Remedy::Writev), [Vectored(vec![1, 3, 4, 4]), Receive(4)]);
    assert_eq!(of(Remedy::OneWrite), [Send(12), Receive(4)]);
    assert_eq!(of(Remedy::Batch(3)), [Send(8), Send(4), Receive(4)]);
    assert_eq!(of(Remedy::Batch(9)), [Send(12), Receive(4)]);
}

#[test]
fn copied_writes_have_the_sizes_of_the_model() {
    for together in [1, 2, 3, 5, 7, 9999] {
        let exchange = exchange("1,3,2x4,2", Remedy::Batch(together));
        let written: Vec<u64> = calls(exchange.clone())
            .into_iter()
            .filter_map(|made| if let ScriptedCall::Send(size) = made { Some(size as u64) } else { None })
            .collect();
        assert_eq!(written, exchange.sizes_written());
    }
}

#[test]
fn an_exchange_is_timed_from_its_first_write_to_its_whole_answer() {
    let order = order(exchange("3x2", Remedy::Default), 3, 1);
    // Two writes of 10 ns precede the last write. The wire answers the given time after the last write begins.
    let (client_result, _) = travel(&order, &[Act::After(1000), Act::After(100), Act::After(300), Act::After(700)]);
    let client_result = client_result.unwrap();
    assert_eq!(client_result.recorder.first_message_ns(), 1020);
    assert_eq!(client_result.duration_ns, 120 + 320 + 720);
    let samples = client_result.recorder.finish(client_result.origin_ns);
    assert_eq!(samples.latencies_ns().collect::<Vec<_>>(), [120, 320, 720]);
    assert_eq!(samples.sent_ns, [0, 1020, 1140, 1460]);
    assert_eq!(samples.due_ns, samples.sent_ns);
    assert_eq!((samples.warm_up, samples.sequence), (1, vec![0, 1, 2, 3]));
}

#[test]
fn the_time_of_an_exchange_includes_corking() {
    let (client_result, made) = travel(&order(exchange("2x2", Remedy::Cork), 1, 0), &[Act::After(100)]);
    let samples = client_result.unwrap().recorder.finish(0);
    // The cork is set at 0 and the last write begins at 20. Its answer arrives at 120.
    assert_eq!((samples.sent_ns[0], samples.received_ns[0]), (0, 120));
    assert_eq!(made.iter().map(|(at_ns, _)| *at_ns).collect::<Vec<_>>(), [0, 10, 20, 30, 40]);
}

#[test]
fn the_gap_is_from_the_end_of_a_write_to_the_beginning_of_the_next() {
    let begun = |remedy| {
        let exchange = Exchange { gap_ns: 1000, ..exchange("4x2", remedy) };
        let (client_result, made) = travel(&order(exchange, 1, 0), &[Act::After(100)]);
        client_result.unwrap();
        made.into_iter().map(|(at_ns, _)| at_ns).collect::<Vec<_>>()
    };
    // The last number of each list is when the wait for the answer begins, right after the last write.
    assert_eq!(begun(Remedy::Default), [0, 1010, 2020, 3030, 3040]);
    assert_eq!(begun(Remedy::More), [0, 1010, 2020, 3030, 3040]);
    assert_eq!(begun(Remedy::Cork), [0, 10, 1020, 2030, 3040, 3050, 3060]);
    assert_eq!(begun(Remedy::Batch(3)), [0, 1010, 1020]);
    assert_eq!(begun(Remedy::OneWrite), [0, 10]);
    assert_eq!(begun(Remedy::Writev), [0, 10]);
}

#[test]
fn gaps_between_writes_do_not_make_the_answer_late() {
    let exchange = Exchange { gap_ns: TIMEOUT_NS, ..exchange("4x2", Remedy::Default) };
    let fate = |answer_ns| {
        let (client_result, _) = travel(&order(exchange.clone(), 1, 0), &[Act::After(answer_ns)]);
        client_result.unwrap().recorder.finish(0).fate[0]
    };
    assert_eq!(fate(TIMEOUT_NS - 3 * CALL_NS), Fate::Received);
    assert_eq!(fate(TIMEOUT_NS), Fate::Late);
}

#[test]
fn requests_in_flight_are_all_written_before_an_answer_is_read() {
    use ScriptedCall::{Receive, Send};
    let exchange = Exchange { pipeline: 3, ..exchange("2x2", Remedy::Default) };
    let (client_result, made) = travel(&order(exchange, 4, 2), &[Act::After(100)]);
    let client_result = client_result.unwrap();
    let made: Vec<ScriptedCall> = made.into_iter().map(|(_, made)| made).collect();
    let window = |requests: usize| [vec![Send(2); 2 * requests], vec![Receive(4); requests]].concat();
    // A window never exceeds the rest of its phase.
    assert_eq!(made, [window(2), window(3), window(1)].concat());
    let samples = client_result.recorder.finish(0);
    assert_eq!(samples.sequence, [0, 1, 2, 3, 4, 5]);
    // The warm-up's window ends at 130 ns. Each exchange counts from its own first write; these are 20 ns apart.
    assert_eq!(samples.sent_ns[2..5], [130, 150, 170]);
    assert_eq!(samples.received_ns[2..5], [240, 260, 280]);
}

#[test]
fn a_round_of_a_given_length_ends_with_the_first_window_past_it() {
    let exchange = Exchange { pipeline: 2, ..exchange("4", Remedy::Default) };
    let order = RoundOrder { extent: Extent::DurationNs(200), ..order(exchange, 0, 0) };
    let (client_result, _) = travel(&order, &[Act::After(90)]);
    let client_result = client_result.unwrap();
    assert_eq!((client_result.tally.sent, client_result.tally.received, client_result.duration_ns), (4, 4, 200));
}

#[test]
fn the_warm_up_is_not_in_the_counts() {
    let (client_result, _) = travel(&order(exchange("5x2", Remedy::Default), 3, 7), &[Act::After(100)]);
    let counts = ExchangeCounts { exchanges: 3, segments: Some(15), pure_acks: Some(3), system_calls: 18 };
    assert_eq!(client_result.unwrap().exchange_counts, Some(counts));
}

#[test]
fn silence_and_garbage_fail_the_round() {
    let order = order(exchange("2x2,8", Remedy::Default), 3, 0);
    let cause = |acts: &[Act]| travel(&order, acts).0.unwrap_err().cause;
    assert_eq!(
        cause(&[Act::After(1), Act::Never]),
        "cannot receive the answer to message 1: timed out: receive made no progress for 1 ms"
    );
    // An answer of 4 bytes contains only the sequence number.
    assert!(cause(&[Act::Garbled(5)]).contains("the sequence number of another message"));
    assert!(cause(&[Act::Twice(5)]).contains("a second time"));
    let longer = RoundOrder {
        case: order.case.clone().with(|changed| changed.primary_mut().load.set_sizes(4, 9)),
        ..order.clone()
    };
    assert!(travel(&longer, &[Act::Garbled(5)]).0.unwrap_err().cause.contains("byte 8 is"));
}

#[test]
fn answers_in_the_wrong_order_are_garbage() {
    let exchange = Exchange { pipeline: 2, ..exchange("4", Remedy::Default) };
    let failure = travel(&order(exchange, 2, 0), &[Act::After(100), Act::After(5)]).0.unwrap_err();
    assert!(failure.cause.starts_with("the answer to message 0 is not what was sent"), "{}", failure.cause);
}

#[test]
fn an_interrupted_gap_drops_its_request_and_reads_the_answers_to_complete_requests() {
    /// A clock that makes the user end the run at a given time.
    struct UntilStopped<'a>(ManualClock, &'a AtomicBool, u64);
    impl Clock for UntilStopped<'_> {
        fn now_ns(&self) -> u64 {
            self.0.now_ns()
        }
        fn sleep_until(&self, until_ns: u64) {
            self.0.sleep_until(until_ns);
            if until_ns >= self.2 {
                self.1.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
    let exchange = Exchange { gap_ns: 1000, pipeline: 3, ..exchange("2x2", Remedy::Default) };
    let order = order(exchange, 30, 0);
    let (manual, stop) = (ManualClock::default(), AtomicBool::new(false));
    let mut wire = wire(&order, &manual, &[Act::After(100)]);
    let clock = UntilStopped(manual, &stop, 4000);
    let client = Client { clock: &clock, order: &order, lossy: false, boundaries: false, phases: None, stop: &stop };
    let client_result = run_client(&client, &mut wire, &mut Alone).unwrap();
    assert!(client_result.interrupted);
    // A request takes 1020 ns. The user ends the run in the fourth gap, which is in the second window.
    assert_eq!((client_result.tally.sent, client_result.tally.received), (3, 3));
    assert_eq!(client_result.tally.ledger(true, &[], &[], None).unexplained, 0);
    assert_eq!(client_result.exchange_counts.map(|counts| counts.exchanges), Some(3));
}

/// The wire of a server: a request arrives in two pieces, twice, and then the client closes.
#[derive(Default)]
struct InPieces(Vec<ScriptedCall>);

impl Wire for InPieces {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.0.push(ScriptedCall::Send(message.len()));
        Ok(())
    }
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let reads = self.0.iter().filter(|made| matches!(made, ScriptedCall::Receive(_))).count();
        if reads == 4 {
            return Err(WireError::Closed);
        }
        let bytes = into.len().min(5);
        self.0.push(ScriptedCall::Receive(bytes));
        Ok(bytes)
    }
    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        self.receive(into).map(Some)
    }
    fn wait(&mut self, _at_most: Duration) -> Result<bool, WireError> {
        Ok(true)
    }
    fn effective(&self) -> Vec<Fact> {
        Vec::new()
    }
    fn stream(&mut self) -> Option<&mut dyn Stream> {
        Some(self)
    }
}

impl Stream for InPieces {
    fn send_more(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.send(bytes)
    }
    fn send_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<(), WireError> {
        parts.iter().try_for_each(|part| self.send(part))
    }
    fn set(&mut self, option: OptionName, on: bool) -> Result<(), WireError> {
        self.0.push(ScriptedCall::Set(option, on));
        Ok(())
    }
    fn segments(&self) -> Option<Segments> {
        None
    }
}

/// The calls of a server that answers two requests.
fn answered(exchange: Exchange, reply_size: u64) -> Vec<ScriptedCall> {
    let case = Case::small_writes("tcp", exchange);
    let case = case.with(|case| case.primary_mut().load.set_sizes(0, reply_size));
    let (clock, mut wire) = (ManualClock::default(), InPieces::default());
    let warm_up = Extent::Count(1);
    let echo = Echo { clock: &clock, case: &case, boundaries: false, cpu_only: false, warm_up, notes_order: false };
    echo.run(&mut wire, &mut Alone).unwrap();
    wire.0
}

#[test]
fn the_server_writes_an_answer_in_several_writes_as_the_remedy_prescribes() {
    use ScriptedCall::{Receive, Send, Set};
    let made = |remedy| {
        let reply_writes = Some("1,3x2".parse().unwrap());
        let made = answered(Exchange { reply_writes, ..exchange("4x2", remedy) }, 7);
        let reads = [Receive(5), Receive(3)];
        let (first, second) = made.split_at(made.len() / 2);
        assert_eq!(first, second, "both answers are written in the same way");
        first.iter().filter(|made| !reads.contains(made)).cloned().collect::<Vec<_>>()
    };
    let plain = [Send(1), Send(2), Send(2), Send(2)];
    for remedy in [Remedy::Default, Remedy::Nodelay, Remedy::CorkForgotten, Remedy::More, Remedy::Writev] {
        assert_eq!(made(remedy), plain, "{remedy}");
    }
    let cork = |on| Set(OptionName::Cork, on);
    assert_eq!(made(Remedy::Cork), [&[cork(true)], &plain[..], &[cork(false)]].concat());
    assert_eq!(made(Remedy::OneWrite), [Send(7)]);
    assert_eq!(made(Remedy::Batch(3)), [Send(5), Send(2)]);
}

#[test]
fn an_order_with_two_sizes_of_an_answer_does_not_panic() {
    let reply_writes = Some("40,60".parse().unwrap());
    let made = answered(Exchange { reply_writes, ..exchange("4x2", Remedy::Default) }, 7);
    let sent: Vec<_> = made.iter().filter(|made| matches!(made, ScriptedCall::Send(_))).collect();
    assert_eq!(sent, [40, 60, 40, 60].map(ScriptedCall::Send).iter().collect::<Vec<_>>());
}

#[test]
fn the_server_asks_for_quick_acknowledgments_before_the_first_read_and_after_each() {
    use ScriptedCall::{Receive, Send, Set};
    let made = |remedy| answered(exchange("4x2", remedy), 4);
    let quickly = Set(OptionName::Quickack, true);
    let exchange = [Receive(5), quickly.clone(), Receive(3), quickly.clone(), Send(4)];
    assert_eq!(made(Remedy::Quickack), [vec![quickly], exchange.to_vec(), exchange.to_vec()].concat());
    let exchange = [Receive(5), Receive(3), Send(4)];
    assert_eq!(made(Remedy::Nodelay), [exchange.to_vec(), exchange.to_vec()].concat());
}

#[test]
fn a_round_over_a_wire_without_a_stream_fails() {
    let order = order(exchange("2x2", Remedy::Default), 1, 0);
    let failure = super::travel(&order, &[Act::After(1)], false).unwrap_err();
    assert_eq!(failure.cause, "memory is not a byte stream, so a request cannot be sent in several writes");
}
