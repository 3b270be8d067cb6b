//! Runs two ends of shared memory in all interleavings and reorderings that the memory model permits:
//!
//!     RUSTFLAGS="--cfg loom" cargo test --release -p hairpin-transports --lib loom
//!
//! The rings, waits and wake-ups are the transport's own code. The memory and the futex are models
//! (`system::loom_model`); a sleep may end spuriously. Loom models `SeqCst` fences, but not `SeqCst` accesses.
//!
//! Each of these changes makes a test fail:
//!
//! - removing one of the three fences (`wake`, `sleep`, `RingEnd::drop`), or weakening it to `AcqRel`: a deadlock;
//! - removing the second check before a sleep, for readiness or for the other end's close: a deadlock;
//! - not resetting the word `asleep` before the wake-up, or omitting the wake-up: a deadlock;
//! - treating every wake-up as readiness: an overwritten message;
//! - `Relaxed` instead of `Acquire` or `Release` for a slot's header or the position: a data race on a message;
//! - ignoring a restart, or restarting before all messages were received: a data race on a message;
//! - `Relaxed` for accesses to `CLOSED`: a lost message; to `HELLO`: the server does not wake the client, a deadlock.

use std::ops::{Deref, DerefMut};

use loom::thread;

use super::*;
use crate::wires::minimal_setup;

/// Maximum preemptions per interleaving, in addition to thread switches at waits.
const MAX_PREEMPTIONS: usize = 2;

const DAY: Duration = Duration::from_hours(24);

fn check_all(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(MAX_PREEMPTIONS);
    builder.check(model);
}

fn layout_of(slot_count: usize) -> Layout {
    Layout { slot_count, ..Layout::for_messages_of(8) }
}

/// Creates memory with all words and slots of two rings.
fn map_of(layout: Layout) -> Map {
    let about =
        Layout::ABOUT.into_iter().flat_map(|at| [Layout::PID, Layout::BLOCKS, Layout::CLOSED].map(|word| at + word));
    let asleep = [Layout::CONSUMER_ASLEEP, Layout::PRODUCER_ASLEEP];
    let asleep = Layout::RINGS.into_iter().flat_map(|at| asleep.map(|word| at + word));
    let words: Vec<usize> = about.chain(asleep).chain([Layout::HELLO]).collect();
    let slots = (0..2 * layout.slot_count).map(|slot| Layout::SLOTS + slot * layout.slot_bytes);
    let slots: Vec<usize> = slots.collect();
    let headers = slots.iter().flat_map(|slot| [*slot, slot + 8]);
    let long_words: Vec<usize> = Layout::RINGS.into_iter().chain(headers).collect();
    let messages: Vec<usize> = slots.iter().map(|slot| slot + 16).collect();
    Map::of(&words, &long_words, &messages, layout.message_bytes())
}

fn setup(waiting: Waiting) -> Setup {
    Setup { waiting, timeout: DAY, ..minimal_setup() }
}

/// Creates a wire without an alarm: the model itself interrupts sleeps.
fn wire_of(ends: RingEnd, waiting: Waiting) -> End {
    let rings = Rings::new(ends.layout, ends.own);
    End(Some(ShmWire { ends, rings, waiting, timeout: DAY, alarm: None, late_wakes: 0 }))
}

/// A wire that is not closed if the test panics, since loom's atomics are unusable during a panic.
struct End(Option<ShmWire>);

impl Deref for End {
    type Target = ShmWire;

    fn deref(&self) -> &ShmWire {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for End {
    fn deref_mut(&mut self) -> &mut ShmWire {
        self.0.as_mut().unwrap()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

/// The connected wires of client and server.
fn connected(slot_count: usize, waiting: Waiting) -> [End; 2] {
    let layout = layout_of(slot_count);
    let map = map_of(layout);
    let mut ends = [CLIENT, SERVER].map(|own| RingEnd::new(map.clone(), layout, own, &setup(waiting)));
    ends.iter_mut().for_each(RingEnd::read_peer);
    ends.map(|ends| wire_of(ends, waiting))
}

/// Returns message `number`; all messages differ in content and length.
fn message(number: u8) -> Vec<u8> {
    vec![number; usize::from(number)]
}

#[track_caller]
fn receive(wire: &mut End, number: u8) {
    let mut into = [0; 16];
    let bytes = wire.receive(&mut into).unwrap();
    assert_eq!(into[..bytes], message(number));
}

#[track_caller]
fn assert_closed<T: std::fmt::Debug>(answer: Result<T, WireError>) {
    assert!(matches!(answer, Err(WireError::Closed)), "{answer:?}");
}

/// The sender sleeps when the ring is full, the receiver when it is empty.
#[test]
fn a_stream_through_a_small_ring_arrives_once_in_order_and_whole() {
    check_all(|| {
        let [mut sender, mut receiver] = connected(2, Waiting::Block);
        let sending = thread::spawn(move || (1..=4).for_each(|number| sender.send(&message(number)).unwrap()));
        (1..=4).for_each(|number| receive(&mut receiver, number));
        assert_closed(receiver.receive(&mut [0; 16]));
        sending.join().unwrap();
    });
}

/// Without a futex, only the words of the ring order the accesses to its slots.
#[test]
fn a_stream_between_ends_that_never_sleep_arrives_once_in_order_and_whole() {
    check_all(|| {
        let [mut sender, mut receiver] = connected(2, Waiting::Spin);
        let sending = thread::spawn(move || {
            for number in 1..=3 {
                while sender.try_send(&message(number)).unwrap() == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut into = [0; 16];
        for number in 1..=3 {
            let bytes = loop {
                match receiver.try_receive(&mut into).unwrap() {
                    Some(bytes) => break bytes,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(into[..bytes], message(number));
        }
        sending.join().unwrap();
    });
}

/// After an answer to all messages, the client restarts at the first slot and sends more messages than the ring holds.
#[test]
fn messages_after_a_restart_arrive_once_in_order_and_whole() {
    check_answer(&[1], &[3, 4, 5, 6]);
}

/// After an answer to the first of two messages, the client does not restart: the second may still be in its slot.
#[test]
fn messages_after_an_early_answer_arrive_once_in_order_and_whole() {
    check_answer(&[1, 3], &[4, 5, 6]);
}

/// Uses three slots. The client sends `before`, receives the answer to its first message, and sends `after`.
fn check_answer(before: &'static [u8], after: &'static [u8]) {
    check_all(move || {
        let [mut client, mut server] = connected(3, Waiting::Block);
        let answering = thread::spawn(move || {
            let mut numbers = before.iter().chain(after).copied();
            receive(&mut server, numbers.next().unwrap());
            server.send(&message(2)).unwrap();
            numbers.for_each(|number| receive(&mut server, number));
        });
        before.iter().for_each(|number| client.send(&message(*number)).unwrap());
        receive(&mut client, 2);
        after.iter().for_each(|number| client.send(&message(*number)).unwrap());
        answering.join().unwrap();
    });
}

#[test]
fn a_sender_that_sleeps_is_woken_when_the_receiver_closes() {
    check_all(|| {
        let [mut sender, receiver] = connected(2, Waiting::Block);
        let closing = thread::spawn(move || drop(receiver));
        // The third message finds the ring full, unless the receiver closed before.
        assert_closed((1..=3).try_for_each(|number| sender.send(&message(number))));
        closing.join().unwrap();
    });
}

#[test]
fn messages_sent_before_the_sender_closed_are_received() {
    check_all(|| {
        let [mut sender, mut receiver] = connected(2, Waiting::Spin);
        let sending = thread::spawn(move || sender.send(&message(1)).unwrap());
        let mut into = [0; 16];
        let mut received = 0;
        loop {
            match receiver.try_receive(&mut into) {
                Ok(Some(bytes)) => received += bytes,
                Ok(None) => thread::yield_now(),
                closed => break assert_closed(closed),
            }
        }
        assert_eq!(received, 1);
        sending.join().unwrap();
    });
}

/// The server sleeps until the client connects, and then learns that the client sleeps.
#[test]
fn a_client_wakes_the_accepting_server_and_is_woken_by_a_message() {
    check_all(|| {
        let (layout, setup) = (layout_of(2), setup(Waiting::Block));
        let map = map_of(layout);
        let mut ends = RingEnd::new(map.clone(), layout, SERVER, &setup);
        let connecting = thread::spawn(move || {
            let ends = RingEnd::connect(map, layout, &self::setup(Waiting::Block)).unwrap();
            receive(&mut wire_of(ends, Waiting::Block), 1);
        });
        ends.accept_hello(&setup, "", &mut || false).unwrap();
        ends.read_peer();
        let mut wire = wire_of(ends, Waiting::Block);
        wire.send(&message(1)).unwrap();
        // Keeps the server's wire open until here, since closing it would also wake the client.
        connecting.join().unwrap();
    });
}
