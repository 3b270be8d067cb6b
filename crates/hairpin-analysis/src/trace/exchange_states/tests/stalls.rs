//! States by calls and packets or kernel timestamps of both ends, as in a traced round.

use hairpin_model::options::OptionName;
use hairpin_model::trace::{CallKind, End};
use hairpin_model::{Call, EndTrace, Fact, fact_names};

use super::*;
use crate::fixture::granted;
use crate::fixture::traces::{self, MS, REQUEST, TRAVEL, US, uncaptured};
use crate::trace::separate_cpu_waits;

fn both(trace: RoundTrace) -> [RoundTrace; 2] {
    [uncaptured(trace.clone()), trace]
}

#[test]
fn a_delayed_ack_is_the_state_while_nagle_waits_for_it() {
    for trace in both(traces::none()) {
        let figures = figures(&trace);
        let (state, who, share) = first(&figures);
        assert_eq!((state, who), (ExchangeState::DelayedAck, Actor::ServerKernel));
        assert!(share >= 98, "{share}");
        // Nagle's algorithm has the way of the acknowledgment.
        assert!(in_state(&figures, ExchangeState::Nagle) <= 2 * TRAVEL, "{:?}", spans(&figures));
        assert_eq!(in_state(&figures, ExchangeState::ClientIdle), 0);
    }
}

#[test]
fn an_acknowledgment_in_time_leaves_nagle_and_the_path() {
    let trace = traces::two_writes_across(23 * MS, 0);
    let figures = figures(&trace);
    // The second write was held from its return until the acknowledgment: 46 ms without 3 us.
    assert_eq!(in_state(&figures, ExchangeState::Nagle), 46 * MS + 10 - 3 * US);
    // The artificial server answers 2 us before its read returns.
    assert_eq!(in_state(&figures, ExchangeState::Propagation), 46 * MS - 2 * US);
    assert_eq!(in_state(&figures, ExchangeState::DelayedAck), 0);
    let late = super::figures(&traces::two_writes_across(23 * MS, 40 * MS));
    assert_eq!(in_state(&late, ExchangeState::DelayedAck), 40 * MS);
    assert_eq!(in_state(&late, ExchangeState::Nagle), 46 * MS + 10 - 3 * US);
}

#[test]
fn programs_are_named_if_they_did_not_wait_for_a_cpu() {
    for trace in both(traces::one_write(40 * MS)) {
        let server = first(&figures(&trace));
        assert_eq!((server.0, server.1), (ExchangeState::ServerProgram, Actor::ServerProgram));
    }
    for trace in both(traces::more(3 * MS)) {
        let client = first(&figures(&trace));
        assert_eq!((client.0, client.1), (ExchangeState::ClientIdle, Actor::ClientProgram));
    }
    let span =
        |state: ExchangeState, at: End, ns| vec![StateSpan { state, who: state.who(at), from_ns: 0, until_ns: ns }];
    let after = |waited_ns: Option<u64>| {
        let mut spans = vec![
            span(ExchangeState::ServerProgram, End::Server, 1000),
            span(ExchangeState::WakeUp, End::Server, 500),
            span(ExchangeState::ClientIdle, End::Client, 70),
        ];
        separate_cpu_waits(&mut spans, End::Server, waited_ns);
        assert_eq!(spans[2][0].state, ExchangeState::ClientIdle, "the other end's");
        (spans[0][0].state, spans[0][0].who)
    };
    assert_eq!(after(Some(100)), (ExchangeState::ServerProgram, Actor::ServerProgram));
    assert_eq!(after(Some(101)), (ExchangeState::ProgramOrCpu, Actor::Server), "it may have been woken late");
    assert_eq!(after(Some(1400)), (ExchangeState::WaitingForCpu, Actor::ServerKernel));
    assert_eq!(after(None), (ExchangeState::ProgramOrCpu, Actor::Server));
}

#[test]
fn corked_bytes_wait_for_the_program_and_autocorked_ones_for_the_kernel() {
    for trace in both(traces::cork_forgotten()) {
        let forgotten = figures_with(&trace, &switches("off", "on"));
        assert_eq!((first(&forgotten).0, first(&forgotten).1), (ExchangeState::Cork, Actor::ClientProgram));
        let unknown = figures(&trace);
        assert_eq!((first(&unknown).0, first(&unknown).1), (ExchangeState::Unexplained, Actor::Unknown));
        let mut counted = trace;
        let fact = |value: f64| vec![Fact::number(fact_names::AUTOCORKING, value)];
        (counted.client.before, counted.client.after) = (fact(1.0), fact(8.0));
        let merged = figures_with(&counted, &switches("on", "off"));
        assert_eq!((first(&merged).0, first(&merged).1), (ExchangeState::Autocork, Actor::ClientKernel));
    }
}

/// An exchange over a link of 2 ms each way: the segments of a request with departure, arrival and window of the
/// acknowledgment that comes back at once; then an answer.
pub(super) struct OverLink {
    pub(super) trace: RoundTrace,
    pub(super) now: u64,
    pub(super) sent: u64,
}

pub(super) const WAY: u64 = 2 * MS;
pub(super) const SEGMENT: u64 = 1000;

impl OverLink {
    pub(super) fn new(request_bytes: u64) -> Self {
        let trace = RoundTrace {
            exchange_began_ns: vec![10 * MS],
            request_bytes,
            reply_bytes: 4,
            clock_error_ns: 100,
            capture: saved(1),
            ..RoundTrace::default()
        };
        let mut this = Self { trace, now: 0, sent: 0 };
        this.packet(End::Client, true, (0, 0), None);
        this.packets_last().syn = true;
        this.now = WAY;
        this.packet(End::Server, true, (0, 0), Some((0, 65_000)));
        this.packets_last().syn = true;
        this.now = 10 * MS;
        this
    }

    fn packets_last(&mut self) -> &mut Packet {
        self.trace.packets.last_mut().expect("a packet")
    }

    pub(super) fn packet(&mut self, from: End, arrives: bool, bytes: (u64, u64), ack: Option<(u64, u64)>) {
        self.trace.packets.push(Packet {
            at_ns: self.now,
            arrived_ns: arrives.then_some(self.now + WAY),
            from,
            first_byte: bytes.0,
            end_byte: bytes.1,
            ack_byte: ack.map(|ack| ack.0),
            window_bytes: ack.map(|ack| ack.1),
            length_bytes: 66,
            ..Packet::default()
        });
    }

    pub(super) fn segment(&mut self) {
        self.packet(End::Client, true, (self.sent, self.sent + SEGMENT), Some((0, 65_000)));
        self.sent += SEGMENT;
    }

    pub(super) fn acknowledges(&mut self, window_bytes: u64) {
        self.packet(End::Server, true, (0, 0), Some((self.sent, window_bytes)));
    }

    pub(super) fn wait(&mut self, ns: u64) {
        self.now += ns;
    }

    /// A write of the whole request that returns after `ns`.
    pub(super) fn writes(&mut self, ns: u64) {
        let call = |kind, began_ns, ended_ns, end_byte| Call { kind, began_ns, ended_ns, first_byte: 0, end_byte };
        let request_bytes = self.trace.request_bytes;
        self.trace.client.calls.push(call(CallKind::Write, self.now, self.now + ns, request_bytes));
    }

    /// The server reads the request after its arrival, with a call that began `early_ns` before it, works for `work_ns`
    /// and answers; the exchange ends when the answer is read.
    pub(super) fn answered(mut self, early_ns: u64, work_ns: u64) -> RoundTrace {
        let call = |kind, began_ns, ended_ns, end_byte| Call { kind, began_ns, ended_ns, first_byte: 0, end_byte };
        let arrived_ns = self.now + WAY;
        let read = call(CallKind::Read, arrived_ns.saturating_sub(early_ns), arrived_ns + US, self.sent);
        let wrote_ns = arrived_ns + US + work_ns;
        let write = call(CallKind::Write, wrote_ns, wrote_ns + US, 4);
        self.trace.server.calls.extend([read, write]);
        self.now = wrote_ns + US;
        self.packet(End::Server, true, (0, 4), Some((self.sent, 65_000)));
        self.now += WAY + US;
        self.trace.client.calls.push(call(CallKind::Read, self.now - MS, self.now, 4));
        self.trace.exchange_ended_ns.push(self.now);
        self.trace
    }
}

#[test]
fn a_plain_exchange_over_a_link_is_propagation_and_the_calls() {
    let mut link = OverLink::new(SEGMENT);
    link.writes(2 * US);
    link.wait(2 * US);
    link.segment();
    let figures = figures(&link.answered(MS, 300 * US));
    let of = |state| in_state(&figures, state);
    assert_eq!(of(ExchangeState::Propagation), 2 * WAY);
    assert_eq!(of(ExchangeState::ServerProgram), 300 * US);
    assert_eq!((of(ExchangeState::SendCall), of(ExchangeState::WakeUp)), (3 * US, 2 * US));
    assert_eq!(of(ExchangeState::Unexplained), 0);
}

#[test]
fn a_packet_that_takes_longer_than_the_shortest_queues() {
    let mut link = OverLink::new(SEGMENT);
    link.writes(2 * US);
    link.wait(2 * US);
    link.segment();
    link.packets_last().arrived_ns = Some(link.now + WAY + 7 * MS);
    link.wait(7 * MS);
    let figures = figures(&link.answered(9 * MS, 0));
    assert_eq!(in_state(&figures, ExchangeState::Queueing), 7 * MS);
    assert_eq!(in_state(&figures, ExchangeState::Propagation), 2 * WAY);
}

#[test]
fn a_server_that_calls_late_is_a_slow_reader() {
    let mut link = OverLink::new(SEGMENT);
    link.writes(2 * US);
    link.wait(2 * US);
    link.segment();
    link.wait(30 * MS);
    let mut trace = link.answered(0, 0);
    trace.packets[2].arrived_ns = Some(10 * MS + 2 * US + WAY);
    let figures = figures(&trace);
    assert_eq!(in_state(&figures, ExchangeState::SlowReader), 30 * MS);
    assert_eq!(first(&figures).1, Actor::ServerProgram);
}

/// A request of four segments, one for each round trip, in a write that returns with the last of them.
pub(super) fn windowed(window_bytes: u64) -> OverLink {
    let mut link = OverLink::new(4 * SEGMENT);
    link.writes(3 * 2 * WAY);
    for number in 0..4 {
        link.segment();
        if number < 3 {
            link.wait(WAY);
            link.acknowledges(window_bytes);
            link.wait(WAY);
        }
    }
    link.trace.packets[1].window_bytes = Some(window_bytes);
    link
}

#[test]
fn a_write_that_waits_for_the_window_is_not_the_programs_time() {
    let trace = windowed(SEGMENT).answered(100 * MS, 0);
    let figures = figures(&trace);
    assert_eq!(in_state(&figures, ExchangeState::ReceiveWindow), 3 * 2 * WAY);
    assert_eq!(spans(&figures)[0].who, Actor::ServerKernel);
}

#[test]
fn with_an_open_window_the_send_buffer_or_the_pacing_rate_explain_a_write_that_waits() {
    let mut trace = windowed(65_000).answered(100 * MS, 0);
    assert_eq!(in_state(&figures(&trace), ExchangeState::Nagle), 3 * 2 * WAY, "the segments may be small");
    trace.client.before = vec![Fact::number(fact_names::SND_MSS_BYTES, SEGMENT as f64)];
    let unknown = figures(&trace);
    assert_eq!(in_state(&unknown, ExchangeState::Unexplained), 3 * 2 * WAY);
    let mut options = switches("on", "off");
    options.push(granted(OptionName::Sndbuf, "3000"));
    assert_eq!(in_state(&figures_with(&trace, &options), ExchangeState::SendBuffer), 3 * 2 * WAY);
    options.push(granted(OptionName::Sndbuf, "300000"));
    options.remove(2);
    assert_eq!(in_state(&figures_with(&trace, &options), ExchangeState::Unexplained), 3 * 2 * WAY, "it is large");
    options.push(granted(OptionName::PacingRate, "250000"));
    assert_eq!(in_state(&figures_with(&trace, &options), ExchangeState::Pacing), 3 * 2 * WAY);
}

/// A segment that is lost, and sent again `again_ns` later; with `later`, two later segments arrive and are acknowledged.
fn lost(again_ns: u64, later: bool) -> RoundTrace {
    let mut link = OverLink::new(if later { 3 * SEGMENT } else { SEGMENT });
    link.writes(2 * US);
    link.wait(2 * US);
    link.segment();
    link.packets_last().arrived_ns = None;
    if later {
        link.segment();
        link.segment();
        link.wait(WAY);
        link.packet(End::Server, true, (0, 0), Some((0, 65_000)));
        link.wait(again_ns - WAY);
    } else {
        link.wait(again_ns);
    }
    link.packet(End::Client, true, (0, SEGMENT), Some((0, 65_000)));
    link.answered(900 * MS, 0)
}

fn counted(mut trace: RoundTrace, probes: f64, timeouts: f64) -> RoundTrace {
    let facts = |probes, timeouts| {
        vec![
            Fact::number(fact_names::LOSS_PROBES, probes),
            Fact::number(fact_names::RETRANSMISSION_TIMEOUTS, timeouts),
        ]
    };
    (trace.client.before, trace.client.after) = (facts(4.0, 4.0), facts(4.0 + probes, 4.0 + timeouts));
    trace
}

#[test]
fn lost_data_waits_for_acknowledgments_or_a_timer() {
    let found = |trace: &RoundTrace| {
        let figures = figures(trace);
        assert_eq!(in_state(&figures, ExchangeState::Propagation), 2 * WAY);
        (first(&figures).0, in_state(&figures, first(&figures).0))
    };
    assert_eq!(found(&lost(2 * WAY, true)), (ExchangeState::FastRecovery, 2 * WAY));
    let timer = lost(204 * MS, false);
    assert_eq!(found(&timer), (ExchangeState::ProbeOrTimeout, 204 * MS));
    assert_eq!(found(&counted(timer.clone(), 0.0, 1.0)), (ExchangeState::RetransmissionTimeout, 204 * MS));
    assert_eq!(found(&counted(timer.clone(), 1.0, 0.0)), (ExchangeState::TailLossProbe, 204 * MS));
    assert_eq!(found(&counted(timer, 1.0, 3.0)), (ExchangeState::TailLossProbe, 204 * MS), "a probe for each");
    assert_eq!(found(&lost(12 * MS, false)), (ExchangeState::TailLossProbe, 12 * MS));
    assert_eq!(found(&lost(300 * MS, true)).0, ExchangeState::RetransmissionTimeout);
}

#[test]
fn bytes_that_nagle_holds_for_lost_data_wait_for_its_recovery() {
    let mut link = OverLink::new(REQUEST);
    let call = |began_ns, first_byte, end_byte| Call {
        kind: CallKind::Write,
        began_ns,
        ended_ns: began_ns + US,
        first_byte,
        end_byte,
    };
    link.trace.client.calls.extend([call(10 * MS, 0, 2), call(10 * MS + 2 * US, 2, REQUEST)]);
    link.wait(US);
    link.packet(End::Client, false, (0, 2), Some((0, 65_000)));
    link.wait(204 * MS);
    link.packet(End::Client, true, (0, 2), Some((0, 65_000)));
    link.wait(WAY);
    link.packet(End::Server, true, (0, 0), Some((2, 65_000)));
    link.wait(WAY);
    link.packet(End::Client, true, (2, REQUEST), Some((0, 65_000)));
    link.sent = REQUEST;
    let figures = figures(&link.answered(MS, 0));
    assert_eq!(in_state(&figures, ExchangeState::ProbeOrTimeout), 204 * MS - 2 * US);
    assert_eq!(in_state(&figures, ExchangeState::Nagle), 2 * WAY);
}

#[test]
fn without_packets_and_stamps_calls_bound_the_kernels_time() {
    let mut trace = uncaptured(traces::none());
    (trace.client.stamps, trace.server.stamps) = (Vec::new(), Vec::new());
    let figures = figures(&trace);
    let (state, who, _) = first(&figures);
    assert_eq!((state, who), (ExchangeState::BetweenCalls, Actor::Unknown));
    let empty = RoundTrace { client: EndTrace::default(), server: EndTrace::default(), ..trace };
    assert_eq!(first(&super::figures(&empty)), (ExchangeState::NoEvidence, Actor::Unknown, 100));
}
