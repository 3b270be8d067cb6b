//! The example of the README, run against an echo server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

#[allow(dead_code, reason = "the test calls `echo`, not `main`")]
#[path = "../examples/echo-client.rs"]
mod echo_client;

#[test]
fn the_example_gets_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound").to_string();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("accepted");
        let mut message = [0; 4];
        socket.read_exact(&mut message).expect("a message");
        socket.write_all(&message).expect("answered");
        message
    });
    assert_eq!(echo_client::echo(&address).expect("an answer"), *b"PING");
    assert_eq!(server.join().expect("it ends"), *b"PING");
}

#[test]
fn the_readme_shows_the_example() {
    let example = include_str!("../examples/echo-client.rs");
    let (_, code) = example.split_once("\n\n").expect("its purpose comes first");
    assert!(include_str!("../README.md").contains(code));
}
