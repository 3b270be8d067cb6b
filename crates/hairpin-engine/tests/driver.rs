//! One-way loads over real wires: every message sent is counted at the other end, over every transport and over a
//! thousand wires.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hairpin_loops::clock::RealClock;
use hairpin_loops::driver::{
    self, Counts, DriverError, Marks, Outcome, Receiving, Sending, StreamEnd, Totals, Transfer,
};
use hairpin_model::flow::{Build, Observer, Source};
use hairpin_model::{AnsweredBy, Card, Extent, Options, Waiting, fact_names};
use hairpin_transports::{ALL, Cookie, Setup, Transport, WireError};

use crate::common::{Wires, pairs};

/// Time limit of a load; only a hang takes this long.
const LIMIT_NS: u64 = 60_000_000_000;
const QUIET_NS: u64 = 300_000_000;

fn setup(waiting: Waiting, largest_message: usize, options: &str) -> Setup {
    let options = Options::parse(options).expect("valid options");
    let plain = Setup::new(waiting, Duration::from_nanos(LIMIT_NS), largest_message);
    Setup { options, cookie: Cookie([7; 16]), ..plain }
}

/// The totals sent, once known, and the driver's reports.
#[derive(Clone, Default)]
struct Notice {
    sent: Arc<Mutex<Option<Totals>>>,
    begun: u32,
    progress: Vec<Counts>,
}

impl Marks for Notice {
    fn begin(&mut self) {
        self.begun += 1;
    }

    fn progress(&mut self, so_far: &Transfer, _: u64) {
        self.progress.push(so_far.measured);
    }

    fn sent(&mut self) -> Option<Totals> {
        *self.sent.lock().expect("no thread panicked")
    }
}

struct Load<'a> {
    clock: RealClock,
    card: Card,
    waiting: Waiting,
    source: Source,
    build: Build,
    write_size_bytes: usize,
    batch: usize,
    warm_up: Extent,
    amount: Extent,
    within_ns: u64,
    stop: &'a AtomicBool,
}

impl Load<'_> {
    fn sending(&self) -> Sending<'_, RealClock> {
        Sending {
            keep_states: false,
            clock: &self.clock,
            boundaries: self.card.boundaries,
            waiting: self.waiting,
            write_size_bytes: self.write_size_bytes,
            batch: self.batch,
            observer: Observer::Sampled,
            source: self.source,
            unchanging: false,
            warm_up: self.warm_up,
            amount: self.amount,
            within_ns: self.within_ns,
            stop: self.stop,
        }
    }

    fn send(&self, wires: &mut Wires, marks: &mut Notice) -> Outcome {
        let send = match self.build {
            Build::Optimised => driver::send,
            Build::Unoptimised => hairpin_loops_unoptimised::send,
        };
        let outcome = send(&self.sending(), wires, marks).expect("it can begin");
        let Counts { messages_sent: messages, bytes_sent: bytes, .. } = outcome.total.all();
        *marks.sent.lock().expect("no thread panicked") = Some(Totals { messages, bytes });
        outcome
    }

    fn receiving(&self) -> Receiving<'_, RealClock> {
        Receiving {
            clock: &self.clock,
            boundaries: self.card.boundaries,
            waiting: self.waiting,
            reliable: self.card.reliable,
            write_size_bytes: self.write_size_bytes,
            batch: self.batch,
            read_size_bytes: 1 << 16,
            observer: Observer::Sampled,
            gaps_of_ns: None,
            keep_times: 1000,
            quiet_ns: QUIET_NS,
            within_ns: self.within_ns,
            stop: self.stop,
        }
    }

    fn receive(&self, wires: &mut Wires, marks: &mut Notice) -> Outcome {
        let receive = match self.build {
            Build::Optimised => driver::receive,
            Build::Unoptimised => hairpin_loops_unoptimised::receive,
        };
        receive(&self.receiving(), wires, marks).expect("it can begin")
    }

    /// Runs both ends at once. The wires stay open until both ends are done.
    fn run(&self, from: &mut Wires, to: &mut Wires) -> (Outcome, Outcome) {
        let (told, is_over) = (Notice::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (mut sends, is_over) = (told.clone(), &is_over);
            let sender = scope.spawn(move || {
                let sent = self.send(from, &mut sends);
                // As an end does while it waits for the other one.
                while !is_over.load(Ordering::Relaxed)
                    && let Some(due_in) = from.iter_mut().filter_map(|wire| wire.drive()).min()
                {
                    std::thread::sleep(due_in);
                }
                (sent, sends.begun)
            });
            let mut receives = told;
            let received = self.receive(to, &mut receives);
            is_over.store(true, Ordering::Relaxed);
            let (sent, begun) = sender.join().expect("it does not panic");
            assert!(begun <= 1 && receives.begun <= 1, "{begun} and {}", receives.begun);
            (sent, received)
        })
    }
}

fn load(card: Card, stop: &AtomicBool) -> Load<'_> {
    Load {
        clock: RealClock::calibrated(),
        card,
        waiting: Waiting::Poll,
        source: Source::Buffer,
        build: Build::Optimised,
        write_size_bytes: 100,
        batch: 1,
        warm_up: Extent::Count(30),
        amount: Extent::Count(500),
        within_ns: LIMIT_NS,
        stop,
    }
}

/// The transports whose server is Hairpin's and which can run here.
fn transports() -> impl Iterator<Item = &'static dyn Transport> {
    let all = ALL.iter().copied().filter(|transport| transport.card().answered_by == AnsweredBy::Server);
    all.filter(|transport| match transport.can_run() {
        Ok(_) => true,
        Err(why) => {
            hairpin_testing::skipped(
                "hairpin-engine",
                &format!("driver: {}", transport.card().name),
                &why.to_string(),
            );
            false
        }
    })
}

/// Asserts that everything sent on each wire was received once, in the warm-up and in the measurement.
fn assert_whole(what: &str, sent: &Outcome, received: &Outcome) {
    assert!(matches!(sent.ended, StreamEnd::Complete), "{what}: {:?}", sent.ended);
    assert!(matches!(received.ended, StreamEnd::Complete), "{what}: {:?} {:?}", received.ended, received.total);
    for (wire, (sent, received)) in sent.wires.iter().zip(&received.wires).enumerate() {
        for (sent, received) in [(sent.measured, received.measured), (sent.warm_up, received.warm_up)] {
            let expected = Counts {
                messages_received: sent.messages_sent,
                bytes_received: sent.bytes_sent,
                ..Counts::default()
            };
            assert_eq!(received, expected, "{what}: wire {wire}");
        }
    }
    let sum = |of: fn(&Transfer) -> u64| received.wires.iter().map(of).sum::<u64>();
    assert_eq!(sum(|wire| wire.measured.bytes_received), received.total.measured.bytes_received, "{what}");
    let timed = received.time_line.bytes.iter().sum::<u64>();
    assert_eq!(timed, received.total.all().bytes_received, "{what}: every byte is in the time line");
    // On a busy machine a load by time can end before its first measured message.
    let is_first = received.total.first_ns.is_none_or(|first_ns| received.time_line.begin_ns <= Some(first_ns));
    assert!(is_first, "{what}: the time line begins with the warm-up");
    assert!(received.total.bytes_after_first < timed, "{what}: the first call is omitted");
}

#[test]
fn every_message_is_counted_over_every_transport_with_every_wait_batch_and_build() {
    let stop = AtomicBool::new(false);
    for transport in transports() {
        let card = transport.card();
        for (waiting, batch, write_size_bytes, build) in [
            (Waiting::Block, 1, 100, Build::Optimised),
            (Waiting::Block, 16, 100, Build::Unoptimised),
            (Waiting::Poll, 16, 100, Build::Unoptimised),
            (Waiting::Poll, 64, 8, Build::Optimised),
            (Waiting::Spin, 4, 20_000, Build::Optimised),
        ] {
            // Transports that cannot poll have no calls that wait for room.
            if !card.waitings.contains(&waiting)
                || waiting == Waiting::Block && !card.waitings.contains(&Waiting::Poll)
            {
                continue;
            }
            let load = Load { waiting, batch, write_size_bytes, build, ..load(card.clone(), &stop) };
            // Over unreliable transports, the load fits the buffer.
            let load = if card.reliable {
                load
            } else {
                Load { write_size_bytes: 100, warm_up: Extent::Count(5), amount: Extent::Count(50), ..load }
            };
            let wires = if waiting == Waiting::Block { 1 } else { 3 };
            let largest = usize::try_from(card.max_message_bytes).map_or(20_000, |most| most.min(20_000));
            let (mut from, mut to) = pairs(transport, wires, &setup(waiting, largest, ""));
            let (sent, received) = load.run(&mut from, &mut to);
            let what = format!("{} by {waiting}, {batch} of {write_size_bytes} bytes", card.name);
            assert_whole(&what, &sent, &received);
            let (Extent::Count(warm_up), Extent::Count(count)) = (load.warm_up, load.amount) else { continue };
            for wire in &sent.wires {
                assert_eq!((wire.warm_up.messages_sent, wire.measured.messages_sent), (warm_up, count), "{what}");
            }
        }
    }
}

/// A load by time sends as many complete messages as possible, and the counts of both ends agree.
#[test]
fn a_load_by_time_sends_whole_messages_and_loses_none() {
    let stop = AtomicBool::new(false);
    for transport in transports().filter(|transport| transport.card().reliable) {
        let by_time = Extent::DurationNs(30_000_000);
        let load = Load {
            write_size_bytes: 3000,
            batch: 8,
            warm_up: Extent::DurationNs(5_000_000),
            amount: by_time,
            ..load(transport.card(), &stop)
        };
        let measures = |_| {
            let (mut from, mut to) = pairs(transport, 3, &setup(Waiting::Spin, 3000, ""));
            let (sent, received) = load.run(&mut from, &mut to);
            assert_whole(load.card.name, &sent, &received);
            for wire in &sent.wires {
                assert_eq!(wire.measured.bytes_sent, 3000 * wire.measured.messages_sent, "{}", load.card.name);
            }
            sent.total.measured.messages_sent > 0 && received.total.bytes_per_s().is_some()
        };
        // On a busy machine an end may run only once in that time.
        assert!((0..20).any(measures), "{}", load.card.name);
    }
}

/// Each datagram sent was received or counted by the socket that dropped it.
#[test]
fn the_socket_counts_all_lost_datagrams() {
    let stop = AtomicBool::new(false);
    let udp = hairpin_transports::find("udp").expect("it is built");
    let load = Load { amount: Extent::Count(2000), batch: 16, ..load(udp.card(), &stop) };
    let (mut from, mut to) = pairs(udp, 2, &setup(Waiting::Poll, 100, "rcvbuf=4096"));
    let mut told = Notice::default();
    let sent = load.send(&mut from, &mut told);
    let received = load.receive(&mut to, &mut told);
    assert!(matches!(received.ended, StreamEnd::Quiet), "{:?}", received.ended);
    for (wire, opened) in to.iter().enumerate() {
        let dropped = hairpin_model::fact::number(&opened.effective(), fact_names::SOCKET_DROPS);
        let dropped = dropped.expect("the kernel counts them") as u64;
        let (sent, received) = (sent.wires[wire], received.wires[wire]);
        let came = received.warm_up.messages_received + received.measured.messages_received;
        assert_eq!(sent.warm_up.messages_sent + sent.measured.messages_sent, 2030);
        assert!(dropped > 0 && came > 0, "{came} arrived, {dropped} dropped");
        assert_eq!(came + dropped, 2030, "wire {wire}");
    }
}

#[test]
fn a_thousand_wires_are_all_served() {
    const WIRES: usize = 1000;
    hairpin_testing::or_skip!(limits::open_files(2 * WIRES as u64 + 200));
    let stop = AtomicBool::new(false);
    let unix = hairpin_transports::find("unix-stream").expect("it is built");
    // Each wire sends more than its buffers hold, so that it needs several turns.
    let load = Load {
        write_size_bytes: 64 * 1024,
        warm_up: Extent::Count(1),
        amount: Extent::Count(10),
        ..load(unix.card(), &stop)
    };
    let setup = setup(Waiting::Poll, 64 * 1024, "");
    let mut listener = unix.listen(&setup).expect("it listens");
    let (mut from, mut to): (Wires, Wires) = (0..WIRES)
        .map(|_| {
            let mut connected = unix.connect(&listener.address(), &setup).expect("it connects");
            let mut accepted = listener.accept(&mut || false).expect("it is accepted");
            (connected.open().expect("a wire"), accepted.accept_wire().expect("a wire"))
        })
        .unzip();
    let (sent, received) = load.run(&mut from, &mut to);
    assert_whole("unix-stream", &sent, &received);
    assert_eq!(received.total.measured.messages_received, 10 * WIRES as u64);
    assert_eq!(received.total.warm_up.messages_received, WIRES as u64);
}

/// While all wires have data to send, no wire lags far behind another.
#[test]
fn no_wire_starves() {
    let stop = AtomicBool::new(false);
    let unix = hairpin_transports::find("unix-stream").expect("it is built");
    let load = Load {
        write_size_bytes: 1000,
        warm_up: Extent::Count(0),
        amount: Extent::Count(u64::MAX),
        ..load(unix.card(), &stop)
    };
    let (mut from, mut to) = pairs(unix, 20, &setup(Waiting::Poll, 1000, ""));
    /// Ends both ends after enough messages.
    struct Enough<'a>(&'a AtomicBool);
    impl Marks for Enough<'_> {
        fn progress(&mut self, so_far: &Transfer, _: u64) {
            if so_far.measured.messages_received > 20_000 {
                self.0.store(true, Ordering::Relaxed);
            }
        }
    }
    let received = std::thread::scope(|scope| {
        let load = &load;
        let sender = scope.spawn(move || load.send(&mut from, &mut Notice::default()));
        let received = driver::receive(&load.receiving(), &mut to, &mut Enough(load.stop)).expect("it can begin");
        let sent = sender.join().expect("it does not panic");
        assert!(
            matches!((&sent.ended, &received.ended), (StreamEnd::Stopped, StreamEnd::Stopped)),
            "{:?}",
            sent.ended
        );
        received
    });
    let counts: Vec<u64> = received.wires.iter().map(|wire| wire.measured.messages_received).collect();
    let mean = counts.iter().sum::<u64>() / 20;
    assert!(counts.iter().all(|count| *count > mean / 4), "the mean is {mean}: {counts:?}");
}

#[test]
fn an_end_whose_peer_leaves_early_reports_it_and_keeps_its_counts() {
    let stop = AtomicBool::new(false);
    for transport in transports().filter(|transport| transport.card().reliable) {
        let load = load(transport.card(), &stop);
        let (mut from, mut to) = pairs(transport, 2, &setup(Waiting::Spin, 100, ""));
        let mut told = Notice::default();
        let short = Load { warm_up: Extent::Count(0), amount: Extent::Count(10), ..load };
        short.send(&mut from, &mut told);
        // The announced total is higher, and the wires are closed.
        *told.sent.lock().expect("no thread panicked") = Some(Totals { messages: 21, bytes: 2100 });
        drop(from);
        let received = short.receive(&mut to, &mut told);
        let closed =
            matches!(&received.ended, StreamEnd::Failed(DriverError::Wire { source: WireError::Closed, .. }));
        assert!(closed, "{}: {:?}", short.card.name, received.ended);
        assert_eq!(received.total.measured.messages_received, 20, "{}", short.card.name);
        let (mut from, to) = pairs(transport, 2, &setup(Waiting::Spin, 100, ""));
        // Multipath TCP resets a connection that is closed with unread bytes; otherwise the sender can fill it.
        short.send(&mut from, &mut Notice::default());
        drop(to);
        let endless = Load { amount: Extent::Count(u64::MAX), ..short };
        let sent = endless.send(&mut from, &mut Notice::default());
        let closed = matches!(&sent.ended, StreamEnd::Failed(DriverError::Wire { source: WireError::Closed, .. }));
        assert!(closed, "{}: {:?}", endless.card.name, sent.ended);
    }
}

#[test]
fn deadlines_and_stops_end_both_ends() {
    let stop = AtomicBool::new(false);
    let tcp = hairpin_transports::find("tcp").expect("it is built");
    let (mut from, mut to) = pairs(tcp, 2, &setup(Waiting::Poll, 100, ""));
    let late = Load { amount: Extent::Count(u64::MAX), within_ns: 20_000_000, ..load(tcp.card(), &stop) };
    // The send buffers are full, because no thread reads.
    let sent = late.send(&mut from, &mut Notice::default());
    assert!(matches!(sent.ended, StreamEnd::DeadlinePassed), "{:?}", sent.ended);
    let received = late.receive(&mut to, &mut Notice::default());
    assert!(matches!(received.ended, StreamEnd::DeadlinePassed), "{:?}", received.ended);
    stop.store(true, Ordering::Relaxed);
    let stopped = Load { within_ns: LIMIT_NS, ..late };
    let ends = [stopped.send(&mut from, &mut Notice::default()), stopped.receive(&mut to, &mut Notice::default())];
    assert!(ends.iter().all(|end| matches!(end.ended, StreamEnd::Stopped)), "{ends:?}");
}

#[test]
fn messages_that_are_too_short_and_unexpected_bytes_are_refused() {
    let stop = AtomicBool::new(false);
    let (udp, tcp) =
        (hairpin_transports::find("udp").expect("built"), hairpin_transports::find("tcp").expect("built"));
    let short = Load { write_size_bytes: 7, ..load(udp.card(), &stop) };
    let refused = driver::send(&short.sending(), &mut [], &mut Notice::default());
    assert!(matches!(refused, Err(DriverError::TooShort { bytes: 7, least: 8 })), "{refused:?}");
    let (mut from, mut to) = pairs(tcp, 2, &setup(Waiting::Poll, 100, ""));
    from[1].send(b"GET / HTTP/1.1").expect("it is open");
    let received = load(tcp.card(), &stop).receive(&mut to, &mut Notice::default());
    let refused = matches!(received.ended, StreamEnd::Failed(DriverError::Unreadable { wire: 1 }));
    assert!(refused, "{:?}", received.ended);
    let (mut from, mut to) = pairs(udp, 1, &setup(Waiting::Poll, 200, ""));
    let mut message = vec![7; 100];
    for (sequence, bytes) in [(0_u64, 100), (2, 100), (1, 100), (2, 100), (3, 101), (4, 99)] {
        message.resize(bytes, 7);
        message[..8].copy_from_slice(&(sequence << 1 | 1).to_le_bytes());
        from[0].send(&message[..bytes]).expect("it is open");
    }
    let mut told = Notice::default();
    *told.sent.lock().expect("no thread panicked") = Some(Totals { messages: 5, bytes: 500 });
    let received = load(udp.card(), &stop).receive(&mut to, &mut told);
    assert!(matches!(received.ended, StreamEnd::Quiet), "{:?}", received.ended);
    let expected = Counts {
        messages_received: 3,
        bytes_received: 300,
        duplicated: 1,
        reordered: 1,
        unreadable: 2,
        ..Counts::default()
    };
    assert_eq!(received.total.measured, expected);
}

#[expect(unsafe_code, reason = "no safe call raises a limit of the process")]
mod limits {
    /// Raises the limit of open files to at least `wanted`.
    pub(super) fn open_files(wanted: u64) -> Result<(), String> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls get a pointer to a live `rlimit`.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
                return Err(std::io::Error::last_os_error().to_string());
            }
            if limit.rlim_max < wanted {
                return Err(format!("{wanted} open files are needed, but only {} are allowed", limit.rlim_max));
            }
            limit.rlim_cur = limit.rlim_cur.max(wanted);
            match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error().to_string()),
            }
        }
    }
}

/// Messages with boundaries carry the nonce that the receiver quotes, unless they are too short for a nonce.
#[test]
fn messages_carry_the_nonce_that_the_receiver_quotes() {
    struct Numbered;
    impl Marks for Numbered {
        fn nonce(&mut self) -> u64 {
            7
        }
    }
    /// Ends the sender at the first progress report.
    struct Hears<'a>(&'a AtomicBool, u64);
    impl Marks for Hears<'_> {
        fn progress(&mut self, _: &Transfer, nonce: u64) {
            self.1 = nonce;
            self.0.store(true, Ordering::Relaxed);
        }
    }
    for (size, quoted) in [(32, 7), (31, 0)] {
        let stop = AtomicBool::new(false);
        let unix = hairpin_transports::find("unix-datagram").expect("it is built");
        let load = Load {
            write_size_bytes: size,
            batch: 3,
            warm_up: Extent::Count(0),
            amount: Extent::Count(u64::MAX),
            ..load(unix.card(), &stop)
        };
        let (mut from, mut to) = pairs(unix, 1, &setup(Waiting::Poll, size, ""));
        std::thread::scope(|scope| {
            let load = &load;
            scope.spawn(move || driver::send(&load.sending(), &mut from, &mut Numbered).expect("it can begin"));
            let receiving = Receiving { stop: &AtomicBool::new(false), ..load.receiving() };
            let mut heard = Hears(load.stop, 0);
            // The sender closes its wires at the end.
            drop(driver::receive(&receiving, &mut to, &mut heard));
            assert_eq!(heard.1, quoted, "{size} bytes");
        });
    }
}
