//! The loops of both ends allocate nothing per message, because an allocation would be part of the measured time.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hairpin_engine::ends::opening;
use hairpin_loops::clock::RealClock;
use hairpin_loops::driver::{Marks, Receiving, Sending, Totals, receive, send};
use hairpin_loops::echo::Echo;
use hairpin_loops::marks::Alone;
use hairpin_loops::{Client, run_client};
use hairpin_model::flow::{Observer, Source};
use hairpin_model::trace::End;
use hairpin_model::{Case, Exchange, Extent, Load, RoundOrder, Waiting};
use hairpin_transports::{Cookie, Setup};

use crate::common::{order_of, pairs};
use crate::counting::allocations_of;

const COOKIE: Cookie = Cookie([7; 16]);
/// Time limit of a load; only a hang takes this long.
const LIMIT_NS: u64 = 60_000_000_000;

/// Allocations of the client and of the server in a round of `count` messages.
fn allocations(case: &Case, count: u64) -> [u64; 2] {
    // Keep fewer samples than messages, so that the loop also fills the histogram.
    let order = RoundOrder { warm_up: Extent::Count(10), keep_samples: 500, ..order_of(case.clone(), count) };
    let (clock, stop) = (RealClock::calibrated(), AtomicBool::new(false));
    let transport = opening::transport(&case.primary().transport).expect("a known transport");
    let card = transport.card();
    let mut listening = transport.listen(&opening::setup(&order, End::Server, COOKIE, None)).expect("it can listen");
    let address = listening.address();
    std::thread::scope(|scope| {
        let (clock, case) = (&clock, &order.case);
        let echo = scope.spawn(move || {
            let echo = Echo {
                clock,
                case,
                boundaries: card.boundaries,
                cpu_only: card.cpu_only,
                warm_up: order.warm_up,
                notes_order: false,
            };
            let mut wire =
                listening.accept(&mut || false).and_then(|mut one| one.accept_wire()).expect("a client connects");
            allocations_of(|| echo.run(&mut *wire, &mut Alone).expect("it echoes to the end"))
        });
        let connected = transport.connect(&address, &opening::setup(&order, End::Client, COOKIE, None));
        let mut wire = connected.and_then(|mut one| one.open()).expect("it can connect");
        let client = Client {
            clock,
            order: &order,
            lossy: !card.reliable,
            boundaries: card.boundaries,
            phases: None,
            stop: &stop,
        };
        let client = allocations_of(|| {
            let client_result = run_client(&client, &mut *wire, &mut Alone).expect("it is answered");
            assert_eq!(client_result.tally.received, count);
            client_result
        });
        drop(wire);
        [client, echo.join().expect("it does not panic")]
    })
}

/// Checks that twice the messages take the same number of allocations.
fn assert_constant(case: &Case) {
    // The first round makes the allocations that happen once per thread or process.
    allocations(case, 10);
    let (once, twice) = (allocations(case, 2000), allocations(case, 4000));
    assert_eq!(once, twice, "{}, {:?}: allocations of client and server", case.label(), case.primary().load);
    assert!(once[0] > 0 && once[1] > 0, "both ends allocate buffers before the loop: {once:?}");
}

#[test]
fn twice_the_messages_take_no_more_allocations() {
    for transport in ["memory", "unix-stream", "unix-datagram"] {
        for load in [Load::PLAIN, Load::PLAIN.paced(50_000.0)] {
            assert_constant(&Case::ping_pong(transport).with(|case| {
                case.primary_mut().load = load;
                case.primary_mut().load.set_sizes(64, 64);
            }));
        }
    }
}

/// The totals of each wire, including the warm-up, known from the beginning.
struct Sent(u64);
impl Marks for Sent {
    fn sent(&mut self) -> Option<Totals> {
        Some(Totals { messages: 3 * self.0, bytes: 3 * 64 * self.0 })
    }
}

/// Allocations of the two ends of a one-way load of `count` messages on each of three wires.
fn one_way_allocations(transport: &str, observer: Observer, count: u64) -> [u64; 2] {
    let (clock, stop) = (RealClock::calibrated(), AtomicBool::new(false));
    let transport = opening::transport(transport).expect("a known transport");
    let boundaries = transport.card().boundaries;
    let setup = Setup { cookie: COOKIE, ..Setup::new(Waiting::Spin, Duration::from_secs(20), 64) };
    let (mut from, mut to) = pairs(transport, 3, &setup);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (warm_up, amount) = (Extent::Count(10), Extent::Count(count));
            let (clock, stop) = (&clock, &stop);
            let sending = Sending {
                keep_states: false,
                clock,
                boundaries,
                waiting: Waiting::Poll,
                write_size_bytes: 64,
                batch: 8,
                observer,
                source: Source::Buffer,
                unchanging: false,
                warm_up,
                amount,
                within_ns: LIMIT_NS,
                stop,
            };
            allocations_of(|| send(&sending, &mut from, &mut Sent(count + 10)).expect("it can begin"))
        });
        let receiving = Receiving {
            clock: &clock,
            boundaries,
            waiting: Waiting::Poll,
            reliable: true,
            write_size_bytes: 64,
            batch: 8,
            read_size_bytes: 4096,
            observer,
            gaps_of_ns: None,
            keep_times: 100,
            quiet_ns: LIMIT_NS,
            within_ns: LIMIT_NS,
            stop: &stop,
        };
        let received = allocations_of(|| {
            let outcome = receive(&receiving, &mut to, &mut Sent(count + 10)).expect("it can begin");
            assert_eq!(outcome.total.measured.messages_received, 3 * count);
            outcome
        });
        [sender.join().expect("it does not panic"), received]
    })
}

#[test]
fn twice_the_messages_one_way_take_no_more_allocations() {
    let plain = ["memory", "unix-stream", "unix-datagram", "tcp"].map(|transport| (transport, Observer::Sampled));
    let observed = Observer::ALL.iter().map(|observer| ("unix-datagram", *observer));
    for (transport, observer) in plain.into_iter().chain(observed) {
        let of = |count| one_way_allocations(transport, observer, count);
        of(10);
        let (once, twice) = (of(5000), of(10_000));
        assert_eq!(once, twice, "{transport} {observer}: allocations of sender and receiver");
        assert!(once[0] > 0 && once[1] > 0, "{transport}: both ends allocate buffers before the loop: {once:?}");
    }
}

#[test]
fn twice_the_exchanges_take_no_more_allocations_whatever_the_remedy() {
    let mut cases: Vec<Case> = ["default", "one-write", "writev", "batch=3"]
        .into_iter()
        .map(|remedy| Case::small_writes("unix-stream", exchange(remedy, 1)))
        .collect();
    // These are the remedies over TCP that never stall, so 6000 exchanges are fast.
    cases.extend(["nodelay", "cork", "more"].map(|remedy| Case::small_writes("tcp", exchange(remedy, 1))));
    cases.push(Case::small_writes("unix-stream", exchange("writev", 10)));
    cases.iter().for_each(assert_constant);
}

fn exchange(remedy: &str, pipeline: u64) -> Exchange {
    let remedy = remedy.parse().expect("a remedy");
    Exchange { writes: "5x2".parse().expect("writes"), gap_ns: 0, pipeline, reply_writes: None, remedy }
}
