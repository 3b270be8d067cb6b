//! Clients that say hello and then break the protocol: the wire fails with the cause, and the listener serves others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hairpin_model::{Hinted, Waiting};
use hairpin_testing::or_skip;
use hairpin_transports::{HelloKind, Listener, Setup, Wire, encode_hello, find};

/// The limit of every wait, which only a hang exceeds.
const LONG: Duration = Duration::from_secs(20);

fn setup() -> Setup {
    Setup { has_answers: true, ..Setup::new(Waiting::Block, LONG, 100) }
}

/// Connects with a hello, and sends these bytes: the second part after an answer. Returns the wire's error, and what the server
/// answered. The wire may receive messages before.
fn refused(listener: &mut dyn Listener, setup: &Setup, parts: [&[u8]; 2]) -> (String, Vec<u8>) {
    let mut client = TcpStream::connect(listener.address()).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.write_all(&encode_hello(HelloKind::Hello, &setup.cookie, &[0; 16])).unwrap();
    client.write_all(parts[0]).unwrap();
    std::thread::scope(|scope| {
        let client = scope.spawn(move || {
            let mut answer = vec![0; 4096];
            let received = if parts[1].is_empty() { 0 } else { client.read(&mut answer).unwrap() };
            answer.truncate(received);
            // The server may have closed already.
            drop(client.write_all(parts[1]).and_then(|()| client.read_to_end(&mut answer)));
            answer
        });
        let accepted = listener.accept(&mut || false).and_then(|mut connection| connection.accept_wire());
        let error = match accepted {
            Err(error) => error.cause(),
            Ok(mut wire) => loop {
                if let Err(error) = wire.receive(&mut [0; 100]) {
                    break error.to_string();
                }
            },
        };
        (error, client.join().unwrap())
    })
}

fn listen(transport: &str) -> Box<dyn Listener> {
    find(transport).expect("it was found").listen(&setup()).unwrap()
}

/// A message from a new client.
fn assert_serves(transport: &str, listener: &mut dyn Listener) {
    let address = listener.address();
    let mut server = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut connection = find(transport).unwrap().connect(&address, &setup()).unwrap();
            let mut wire = connection.open().unwrap();
            wire.send(b"well").unwrap();
            (connection, wire)
        });
        let mut served = listener.accept(&mut || false).unwrap();
        let mut wire: Box<dyn Wire> = served.accept_wire().unwrap();
        let mut message = [0; 100];
        let length = wire.receive(&mut message).unwrap();
        assert_eq!(&message[..length], b"well", "{transport}");
        drop(client.join().unwrap());
        wire
    });
    assert!(server.receive(&mut [0; 100]).is_err(), "{transport}: it has closed");
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// The start of a connection of HTTP/2, then frames.
fn http2(frames: &[Vec<u8>]) -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, b""), &frames.concat()].concat()
}

/// Fields of a header without compression (RFC 7541, section 6.2.2), after `POST` and `http`.
fn fields(more: &[(&str, &str)]) -> Vec<u8> {
    let field = |(name, value): &(&str, &str)| {
        let part = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
        [&[0][..], &part(name), &part(value)].concat()
    };
    [&[0x83, 0x86][..], &more.iter().flat_map(field).collect::<Vec<u8>>()].concat()
}

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[test]
fn what_breaks_a_protocol_is_refused_with_the_cause() {
    let path =
        |path| frame(1, 4, 1, &fields(&[(":path", path), ("content-type", "application/grpc"), ("wire", "0")]));
    let bomb = format!("GET / HTTP/1.1\r\n{}", format!("X: {}\r\n", "x".repeat(1000)).repeat(2000));
    let (unary, streaming) = (path("/hairpin.Echo/Unary"), path("/hairpin.Echo/Streaming"));
    let [empty, reset] = [frame(0, 0, 1, &[0; 5]), frame(3, 0, 1, &[0, 0, 0, 8])];
    let cases: &[(&str, [&[u8]; 2], &str)] = &[
        ("tcp-streams", [&[0, 0, 0x27, 0x10, 0, 0, 0, 1], b""], "a frame has an invalid stream"),
        ("tls", [b"\x16\x03\x03\xff\xff", b""], "cannot complete the handshake of TLS"),
        ("tls", [b"GET / HTTP/1.1\r\n\r\n", b""], "cannot complete the handshake of TLS"),
        ("websocket", [b"GET / HTTP/1.1\r\n\r\n", b""], "cannot complete the handshake of WebSocket"),
        ("websocket", [UPGRADE, &[0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4]], "Message too long"),
        ("websocket", [UPGRADE, &[0x83, 0x80, 1, 2, 3, 4]], "invalid opcode"),
        ("websocket", [UPGRADE, &[0x82, 0x01, b'a']], "unmasked"),
        ("websocket", [UPGRADE, &[0x81, 0x81, 0, 0, 0, 0, b'a']], "not binary"),
        ("http1", [bomb.as_bytes(), b""], "message head is too large"),
        ("http1", [b"POST /0 HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", b""], "invalid content-length"),
        ("http1", [b"\x16\x03\x01\x02\x00", b""], "invalid HTTP method"),
        (
            "http1",
            [b"POST /0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", b""],
            "Invalid chunk size",
        ),
        ("http2", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b""], "http2 error"),
        ("http2", [&http2(&[[0xff; 9].to_vec()]), b""], "frame with invalid size"),
        ("http2", [&http2(&[path("/0"), reset.clone()]), b""], "stream no longer needed"),
        ("grpc", [&http2(&[unary, frame(0, 0, 1, &[0, 0x40, 0, 0, 0, b'x'])]), b""], "too large"),
        ("grpc-stream", [&http2(&[streaming, empty, reset]), b""], "closed the connection"),
    ];
    for (transport, parts, cause) in cases.iter().filter(|(transport, ..)| find(transport).is_some()) {
        let mut listener = listen(transport);
        let (error, _) = refused(&mut *listener, &setup(), *parts);
        assert!(error.contains(cause), "{transport}: no `{cause}` in {error}");
        assert_serves(transport, &mut *listener);
    }
}

#[test]
fn a_request_that_is_no_message_is_refused_with_the_cause() {
    or_skip!(find("rest").ok_or("this build has no transport `rest`"));
    for (body, cause) in [
        (&b"{"[..], "no JSON document"),
        (br#"["aGFp"]"#, "a JSON array, not an object"),
        (br#"{"payload":"aGF"}"#, "no base64"),
        (br#"{"payload":""}"#, "no payload"),
        (br#"{"payload":"aGFp","more":1}"#, "unknown field"),
    ] {
        let head = format!("POST /messages HTTP/1.1\r\nhost: here\r\ncontent-length: {}\r\n\r\n", body.len());
        let (error, answer) = refused(&mut *listen("rest"), &setup(), [&[head.as_bytes(), body].concat(), b""]);
        assert!(error.contains(cause), "{}: {error}", String::from_utf8_lossy(body));
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    }
}
