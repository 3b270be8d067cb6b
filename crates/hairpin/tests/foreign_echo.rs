//! The echo servers of `hairpin serve`: with other clients, with hostile ones, and with Hairpin itself.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::Duration;

use hairpin_testing::or_skip;

use crate::foreign::flood;
use crate::support::served::{Served, log};
use crate::support::{Place, is_built_in};

/// A server with all echo servers that this build has. Returns it with their addresses.
pub(crate) struct Echo {
    _served: Served,
    log: String,
}

impl Echo {
    pub(crate) fn start(place: &Place, more: &str) -> Self {
        let mut flags = vec!["http", "grpc", "websocket"];
        flags.extend(is_built_in(place, "quic").is_ok().then_some("quic"));
        let started = flags.len();
        let flags: Vec<String> = flags.into_iter().map(|flag| format!("--{flag} 127.0.0.1:0")).collect();
        let served = Served::start(place, &format!("--bind 127.0.0.1:0 {} {more}", flags.join(" ")));
        crate::support::until("all echo servers run", || log(place).matches(" echo at ").count() == started);
        Self { _served: served, log: log(place) }
    }

    pub(crate) fn address(&self, flag: &str) -> String {
        let (_, rest) = self.log.split_once(&format!("{flag} echo at ")).unwrap();
        rest.split([',', '\n']).next().unwrap().to_owned()
    }

    fn certificate(&self) -> String {
        self.log.split_once("; certificate ").unwrap().1.lines().next().unwrap().to_owned()
    }

    /// Sends the bytes, and returns what the server sends until it closes.
    fn exchange(&self, flag: &str, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address(flag)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The server may close before it has read all.
        drop(stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write)));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        answer
    }

    fn exchange_text(&self, flag: &str, text: &str) -> String {
        String::from_utf8_lossy(&self.exchange(flag, text.as_bytes())).into_owned()
    }
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[test]
fn hairpin_measures_its_own_echo_servers_as_foreign_ones() {
    let place = Place::new();
    let echo = Echo::start(&place, "");
    let at = |scheme: &str, flag: &str| format!("{scheme}://{}/a.Service/Method", echo.address(flag));
    let mut all = vec![
        (at("http", "http"), "http1", 0),
        (at("http", "http"), "http1", 5000),
        (at("http", "http"), "http2", 0),
        (at("http", "http"), "http2", 70_000),
        (at("ws", "websocket"), "websocket", 4),
        (at("ws", "websocket"), "websocket", 70_000),
    ];
    if is_built_in(&place, "grpc").is_ok() {
        all.extend([(at("grpc", "grpc"), "grpc", 0), (at("grpc", "grpc"), "grpc", 70_000)]);
    }
    if is_built_in(&place, "quic").is_ok() {
        let (certificate, quic) = (echo.certificate(), echo.address("quic"));
        all.push((format!("quic://{quic} --ca {certificate}"), "quic", 4));
        all.push((format!("quic://{quic}?alpn=hq-interop --ca {certificate}"), "quic", 70_000));
    }
    for (url, transport, size) in all {
        let sized = if [0, 4].contains(&size) { String::new() } else { format!("--size {size}") };
        let arguments =
            format!("round-trip --to {url} --transport {transport} {sized} --rounds 2 --count 200 --warmup 5");
        let run = place.json(arguments.as_str());
        let case = &run["cases"][0];
        assert_eq!(case["flows"][0]["samples"], 400, "{arguments}");
        assert_eq!(case["flows"][0]["answered_by"], "foreign server", "{arguments}");
        let facts = case["ends"][0]["facts"].as_array().unwrap();
        let bytes =
            facts.iter().find(|fact| fact["name"] == "foreign.answer_bytes").unwrap()["value"].as_f64().unwrap();
        // A message of gRPC has a key and a length before its bytes.
        let field = if transport == "grpc" && size > 0 { 4 } else { 0 };
        assert_eq!(bytes, f64::from(410 * (size + field)), "{arguments}");
    }
}

#[test]
fn a_server_whose_certificate_is_not_known_or_that_lacks_the_protocol_is_refused() {
    let place = Place::new();
    or_skip!(is_built_in(&place, "quic"));
    let echo = Echo::start(&place, "");
    let quic = echo.address("quic");
    let ran = |more: &str| {
        let ran = place
            .hairpin(format!("round-trip --rounds 1 --timeout 60s --json --to quic://{quic}{more}").as_str())
            .with_code(3);
        ran.json()["cases"][0].clone()
    };
    let case = ran("");
    assert!(case["failed_rounds"][0].as_str().unwrap().contains("UnknownIssuer"), "{case:#}");
    let case = ran(&format!("?alpn=other --ca {}", echo.certificate()));
    assert_eq!(case["refused"], serde_json::json!([{ "of": "tls alert", "code": 120 }]), "{case:#}");
    // The server takes messages of up to 1 MiB: it stops and resets the stream.
    let case = ran(&format!(" --size 2MiB --ca {}", echo.certificate()));
    assert_eq!(case["refused"], serde_json::json!([{ "of": "quic error", "code": 1 }]), "{case:#}");
    assert!(case["failed_rounds"][0].as_str().unwrap().contains(" a stream with the error 0x1"), "{case:#}");
}

#[test]
fn quic_packets_of_another_version_and_garbage_end_no_other_connection() {
    let place = Place::new();
    or_skip!(is_built_in(&place, "quic"));
    let echo = Echo::start(&place, "");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(echo.address("quic")).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut packet = [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8][..], b"toserver", &[8], b"toclient", &[0; 1200]].concat();
    client.send(&packet).unwrap();
    let mut answer = [0; 2000];
    let bytes = client.recv(&mut answer).unwrap();
    assert_eq!(answer[1..23], [&[0, 0, 0, 0, 8][..], b"toclient", &[8], b"toserver"].concat(), "version negotiation");
    assert!(answer[23..bytes].chunks(4).any(|version| version == [0, 0, 0, 1]));
    for byte in 0..=255 {
        // Version 1, and lengths that are not there.
        packet[1..5].copy_from_slice(&[0, 0, 0, 1]);
        (packet[0], packet[5]) = (0xc0 | byte, byte);
        client.send(&packet).unwrap();
        client.send(&packet[..usize::from(byte)]).unwrap();
    }
    let url = format!("quic://{} --ca {}", echo.address("quic"), echo.certificate());
    let run = place.json(format!("round-trip --to {url} --rounds 1 --count 20").as_str());
    assert_eq!(run["cases"][0]["flows"][0]["samples"], 20);
}

/// Sends a request of HTTP/2 in stream 3 and returns whether the answer is a 200.
fn answers_stream_3(stream: &mut TcpStream, request: &[u8]) -> bool {
    stream.write_all(&[&[0, 0, 6, 1, 5, 0, 0, 0, 3], request].concat()).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        stream.read_exact(&mut payload).unwrap();
        if head[3] == 1 && head[8] == 3 {
            return payload[0] == 0x88;
        }
    }
}

#[test]
fn hostile_frames_end_their_stream_or_connection_and_others_are_served() {
    let place = Place::new();
    let echo = Echo::start(&place, "");
    // POST, http, the path / and the authority a (RFC 7541).
    let request = [0x83, 0x86, 0x84, 0x41, 1, b'a'];
    let open = || {
        let mut stream = TcpStream::connect(echo.address("http")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        stream
    };
    let head = [&[0, 0, 6, 1, 4, 0, 0, 0, 1][..], &request].concat();
    let grpc =
        [&[0, 0, 37, 1, 4, 0, 0, 0, 1][..], &request, &[0, 12], b"content-type", &[16], b"application/grpc"].concat();
    // A reset stream, and a message of gRPC that says that it has 1 GB.
    for frames in [
        [&head[..], &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8]].concat(),
        [&grpc[..], &[0, 0, 6, 0, 0, 0, 0, 0, 1, 0, 0x40, 0, 0, 0, b'x']].concat(),
    ] {
        let mut stream = open();
        stream.write_all(&frames).unwrap();
        assert!(answers_stream_3(&mut stream, &request), "the connection's other stream is served");
    }
    // Frames without an end: requests that are reset at once, headers, and messages of WebSocket without bytes.
    let resets: Vec<u8> = (0..100_u8)
        .flat_map(|number| {
            let stream = 2 * number + 1;
            [&[0, 0, 6, 1, 4, 0, 0, 0, stream][..], &request, &[0, 0, 4, 3, 0, 0, 0, 0, stream, 0, 0, 0, 8]].concat()
        })
        .collect();
    let headers = [&[0, 0, 6, 1, 0, 0, 0, 0, 1][..], &request].concat();
    let more_headers = [&[0, 0x3f, 0xfc, 9, 0, 0, 0, 0, 1][..], &[0, 1, b'x', 1, b'y'].repeat(3276)].concat();
    let mut websocket = TcpStream::connect(echo.address("websocket")).unwrap();
    websocket.write_all(UPGRADE.as_bytes()).unwrap();
    for (stream, once, endless) in [
        (open(), resets.clone(), resets),
        (open(), headers, more_headers),
        (websocket, vec![2, 0x80, 1, 2, 3, 4], [0, 0x80, 1, 2, 3, 4].repeat(2000)),
    ] {
        let sent = (&stream).write_all(&once).map_or(0, |()| flood(&stream, &endless));
        assert!(sent < 64 << 20, "the server has taken {sent} bytes");
    }
    assert!(answers_stream_3(&mut open(), &request), "others are served");
}

#[test]
fn requests_are_echoed_up_to_a_limit() {
    let place = Place::new();
    let echo = Echo::start(&place, "");
    let answer = echo.exchange_text("http", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    let answer = echo.exchange_text("http", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.matches("200 OK").count(), 2, "{answer}");
    let long = |length: u64| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let too_long = "HTTP/1.1 413 Payload Too Large\r\n";
    assert!(echo.exchange_text("http", &long(1_000_000_000)).starts_with(too_long));
    let whole = [long(1 << 20).as_bytes(), &vec![b'y'; 1 << 20]].concat();
    let answer = echo.exchange("http", &whole);
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(&vec![b'y'; 1 << 20]));
    let chunk = format!("10000\r\n{}\r\n", "z".repeat(0x10000));
    let endless = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunk.repeat(40));
    let answer = echo.exchange_text("http", &endless);
    assert!(answer.is_empty() || answer.starts_with(too_long), "{answer}");
    assert!(echo.exchange_text("http", "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 405 "));
}

#[test]
fn hostile_clients_are_dropped_and_others_served() {
    let place = Place::new();
    let echo = Echo::start(&place, "");
    let bomb = format!("GET / HTTP/1.1\r\n{}", format!("X: {}\r\n", "x".repeat(1000)).repeat(100));
    let answer = echo.exchange_text("http", &bomb);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    for garbage in ["", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\ngarbage garbage garbage", "\0\0\0\0", "PRI"] {
        let answer = echo.exchange("http", garbage.as_bytes());
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{garbage:?}");
    }
    // A frame that says that it has 1 GB, with a mask (RFC 6455, section 5.2).
    let mut stream = TcpStream::connect(echo.address("websocket")).unwrap();
    stream.write_all(UPGRADE.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "));
    stream.write_all(&[0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4]).unwrap();
    assert!(!stream.read(&mut [0; 100]).is_ok_and(|count| count > 0), "the server ends the connection");
    let held: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(echo.address("http")).unwrap()).collect();
    let refused = echo.exchange_text("http", "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(refused, "", "the hundred-and-first connection is closed");
    drop(held);
    crate::support::until("there is room for a connection again", || {
        echo.exchange_text("http", "GET / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 200 ")
    });
}

#[test]
fn only_allowed_addresses_get_an_answer() {
    let place = Place::new();
    let echo = Echo::start(&place, "--allow 10.0.0.0/8");
    assert_eq!(echo.exchange_text("http", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "");
    assert_eq!(echo.exchange_text("websocket", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "");
}

#[test]
fn an_address_that_cannot_be_used_is_refused() {
    let place = Place::new();
    let serve = |more: &str| place.hairpin(format!("serve --bind 127.0.0.1:0 {more}").as_str());
    assert_eq!(serve("--http nonsense").code, Some(2));
    let ran = serve("--http 192.0.2.1:80");
    assert_eq!(ran.code, Some(2));
    ran.told("--http: cannot serve at 192.0.2.1:80");
}
