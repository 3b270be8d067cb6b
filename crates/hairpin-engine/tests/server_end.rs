//! Servers that answer garbage, a wrong length or nothing, or close the connection. The client must report the cause
//! in bounded time, over real transports.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;

use hairpin_engine::ends::opening;
use hairpin_loops::clock::RealClock;
use hairpin_loops::marks::Alone;
use hairpin_loops::{Client, ClientResult, run_client};
use hairpin_model::trace::End;
use hairpin_model::{Case, Failure, Load, RoundOrder, Waiting};
use hairpin_transports::{Cookie, HELLO_BYTES, is_hello};

use crate::common::order_of;

/// Bytes of a message and of its answer.
const SIZE: usize = 12;
const COUNT: u64 = 3;
const TIMEOUT: Duration = Duration::from_millis(300);
/// Time limit of a test; only a hang takes this long.
const LIMIT: Duration = Duration::from_secs(60);
/// A closed and an open loop.
fn loads() -> [Load; 2] {
    [Load::PLAIN, Load::PLAIN.paced(1000.0)]
}

/// A server's answer to the first message.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// The right length, but other bytes.
    Garbage,
    OneByteWrong,
    /// Only the beginning of the message.
    Short,
    /// The message and more bytes.
    Long,
    /// No answer, but the connection stays open.
    Nothing,
}

impl Answer {
    fn to(self, message: &[u8]) -> Vec<u8> {
        let mut answer = message.to_vec();
        match self {
            Self::Garbage => answer.fill(0xee),
            Self::OneByteWrong => answer[SIZE - 1] ^= 1,
            Self::Short => answer.truncate(5),
            Self::Long => answer.extend([0xee; SIZE]),
            Self::Nothing => answer.clear(),
        }
        answer
    }
}

/// A round over `transport` to `address`, bounded in time.
fn travel(transport: &'static str, address: &str, load: &Load) -> Result<ClientResult, Failure> {
    let (tell, end) = channel();
    let (address, load) = (address.to_owned(), load.clone());
    std::thread::spawn(move || {
        let size = SIZE as u64;
        let case = Case::ping_pong(transport).with(|case| {
            case.primary_mut().load = load;
            case.primary_mut().load.set_sizes(size, size);
        });
        assert_eq!(case.ends.waiting, Waiting::Block);
        let timeout_ns = u64::try_from(TIMEOUT.as_nanos()).expect("short");
        let order = RoundOrder { timeout_ns, ..order_of(case, COUNT) };
        let transport = opening::transport(transport).expect("a known transport");
        let card = transport.card();
        let (clock, stop) = (RealClock::calibrated(), AtomicBool::new(false));
        let client = Client {
            clock: &clock,
            order: &order,
            lossy: !card.reliable,
            boundaries: card.boundaries,
            phases: None,
            stop: &stop,
        };
        let connected = transport.connect(&address, &opening::setup(&order, End::Client, Cookie([7; 16]), None));
        let client_result = match connected.and_then(|mut connection| connection.open()) {
            Ok(mut wire) => run_client(&client, &mut *wire, &mut Alone),
            Err(error) => Err(opening::unopened(End::Client, &error)),
        };
        // The test may have given up.
        drop(tell.send(client_result));
    });
    end.recv_timeout(LIMIT).expect("a round ends in time")
}

fn cause(transport: &'static str, address: &str, load: &Load) -> String {
    let failure = travel(transport, address, load).expect_err("the client must report a failure");
    assert!(!failure.hint.is_empty(), "{failure:?}");
    failure.cause
}

/// A TCP server for one connection.
fn tcp_peer(serve: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client connects");
        stream.read_exact(&mut [0; HELLO_BYTES]).expect("the client sends a hello");
        serve(stream);
    });
    address
}

/// A TCP server that sends this answer to every message until the client closes the connection.
fn answering_tcp_peer(answer: Answer) -> String {
    tcp_peer(move |mut stream| {
        let mut message = [0; SIZE];
        while stream.read_exact(&mut message).is_ok() {
            if stream.write_all(&answer.to(&message)).is_err() {
                break;
            }
        }
    })
}

#[test]
fn a_tcp_peer_that_answers_too_little_or_nothing_times_out() {
    // In a stream, five bytes are the beginning of an answer, so the client waits for the rest. In an open loop, the
    // bytes of the next answers can complete the answer, and the client then detects the error.
    let cause_of = |answer, load| cause("tcp", &answering_tcp_peer(answer), load);
    let paced = Load::PLAIN.paced(1000.0);
    for (answer, load) in [(Answer::Short, &Load::PLAIN), (Answer::Nothing, &Load::PLAIN), (Answer::Nothing, &paced)]
    {
        let cause = cause_of(answer, load);
        assert!(cause.contains("cannot receive the answer to message 0: timed out: "), "{load:?}: {cause}");
        assert!(cause.contains("no progress for 300 ms"), "{load:?}: {cause}");
    }
    let cause = cause_of(Answer::Short, &Load::PLAIN.paced(1000.0));
    assert!(cause.contains(" is not what was sent: ") || cause.contains("timed out: "), "{cause}");
}

#[test]
fn a_tcp_peer_that_closes_is_reported() {
    for load in &loads() {
        let at_once = tcp_peer(drop);
        let after_one = tcp_peer(|mut stream| {
            let mut message = [0; SIZE];
            stream.read_exact(&mut message).expect("a message comes");
            stream.write_all(&message).expect("it is answered");
        });
        for address in [at_once, after_one] {
            let cause = cause("tcp", &address, load);
            assert!(cause.contains("the other end closed the connection or has ended"), "{load:?}: {cause}");
        }
    }
}

#[test]
fn without_a_listener_the_connection_is_refused() {
    let address = free_address();
    let cause = cause("tcp", &address, &Load::PLAIN);
    assert!(cause.starts_with(&format!("client: cannot connect to {address}: Connection refused")), "{cause}");
}

/// An address without a listener.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").to_string()
}

/// The first byte of a datagram server's answers to a hello: first a challenge, then, once the client has confirmed
/// it, a welcome.
const CHALLENGE: u8 = 5;
const WELCOME: u8 = 7;

/// A UDP server that sends these answers to a hello and then serves the sender of the hello.
fn udp_peer(answers: &'static [u8], serve: impl FnOnce(&UdpSocket, SocketAddr) + Send + 'static) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it is bound").to_string();
    socket.set_read_timeout(Some(LIMIT)).expect("a time-out can be set");
    std::thread::spawn(move || {
        let mut hello = [0; 100];
        let (bytes, mut from) = socket.recv_from(&mut hello).expect("a client sends a hello");
        assert!(is_hello(&hello[..bytes]) && bytes == HELLO_BYTES);
        for kind in answers {
            hello[0] = *kind;
            socket.send_to(&hello[..HELLO_BYTES], from).expect("it is answered");
            if *kind == CHALLENGE {
                from = socket.recv_from(&mut hello).expect("the challenge is confirmed").1;
            }
        }
        serve(&socket, from);
    });
    address
}

/// A UDP server that sends this answer to every message, or nothing if the answer is empty.
fn answering_udp_peer(answer: Answer) -> String {
    udp_peer(&[CHALLENGE, WELCOME], move |socket, from| {
        let mut message = [0; 100];
        while let Ok(bytes) = socket.recv(&mut message) {
            // A repeated hello is not a message.
            let answer = if bytes == SIZE { answer.to(&message[..bytes]) } else { Vec::new() };
            if !answer.is_empty() && socket.send_to(&answer, from).is_err() {
                break;
            }
        }
    })
}

#[test]
fn a_peer_that_answers_wrongly_is_detected() {
    type Peer = fn(Answer) -> String;
    let wrong_answers: [(&str, Peer, Answer, &str); 8] = [
        ("tcp", answering_tcp_peer, Answer::Garbage, " is not what was sent: "),
        ("tcp", answering_tcp_peer, Answer::OneByteWrong, " is not what was sent: "),
        ("tcp", answering_tcp_peer, Answer::OneByteWrong, "byte 11 is 0x"),
        ("tcp", answering_tcp_peer, Answer::Long, " is not what was sent: "),
        ("udp", answering_udp_peer, Answer::Garbage, "is not what was sent: "),
        ("udp", answering_udp_peer, Answer::OneByteWrong, "byte 11 is 0x"),
        ("udp", answering_udp_peer, Answer::Short, "it has 5 bytes instead of 12"),
        // A receive has room for one byte more than an answer, to detect longer answers.
        ("udp", answering_udp_peer, Answer::Long, "it has 13 bytes instead of 12"),
    ];
    for load in &loads() {
        for (transport, peer, answer, difference) in wrong_answers {
            let cause = cause(transport, &peer(answer), load);
            let is_named = cause.starts_with("the answer to message ") && cause.contains(difference);
            assert!(is_named, "{transport}, {answer:?}, {load:?}: no `{difference}` in {cause}");
        }
    }
}

#[test]
fn a_udp_peer_that_answers_nothing_causes_losses() {
    for load in &loads() {
        let client_result = travel("udp", &answering_udp_peer(Answer::Nothing), load).expect("datagrams may be lost");
        let tally = &client_result.tally;
        assert_eq!((tally.sent, tally.received, tally.late, tally.duplicated), (COUNT, 0, 0, 0), "{load:?}");
        assert_eq!(tally.ledger(false, &[], &[], None).unexplained, 3, "no counter explains the losses");
        assert_eq!(client_result.recorder.measured(), COUNT, "each message is recorded as lost");
    }
}

#[test]
fn a_udp_peer_that_exits_is_reported() {
    for load in &loads() {
        // On a busy machine all messages may be sent before the peer closes its socket. Then they are lost without a
        // known cause.
        let failure = (0..20).find_map(|_| travel("udp", &udp_peer(&[CHALLENGE, WELCOME], |_, _| ()), load).err());
        let cause = failure.expect("the client must report a failure").cause;
        assert!(cause.contains("the other end closed the connection or has ended"), "{load:?}: {cause}");
    }
}

#[test]
fn connecting_to_a_udp_peer_with_another_protocol_fails() {
    let greets_wrongly = |socket: &UdpSocket, from: SocketAddr| {
        let mut hello = [0; 100];
        while socket.recv(&mut hello).is_ok() && socket.send_to(b"good day", from).is_ok() {}
    };
    for (address, came) in [
        (udp_peer(&[], greets_wrongly), "none came back"),
        (udp_peer(&[CHALLENGE], greets_wrongly), "1 came back, and no welcome"),
    ] {
        let cause = cause("udp", &address, &Load::PLAIN);
        let sent = cause.strip_prefix("client: no answer over udp: ").unwrap_or_else(|| panic!("{cause}"));
        assert!(sent.ends_with(&format!(" datagrams were sent to {address} in 300 ms, and {came}")), "{cause}");
    }
    // No other socket can take this port, and this one accepts datagrams of another sender only.
    let other = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = other.local_addr().expect("it is bound").to_string();
    other.connect("127.0.0.1:9").expect("an address on loopback");
    let cause = cause("udp", &address, &Load::PLAIN);
    assert!(cause.starts_with("client: cannot ") && cause.contains("Connection refused"), "{cause}");
}
