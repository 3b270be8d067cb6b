//! Servers that are not Hairpin's, some of them hostile, measured with `--to URL`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::support::{Place, Ran, is_built_in};

/// The first line and the body.
type Request = (String, Vec<u8>);

/// A server whose connections are each answered by a function, in a thread.
pub(crate) struct Answering {
    at: SocketAddr,
    /// Bytes that it has sent.
    pub(crate) sent: Arc<AtomicU64>,
}

impl Answering {
    pub(crate) fn new(answer: impl Fn(TcpStream) -> u64 + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, sent, answer) = (listener.local_addr().unwrap(), Arc::default(), Arc::new(answer));
        let counter = Arc::clone(&sent);
        // The listener ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().take(64).flatten() {
                let (answer, counter): (Arc<_>, Arc<AtomicU64>) = (Arc::clone(&answer), Arc::clone(&counter));
                std::thread::spawn(move || counter.fetch_add(answer(stream), Ordering::SeqCst));
            }
        });
        Self { at, sent }
    }

    /// Sends the same bytes after each request head.
    pub(crate) fn with(text: &'static str) -> Self {
        Self::new(move |stream| {
            each_request(stream, |mut stream, _, _| {
                stream.write_all(text.as_bytes()).is_ok().then_some(text.len() as u64)
            })
        })
    }

    /// Measures it once, with few messages and a short time-out.
    pub(crate) fn measured(&self, place: &Place, scheme: &str, more: &str) -> Ran {
        let timeout = if more.contains("--timeout") { "" } else { "--timeout 300ms" };
        let warm_up = if more.contains("--warmup") { "" } else { "--warmup 5" };
        let arguments = format!("--rounds 1 --count 20 {warm_up} {timeout} --json");
        let path = if scheme == "grpc" { "package.Service/Method" } else { "path" };
        place.hairpin(format!("round-trip --to {scheme}://{}/{path} {arguments} {more}", self.at).as_str())
    }
}

/// Calls `answer` with the first line and the body of each request. Returns the bytes sent.
fn each_request(stream: TcpStream, answer: impl Fn(&TcpStream, &str, Vec<u8>) -> Option<u64>) -> u64 {
    let (mut reader, mut sent) = (BufReader::new(&stream), 0);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return sent;
        }
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        match answer(&stream, first.trim_end(), body) {
            Some(bytes) => sent += bytes,
            None => return sent,
        }
    }
}

/// Writes the same bytes until the other end closes. Returns how many, so far at most 1 GiB.
pub(crate) fn flood(mut stream: &TcpStream, bytes: &[u8]) -> u64 {
    let mut sent = 0;
    while sent < 1 << 30 && stream.write_all(bytes).is_ok() {
        sent += bytes.len() as u64;
    }
    sent
}

fn only_case(ran: &Ran) -> Value {
    ran.json()["cases"][0].clone()
}

/// Fails unless the only round failed with this cause and, if there is one, this code.
#[track_caller]
pub(crate) fn assert_refused(ran: Ran, cause: &str, code: Option<(&str, u64)>) {
    let ran = ran.with_code(3);
    let case = only_case(&ran);
    let [failed] = case["failed_rounds"].as_array().unwrap().as_slice() else { panic!("{case:#}") };
    assert!(failed.as_str().unwrap().contains(cause), "no `{cause}` in {failed}");
    let expected = code.map_or(Value::Null, |(of, code)| serde_json::json!([{ "of": of, "code": code }]));
    assert_eq!(case["refused"], expected, "{case:#}");
}

#[test]
fn any_answers_of_a_server_count_and_without_a_size_requests_have_no_body() {
    let place = Place::new();
    let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
    let log = Arc::clone(&seen);
    let server = Answering::new(move |stream| {
        each_request(stream, |mut stream, first, body| {
            log.lock().unwrap().push((first.to_owned(), body));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world").ok().map(|()| 0)
        })
    });
    let ran = server.measured(&place, "http", "").with_code(0);
    let case = only_case(&ran);
    assert_eq!(
        (&case["flows"][0]["samples"], &case["flows"][0]["answered_by"]),
        (&20.into(), &"foreign server".into())
    );
    assert_eq!((&case["ledger"]["sent"], &case["ledger"]["received"]), (&20.into(), &20.into()));
    assert_eq!(case["case"]["path"]["kind"], "foreign server");
    let facts = case["ends"][0]["facts"].as_array().unwrap();
    let fact = |name: &str| facts.iter().find(|fact| fact["name"] == name).unwrap()["value"].as_f64();
    assert_eq!([fact("foreign.answers"), fact("foreign.answer_bytes")], [Some(25.0), Some(275.0)]);
    assert_eq!(case["ends"].as_array().unwrap().len(), 1, "there is no report of a server");
    let requests = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(requests.len(), 25);
    assert!(requests.iter().all(|request| *request == ("GET /path HTTP/1.1".to_owned(), Vec::new())));

    server.measured(&place, "http", "--size 100").with_code(0);
    let requests = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(requests.len(), 25);
    for (number, (first, body)) in requests.iter().enumerate() {
        assert_eq!((first.as_str(), body.len()), ("POST /path HTTP/1.1", 100));
        assert_eq!(u64::from_le_bytes(body[..8].try_into().unwrap()), number as u64);
    }
}

#[test]
fn a_server_that_refuses_is_reported_once_with_its_code() {
    let place = Place::new();
    let missing = Answering::with("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let ran = missing.measured(&place, "http", "");
    assert_eq!(ran.stdout.matches("404 Not Found").count(), 1, "{}", ran.stdout);
    assert_refused(ran, "the server answered 404 Not Found", Some(("http status", 404)));
    let moved = Answering::with("HTTP/1.1 301 Moved\r\nLocation: https://b.example/\r\nContent-Length: 0\r\n\r\n");
    assert_refused(
        moved.measured(&place, "http", ""),
        "it redirects to https://b.example/",
        Some(("http status", 301)),
    );
    assert_refused(
        moved.measured(&place, "ws", ""),
        "it redirects to https://b.example/",
        Some(("http status", 301)),
    );
    let busy =
        Answering::with("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 9\r\nContent-Length: 5\r\n\r\nsorry");
    let status = Some(("http status", 503));
    assert_refused(busy.measured(&place, "http", ""), "the server answered 503 Service Unavailable", status);
    assert_refused(busy.measured(&place, "ws", ""), "the server answered 503 Service Unavailable", status);
    let closes = Answering::new(|stream| each_request(stream, |_, _, _| None));
    assert_refused(closes.measured(&place, "http", ""), "the server closed the connection", None);
    let silent = Answering::new(|stream| each_request(stream, |_, _, _| Some(0)));
    assert_refused(silent.measured(&place, "http", ""), "receive made no progress for 300 ms", None);
    let stops = Answering::with("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort");
    assert_refused(stops.measured(&place, "http", ""), "receive made no progress for 300 ms", None);
}

#[test]
fn an_answer_that_is_cut_or_has_another_length_ends_in_an_error() {
    let place = Place::new();
    let not_http = "the server does not answer with valid HTTP: ";
    for (answer, cause) in [
        ("Content-Length: 100\r\n\r\nshort", "the server closed the connection after 5 B of an answer"),
        ("Transfer-Encoding: chunked\r\n\r\n64\r\nshort", "the server closed the connection after 5 B of an answer"),
        ("Transfer-Encoding: chunked\r\n\r\nx\r\nshort", not_http),
        ("Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc", not_http),
        (
            "Content-Length: 2\r\nConnection: close\r\n\r\nab",
            "no answer to message 1: the server closed the connection",
        ),
        ("\r\nuntil the end", "no answer to message 1: the server closed the connection"),
    ] {
        let server = Answering::new(move |stream| {
            each_request(stream, |mut stream, _, _| {
                drop(write!(stream, "HTTP/1.1 200 OK\r\n{answer}"));
                None
            })
        });
        let more = "--warmup 0";
        assert_refused(server.measured(&place, "http", more), cause, None);
    }
    let longer = Answering::with("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nlonger");
    assert_refused(longer.measured(&place, "http", ""), not_http, None);
}

#[test]
fn a_port_for_another_protocol_is_named() {
    let place = Place::new();
    let ok = Answering::with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let bad_request = Answering::new(|mut stream| {
        drop(stream.read(&mut [0; 1024]));
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").map_or(0, |()| 1)
    });
    assert_refused(bad_request.measured(&place, "https", ""), "the server does not answer with TLS", None);
    assert_refused(bad_request.measured(&place, "wss", ""), "the server does not answer with TLS", None);
    assert_refused(ok.measured(&place, "ws", ""), "the server answered 200 OK", Some(("http status", 200)));
    let prior_knowledge = ok.measured(&place, "http", "--transport http2");
    assert_refused(prior_knowledge, "the server does not answer with valid HTTP", None);
    let ssh = Answering::new(|mut stream| stream.write_all(b"SSH-2.0-x\r\n").map_or(0, |()| 1));
    assert_refused(ssh.measured(&place, "http", ""), "the server does not answer with valid HTTP", None);
    let alert = Answering::new(|mut stream| {
        drop(stream.read(&mut [0; 1024]));
        // A fatal alert: handshake_failure (RFC 8446, section 6).
        stream.write_all(&[21, 3, 3, 0, 2, 2, 40]).map_or(0, |()| 7)
    });
    assert_refused(alert.measured(&place, "https", ""), "the alert HandshakeFailure", Some(("tls alert", 40)));
}

#[test]
fn hostile_servers_end_in_an_error_within_bounds() {
    const BOUND: u64 = 64 << 20;
    let place = Place::new();
    let within = |server: &Answering, scheme: &str, more: &str, cause: &str| {
        assert_refused(server.measured(&place, scheme, more), cause, None);
        let sent = server.sent.load(Ordering::SeqCst);
        assert!(sent < BOUND, "the client has taken {sent} bytes: {cause}");
    };
    let bomb = Answering::new(|mut stream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\n"));
        flood(&stream, format!("X-Header: {}\r\n", "x".repeat(1000)).as_bytes())
    });
    within(&bomb, "http", "", "the server does not answer with valid HTTP");
    let lines = Answering::new(|stream| flood(&stream, &[b'x'; 8192]));
    within(&lines, "http", "", "the server does not answer with valid HTTP");
    within(&lines, "ws", "", "the server does not speak WebSocket");
    let gigabyte = Answering::with("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    within(&gigabyte, "http", "", "the answer has more than 16 MiB");
    let endless = Answering::new(|stream| {
        each_request(stream, |mut stream, _, _| {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
            Some(flood(stream, format!("2000\r\n{}\r\n", "x".repeat(8192)).as_bytes()))
        })
    });
    within(&endless, "http", "--timeout 20s", "the answer has more than 16 MiB");
    // What does not count as an answer is dropped until the time-out.
    let again = Answering::new(|stream| {
        each_request(stream, |stream, _, _| Some(flood(stream, &b"HTTP/1.1 100 Continue\r\n\r\n".repeat(300))))
    });
    assert_refused(again.measured(&place, "http", ""), "receive made no progress for 300 ms", None);
    let frames = Answering::new(|stream| flood(&stream, &[&[0, 0, 0, 4, 0, 0, 0, 0, 0][..]; 900].concat()));
    let built_in = [("http", "--transport http2"), ("grpc", "")];
    for (scheme, more) in
        built_in.into_iter().filter(|(name, _)| is_built_in(&place, &name.replace("http", "http2")).is_ok())
    {
        let ran = frames.measured(&place, scheme, more).with_code(3);
        assert_eq!(only_case(&ran)["failed_rounds"].as_array().unwrap().len(), 1);
    }
}

/// The handshake of TLS and of WebSocket ends after 10 s at the latest.
#[test]
fn a_handshake_that_never_ends_times_out() {
    let place = Place::new();
    let silent = Answering::new(|mut stream| {
        let mut bytes = [0; 1024];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
        0
    });
    let why = "no peer completed";
    assert_refused(silent.measured(&place, "https", ""), why, None);
    assert_refused(silent.measured(&place, "wss", ""), why, None);
    assert_refused(silent.measured(&place, "ws", ""), why, None);
}

#[test]
fn what_needs_hairpin_at_both_ends_is_refused_by_name() {
    let place = Place::new();
    let server = Answering::with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let url = format!("--to http://{}/", server.at);
    let refused = |arguments: &str, why: &str| {
        place.hairpin(format!("{arguments} {url}").as_str()).refused().told(why);
    };
    for experiment in ["bulk", "small-writes", "under-load", "message-rate", "offered-load", "streams", "which"] {
        refused(experiment, &format!("{experiment} needs Hairpin at both ends"));
    }
    refused("", "survey needs Hairpin at both ends");
    refused("round-trip --rate 10", "is measured with one request at a time");
    refused("round-trip --reply-size 5", "the server decides how long its answer is");
    refused("round-trip --transport tcp", "it cannot measure http://");
    refused("round-trip --transport http1 --link delay=1ms", "--link and --to cannot be combined");
    refused("round-trip --fallback tcp", "--fallback needs a server of Hairpin");
    refused("round-trip --ca missing.pem", "--ca: cannot use missing.pem");
    let bad = |url: &str, why: &str| {
        place.hairpin(format!("round-trip --to {url}").as_str()).refused().told(why);
    };
    bad("gopher://localhost/", "its scheme is not known");
    bad("http://localhost:1/", "cannot connect to http://localhost:1/");
    bad("http://name.invalid/", "cannot look up name.invalid");
    place.hairpin("round-trip --ca x.pem").refused().told("--ca needs --to with a URL");
}
