//! Clients and servers of other authors: curl, and Python's httpx with h2, websockets, grpcio and aioquic. Clients compare each
//! byte; servers check the length and the number of each message.

use std::path::PathBuf;

use hairpin_testing::{or_skip, program, works};
use serde_json::Value;

use crate::support::served::{Served, log};
use crate::support::{Place, Running, until};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/interop.py");

/// Messages of a client in the script.
const MESSAGES: &str = "20 messages";

fn python(module: &str) -> Result<(), String> {
    program("python3")?;
    works(&["python3", "-c", &format!("import {module}")])
}

/// `hairpin serve` with one echo server. Returns it with the address, and the certificate if it has one.
fn echo(place: &Place, flag: &str) -> (Served, String, String) {
    let served = Served::start(place, &format!("--bind 127.0.0.1:0 --{flag} 127.0.0.1:0"));
    until("the echo server runs", || log(place).contains(" echo at "));
    let log = log(place);
    let address = log.split_once(" echo at ").unwrap().1.split(',').next().unwrap().to_owned();
    let certificate = log.split_once("; certificate ").map(|(_, file)| file.lines().next().unwrap().to_owned());
    (served, address, certificate.unwrap_or_default())
}

fn client_of_ours(kind: &str, flag: &str) {
    let place = Place::new();
    let (_served, address, certificate) = echo(&place, flag);
    let ran = Running::start(place.command("python3").args([SCRIPT, "client", kind, &address, &certificate])).end();
    ran.with_code(0).shown(MESSAGES);
}

/// A server of the script, and the URL parts to reach it.
struct Foreign {
    _running: Running,
    port: String,
    folder: PathBuf,
}

impl Foreign {
    fn start(place: &Place, kind: &str) -> Self {
        let folder = place.path(kind);
        std::fs::create_dir(&folder).unwrap();
        let script = "exec python3 \"$0\" server \"$1\" . > port";
        let mut command = place.command("sh");
        command.args(["-c", script, SCRIPT, kind]).current_dir(&folder);
        let running = Running::start(&mut command);
        let read = || std::fs::read_to_string(folder.join("port")).unwrap_or_default();
        until("the server has printed its port", || read().ends_with('\n'));
        Self { _running: running, port: read().trim().to_owned(), folder }
    }

    /// Measures it with messages of 64 B, and returns the case.
    fn measured(&self, place: &Place, url: &str, more: &str, code: i32) -> Value {
        let url = url.replace("PORT", &self.port);
        let line = format!("round-trip --to {url} --rounds 2 --count 20 --warmup 5 --size 64 --json {more}");
        place.hairpin(line.as_str()).with_code(code).json()["cases"][0].clone()
    }

    fn roots(&self) -> String {
        format!("--ca {}", self.folder.join("certificate.pem").display())
    }
}

/// Measures a server that echoes, and counts the messages and bytes.
fn server_for_ours(kind: &str, url: &str, more: &str) {
    let place = Place::new();
    let server = Foreign::start(&place, kind);
    let roots = if url.contains("s://") || url.starts_with("quic") { server.roots() } else { String::new() };
    let case = server.measured(&place, url, &format!("{roots} {more}"), 0);
    assert_eq!(case["flows"][0]["answered_by"], "foreign server", "{case:#}");
    assert_eq!((&case["ledger"]["sent"], &case["ledger"]["received"]), (&40.into(), &40.into()), "{case:#}");
    let facts = case["ends"][0]["facts"].as_array().unwrap();
    let fact = |name: &str| facts.iter().find(|fact| fact["name"] == name).unwrap()["value"].as_f64().unwrap();
    // A message of gRPC has a key and a length before its bytes.
    let size = if kind == "grpc" { 66.0 } else { 64.0 };
    assert_eq!((fact("foreign.answers"), fact("foreign.answer_bytes")), (50.0, 50.0 * size), "{case:#}");
}

#[test]
fn curl_is_a_client_of_ours() {
    or_skip!(program("curl"));
    let place = Place::new();
    let (_served, address, _) = echo(&place, "http");
    let body: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(place.path("body"), &body).unwrap();
    for (version, flag) in [("1.1", "--http1.1"), ("2", "--http2-prior-knowledge")] {
        let script = format!(
            "for number in 1 2 3 4 5; do curl --silent --show-error --fail {flag} --data-binary @body \
             --output answer$number --write-out '%{{http_version}} ' http://{address}/echo || exit 1; done"
        );
        let ran = Running::start(place.command("sh").args(["-c", &script])).end().with_code(0);
        assert_eq!(ran.stdout.trim(), [version; 5].join(" "));
        for number in 1..=5 {
            let answer = std::fs::read(place.path(&format!("answer{number}"))).unwrap();
            assert!(answer == body, "HTTP/{version}: every byte");
            std::fs::remove_file(place.path(&format!("answer{number}"))).unwrap();
        }
    }
}

#[test]
fn httpx_is_a_client_of_ours() {
    or_skip!(python("httpx, h2"));
    client_of_ours("http1", "http");
    client_of_ours("http2", "http");
}

#[test]
fn websockets_is_a_client_of_ours() {
    or_skip!(python("websockets"));
    client_of_ours("websocket", "websocket");
}

#[test]
fn grpcio_is_a_client_of_ours() {
    or_skip!(python("grpc"));
    client_of_ours("grpc", "grpc");
}

#[test]
fn aioquic_is_a_client_of_ours() {
    or_skip!(python("aioquic"));
    client_of_ours("quic", "quic");
}

#[test]
fn our_client_measures_pythons_http_server() {
    or_skip!(python("cryptography"));
    server_for_ours("http", "http://127.0.0.1:PORT/", "");
    server_for_ours("https", "https://127.0.0.1:PORT/", "");
}

#[test]
fn our_client_measures_a_server_with_h2() {
    or_skip!(python("cryptography, h2"));
    server_for_ours("http2", "http://127.0.0.1:PORT/", "--transport http2");
    server_for_ours("https2", "https://127.0.0.1:PORT/", "--transport http2");
}

#[test]
fn our_client_measures_a_server_with_websockets() {
    or_skip!(python("cryptography, websockets"));
    server_for_ours("ws", "ws://127.0.0.1:PORT/", "");
    server_for_ours("wss", "wss://127.0.0.1:PORT/", "");
    let place = Place::new();
    let case = Foreign::start(&place, "ws").measured(&place, "ws://127.0.0.1:PORT/refuse", "", 3);
    assert_eq!(case["refused"], serde_json::json!([{ "of": "websocket close", "code": 4001 }]), "{case:#}");
}

#[test]
fn our_client_measures_a_server_with_grpcio() {
    or_skip!(python("cryptography, grpc"));
    server_for_ours("grpc", "grpc://127.0.0.1:PORT/test.Echo/Unary", "");
    let place = Place::new();
    let server = Foreign::start(&place, "grpc");
    for (method, code) in [("Refuse", 5), ("Missing", 12)] {
        let case = server.measured(&place, &format!("grpc://127.0.0.1:PORT/test.Echo/{method}"), "", 3);
        assert_eq!(case["refused"], serde_json::json!([{ "of": "grpc status", "code": code }]), "{case:#}");
    }
}

#[test]
fn our_client_measures_a_server_with_aioquic() {
    or_skip!(python("aioquic"));
    server_for_ours("quic", "quic://127.0.0.1:PORT?alpn=test-echo", "");
    let place = Place::new();
    let server = Foreign::start(&place, "quic");
    // The server expects messages of 64 B.
    let url = format!("quic://127.0.0.1:{}?alpn=test-echo", server.port);
    let line = format!("round-trip --to {url} --rounds 1 --size 10 --json {}", server.roots());
    let case = place.hairpin(line.as_str()).with_code(3).json()["cases"][0].clone();
    assert_eq!(case["refused"], serde_json::json!([{ "of": "quic error", "code": 42 }]), "{case:#}");
}

#[test]
fn certificates_are_verified_as_a_browser_does() {
    or_skip!(python("cryptography"));
    let place = Place::new();
    let refused = |kind: &str, with_roots: bool, more: &str, why: &str| {
        let server = Foreign::start(&place, kind);
        let roots = if with_roots { server.roots() } else { String::new() };
        let case = server.measured(&place, "https://127.0.0.1:PORT/", &format!("{roots} {more}"), 3);
        let failed = case["failed_rounds"][0].as_str().unwrap();
        assert!(failed.contains(why), "no `{why}` in {failed}");
        std::fs::remove_dir_all(&server.folder).unwrap();
    };
    refused("https-expired", true, "", "the server's certificate cannot be trusted: it has expired");
    refused("https-other-name", true, "", "the server's certificate cannot be trusted: it is for another name");
    refused("https", false, "", "the server's certificate cannot be trusted: no known authority has signed it");
    // Python's server then continues without ALPN.
    refused("https", true, "--transport http2", "did not choose this protocol in the handshake of TLS");
}
