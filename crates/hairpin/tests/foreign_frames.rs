//! Servers of protocols with frames, written by hand: resets, garbage, lengths of 1 GB and frames without an end.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::Ordering;

use hairpin_testing::or_skip;

use crate::foreign::{Answering, assert_refused, flood};
use crate::foreign_echo::Echo;
use crate::support::{Place, is_built_in};

/// Most that a client may take of a server.
const BOUND: u64 = 64 << 20;

/// The cause, and the protocol's code if the server gave one.
type Expected = (&'static str, Option<(&'static str, u64)>);

/// What the server sends once, and then without an end; how it is measured.
type Case<How> = (Vec<u8>, Vec<u8>, How, Expected);

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// `:status: 200` and more fields without compression (RFC 7541).
fn fields(more: &[(&str, &str)]) -> Vec<u8> {
    let field = |(name, value): &(&str, &str)| {
        let part = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
        [&[0][..], &part(name), &part(value)].concat()
    };
    [&[0x88][..], &more.iter().flat_map(field).collect::<Vec<u8>>()].concat()
}

/// Reads the preface of HTTP/2 and frames up to the first request.
fn read_request(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&frame(4, 0, 0, b""))?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize])?;
        if head[3] == 1 {
            return Ok(());
        }
    }
}

/// Sends these bytes, then others without an end if there are any, and waits until the client closes.
fn answer(mut stream: &TcpStream, [once, endless]: [&[u8]; 2]) -> u64 {
    let sent = stream.write_all(once).map_or(0, |()| once.len() as u64);
    let sent = sent + if endless.is_empty() { 0 } else { flood(stream, endless) };
    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
    sent
}

fn assert_answer(place: &Place, server: &Answering, [scheme, more]: [&str; 2], (cause, code): Expected) {
    assert_refused(server.measured(place, scheme, more), cause, code);
    let sent = server.sent.load(Ordering::SeqCst);
    assert!(sent < BOUND, "the client has taken {sent} bytes: {cause}");
}

#[test]
fn frames_of_http2_that_break_a_request_end_in_an_error() {
    let place = Place::new();
    or_skip!(is_built_in(&place, "http2"));
    let head = |more: &[(&str, &str)]| frame(1, 4, 1, &fields(more));
    let data = |bytes: &[u8]| frame(0, 0, 1, bytes);
    let reset = |code: u8| frame(3, 0, 1, &[0, 0, 0, code]);
    let (invalid, too_long) =
        (("the server does not answer with valid HTTP", None), ("the answer has more than 16 MiB", None));
    let ended = |name: &'static str, code| (name, Some(("http/2 error", code)));
    let bomb = [&fields(&[])[..], &[0x40, 1, b'x', 0x7f, 0xbd, 0x1d], &[b'y'; 3900], &[0xbe; 8000]].concat();
    let any = ["http", "--transport http2"];
    let cases: Vec<Case<[&str; 2]>> = vec![
        (reset(8), vec![], any, ended("the server ended the request or the connection with CANCEL", 8)),
        ([head(&[]), data(b"abc"), reset(2)].concat(), vec![], any, ended("INTERNAL_ERROR", 2)),
        (frame(7, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11]), vec![], any, ended("ENHANCE_YOUR_CALM", 11)),
        (vec![0xde; 400], vec![], any, invalid),
        (frame(1, 4, 1, &bomb), vec![], any, invalid),
        (frame(1, 0, 1, &fields(&[])), frame(9, 0, 1, &fields(&[("x", "y")])[1..].repeat(2000)), any, invalid),
        (head(&[("content-length", "1000000000")]), vec![], any, too_long),
        // Too long, or more than the client's window, whichever comes first.
        (head(&[]), data(&[b'x'; 16384]), any, ("no answer to message 0: the ", None)),
        ([head(&[("content-length", "100")]), frame(0, 1, 1, b"short")].concat(), vec![], any, invalid),
        (frame(1, 5, 1, b"\x08\x03503"), vec![], any, ("the server answered 503", Some(("http status", 503)))),
        (vec![], frame(6, 0, 0, b"12345678").repeat(500), any, ("receive made no progress for 300 ms", None)),
    ];
    let grpc = ["grpc", ""];
    let of_grpc = |code| Some(("grpc status", code));
    let call = || head(&[("content-type", "application/grpc")]);
    let refused = frame(1, 5, 1, &fields(&[("content-type", "application/grpc"), ("grpc-status", "14")]));
    let calls: Vec<Case<[&str; 2]>> = vec![
        (reset(8), vec![], grpc, ended("with CANCEL", 8)),
        ([call(), data(&[0, 0x40, 0, 0, 0, b'x'])].concat(), vec![], grpc, ("found 1073741824 bytes", of_grpc(11))),
        ([call(), frame(0, 1, 1, &[0; 5])].concat(), vec![], grpc, ("missing grpc-status trailer", of_grpc(2))),
        (refused, vec![], grpc, ("the server answered with gRPC status 14", of_grpc(14))),
    ];
    let has_grpc = is_built_in(&place, "grpc").is_ok();
    for (once, endless, how, expected) in cases.into_iter().chain(calls.into_iter().filter(|_| has_grpc)) {
        let server = Answering::new(move |mut stream| match read_request(&mut stream) {
            Ok(()) => answer(&stream, [&once, &endless]),
            Err(_) => 0,
        });
        assert_answer(&place, &server, how, expected);
    }
}

/// Reads the header of an HTTP message.
fn read_head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(head)
}

#[test]
fn frames_of_websocket_that_are_no_answer_end_in_an_error() {
    let place = Place::new();
    or_skip!(is_built_in(&place, "websocket"));
    // It answers the handshake for the servers here.
    let echo = Echo::start(&place, "");
    let broken = ("the server does not speak WebSocket", None);
    let (too_long, idle) = (("the answer has more than 16 MiB", None), ("receive made no progress for 300 ms", None));
    let long = [&[0, 0x7e, 0xff, 0xff][..], &[b'x'; 0xffff]].concat();
    let cases: Vec<Case<&str>> = vec![
        (vec![0x82, 0x7f, 0, 0, 0, 0, 0x40, 0, 0, 0], vec![], "", too_long),
        ([&[2][..], &long[1..]].concat(), long, "", too_long),
        (b"\x83\x01a".to_vec(), vec![], "", broken),
        (vec![0x82, 0x81, 1, 2, 3, 4, 5], vec![], "", broken),
        ([&[0x89, 0x7e, 0x10, 0][..], &[0; 4096]].concat(), vec![], "", broken),
        (b"\x81\x02\xff\xfe".to_vec(), vec![], "", broken),
        (b"\x88\x02\x03\xf3".to_vec(), vec![], "", ("with the code 1011", Some(("websocket close", 1011)))),
        // Empty parts of a message, and pings.
        (vec![2, 0], vec![0; 8192], "", idle),
        (vec![2, 0], vec![0; 8192], "--waiting spin", idle),
        (vec![], b"\x89\x01a".repeat(2000), "", idle),
    ];
    for (once, endless, more, expected) in cases {
        let behind = echo.address("websocket");
        let server = Answering::new(move |mut stream| {
            let shaken = read_head(&mut stream).and_then(|head| {
                let mut behind = TcpStream::connect(&behind)?;
                behind.write_all(&head)?;
                stream.write_all(&read_head(&mut behind)?)?;
                // The header of the first message.
                stream.read_exact(&mut [0; 2])
            });
            if shaken.is_ok() { answer(&stream, [&once, &endless]) } else { 0 }
        });
        assert_refused(server.measured(&place, "ws", more), expected.0, expected.1);
    }
}

#[test]
fn a_quic_server_of_another_version_or_without_an_answer_is_named() {
    let place = Place::new();
    or_skip!(is_built_in(&place, "quic"));
    let measured = |answers: bool, cause: &str| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            let mut packet = [0; 2000];
            while let Ok((_, from)) = socket.recv_from(&mut packet) {
                // Both connection ids, each after its length, and two versions (RFC 8999, section 6).
                let (to, own) = packet[5..].split_at(1 + usize::from(packet[5]));
                let own = &own[..1 + usize::from(own[0])];
                let versions = [0xff, 0, 0, 0x1d, 0x1a, 0x2a, 0x3a, 0x4a];
                let answer = [&[0xaa, 0, 0, 0, 0][..], own, to, &versions].concat();
                if answers {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        let plan = format!("round-trip --to quic://{at} --rounds 1 --count 20 --timeout 300ms --json");
        assert_refused(place.hairpin(plan.as_str()), cause, None);
        at
    };
    measured(true, "a Version Negotiation packet: it does not have QUIC version 1 (RFC 9000)");
    measured(false, " datagrams of 1200 B were sent to 127.0.0.1:");
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plan = format!("round-trip --to quic://{closed} --rounds 1 --count 20 --json");
    assert_refused(place.hairpin(plan.as_str()), &format!("cannot connect to {closed}: Connection refused"), None);
}
