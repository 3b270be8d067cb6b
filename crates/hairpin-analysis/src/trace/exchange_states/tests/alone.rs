//! States by packets alone, by samples of the sockets alone, and by both.

use hairpin_model::trace::End;
use hairpin_model::{EndTrace, SocketSample};

use super::stalls::{OverLink, SEGMENT, WAY, windowed};
use super::*;
use crate::fixture::traces::{MS, REQUEST, US};

/// The trace without calls and timestamps.
fn packets_only(trace: &RoundTrace) -> RoundTrace {
    RoundTrace { client: EndTrace::default(), server: EndTrace::default(), ..trace.clone() }
}

fn samples_only(trace: &RoundTrace, client: &[SocketSample]) -> RoundTrace {
    let mut trace = packets_only(trace);
    trace.packets.clear();
    (trace.capture, trace.server_has_own_clock) = (Capture::default(), true);
    with_samples(trace, client, &[])
}

fn with_samples(mut trace: RoundTrace, client: &[SocketSample], server: &[SocketSample]) -> RoundTrace {
    (trace.client.samples, trace.server.samples) = (client.to_vec(), server.to_vec());
    trace
}

/// Samples every 5 ms from the start of the exchange; `of` gives the state after this time.
fn sampled(count: u64, of: impl Fn(u64) -> SocketSample) -> Vec<SocketSample> {
    let sample = |number: u64| {
        let since_ns = 5 * MS * number;
        SocketSample { at_ns: 10 * MS + since_ns, min_rtt_ns: 2 * WAY, send_window_bytes: 65_000, ..of(since_ns) }
    };
    (0..count).map(sample).collect()
}

#[test]
fn a_closed_window_is_small_or_its_reader_is_slow_until_unread_bytes_tell() {
    let whole = windowed(SEGMENT).answered(0, 0);
    let waited_ns = 3 * 2 * WAY;
    for packets in [packets_only(&whole), at_client(&whole)] {
        let figures = figures(&packets);
        assert_eq!(in_state(&figures, ExchangeState::WindowOrReader), waited_ns);
        let sequence = figures.sequence.unwrap();
        assert_eq!(sequence.states[0].who, Actor::Server);
    }
    let server = |unread_bytes| sampled(4, move |_| SocketSample { unread_bytes, ..SocketSample::default() });
    for (unread_bytes, state, who) in [
        (0, ExchangeState::ReceiveWindow, Actor::ServerKernel),
        (900, ExchangeState::SlowReader, Actor::ServerProgram),
    ] {
        let figures = figures(&with_samples(packets_only(&whole), &[], &server(unread_bytes)));
        assert_eq!(in_state(&figures, state), waited_ns, "{unread_bytes}");
        assert_eq!(spans(&figures)[0].who, who);
        assert_eq!(in_state(&figures, ExchangeState::WindowOrReader), 0);
    }
    // Samples of the client alone show the closed window, too.
    let client = |since_ns: u64| SocketSample {
        unacked_bytes: SEGMENT * (1 + since_ns / (2 * WAY)).min(4),
        unacked_segments: 1,
        cwnd_segments: 10,
        not_sent_bytes: 4 * SEGMENT - SEGMENT * (1 + since_ns / (2 * WAY)).min(4),
        ..SocketSample::default()
    };
    let mut samples = sampled(4, client);
    samples.iter_mut().for_each(|sample| sample.send_window_bytes = sample.unacked_bytes);
    let figures = figures(&samples_only(&whole, &samples));
    assert!(in_state(&figures, ExchangeState::WindowOrReader) >= 10 * MS, "{:?}", spans(&figures));
}

/// The server answers in two parts: its kernel holds the second until the client's acknowledgment of the first, which is
/// delayed by 40 ms.
fn answer_held() -> RoundTrace {
    let mut link = OverLink::new(SEGMENT);
    link.segment();
    link.wait(WAY);
    link.packet(End::Server, true, (0, 2), Some((SEGMENT, 65_000)));
    link.wait(WAY + 40 * MS);
    link.packet(End::Client, true, (SEGMENT, SEGMENT), Some((2, 65_000)));
    link.wait(WAY);
    link.packet(End::Server, true, (2, 200), Some((SEGMENT, 65_000)));
    link.trace.reply_bytes = 200;
    link.trace.exchange_ended_ns.push(link.now + WAY);
    link.trace
}

#[test]
fn an_answer_held_at_the_server_is_its_work_until_packets_tell() {
    let whole = answer_held();
    let client = sampled(11, |since_ns| SocketSample {
        unacked_bytes: if since_ns < 2 * WAY { SEGMENT } else { 0 },
        acked_bytes: if since_ns < 2 * WAY { 0 } else { SEGMENT },
        received_bytes: if since_ns < 2 * WAY { 0 } else { 2 },
        ..SocketSample::default()
    });
    let alone = figures(&samples_only(&whole, &client));
    assert_eq!((first(&alone).0, first(&alone).1), (ExchangeState::WorkOrHeld, Actor::Server));
    for evidence in [at_client(&whole), with_samples(at_client(&whole), &client, &[])] {
        let figures = figures(&evidence);
        assert_eq!((first(&figures).0, first(&figures).1), (ExchangeState::DelayedAck, Actor::ClientKernel));
        assert_eq!(in_state(&figures, ExchangeState::DelayedAck), 40 * MS);
        assert_eq!(in_state(&figures, ExchangeState::WorkOrHeld), 0, "{:?}", spans(&figures));
    }
}

#[test]
fn the_servers_work_is_not_separated_from_its_rules_without_the_server() {
    let mut link = OverLink::new(SEGMENT);
    link.segment();
    let whole = link.answered(MS, 50 * MS);
    let alone = figures(&at_client(&whole));
    assert_eq!(in_state(&alone, ExchangeState::WorkOrHeld), 50 * MS + 2 * US);
    assert_eq!(in_state(&alone, ExchangeState::Propagation), 2 * WAY);
    // The server's socket on the same clock: read at once, answered late.
    let server = sampled(12, |since_ns| SocketSample {
        received_bytes: if since_ns < WAY { 0 } else { SEGMENT },
        unacked_bytes: if since_ns < WAY + 50 * MS { 0 } else { 4 },
        ..SocketSample::default()
    });
    let both = figures(&with_samples(packets_only(&whole), &[], &server));
    assert_eq!(first(&both).0, ExchangeState::ServerProgram);
    assert!(in_state(&both, ExchangeState::ServerProgram) >= 45 * MS, "{:?}", spans(&both));
    // Between two hosts the server says how long its program took by its own clock.
    let mut timed = whole;
    (timed.packets, timed.server_has_own_clock) = (at_client(&timed).packets, true);
    let timed = figures(&timed);
    assert_eq!(in_state(&timed, ExchangeState::ServerProgram), 50 * MS);
    assert_eq!(in_state(&timed, ExchangeState::WorkOrHeld), 0);
}

/// Two segments of a request; the second leaves when the acknowledgment of the first arrives, which was delayed by 40 ms.
fn request_held() -> RoundTrace {
    let mut link = OverLink::new(REQUEST);
    link.packet(End::Client, true, (0, 2), Some((0, 65_000)));
    link.wait(WAY + 40 * MS);
    link.packet(End::Server, true, (0, 0), Some((2, 65_000)));
    link.wait(WAY);
    link.packet(End::Client, true, (2, REQUEST), Some((0, 65_000)));
    link.sent = REQUEST;
    link.answered(MS, 0)
}

#[test]
fn a_segment_after_an_acknowledgment_was_held_by_nagle_or_written_late() {
    let whole = request_held();
    let client = |unsent: bool| {
        sampled(9, move |_| SocketSample {
            unacked_bytes: 2,
            unacked_segments: 1,
            cwnd_segments: 10,
            not_sent_bytes: if unsent { REQUEST - 2 } else { 0 },
            ..SocketSample::default()
        })
    };
    for evidence in [at_client(&whole), with_samples(at_client(&whole), &client(true), &[])] {
        let figures = figures(&evidence);
        assert_eq!((first(&figures).0, first(&figures).1), (ExchangeState::DelayedAck, Actor::ServerKernel));
        assert_eq!(in_state(&figures, ExchangeState::DelayedAck), 40 * MS);
    }
    let samples = figures(&samples_only(&whole, &client(true)));
    assert_eq!(first(&samples).0, ExchangeState::NagleOrDelayedAck);
    let late = figures(&with_samples(at_client(&whole), &client(false), &[]));
    assert_eq!(in_state(&late, ExchangeState::DelayedAck) + in_state(&late, ExchangeState::Nagle), 0);
    let without = figures_with(&at_client(&whole), &switches("on", "off"));
    assert_eq!(in_state(&without, ExchangeState::IdleOrHeld), 40 * MS + 2 * WAY, "Nagle's algorithm is off");
}

#[test]
fn samples_name_the_congestion_window_and_the_cork() {
    let whole = request_held();
    let one = SocketSample { unacked_bytes: 2, unacked_segments: 10, not_sent_bytes: 198, ..SocketSample::default() };
    let state = |sample: SocketSample, cork: &str| {
        let trace = samples_only(&whole, &sampled(9, move |_| sample));
        first(&figures_with(&trace, &switches("on", cork))).0
    };
    assert_eq!(state(SocketSample { cwnd_segments: 10, ..one }, "off"), ExchangeState::CongestionWindow);
    assert_eq!(state(SocketSample { cwnd_segments: 11, ..one }, "off"), ExchangeState::Unexplained);
    assert_eq!(state(SocketSample { cwnd_segments: 11, ..one }, "on"), ExchangeState::Cork);
}
