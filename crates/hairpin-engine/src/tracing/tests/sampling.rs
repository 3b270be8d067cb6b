//! Sampled messages on the manual clock: exact points, and which calls are made.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use hairpin_model::round::Purpose;
use hairpin_model::trace::{End, StampKind};
use hairpin_model::{Case, EndPoints, Fact, RoundOrder, Sampled};
use hairpin_transports::{KernelStamps, RawStamp, Wire, WireError};

use super::super::sampling::{SamplingWire, number_near};
use hairpin_loops::clock::{Clock, ManualClock};

/// A wire whose calls take time: a send 100 ns, stamped after 20 ns (scheduler) and 50 ns (driver); a receive 1000 ns,
/// with the arrival after 700 ns. Datagrams are numbered like the messages of a loop.
struct Scripted {
    clock: ManualClock,
    offers_stamps: bool,
    /// How many of the two stamps of each message the kernel keeps; then both.
    kept_stamps: VecDeque<usize>,
    /// Whether stamps have the number of the stamped datagram, not of the byte.
    boundaries: bool,
    arriving: VecDeque<Option<u64>>,
    queue: Vec<RawStamp>,
    sent_bytes: u64,
    stamped: u64,
    calls: Vec<&'static str>,
}

impl Scripted {
    fn new(clock: &ManualClock, arriving: &[Option<u64>]) -> Self {
        Self {
            clock: clock.clone(),
            offers_stamps: true,
            kept_stamps: VecDeque::new(),
            boundaries: false,
            arriving: arriving.iter().copied().collect(),
            queue: Vec::new(),
            sent_bytes: 0,
            stamped: 0,
            calls: Vec::new(),
        }
    }

    fn arrive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        self.clock.advance(1_000);
        let Some(number) = self.arriving.pop_front().expect("a scripted message") else {
            return Err(WireError::TimedOut { operation: "receive", after: Duration::ZERO });
        };
        into[..4].copy_from_slice(&number.to_le_bytes()[..4]);
        Ok(4)
    }
}

impl Wire for Scripted {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.calls.push("send");
        self.sent_bytes += message.len() as u64;
        self.clock.advance(100);
        Ok(())
    }
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        self.calls.push("receive");
        self.arrive(into)
    }
    fn try_receive(&mut self, _into: &mut [u8]) -> Result<Option<usize>, WireError> {
        Ok(None)
    }
    fn wait(&mut self, _at_most: Duration) -> Result<bool, WireError> {
        Ok(false)
    }
    fn effective(&self) -> Vec<Fact> {
        Vec::new()
    }
    fn kernel_stamps(&mut self) -> Option<&mut dyn KernelStamps> {
        if self.offers_stamps { Some(self) } else { None }
    }
}

impl KernelStamps for Scripted {
    fn begin(&mut self, _acknowledged: bool) -> Result<(), WireError> {
        Err(WireError::System { operation: "ask", source: io::ErrorKind::Unsupported.into() })
    }
    fn begin_for_messages(&mut self) -> Result<(), WireError> {
        Ok(())
    }
    fn send_stamped(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.calls.push("send stamped");
        let now_ns = self.clock.now_ns();
        self.sent_bytes += message.len() as u64;
        self.stamped += 1;
        let end_byte = if self.boundaries { self.stamped } else { self.sent_bytes };
        let stamps = [(StampKind::Scheduled, 20), (StampKind::Driver, 50)];
        let stamps = stamps.map(|(kind, after_ns)| RawStamp { kind, realtime_ns: now_ns + after_ns, end_byte });
        self.queue.extend(stamps.into_iter().take(self.kept_stamps.pop_front().unwrap_or(2)));
        self.clock.advance(100);
        Ok(())
    }
    fn take(&mut self, into: &mut Vec<RawStamp>) -> Result<(), WireError> {
        self.calls.push("take");
        into.append(&mut self.queue);
        Ok(())
    }
    fn receive(&mut self, into: &mut [u8]) -> Result<(usize, Option<u64>), WireError> {
        self.calls.push("receive stamped");
        let arrived_ns = self.clock.now_ns() + 700;
        Ok((self.arrive(into)?, Some(arrived_ns)))
    }
}

fn order() -> RoundOrder {
    let case = Case::ping_pong("memory");
    RoundOrder { purpose: Purpose::Stamped, sample_every: Some(2), ..RoundOrder::of(case, 4) }
}

fn sampling<'w>(wire: &'w mut Scripted, end: End, boundaries: bool) -> SamplingWire<'w, ManualClock> {
    wire.boundaries = boundaries;
    let clocks = (wire.clock.clone(), (|clock: &ManualClock| clock.now_ns()) as fn(&ManualClock) -> u64);
    SamplingWire::begin(wire, clocks, (end, boundaries), &order())
}

/// The points without the thread's waits, which are of the real kernel.
fn points(sampled: &[Sampled]) -> Vec<(u64, EndPoints)> {
    let without = |points: EndPoints| EndPoints { waited: None, switched_in: None, ..points };
    sampled.iter().map(|one| (one.sequence, without(one.points))).collect()
}

const START: i64 = 5_000_000;

#[test]
fn the_client_samples_every_second_message_and_the_others_take_ordinary_calls() {
    let clock = ManualClock::default();
    let mut scripted = Scripted::new(&clock, &[Some(0), Some(1), Some(2)]);
    let mut wire = sampling(&mut scripted, End::Client, false);
    for number in 0..3_u32 {
        wire.send(&number.to_le_bytes()).unwrap();
        assert_eq!(wire.receive(&mut [0; 4]).unwrap(), 4);
    }
    let (sampled, facts) = wire.finish().unwrap();
    let of = |begin: i64| EndPoints {
        send_called: Some(begin),
        scheduled: Some(begin + 20),
        driver: Some(begin + 50),
        send_returned: Some(begin + 100),
        receive_called: Some(begin + 100),
        arrived: Some(begin + 800),
        read: Some(begin + 1_100),
        ..EndPoints::default()
    };
    assert_eq!(points(&sampled), [(0, of(START)), (2, of(START + 2_200))]);
    assert!(sampled.iter().all(|one| one.points.waited.is_some() && one.points.switched_in.is_some()));
    assert_eq!(facts, []);
    let sample = ["send stamped", "receive stamped", "take"];
    assert_eq!(scripted.calls, [&sample[..], &["send", "receive"], &sample].concat());
}

#[test]
fn the_server_reads_the_stamps_of_its_answer_when_the_next_message_has_arrived() {
    let clock = ManualClock::default();
    let mut scripted = Scripted::new(&clock, &[Some(0), Some(1), Some(2)]);
    let mut wire = sampling(&mut scripted, End::Server, false);
    for _ in 0..3 {
        let mut message = [0; 4];
        assert_eq!(wire.receive(&mut message).unwrap(), 4);
        wire.send(&message).unwrap();
    }
    let sampled = wire.finish().unwrap().0;
    let of = |begin: i64| EndPoints {
        receive_called: Some(begin),
        arrived: Some(begin + 700),
        read: Some(begin + 1_000),
        send_called: Some(begin + 1_000),
        scheduled: Some(begin + 1_020),
        driver: Some(begin + 1_050),
        send_returned: Some(begin + 1_100),
        ..EndPoints::default()
    };
    assert_eq!(points(&sampled), [(0, of(START)), (2, of(START + 2_200))]);
    let calls =
        ["receive stamped", "send stamped", "receive", "take", "send", "receive stamped", "send stamped", "take"];
    assert_eq!(scripted.calls, calls);
}

#[test]
fn a_server_follows_the_numbers_of_datagrams() {
    let clock = ManualClock::default();
    // 2 is lost, 3 arrives when 2 was expected; 4 is sampled again, and arrives twice.
    let mut scripted = Scripted::new(&clock, &[Some(0), Some(1), Some(3), Some(4), Some(4), None, Some(5)]);
    let mut wire = sampling(&mut scripted, End::Server, true);
    for _ in 0..7 {
        let mut message = [0; 4];
        if wire.receive(&mut message).is_ok() {
            wire.send(&message).unwrap();
        }
    }
    let sampled = wire.finish().unwrap().0;
    assert_eq!(sampled.iter().map(|one| one.sequence).collect::<Vec<_>>(), [0, 4]);
    let stamped = scripted.calls.iter().filter(|call| **call == "receive stamped").count();
    assert_eq!(stamped, 3, "also for the message that was expected and lost");
}

#[test]
fn a_late_answer_is_not_taken_for_the_answer_and_a_lost_one_leaves_no_sample() {
    let clock = ManualClock::default();
    let mut scripted = Scripted::new(&clock, &[None, Some(1), Some(0), Some(2)]);
    let mut wire = sampling(&mut scripted, End::Client, true);
    let send = |wire: &mut SamplingWire<'_, ManualClock>, number: u32| wire.send(&number.to_le_bytes()).unwrap();
    send(&mut wire, 0);
    wire.receive(&mut [0; 5]).unwrap_err();
    send(&mut wire, 1);
    wire.receive(&mut [0; 5]).unwrap();
    send(&mut wire, 2);
    wire.receive(&mut [0; 5]).unwrap();
    wire.receive(&mut [0; 5]).unwrap();
    let sampled = wire.finish().unwrap().0;
    assert_eq!(sampled.len(), 1);
    let Sampled { sequence, points } = sampled[0];
    assert_eq!(sequence, 2);
    let times = [points.send_called, points.arrived, points.read].map(Option::unwrap);
    assert_eq!(times.map(|at| at - times[0]), [0, 1_800, 2_100], "the second of two receives");
}

#[test]
fn stamps_of_an_earlier_message_are_not_those_of_a_later_one() {
    let clock = ManualClock::default();
    for boundaries in [false, true] {
        // The queue still holds the stamps of message 0 when the kernel has no room for those of message 2.
        let mut scripted = Scripted::new(&clock, &[None, Some(1), Some(2), Some(3), Some(4)]);
        scripted.kept_stamps = [2, 0].into();
        let mut wire = sampling(&mut scripted, End::Client, boundaries);
        for number in 0..5_u32 {
            wire.send(&number.to_le_bytes()).unwrap();
            drop(wire.receive(&mut [0; 5]));
        }
        let sampled = wire.finish().unwrap().0;
        let known: Vec<_> = sampled.iter().map(|one| (one.sequence, one.points.driver.is_some())).collect();
        assert_eq!(known, [(2, false), (4, true)], "missing, not guessed");
    }
}

#[test]
fn without_kernel_stamps_the_calls_remain_and_the_reason_is_told() {
    let clock = ManualClock::default();
    let mut scripted = Scripted { offers_stamps: false, ..Scripted::new(&clock, &[Some(0)]) };
    let mut wire = sampling(&mut scripted, End::Client, false);
    wire.send(&[0; 4]).unwrap();
    wire.receive(&mut [0; 4]).unwrap();
    let (sampled, facts) = wire.finish().unwrap();
    let points = sampled[0].points;
    assert_eq!([points.send_called, points.send_returned, points.read], [Some(0), Some(100), Some(1_100)]);
    assert_eq!([points.scheduled, points.driver, points.arrived, points.waited], [None; 4]);
    assert_eq!(facts, [Fact::word("kernel_stamps.refused", "the kernel does not stamp this transport")]);
    assert_eq!(scripted.calls, ["send", "receive"]);
}

#[test]
fn a_clock_that_is_set_is_told() {
    let clock = ManualClock::default();
    let mut scripted = Scripted::new(&clock, &[]);
    let clocks =
        (clock.clone(), (|clock: &ManualClock| if clock.now_ns() > 6_000_000 { 0 } else { clock.now_ns() }) as _);
    let wire = SamplingWire::begin(&mut scripted, clocks, (End::Client, false), &order());
    clock.advance(1_500_000);
    let facts = wire.finish().unwrap().1;
    assert_eq!(facts, [Fact::number("realtime.step_ns", -6_500_000.0)]);
}

#[test]
fn the_number_nearest_to_the_expected_one_is_found_by_its_lowest_bytes() {
    assert_eq!(number_near(7, &[7, 0, 0, 0, 0, 0, 0, 0]), 7);
    assert_eq!(number_near(0x1ff, &[0x02]), 0x202);
    assert_eq!(number_near(0x202, &[0xff]), 0x1ff);
    assert_eq!(number_near(0x1_0000, &[0xff, 0xff]), 0xffff);
    assert_eq!(number_near(9, &[]), 9);
}
