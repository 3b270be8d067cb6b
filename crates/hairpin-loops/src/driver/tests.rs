//! The loops on a manual clock: exact times on any machine.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hairpin_model::flow::{Observer, Pacing, Source};
use hairpin_model::{Arrivals, Extent, Fact, Times, Waiting};
use hairpin_transports::{Wire, WireError};
use proptest::prelude::*;

use super::*;
use crate::clock::ManualClock;

const FOREVER: u64 = u64::MAX;

/// A wire that accepts bytes and returns pieces by a script. Each call takes a scripted time.
#[derive(Default)]
struct Scripted {
    clock: ManualClock,
    /// Bytes accepted by the next calls, and each call's duration in ns. Later calls accept all and take `then_ns`.
    sends: VecDeque<(usize, u64)>,
    then_ns: u64,
    taken: Arc<Mutex<Vec<u8>>>,
    /// Pieces that the next receives return, each after 10 ns plus `gives_after_ns`.
    gives: VecDeque<Vec<u8>>,
    gives_after_ns: u64,
    /// Duration of a receive in ns when no pieces are left; `None` closes the wire.
    waits_ns: Option<u64>,
    refuses: VecDeque<bool>,
}

impl Wire for Scripted {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.try_send(message).map(|_| ())
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        self.try_receive(into).map(Option::unwrap_or_default)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        let Some(piece) = self.gives.pop_front() else {
            self.clock.advance(self.waits_ns.ok_or(WireError::Closed)?);
            return Ok(None);
        };
        self.clock.advance(10 + self.gives_after_ns);
        into[..piece.len()].copy_from_slice(&piece);
        Ok(Some(piece.len()))
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        if self.refuses.pop_front() == Some(true) {
            return Err(WireError::Refused);
        }
        let (most, lasts_ns) = self.sends.pop_front().unwrap_or((usize::MAX, self.then_ns));
        self.clock.advance(lasts_ns);
        let taken = bytes.len().min(most);
        self.taken.lock().unwrap().extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn wait(&mut self, _: Duration) -> Result<bool, WireError> {
        Ok(!self.gives.is_empty())
    }

    fn effective(&self) -> Vec<Fact> {
        Vec::new()
    }
}

struct Quiet(Option<Totals>);

impl Marks for Quiet {
    fn sent(&mut self) -> Option<Totals> {
        self.0
    }
}

static GOES_ON: AtomicBool = AtomicBool::new(false);

/// An open loop with a message due every 1 000 ns. The first two messages are the warm-up.
fn an_open_loop(clock: &ManualClock, size_bytes: usize, boundaries: bool) -> Offering<'_, ManualClock> {
    Offering {
        keep_states: false,
        clock,
        boundaries,
        size_bytes,
        per_s: 1e6,
        arrivals: Arrivals::Fixed,
        pacing: Pacing::Spin,
        seed: 1,
        warm_up: Extent::Count(2),
        amount: Extent::Count(5),
        keep_times: 100,
        within_ns: FOREVER,
        stop: &GOES_ON,
    }
}

/// The result of [`an_open_loop`] with 32-byte messages.
fn offered(arrivals: Arrivals, amount: Extent, wire: Scripted, boundaries: bool) -> (Outcome, Vec<u8>) {
    let (clock, taken) = (wire.clock.clone(), Arc::clone(&wire.taken));
    let offering = Offering { arrivals, amount, ..an_open_loop(&clock, 32, boundaries) };
    let outcome = offering.run(&mut [Box::new(wire)], &mut Quiet(None)).unwrap();
    let bytes = taken.lock().unwrap().clone();
    (outcome, bytes)
}

#[test]
fn messages_are_sent_when_they_are_due() {
    let (outcome, bytes) =
        offered(Arrivals::Fixed, Extent::Count(5), Scripted { then_ns: 300, ..Scripted::default() }, true);
    let pacing = outcome.pacing.unwrap();
    assert_eq!(
        (pacing.gaps, pacing.nominal_ns, pacing.gap_ns.p50, pacing.share_below_half),
        (4, 1000.0, 1000.0, 0.0)
    );
    let Times { counts, rows } = outcome.times.reported();
    assert_eq!(counts, [(1, 5)], "lateness of 0 counts as 1 ns");
    let expected: Vec<[u64; 3]> = (0..5).map(|number| [number, 2000 + 1000 * number, 2000 + 1000 * number]).collect();
    assert_eq!(rows, expected);
    assert_eq!((outcome.total.measured.messages_sent, outcome.total.warm_up.messages_sent), (5, 2));
    let messages: Vec<_> = bytes.chunks(32).map(|message| phase::read(message).unwrap()).collect();
    assert_eq!(messages[1..3], [(phase::Phase::WarmUp, 1, 1000), (phase::Phase::Measured, 0, 2000)]);
}

#[test]
fn late_messages_are_sent_at_once_and_count_from_when_they_were_due() {
    let sends =
        VecDeque::from([(usize::MAX, 0), (usize::MAX, 0), (usize::MAX, 3300), (usize::MAX, 100), (usize::MAX, 100)]);
    let (outcome, _) = offered(Arrivals::Fixed, Extent::Count(6), Scripted { sends, ..Scripted::default() }, true);
    let rows = outcome.times.reported().rows;
    let late: Vec<u64> = rows.iter().map(|[_, due_ns, sent_ns]| sent_ns - due_ns).collect();
    // Messages are due at 2, 3, 4, 5, 6 and 7 us, and the first call ends at 5.3 us.
    assert_eq!(late, [0, 2300, 1400, 500, 0, 0]);
    let pacing = outcome.pacing.unwrap();
    assert_eq!((pacing.gaps, pacing.share_below_half), (5, 0.4), "gaps of 3300, 100, 100, 500 and 1000 ns");
}

#[test]
fn a_message_that_finds_no_room_is_sent_in_parts_and_in_order() {
    let sends = VecDeque::from([(32, 0), (32, 0), (10, 100), (0, 100), (20, 100)]);
    let (outcome, bytes) =
        offered(Arrivals::Fixed, Extent::Count(2), Scripted { sends, ..Scripted::default() }, false);
    assert_eq!((outcome.total.measured.full, outcome.total.measured.bytes_sent), (3, 64));
    assert!(matches!(outcome.ended, StreamEnd::Complete));
    let stamps: Vec<u64> =
        bytes.chunks(32).map(|message| phase::read_stamp(message[..8].try_into().unwrap())).collect();
    assert_eq!(stamps, [0, 1000, 2000, 3000]);
}

#[test]
fn a_warm_up_that_cannot_keep_up_ends_with_its_time_and_delays_nothing_after_it() {
    let clock = ManualClock::default();
    let wire = Scripted { clock: clock.clone(), then_ns: 10_000, ..Scripted::default() };
    let (warm_up, amount) = (Extent::DurationNs(100_000), Extent::DurationNs(50_000));
    let offering = Offering { warm_up, amount, ..an_open_loop(&clock, 32, true) };
    let outcome = offering.run(&mut [Box::new(wire)], &mut Quiet(None)).unwrap();
    let counts = outcome.total;
    assert_eq!((counts.warm_up.messages_sent, counts.measured.messages_sent), (10, 5), "one message per 10 us");
    assert_eq!(outcome.times.reported().rows[0], [0, 100_000, 100_000], "the first measured message is on time");
}

#[test]
fn messages_of_a_burst_are_due_together_and_gaps_count_between_bursts() {
    let wire = Scripted { then_ns: 10, ..Scripted::default() };
    let (outcome, _) = offered(Arrivals::Burst(4), Extent::Count(8), wire, true);
    let rows = outcome.times.reported().rows;
    let sent: Vec<u64> = rows.iter().map(|row| row[2]).collect();
    // Two messages of the first burst are the warm-up, so the measurement begins at 20 ns.
    assert_eq!(sent, [20, 30, 4020, 4030, 4040, 4050, 8020, 8030]);
    assert_eq!(outcome.pacing.unwrap().gaps, 1, "from the second burst to the third");
}

#[test]
fn an_open_loop_by_time_ends_with_the_time_and_sends_nothing_after_it() {
    let slow = Scripted { then_ns: 4000, ..Scripted::default() };
    let (outcome, _) = offered(Arrivals::Fixed, Extent::DurationNs(10_000), slow, true);
    // The warm-up ends late, at 8 us. The measurement lasts from 8 to 18 us, and its calls end at 12, 16 and 20 us.
    assert_eq!(outcome.total.measured.messages_sent, 3);
    assert!(matches!(outcome.ended, StreamEnd::Complete));
}

#[test]
fn refused_messages_count_as_sent_and_as_refused() {
    let wire = Scripted { refuses: VecDeque::from([false, true, false, true]), ..Scripted::default() };
    let (outcome, bytes) = offered(Arrivals::Fixed, Extent::Count(3), wire, true);
    let all = outcome.total.all();
    assert_eq!((all.messages_sent, all.refused, bytes.len()), (5, 2, 3 * 32));
    let refused = Scripted { refuses: VecDeque::from([true]), ..Scripted::default() };
    let (outcome, _) = offered(Arrivals::Fixed, Extent::Count(1), refused, false);
    let failed = matches!(outcome.ended, StreamEnd::Failed(DriverError::Wire { source: WireError::Refused, .. }));
    assert!(failed, "a stream loses nothing: {:?}", outcome.ended);
}

/// The bytes sent for 10 warm-up messages and 200 measured ones.
fn streamed(size: usize, batch: usize, sends: VecDeque<(usize, u64)>, unchanging: bool) -> Vec<u8> {
    let wire = Scripted { sends, then_ns: 100, ..Scripted::default() };
    let (clock, taken) = (wire.clock.clone(), Arc::clone(&wire.taken));
    clock.advance(1_000_000);
    let sending = Sending {
        keep_states: false,
        clock: &clock,
        boundaries: false,
        waiting: Waiting::Spin,
        write_size_bytes: size,
        batch,
        observer: Observer::Sampled,
        source: Source::Buffer,
        unchanging,
        warm_up: Extent::Count(10),
        amount: Extent::Count(200),
        within_ns: FOREVER,
        stop: &GOES_ON,
    };
    let outcome = sending::run(&sending, &mut [Box::new(wire)], &mut Quiet(None)).unwrap();
    assert!(matches!(outcome.ended, StreamEnd::Complete), "{:?}", outcome.ended);
    assert_eq!(outcome.total.measured.messages_sent, 200);
    let bytes = taken.lock().unwrap().clone();
    assert_eq!(bytes.len(), 210 * size);
    bytes
}

/// What the observers of both ends recorded of 10 warm-up messages and 200 measured ones of 32 bytes. Some calls take a
/// part of a message.
fn observed(observer: Observer, boundaries: bool, batch: usize) -> [Option<u64>; 2] {
    let parts = if boundaries { [].into() } else { [(3, 10), (45, 10), (16, 10)].repeat(20).into() };
    let wire = Scripted { sends: parts, then_ns: 100, ..Scripted::default() };
    let (clock, taken) = (wire.clock.clone(), Arc::clone(&wire.taken));
    let sending = Sending {
        keep_states: false,
        clock: &clock,
        boundaries,
        waiting: Waiting::Spin,
        write_size_bytes: 32,
        batch,
        observer,
        source: Source::Buffer,
        unchanging: false,
        warm_up: Extent::Count(10),
        amount: Extent::Count(200),
        within_ns: FOREVER,
        stop: &GOES_ON,
    };
    let sent = super::sending::run(&sending, &mut [Box::new(wire)], &mut Quiet(None)).unwrap();
    let bytes = taken.lock().unwrap().clone();
    assert_eq!((sent.total.all().messages_sent, bytes.len()), (210, 210 * 32));
    let gives = bytes.chunks(if boundaries { 32 } else { 1000 }).map(<[u8]>::to_vec).collect();
    let wire = Scripted { clock: clock.clone(), gives, ..Scripted::default() };
    let receiving =
        Receiving { boundaries, waiting: Waiting::Spin, write_size_bytes: 32, observer, ..receiving(&clock) };
    let totals = Totals { messages: 210, bytes: bytes.len() as u64 };
    let received = super::receiving::run(&receiving, &mut [Box::new(wire)], &mut Quiet(Some(totals))).unwrap();
    assert_eq!(received.total.all().messages_received, 210, "{:?}", received.ended);
    let recorded = received.times.reported().counts.iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(recorded, if observer == Observer::Recorder { 200 } else { recorded }, "{observer}");
    assert!(recorded == 0 || matches!(observer, Observer::Recorder | Observer::Sampled), "{observer}: {recorded}");
    [sent.observed, received.observed]
}

#[test]
fn observers_of_both_ends_record_every_message_once() {
    for observer in Observer::ALL {
        let records = match observer {
            Observer::Sampled | Observer::Recorder | Observer::None => None,
            observer if observer.sees_packets() => None,
            _ => Some(210),
        };
        for (boundaries, batch) in [(true, 1), (false, 1), (true, 4), (false, 4)] {
            assert_eq!(observed(*observer, boundaries, batch), [records; 2], "{observer} {boundaries} {batch}");
        }
    }
}

/// A receiver of 8-byte messages that makes one call per message and keeps no times.
fn receiving(clock: &ManualClock) -> Receiving<'_, ManualClock> {
    Receiving {
        clock,
        boundaries: true,
        waiting: Waiting::Block,
        reliable: true,
        write_size_bytes: 8,
        batch: 1,
        read_size_bytes: 1 << 16,
        observer: Observer::Sampled,
        gaps_of_ns: None,
        keep_times: 0,
        quiet_ns: FOREVER,
        within_ns: FOREVER,
        stop: &GOES_ON,
    }
}

/// When the last of 200 messages arrived. They arrive `gives_after_ns` apart, and the wire stays open.
fn last_came_ns(gives_after_ns: u64) -> u64 {
    let clock = ManualClock::default();
    let gives = (0_u64..200).map(|sequence| (sequence << 1 | 1).to_le_bytes().to_vec()).collect();
    let wire =
        Scripted { clock: clock.clone(), gives, gives_after_ns, waits_ns: Some(LOOK_NS), ..Scripted::default() };
    let totals = Totals { messages: 200, bytes: 1600 };
    let outcome = receiving::run(&receiving(&clock), &mut [Box::new(wire)], &mut Quiet(Some(totals))).unwrap();
    assert_eq!(outcome.total.measured.messages_received, 200, "{:?}", outcome.ended);
    outcome.total.last_ns.unwrap()
}

#[test]
fn a_last_call_that_receives_nothing_does_not_make_the_last_messages_late() {
    let fast_ns = last_came_ns(0);
    assert!((2000 - 64 * 10..=2000).contains(&fast_ns), "at most one turn before the last call: {fast_ns}");
    assert_eq!(last_came_ns(1_000_000), 200 * 1_000_010, "slow messages are counted individually");
}

/// The times that a receiver finds in `bytes`, received in pieces of the given lengths.
fn received(size: usize, bytes: &[u8], lengths: impl Iterator<Item = usize>) -> Times {
    let clock = ManualClock::default();
    clock.advance(1 << 40);
    let (mut gives, mut rest) = (VecDeque::new(), bytes);
    for length in lengths {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        gives.extend((!piece.is_empty()).then(|| piece.to_vec()));
        rest = after;
    }
    let wire = Scripted { clock: clock.clone(), gives, ..Scripted::default() };
    let stream = Receiving {
        boundaries: false,
        waiting: Waiting::Spin,
        write_size_bytes: size,
        keep_times: 1000,
        ..receiving(&clock)
    };
    let totals = Totals { messages: 210, bytes: bytes.len() as u64 };
    let outcome = receiving::run(&stream, &mut [Box::new(wire)], &mut Quiet(Some(totals))).unwrap();
    assert!(matches!(outcome.ended, StreamEnd::Complete), "{:?}", outcome.ended);
    outcome.times.reported()
}

proptest! {
    #[test]
    fn a_byte_stream_is_stamped_regularly_however_it_is_split(
        size in 8_usize..300,
        batch in 1_usize..70,
        sends in prop::collection::vec((1_usize..2000, 1_u64..1000), 0..100),
        lengths in prop::collection::vec(1_usize..5000, 1..50),
    ) {
        let bytes = streamed(size, batch, sends.into(), false);
        let rows = received(size, &bytes, lengths.into_iter().cycle().take(bytes.len())).rows;
        let every = messages::stamp_every(size, false, Observer::Sampled).unwrap();
        let sequences: Vec<u64> = rows.iter().map(|row| row[0]).collect();
        prop_assert_eq!(sequences, (0..200).step_by(every as usize).collect::<Vec<u64>>());
        prop_assert!(rows.windows(2).all(|pair| pair[0][1] <= pair[1][1] && pair[0][2] <= pair[1][2]), "{:?}", rows);
        prop_assert!(rows.iter().all(|row| row[1] >= 1_000_000 && row[1] < row[2]), "{:?}", rows);
    }
}

/// Messages that are too short for a time, and bytes that must not change, encode only their phase.
#[test]
fn streams_without_times_carry_only_their_phase() {
    let expected = |size: usize| [vec![0; 10 * size], vec![1; 200 * size]].concat();
    let parts = || VecDeque::from([(3, 10), (1, 10)]);
    for size in 1..8 {
        assert_eq!(streamed(size, 1, parts(), false), expected(size), "{size}");
        assert_eq!(streamed(size, 7, parts(), false), expected(size), "{size}");
    }
    assert_eq!(streamed(100, 4, parts(), true), expected(100));
}

#[test]
fn offered_messages_that_are_too_short_for_a_time_are_sent() {
    let wire = Scripted { then_ns: 10, ..Scripted::default() };
    let (clock, taken) = (wire.clock.clone(), Arc::clone(&wire.taken));
    let offering = Offering { amount: Extent::Count(3), ..an_open_loop(&clock, 4, false) };
    offering.run(&mut [Box::new(wire)], &mut Quiet(None)).unwrap();
    assert_eq!(*taken.lock().unwrap(), [[0; 8].as_slice(), &[1; 12]].concat());
}

#[test]
fn a_timestamp_is_the_time_of_the_call_that_sent_its_first_byte() {
    // Messages of this size all carry a timestamp. The second measured message is split within its timestamp.
    let sends = VecDeque::from([vec![(8192, 10); 11], vec![(3, 10), (8189, 70)]].concat());
    let bytes = streamed(8192, 1, sends, false);
    let rows = received(8192, &bytes, std::iter::repeat_n(1000, bytes.len())).rows;
    let due: Vec<u64> = rows.iter().take(4).map(|row| row[1]).collect();
    // The warm-up ends at 1 000 100. A call takes 10 ns, the split message 10 + 70 ns, and each later one 100 ns.
    assert_eq!(due, [1_000_100, 1_000_110, 1_000_190, 1_000_290]);
}
