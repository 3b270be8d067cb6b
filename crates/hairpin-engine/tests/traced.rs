//! Traced rounds over real connections: calls and timestamps match at both ends, and a failed traced round does not
//! affect the next round.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use hairpin_model::round::Purpose;
use hairpin_model::trace::{CallKind, End, StampKind};
use hairpin_model::{
    Call, Capture, Case, EndKind, EndTrace, Extent, Measured, Outcome, Remedy, RoundOrder, RoundTrace,
};
use hairpin_testing::skip;
use hairpin_transports::HELLO_BYTES;

use crate::common::{COUNT, WARM_UP, engine, order};

/// Number of traced exchanges. These rounds have no warm-up, because its length would vary.
const EXCHANGES: u64 = COUNT;

fn traced(transport: &str, writes: &str, remedy: Remedy) -> RoundOrder {
    RoundOrder { purpose: Purpose::Traced, warm_up: Extent::Count(0), ..order(transport, writes, remedy) }
}

fn run(order: &RoundOrder) -> (Measured, RoundTrace, Option<Vec<u8>>) {
    let finished = engine(PathBuf::new()).run(0, order);
    let (trace, file) = finished.trace.expect("the round is traced");
    match finished.record.outcome {
        Outcome::Measured(measured) => (*measured, trace, file),
        Outcome::Failed(failure) => panic!("{}: {failure:?}", order.case.label()),
    }
}

fn of(trace: &EndTrace, kind: CallKind) -> Vec<Call> {
    trace.calls.iter().filter(|call| call.kind == kind).copied().collect()
}

/// Checks that the byte ranges of calls of this kind have no gaps. Returns the end of the last range.
fn joined(trace: &EndTrace, kind: CallKind) -> u64 {
    of(trace, kind).iter().fold(0, |end, call| {
        assert_eq!(call.first_byte, end, "{call:?}");
        assert!(call.end_byte > end, "{call:?}");
        call.end_byte
    })
}

/// Checks the order: calls do not overlap, a segment is written, scheduled, handed to the driver, then acknowledged,
/// and bytes are received before they are read.
fn assert_in_order(trace: &EndTrace, error_ns: u64) {
    let times: Vec<u64> = trace.calls.iter().flat_map(|call| [call.began_ns, call.ended_ns]).collect();
    assert!(times.is_sorted(), "{times:?}");
    let at = |kind, end_byte| {
        let stamp = trace.stamps.iter().find(|stamp| stamp.kind == kind && stamp.end_byte >= end_byte);
        stamp.map(|stamp| stamp.at_ns + error_ns)
    };
    for driver in trace.stamps.iter().filter(|stamp| stamp.kind == StampKind::Driver) {
        let write = of(trace, CallKind::Write)
            .into_iter()
            .find(|call| call.end_byte >= driver.end_byte)
            .expect("only written bytes are sent");
        assert!(write.began_ns <= driver.at_ns + error_ns, "{write:?} {driver:?}");
        assert!(at(StampKind::Scheduled, driver.end_byte).is_some(), "{driver:?}");
        let acknowledged = at(StampKind::Acknowledged, driver.end_byte);
        assert!(acknowledged.is_none_or(|at_ns| at_ns >= driver.at_ns), "{driver:?}");
    }
    let reads = of(trace, CallKind::Read);
    for received in trace.stamps.iter().filter(|stamp| stamp.kind == StampKind::Received) {
        let read = reads.iter().find(|call| call.end_byte == received.end_byte).expect("a read received these bytes");
        assert!(received.at_ns <= read.ended_ns + error_ns, "{read:?} {received:?}");
    }
}

fn last_byte(trace: &EndTrace, kind: StampKind) -> Option<u64> {
    trace.stamps.iter().filter(|stamp| stamp.kind == kind).map(|stamp| stamp.end_byte).max()
}

#[test]
fn a_trace_over_tcp_is_complete_at_both_ends() {
    for (remedy, writes_each) in
        [(Remedy::Default, 10), (Remedy::Nodelay, 10), (Remedy::Cork, 10), (Remedy::OneWrite, 1)]
    {
        let (measured, trace, _) = run(&traced("tcp", "10x20", remedy));
        assert_eq!((measured.primary().ledger.sent, measured.primary().ledger.unexplained), (COUNT, 0), "{remedy}");
        assert_eq!((trace.request_bytes, trace.reply_bytes), (200, 4));
        assert_eq!(of(&trace.client, CallKind::Write).len() as u64, writes_each * EXCHANGES, "{remedy}");
        assert_eq!(of(&trace.server, CallKind::Write).len() as u64, EXCHANGES, "{remedy}");
        let corks = if remedy == Remedy::Cork { EXCHANGES } else { 0 };
        for kind in [CallKind::Cork, CallKind::Uncork] {
            assert_eq!(of(&trace.client, kind).len() as u64, corks, "{remedy}");
        }
        let (requests, answers) = (200 * EXCHANGES, 4 * EXCHANGES);
        let ends = [(&trace.client, requests, answers), (&trace.server, answers, requests)];
        for (end, sent, received) in ends {
            assert_eq!((joined(end, CallKind::Write), joined(end, CallKind::Read)), (sent, received), "{remedy}");
            for kind in [StampKind::Scheduled, StampKind::Driver] {
                assert_eq!(last_byte(end, kind), Some(sent), "{remedy} {kind}");
            }
            // The kernel starts to timestamp received packets some time after the request, so a short round may have
            // no such timestamps.
            if remedy == Remedy::Default {
                assert_eq!(last_byte(end, StampKind::Received), Some(received));
            }
            assert_in_order(end, trace.clock_error_ns);
        }
        assert_eq!(last_byte(&trace.client, StampKind::Acknowledged), Some(requests), "{remedy}");
        assert_eq!(last_byte(&trace.server, StampKind::Acknowledged), None, "the next request carries the ACK");
    }
}

#[test]
fn each_exchange_spans_its_own_calls() {
    let (measured, trace, _) = run(&traced("tcp", "3x2", Remedy::Nodelay));
    assert!(measured.client().trace.is_none() && measured.server().is_some_and(|echo| echo.trace.is_none()));
    let (began, ended) = (&trace.exchange_began_ns, &trace.exchange_ended_ns);
    assert_eq!((began.len() as u64, ended.len() as u64), (EXCHANGES, EXCHANGES));
    assert!(began[0] > 0, "the connection was opened earlier");
    for exchange in 0..began.len() {
        let spanned = |call: &&Call| call.began_ns >= began[exchange] && call.ended_ns <= ended[exchange];
        let kinds: Vec<CallKind> = trace.client.calls.iter().filter(spanned).map(|call| call.kind).collect();
        let write = CallKind::Write;
        assert_eq!(kinds[..3], [write, write, write], "{exchange}");
        assert_eq!(kinds[3..], vec![CallKind::Read; kinds.len() - 3], "{exchange}");
        let bytes = 6 * (exchange as u64 + 1);
        let written = trace.client.calls.iter().filter(spanned).rfind(|call| call.kind == write);
        assert_eq!(written.map(|call| call.end_byte), Some(bytes));
    }
}

#[test]
fn quick_acknowledgments_are_in_the_servers_trace() {
    let (_, trace, _) = run(&traced("tcp", "2x2", Remedy::Quickack));
    let [reads, quick] = [CallKind::Read, CallKind::Quickack].map(|kind| of(&trace.server, kind).len());
    assert_eq!(quick, reads + 1, "one before the first read, and one after each");
    assert_eq!(of(&trace.client, CallKind::Quickack), []);
    for facts in [&trace.client.before, &trace.client.after, &trace.server.before, &trace.server.after] {
        for name in ["netstat.TCPAutoCorking", "socket.drops"] {
            assert!(facts.iter().any(|fact| fact.name == name), "{name}: {facts:?}");
        }
        assert!(facts.iter().any(|fact| fact.name.starts_with("tcp_info.")), "{facts:?}");
        assert!(facts.iter().all(|fact| !fact.name.starts_with("option.")), "{facts:?}");
    }
}

#[test]
fn timestamps_are_read_before_they_fill_the_socket() {
    let (_, trace, _) = run(&traced("tcp", "1000x2", Remedy::Nodelay));
    assert_eq!(of(&trace.client, CallKind::Write).len() as u64, 1000 * EXCHANGES);
    assert_eq!(last_byte(&trace.client, StampKind::Driver), Some(2000 * EXCHANGES));
    for exchange in 1..=EXCHANGES {
        let end_byte = 2000 * exchange;
        let stamps = trace.client.stamps.iter().filter(|stamp| stamp.end_byte == end_byte);
        assert!(stamps.clone().any(|stamp| stamp.kind == StampKind::Driver), "{exchange}");
    }
}

#[test]
fn without_kernel_timestamps_the_trace_has_calls() {
    for transport in ["pipe", "unix-stream"] {
        let (_, trace, file) = run(&traced(transport, "5x2", Remedy::Default));
        for (end, sent, received) in [(&trace.client, 10, 4), (&trace.server, 4, 10)] {
            assert_eq!(joined(end, CallKind::Write), sent * EXCHANGES, "{transport}");
            assert_eq!(joined(end, CallKind::Read), received * EXCHANGES, "{transport}");
            assert_eq!(end.stamps, [], "{transport}");
            assert_in_order(end, trace.clock_error_ns);
        }
        assert_eq!(of(&trace.client, CallKind::Write).len() as u64, 5 * EXCHANGES, "{transport}");
        assert_eq!((trace.packets.len(), file), (0, None), "{transport}");
        let Capture::Skipped { reason } = &trace.capture else { panic!("{:?}", trace.capture) };
        assert!(reason.contains(&format!("{transport} sends no TCP segments")), "{reason}");
    }
}

#[test]
fn the_packets_match_the_timestamps() {
    let (_, trace, file) = run(&traced("tcp", "5x2", Remedy::Default));
    let packets = match &trace.capture {
        Capture::Saved { packets, dropped: 0, .. } => *packets,
        Capture::Saved { dropped, .. } => panic!("{dropped} packets dropped"),
        Capture::Skipped { reason } => {
            assert!(reason.contains("Operation not permitted"), "{reason}");
            skip!("{reason}");
        }
    };
    assert_eq!(trace.packets.len() as u64, packets);
    assert!(file.is_some_and(|file| file.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])), "a pcapng section header");
    assert!(trace.packets[0].syn && trace.packets[0].from == End::Client, "the capture began before the connection");
    for (from, end) in [(End::Client, &trace.client), (End::Server, &trace.server)] {
        let payload =
            trace.packets.iter().filter(|packet| packet.from == from && packet.end_byte > packet.first_byte);
        let ends: Vec<u64> = payload.map(|packet| packet.end_byte).collect();
        let stamps = end.stamps.iter().filter(|stamp| stamp.kind == StampKind::Driver);
        assert!(stamps.map(|stamp| stamp.end_byte).eq(ends), "each segment was timestamped and captured");
        assert!(trace.packets.iter().any(|packet| packet.from == from && packet.fin), "the connection was closed");
    }
}

#[test]
fn requests_in_flight_are_traced_too() {
    let order = traced("tcp", "2x50", Remedy::Default);
    let case = order.case.clone().with(|case| {
        let exchange = case.primary_mut().load.exchange_mut().expect("it has exchanges");
        (exchange.pipeline, exchange.gap_ns) = (4, 10_000);
    });
    let (_, trace, _) = run(&RoundOrder { case, ..order });
    assert_eq!(joined(&trace.client, CallKind::Write), 100 * EXCHANGES);
    assert!(trace.exchange_began_ns.is_sorted() && trace.exchange_ended_ns.is_sorted());
    assert!(trace.exchange_began_ns[3] < trace.exchange_ended_ns[0], "the exchanges overlap");
    for (end, sent) in [(&trace.client, 100 * EXCHANGES), (&trace.server, 4 * EXCHANGES)] {
        assert_eq!(last_byte(end, StampKind::Acknowledged), Some(sent), "an answer may wait for an ACK too");
    }
}

#[test]
fn a_ping_pong_can_be_traced() {
    let case = Case::ping_pong("tcp").with(|changed| changed.ends.kind = EndKind::Threads);
    let (measured, trace, _) = run(&RoundOrder { case, ..traced("tcp", "2", Remedy::Default) });
    assert_eq!(measured.primary().exchange_counts, None);
    let written = [&trace.client, &trace.server].map(|end| joined(end, CallKind::Write));
    assert_eq!(written, [4 * EXCHANGES; 2]);
}

#[test]
fn an_untraced_round_has_no_trace() {
    for purpose in [Purpose::Timed, Purpose::Untraced] {
        let finished = engine(PathBuf::new()).run(0, &RoundOrder { purpose, ..order("tcp", "2x2", Remedy::Nodelay) });
        assert!(matches!(finished.record.outcome, Outcome::Measured(_)));
        assert!(finished.trace.is_none());
        assert!(finished.samples.values().map(|samples| samples.kept() as u64).eq([COUNT + WARM_UP]));
    }
}

/// A control message as a printf(1) command: its length, 4 bytes little endian, then that many bytes of JSON.
fn frame(message: &str) -> String {
    let length = u8::try_from(message.len()).expect("it is short");
    format!("printf '\\{length:03o}\\000\\000\\000%s' '{message}'\n")
}

/// The server is a script that sends a server's control messages; its wire is a socket of this test. It exits after
/// one exchange.
#[test]
fn a_server_that_dies_fails_a_traced_round_and_the_next_one_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let dies = folder.path().join("dies");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let told = dies.clone();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client connects");
        stream.read_exact(&mut [0; HELLO_BYTES]).expect("it says hello");
        let mut request = [0; 10];
        stream.read_exact(&mut request).expect("a request comes");
        stream.write_all(&request[..4]).expect("it is answered");
        stream.read_exact(&mut request).expect("another comes");
        std::fs::write(&told, "").expect("it can be written");
        for _ in 0..1000 {
            if !told.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let program = folder.path().join("server");
    let messages = ["{\"version\":2}", &format!("{{\"listening\":\"{address}\"}}"), "\"ready\"", "\"measuring\""]
        .map(frame)
        .concat();
    let file = dies.display();
    let script = format!("#!/bin/sh\n{messages}until [ -e {file} ]; do sleep 0.01; done\nrm {file}\nexit 7\n");
    std::fs::write(&program, script).expect("it can be written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).expect("it can be run");

    let engine = engine(program);
    let order = traced("tcp", "5x2", Remedy::Nodelay);
    let case = order.case.clone().with(|changed| changed.ends.kind = EndKind::Processes);
    let dies = RoundOrder { case, ..order.clone() };
    let finished = engine.run(3, &dies);
    let Outcome::Failed(failure) = &finished.record.outcome else { panic!("{:?}", finished.record.outcome) };
    assert!(failure.cause.contains("cannot receive the answer to message 1: the other end closed"), "{failure:?}");
    server.join().expect("the server received two requests");
    assert!(failure.cause.contains("the server ended early (exit status: 7)"), "{failure:?}");
    assert!(finished.trace.is_none() && finished.samples.is_empty());
    assert_eq!((finished.record.number, &finished.record.order), (3, &dies), "the record has the order");

    let next = engine.run(4, &order);
    assert!(next.trace.is_some_and(|(trace, _)| trace.exchange_began_ns.len() as u64 == EXCHANGES));
}
