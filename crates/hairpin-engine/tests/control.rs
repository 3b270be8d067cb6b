//! A server behind control, whatever carries it: a thread's socket pair, and a TCP connection that delays and cuts what it
//! carries. A carrier is a line in [`CARRIERS`].

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use hairpin_engine::clock::RealClock;
use hairpin_engine::control::channel::Channel;
use hairpin_engine::control::{Control, ControlError, MOST_BYTES_OF_AN_ORDER, Message, VERSION, agree};
use hairpin_engine::ends::{EndOrder, Host, opening, server};
use hairpin_engine::loads::marks::Alone;
use hairpin_engine::loads::{Client, run_client};
use hairpin_engine::placement::Cpus;
use hairpin_model::case::Case;
use hairpin_model::round::{EndReport, Extent, Failure, Purpose, RoundOrder};
use hairpin_model::trace::End;
use hairpin_transports::Cookie;

/// Long enough for anything here; only a hang comes near it.
const LIMIT: Duration = Duration::from_secs(60);
const COOKIE: [u8; 16] = [7; 16];
const COUNT: u64 = 5;

/// Both ends of a carrier, each to be read from and written to.
type Carrier = fn() -> [Channel; 2];

const CARRIERS: &[(&str, Carrier)] = &[("socket pair", socket_pair), ("TCP that delays and cuts", cut_tcp)];

fn socket_pair() -> [Channel; 2] {
    Channel::pair([1 << 20, MOST_BYTES_OF_AN_ORDER]).expect("a socket pair")
}

/// Two TCP connections with a thread for each direction between them, which passes on 1 to 7 bytes at a time.
fn cut_tcp() -> [Channel; 2] {
    let [(one, inner), (other, outer)] = [tcp(), tcp()];
    for (from, to) in [(&inner, &outer), (&outer, &inner)] {
        let (mut from, mut to) = (from.try_clone().expect("a copy"), to.try_clone().expect("a copy"));
        std::thread::spawn(move || {
            let mut part = [0; 7];
            for most in (1..=part.len()).cycle() {
                match from.read(&mut part[..most]) {
                    Ok(count) if count > 0 && to.write_all(&part[..count]).is_ok() => {}
                    _ => break,
                }
                std::thread::sleep(Duration::from_micros(20));
            }
            // Either end learns that the other is gone.
            drop(to.shutdown(std::net::Shutdown::Both));
        });
    }
    [(one, 1 << 20), (other, MOST_BYTES_OF_AN_ORDER)].map(|(stream, most_bytes)| {
        Channel::new(stream.try_clone().expect("a copy").into(), stream.into(), most_bytes)
    })
}

fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let one = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    (one, listener.accept().expect("it came").0)
}

/// A server on a thread of its own, over its end of the carrier.
fn serve(mut control: Channel) -> JoinHandle<()> {
    let host =
        Host { clock: RealClock::calibrated(), cpus: Cpus::choose().expect("the CPUs are known"), namespace: None };
    std::thread::spawn(move || server::run(&mut control, &host))
}

fn order() -> RoundOrder {
    RoundOrder {
        case: Case::ping_pong("tcp").with(|changed| changed.flow_mut().load.set_sizes(12, 12)),
        purpose: Purpose::Timed,
        block: 0,
        extent: Extent::Count(COUNT),
        warm_up: Extent::Count(0),
        // Nothing here waits for it to pass.
        timeout_ns: 10 * u64::try_from(LIMIT.as_nanos()).expect("short"),
        deadline_ns: u64::MAX,
        keep_samples: 100,
        allow_unmet_options: false,
        port: 0,
        not_before_ns: 0,
        link_seed: 0,
    }
}

fn ordered(control: &mut Channel) {
    agree(control, LIMIT).expect("both speak this version");
    let order = EndOrder { round: order(), cookie: COOKIE };
    control.send(&Message::Order(Box::new(order))).expect("it listens");
}

fn listening(control: &mut Channel) -> String {
    match control.receive(LIMIT) {
        Ok(Message::Listening(address)) => address,
        other => panic!("{other:?}"),
    }
}

/// A whole round: both ends measure the same messages.
fn round(control: &mut Channel) -> EndReport {
    ordered(control);
    let (order, address) = (order(), listening(control));
    let transport = opening::transport("tcp").expect("it is known");
    let wire = transport.connect(&address, &opening::setup(&order, End::Client, Cookie(COOKIE)));
    let mut wire = wire.and_then(|mut connection| connection.open()).expect("it connects");
    assert_eq!(control.receive(LIMIT).expect("it has accepted"), Message::Ready);
    control.send(&Message::Measure).expect("it listens");
    assert_eq!(control.receive(LIMIT).expect("it measures"), Message::Measuring);
    let (clock, stop) = (RealClock::calibrated(), AtomicBool::new(false));
    let client = Client { clock: &clock, order: &order, lossy: false, boundaries: false, stop: &stop };
    let journey = run_client(&client, &mut *wire, &mut Alone).expect("it is answered");
    assert_eq!(journey.tally.received, COUNT);
    drop(wire);
    // The server may have ended already, as its wire is closed.
    drop(control.send(&Message::Stop));
    match control.receive(LIMIT) {
        Ok(Message::Report(report)) => *report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_round_is_the_same_over_every_carrier() {
    for (name, carrier) in CARRIERS {
        let [mut own, its] = carrier();
        let server = serve(its);
        let report = round(&mut own);
        let echoed: u64 = report.turnaround.expect("it stamps").counts.iter().sum();
        assert_eq!(echoed, COUNT, "{name}");
        server.join().expect("it does not panic");
    }
}

/// What the server answers last, once this was written to it.
fn last_word(carrier: Carrier, say: impl FnOnce(&mut Channel)) -> Result<Message, ControlError> {
    let [mut own, its] = carrier();
    let server = serve(its);
    assert_eq!(own.receive(LIMIT).expect("its version comes first"), Message::Version(VERSION));
    say(&mut own);
    let word = own.receive(LIMIT);
    drop(own);
    server.join().expect("it does not panic");
    word
}

#[test]
fn a_client_that_cannot_be_understood_is_told_why() {
    for (name, carrier) in CARRIERS {
        let newer = last_word(*carrier, |control| control.send(&Message::Version(VERSION + 1)).expect("it listens"));
        let out_of_order = last_word(*carrier, |control| control.send(&Message::Measure).expect("it listens"));
        let too_large = last_word(*carrier, |control| {
            control.send(&Message::Version(VERSION)).expect("it listens");
            let listening = Message::Listening("x".repeat(MOST_BYTES_OF_AN_ORDER));
            // It may stop listening before all of it is sent.
            drop(control.send(&listening));
        });
        for (word, cause) in [
            (newer, "the client: version 2 of the control messages; this Hairpin has version 1"),
            (out_of_order, "the client: unexpected control message `measure`"),
            (too_large, "the client: a control message of 1048592 bytes, more than the 1048576 that are accepted"),
        ] {
            match word {
                Ok(Message::Failed(failure)) => assert_eq!(failure.cause, cause, "{name}"),
                // Closed with bytes unread, TCP may discard what was said last.
                Err(ControlError::Closed) if cause.contains("bytes") => {}
                other => panic!("{name}: {other:?}, not {cause}"),
            }
        }
    }
}

#[test]
fn a_server_ends_when_its_client_is_gone_at_whatever_point() {
    for (name, carrier) in CARRIERS {
        for heard in 0..3 {
            let [mut own, its] = carrier();
            let server = serve(its);
            if heard > 0 {
                ordered(&mut own);
            }
            if heard > 1 {
                listening(&mut own);
            }
            drop(own);
            assert!(ends(&server), "{name}: it waits on after {heard} messages");
        }
    }
}

/// Whether the server ends long before its time-out.
fn ends(server: &JoinHandle<()>) -> bool {
    for _ in 0..LIMIT.as_millis() / 10 {
        if server.is_finished() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn a_server_to_which_nobody_will_connect_ends_and_says_why() {
    let own = Failure { cause: "the client: no such CPU".to_owned(), hint: "choose another".to_owned() };
    for (name, carrier) in CARRIERS {
        for (word, cause) in [
            (Message::Stop, "the client ended the round before it connected"),
            (Message::Failed(own.clone()), "the client: no such CPU"),
            (Message::Ready, "the client: unexpected control message `ready`"),
        ] {
            let [mut own, its] = carrier();
            let server = serve(its);
            ordered(&mut own);
            listening(&mut own);
            own.send(&word).expect("it listens");
            match own.receive(LIMIT) {
                Ok(Message::Failed(failure)) => assert_eq!(failure.cause, cause, "{name}"),
                other => panic!("{name}: {other:?}, not {cause}"),
            }
            assert!(ends(&server), "{name}: it waits on after `{}`", word.name());
        }
    }
}

/// Cut in the middle of a message, control is closed and nothing of the message is taken.
#[test]
fn a_message_that_is_cut_short_is_none() {
    let (mine, theirs) = UnixStream::pair().expect("a socket pair");
    let copy = theirs.try_clone().expect("a copy");
    let server = serve(Channel::new(copy.into(), theirs.into(), MOST_BYTES_OF_AN_ORDER));
    let mut mine = mine;
    let version = b"{\"version\":1}";
    let frame = [&u32::try_from(version.len()).expect("short").to_le_bytes()[..], version].concat();
    mine.write_all(&frame).expect("it listens");
    mine.write_all(&[200, 0, 0, 0, b'{', b'"']).expect("it listens");
    drop(mine);
    server.join().expect("it ends without a panic");
}
