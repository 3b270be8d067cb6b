//! Traces on the manual clock: exact calls, and when timestamps are read.

mod sampling;

use std::io::{self, IoSlice};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::round::Purpose;
use hairpin_model::trace::{CallKind, End, StampKind};
use hairpin_model::{Call, Case, EndTrace, Exchange, Extent, Fact, Remedy, RoundOrder, Stamp};
use hairpin_transports::{KernelStamps, RawStamp, Segments, Stream, Wire, WireError};

use super::Observed;
use super::wire::TracingWire;
use hairpin_loops::clock::{Clock, ManualClock};
use hairpin_loops::marks::Alone;
use hairpin_loops::scripted::{Act, ScriptedCall, ScriptedWire};
use hairpin_loops::{Client, ClientResult, run_client};

const TIMEOUT_NS: u64 = 1_000_000;

fn order(writes: &str, remedy: Remedy, purpose: Purpose) -> RoundOrder {
    let exchange = Exchange { writes: writes.parse().unwrap(), gap_ns: 0, pipeline: 1, reply_writes: None, remedy };
    RoundOrder {
        purpose,
        warm_up: Extent::Count(1),
        timeout_ns: TIMEOUT_NS,
        keep_samples: 3,
        ..RoundOrder::of(Case::small_writes("memory", exchange), 2)
    }
}

/// A round over a scripted wire whose calls take 10 ns.
fn travel(order: &RoundOrder) -> (ClientResult, Option<EndTrace>, Vec<ScriptedCall>) {
    let (clock, stop) = (ManualClock::default(), AtomicBool::new(false));
    let request = usize::try_from(order.case.primary().load.size_bytes()).unwrap();
    let scripted = ScriptedWire::new(&clock, &[Act::After(100)], TIMEOUT_NS).with_slow_sends(10);
    let mut scripted = scripted.in_pieces(request, 4);
    let client = Client { clock: &clock, order, lossy: false, boundaries: false, phases: None, stop: &stop };
    let mut observed = Observed::begin(order, End::Client, (&mut scripted, false), &clock);
    let client_result = run_client(&client, observed.wire(), &mut Alone).unwrap();
    let trace = observed.finish().unwrap().trace;
    (client_result, trace, scripted.made().iter().map(|(_, made)| made.clone()).collect())
}

fn call(kind: CallKind, times_ns: [u64; 2], bytes: [u64; 2]) -> Call {
    Call { kind, began_ns: times_ns[0], ended_ns: times_ns[1], first_byte: bytes[0], end_byte: bytes[1] }
}

#[test]
fn every_call_is_recorded_with_its_times_and_its_bytes() {
    let (client_result, trace, _) = travel(&order("2,3", Remedy::Cork, Purpose::Traced));
    let calls = trace.unwrap().calls;
    let first = [
        call(CallKind::Cork, [0, 10], [0, 0]),
        call(CallKind::Write, [10, 20], [0, 2]),
        call(CallKind::Write, [20, 30], [2, 5]),
        call(CallKind::Uncork, [30, 40], [5, 5]),
        call(CallKind::Read, [40, 120], [0, 4]),
    ];
    assert_eq!(calls[..5], first);
    assert_eq!(calls.len(), 15, "the warm-up and two exchanges");
    assert_eq!(calls[14], call(CallKind::Read, [280, 360], [8, 12]));
    let samples = client_result.recorder.finish(0);
    assert_eq!((samples.sent_ns, samples.warm_up), (vec![0, 120, 240], 1), "the whole warm-up is kept");
}

#[test]
fn tracing_does_not_change_the_calls() {
    for remedy in [Remedy::Default, Remedy::Cork, Remedy::More, Remedy::Writev, Remedy::Batch(2)] {
        let (timed, no_trace, plain) = travel(&order("2,3,4", remedy, Purpose::Timed));
        assert_eq!(no_trace, None);
        let (traced, trace, made) = travel(&order("2,3,4", remedy, Purpose::Traced));
        assert_eq!(made, plain, "{remedy}");
        assert_eq!(traced.exchange_counts, timed.exchange_counts, "{remedy}");
        let calls = trace.unwrap().calls;
        assert_eq!(calls.len(), made.len(), "{remedy}");
        let written = calls.iter().filter(|call| call.kind == CallKind::Write);
        assert_eq!(written.map(|call| call.end_byte - call.first_byte).sum::<u64>(), 27, "{remedy}");
    }
    let (_, untraced, _) = travel(&order("2,3", Remedy::Default, Purpose::Untraced));
    assert_eq!(untraced, None);
}

/// A wire with timestamps: each write is timestamped at once and acknowledged after a given time. Nothing is
/// received.
#[derive(Default)]
struct Stamped {
    clock: ManualClock,
    refused: bool,
    /// Whether timestamps of acknowledgments were requested; `None` before tracing begins.
    acknowledged: Option<bool>,
    acknowledged_after_ns: u64,
    sent_bytes: u64,
    waiting: Vec<(u64, RawStamp)>,
    /// The number of bytes sent at each read of timestamps.
    taken_at_bytes: Vec<u64>,
    acknowledged_quickly: Vec<bool>,
}

impl Stamped {
    fn new(clock: &ManualClock, acknowledged_after_ns: u64) -> Self {
        Self { clock: clock.clone(), acknowledged_after_ns, ..Self::default() }
    }
}

impl Wire for Stamped {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        let now_ns = self.clock.now_ns();
        self.sent_bytes += message.len() as u64;
        let raw = |kind, after_ns| RawStamp { kind, realtime_ns: now_ns + after_ns, end_byte: self.sent_bytes };
        let after_ns = self.acknowledged_after_ns;
        self.waiting.push((now_ns, raw(StampKind::Driver, 0)));
        if self.acknowledged == Some(true) {
            self.waiting.push((now_ns + after_ns, raw(StampKind::Acknowledged, after_ns)));
        }
        Ok(())
    }
    fn receive(&mut self, _into: &mut [u8]) -> Result<usize, WireError> {
        Err(WireError::Closed)
    }
    fn try_receive(&mut self, _into: &mut [u8]) -> Result<Option<usize>, WireError> {
        Ok(None)
    }
    fn wait(&mut self, _at_most: Duration) -> Result<bool, WireError> {
        Ok(false)
    }
    fn effective(&self) -> Vec<Fact> {
        vec![Fact::word("option.cork", "off"), Fact::number("tcp_info.sent", self.sent_bytes as f64)]
    }
    fn stream(&mut self) -> Option<&mut dyn Stream> {
        Some(self)
    }
    fn kernel_stamps(&mut self) -> Option<&mut dyn KernelStamps> {
        Some(self)
    }
}

impl Stream for Stamped {
    fn send_more(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.send(bytes)
    }
    fn send_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<(), WireError> {
        parts.iter().try_for_each(|part| self.send(part))
    }
    /// Like the kernel: unread timestamps prevent a quick acknowledgment.
    fn set(&mut self, _option: OptionName, _on: bool) -> Result<(), WireError> {
        self.acknowledged_quickly.push(self.waiting.is_empty());
        Ok(())
    }
    fn segments(&self) -> Option<Segments> {
        None
    }
}

impl KernelStamps for Stamped {
    fn begin(&mut self, acknowledged: bool) -> Result<(), WireError> {
        self.acknowledged = Some(acknowledged);
        if self.refused {
            return Err(WireError::System { operation: "ask", source: io::ErrorKind::Unsupported.into() });
        }
        Ok(())
    }
    fn take(&mut self, into: &mut Vec<RawStamp>) -> Result<(), WireError> {
        self.taken_at_bytes.push(self.sent_bytes);
        let now_ns = self.clock.now_ns();
        into.extend(self.waiting.extract_if(.., |(at_ns, _)| *at_ns <= now_ns).map(|(_, stamp)| stamp));
        Ok(())
    }
    fn receive(&mut self, into: &mut [u8]) -> Result<(usize, Option<u64>), WireError> {
        into.fill(0);
        Ok((into.len(), Some(self.clock.now_ns())))
    }
}

#[test]
fn timestamps_are_read_every_few_writes_and_at_the_end() {
    let clock = ManualClock::default();
    let mut wire = Stamped::new(&clock, 0);
    let mut tracing = TracingWire::begin(&mut wire, clock.clone(), true);
    for _ in 0..40 {
        tracing.send(&[0; 2]).unwrap();
    }
    clock.advance(7);
    assert_eq!(tracing.receive(&mut [0; 3]).unwrap(), 3);
    assert_eq!(tracing.receive(&mut [0; 1]).unwrap(), 1);
    let trace = tracing.finish().unwrap();
    assert_eq!(wire.taken_at_bytes, [32, 64, 80]);
    let of = |kind| trace.stamps.iter().filter(move |stamp| stamp.kind == kind);
    assert!(of(StampKind::Driver).map(|stamp| stamp.end_byte).eq((1..=40).map(|write| 2 * write)));
    let received: Vec<Stamp> = of(StampKind::Received).copied().collect();
    let stamp = |end_byte| Stamp { kind: StampKind::Received, at_ns: 5_000_007, end_byte };
    assert_eq!(received, [stamp(3), stamp(4)]);
    assert_eq!(trace.before[0], Fact::number("tcp_info.sent", 0.0), "counters without options");
    assert_eq!(trace.after[0], Fact::number("tcp_info.sent", 80.0));
    for facts in [&trace.before, &trace.after] {
        assert!(facts.iter().any(|fact| fact.name == "netstat.TCPAutoCorking"), "{facts:?}");
    }
}

/// An unread timestamp makes the socket ready, so an end that waits for an answer would never sleep.
#[test]
fn timestamps_are_read_before_each_wait() {
    let clock = ManualClock::default();
    let mut wire = Stamped::new(&clock, 0);
    let mut tracing = TracingWire::begin(&mut wire, clock.clone(), true);
    tracing.send(&[0; 2]).unwrap();
    tracing.wait(Duration::ZERO).unwrap();
    tracing.send(&[0; 2]).unwrap();
    tracing.wait(Duration::ZERO).unwrap();
    drop(tracing);
    assert_eq!(wire.taken_at_bytes, [2, 4]);
}

#[test]
fn the_wait_for_the_last_timestamp_is_limited() {
    let ended_ns = |acknowledged, acknowledged_after_ns, bytes: &[u8]| {
        let clock = ManualClock::default();
        let mut wire = Stamped::new(&clock, acknowledged_after_ns);
        let mut tracing = TracingWire::begin(&mut wire, clock.clone(), acknowledged);
        if !bytes.is_empty() {
            tracing.send(bytes).unwrap();
        }
        let begun_ns = clock.now_ns();
        let trace = tracing.finish().unwrap();
        let is_acknowledged = trace.stamps.iter().any(|stamp| stamp.kind == StampKind::Acknowledged);
        (clock.now_ns() - begun_ns, is_acknowledged)
    };
    assert_eq!(ended_ns(true, 0, &[1]), (0, true));
    assert_eq!(ended_ns(true, 40_300_000, &[1]), (41_000_000, true), "one check per millisecond");
    assert_eq!(ended_ns(true, 251_000_000, &[1]), (250_000_000, false));
    assert_eq!(ended_ns(true, 251_000_000, &[]), (0, false), "nothing was sent");
    assert_eq!(ended_ns(false, 40_300_000, &[1]), (0, false), "the last timestamp is that of the driver");
}

#[test]
fn timestamps_do_not_prevent_a_quick_acknowledgment() {
    let clock = ManualClock::default();
    let mut wire = Stamped::new(&clock, 0);
    let mut tracing = TracingWire::begin(&mut wire, clock.clone(), true);
    for _ in 0..2 {
        tracing.receive(&mut [0; 3]).unwrap();
        tracing.send(&[0; 2]).unwrap();
        tracing.stream().unwrap().set(OptionName::Quickack, true).unwrap();
    }
    tracing.finish().unwrap();
    assert_eq!(wire.acknowledged_quickly, [true, true]);
}

#[test]
fn without_timestamps_the_trace_has_the_calls_and_the_reason() {
    let clock = ManualClock::default();
    let mut wire = Stamped { refused: true, ..Stamped::new(&clock, 0) };
    let mut tracing = TracingWire::begin(&mut wire, clock.clone(), true);
    tracing.send(&[0; 2]).unwrap();
    assert!(matches!(tracing.receive(&mut [0; 3]), Err(WireError::Closed)), "the wire's own receive is called");
    let trace = tracing.finish().unwrap();
    assert_eq!((trace.calls.len(), trace.stamps.len()), (1, 0));
    assert!(trace.before.contains(&Fact::word("kernel_stamps.refused", "ask failed: unsupported")));
    assert!(wire.taken_at_bytes.is_empty());
}

#[test]
fn quick_acknowledgments_are_recorded_at_the_bytes_read_so_far() {
    let clock = ManualClock::default();
    let mut scripted = ScriptedWire::new(&clock, &[Act::After(5)], TIMEOUT_NS).in_pieces(2, 2);
    let mut tracing = TracingWire::begin(&mut scripted, clock.clone(), true);
    tracing.send(&[1, 2]).unwrap();
    tracing.receive(&mut [0; 2]).unwrap();
    tracing.stream().unwrap().set(OptionName::Quickack, true).unwrap();
    tracing.stream().unwrap().set(OptionName::Nodelay, true).unwrap();
    let calls = tracing.finish().unwrap().calls;
    assert_eq!(calls[2..], [call(CallKind::Quickack, [5, 5], [2, 2])]);
}

#[test]
fn the_server_timestamps_acknowledgments_if_answers_may_wait_for_them() {
    let asked = |end, case: Case| {
        let clock = ManualClock::default();
        let mut wire = Stamped::new(&clock, 0);
        let order = RoundOrder { case, ..order("2,3", Remedy::Default, Purpose::Traced) };
        Observed::begin(&order, end, (&mut wire, false), &clock).finish().unwrap();
        wire.acknowledged
    };
    let in_flight = |pipeline| {
        let exchange = Exchange {
            writes: "2,3".parse().unwrap(),
            gap_ns: 0,
            pipeline,
            reply_writes: None,
            remedy: Remedy::Default,
        };
        Case::small_writes("memory", exchange)
    };
    let paced =
        Case::ping_pong("memory").with(|changed| changed.primary_mut().load = changed.primary().load.paced(1.0));
    for case in [Case::ping_pong("memory"), in_flight(1), in_flight(2), paced.clone()] {
        assert_eq!(asked(End::Client, case.clone()), Some(true), "{}", case.label());
    }
    assert_eq!(asked(End::Server, Case::ping_pong("memory")), Some(false), "the next request brings it");
    assert_eq!(asked(End::Server, in_flight(1)), Some(false), "the next request brings it");
    assert_eq!(asked(End::Server, in_flight(2)), Some(true));
    assert_eq!(asked(End::Server, paced), Some(true));
}
