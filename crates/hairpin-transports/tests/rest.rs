//! A client of `rest` that sends what is no message.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hairpin_model::Waiting;
use hairpin_testing::or_skip;
use hairpin_transports::{HelloKind, Setup, encode_hello, find};

/// The limit of every wait, which only a hang exceeds.
const LONG: Duration = Duration::from_secs(20);

/// Sends a request body to a server. Returns the server's error, and what it answered.
fn refused(body: &[u8]) -> (String, String) {
    let setup = Setup { has_answers: true, ..Setup::new(Waiting::Block, LONG, 100) };
    let mut listener = find("rest").expect("it was found").listen(&setup).unwrap();
    let mut client = TcpStream::connect(listener.address()).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.write_all(&encode_hello(HelloKind::Hello, &setup.cookie, &[0; 16])).unwrap();
    let head = format!("POST /messages HTTP/1.1\r\nhost: here\r\ncontent-length: {}\r\n\r\n", body.len());
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(body).unwrap();
    let mut wire = listener.accept(&mut || false).unwrap().accept_wire().unwrap();
    let error = wire.receive(&mut [0; 100]).unwrap_err();
    drop(wire);
    let mut status = [0; 12];
    client.read_exact(&mut status).unwrap();
    (error.to_string(), String::from_utf8_lossy(&status).into_owned())
}

#[test]
fn a_request_that_is_no_message_is_refused_with_the_cause() {
    or_skip!(find("rest").ok_or("this build has no transport `rest`"));
    for (body, cause) in [
        (&b"{"[..], "no JSON document"),
        (br#"{"payload":"aGF"}"#, "no base64"),
        (br#"{"payload":""}"#, "no payload"),
        (br#"{"payload":"aGFp","more":1}"#, "unknown field"),
    ] {
        let (error, status) = refused(body);
        assert!(error.contains(cause), "{}: {error}", String::from_utf8_lossy(body));
        assert_eq!(status, "HTTP/1.1 400");
    }
}
