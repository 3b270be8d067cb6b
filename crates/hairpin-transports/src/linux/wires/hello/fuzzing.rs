//! The fuzz target `hellos`: only valid hellos are accepted.

use std::io::{ErrorKind, Read as _};
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::Socket;

use super::{HELLO_BYTES, HelloKind, PendingConnections};
use super::{accept, connect, encode_hello, is_hello, parse, parse_hello, repeated_kind, send_hello, welcome_again};
use crate::system::socket::send;
use crate::wire::{Cookie, Setup};
use crate::wires::minimal_setup;

const COOKIE: Cookie = Cookie([7; 16]);
const MAX_DATAGRAMS: usize = 16;
const MAX_BYTES: usize = 1000;

/// Parses the input as datagrams, each after its length (4 bytes), and as a stream. Returns whether all are hellos.
pub fn hellos(input: &[u8]) -> bool {
    let datagrams = datagrams(input);
    datagrams.iter().for_each(|datagram| check_datagram(datagram));
    let all = datagrams.concat();
    // Checks with sockets are slow, and find nothing in input without a hello.
    if all.get(..HELLO_BYTES).is_some_and(is_hello) || datagrams.iter().any(|datagram| is_hello(datagram)) {
        stream(&datagrams);
        stream_with_hello(&datagrams);
        client(&datagrams);
        server(&datagrams);
    }
    !datagrams.is_empty() && datagrams.iter().all(|datagram| is_hello(datagram))
}

fn datagrams(mut input: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some((length, rest)) = input.split_first_chunk() {
        let length = usize::try_from(u32::from_le_bytes(*length)).expect("four bytes");
        let (datagram, rest) = rest.split_at(rest.len().min(length).min(MAX_BYTES));
        all.push(datagram);
        input = rest;
    }
    all.truncate(MAX_DATAGRAMS);
    all
}

fn check_datagram(datagram: &[u8]) {
    let written = parse_hello(datagram).map(|(kind, cookie, nonce)| encode_hello(kind, &cookie, &nonce));
    assert!(written.is_none_or(|written| written == datagram), "a parsed hello is encoded differently");
    let own = datagram.get(2..18).map_or(COOKIE, |cookie| Cookie(cookie.try_into().expect("16 bytes")));
    let kind = parse(datagram, &own).map(|(kind, _)| kind);
    assert_eq!(kind.is_some(), is_hello(datagram));
    for room in [1, 2, 20, datagram.len()] {
        let start = &datagram[..room.min(datagram.len())];
        assert!(kind.is_none() || repeated_kind(start, datagram.len(), &own) == kind, "a repeated hello");
    }
}

/// Sends the datagrams in order on a connection, and then closes the connection.
fn stream(datagrams: &[&[u8]]) {
    let [ours, theirs] = streams();
    let mut pending = PendingConnections::of(ours);
    let mut parts = datagrams.iter().filter(|part| !part.is_empty());
    let mut theirs = Some(theirs);
    let accepted = pending.accept(None, "fuzz", Duration::from_secs(60), &COOKIE, &mut || {
        match (parts.next(), &theirs) {
            (Some(part), Some(theirs)) => assert_eq!(send(theirs.as_fd(), part, false).ok(), Some(part.len())),
            _ => theirs = None,
        }
        false
    });
    let all = datagrams.concat();
    let begins = all.get(..HELLO_BYTES).and_then(|start| parse(start, &COOKIE));
    assert_eq!(accepted.is_ok(), matches!(begins, Some((HelloKind::Hello, _))));
}

/// Sends a hello and then the datagrams on a connection. The server must not read beyond the hello.
fn stream_with_hello(datagrams: &[&[u8]]) {
    let [ours, theirs] = streams();
    send_hello(&theirs, "fuzz", &COOKIE).expect("the server is there");
    datagrams.iter().for_each(|part| drop(send(theirs.as_fd(), part, false)));
    let accepted = PendingConnections::of(ours).accept(None, "fuzz", Duration::from_secs(60), &COOKIE, &mut || false);
    let (accepted, _) = accepted.expect("the hello is accepted");
    drop(theirs);
    let mut rest = Vec::new();
    (&accepted).read_to_end(&mut rest).expect("the rest arrives");
    assert_eq!(rest, datagrams.concat());
}

fn streams() -> [Socket; 2] {
    let (one, other) = UnixStream::pair().expect("a pair of sockets");
    [one, other].map(|stream| Socket::from(OwnedFd::from(stream)))
}

/// Sends the datagrams and then a welcome to a client that waits for its welcome.
fn client(datagrams: &[&[u8]]) {
    let (client, server) = pair();
    datagrams.iter().for_each(|datagram| drop(server.send(datagram)));
    welcome_again(server.as_fd(), &COOKIE);
    let met = connect(&Socket::from(client), "fuzz", "fuzz", &setup());
    assert!(met.is_ok(), "{met:?}");
}

/// Sends the datagrams and then a valid hello to a datagram server, and confirms the challenges.
fn server(datagrams: &[&[u8]]) {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    client.connect(server.local_addr().expect("an address")).expect("the server is there");
    client.set_nonblocking(true).expect("a socket");
    datagrams.iter().for_each(|datagram| drop(client.send(datagram)));
    client.send(&encode_hello(HelloKind::Hello, &COOKIE, &[0; 16])).expect("the server is there");
    let mut calls = 0;
    let mut confirms = || {
        let mut answer = [0; 64];
        while let Ok(bytes) = client.recv(&mut answer) {
            let (kind, nonce) = parse(&answer[..bytes], &COOKIE).expect("the server sends hellos only");
            assert_eq!(kind, HelloKind::Challenge, "the server sends challenges only");
            client.send(&encode_hello(HelloKind::Confirm, &COOKIE, &nonce)).expect("the server is there");
        }
        calls += 1;
        calls > datagrams.len() + 3
    };
    let met = accept(&Socket::from(server), "fuzz", &setup(), &mut None, &mut confirms, &mut || Ok(()));
    let is_hello = |datagram: &&&[u8]| matches!(parse(datagram, &COOKIE), Some((HelloKind::Hello, _)));
    let others = datagrams.len() - datagrams.iter().filter(is_hello).count();
    assert_eq!(met.map(|met| met.ignored).ok(), Some(others as u64));
    let mut welcome = [0; 64];
    let bytes = client.recv(&mut welcome).map_err(|error| error.kind());
    assert_ne!(bytes, Err(ErrorKind::WouldBlock), "the client receives a welcome");
}

fn setup() -> Setup {
    Setup { cookie: COOKIE, ..minimal_setup() }
}

/// Two sockets connected to each other.
fn pair() -> (UdpSocket, UdpSocket) {
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    one.connect(other.local_addr().expect("an address")).expect("the peer is bound");
    other.connect(one.local_addr().expect("an address")).expect("the peer is bound");
    (one, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(datagrams: &[&[u8]]) -> Vec<u8> {
        datagrams.iter().flat_map(|one| [&u32::try_from(one.len()).unwrap().to_le_bytes(), *one].concat()).collect()
    }

    #[test]
    fn the_corpus_of_hellos_is_replayed() {
        let of = |kind| encode_hello(kind, &COOKIE, &[9; 16]);
        let first = encode_hello(HelloKind::Hello, &COOKIE, &[0; 16]);
        let valid = [
            ("hello", input(&[&first])),
            ("challenge", input(&[&of(HelloKind::Challenge)])),
            ("confirm", input(&[&of(HelloKind::Confirm)])),
            ("welcome", input(&[&of(HelloKind::Welcome)])),
            ("of-another-round", input(&[&encode_hello(HelloKind::Hello, &Cookie([8; 16]), &[0; 16])])),
            (
                "all",
                input(&[&of(HelloKind::Confirm), &of(HelloKind::Challenge), &first, &first, &of(HelloKind::Welcome)]),
            ),
        ];
        hairpin_testing::corpus::replay("hellos", &valid, hellos);
    }
}
