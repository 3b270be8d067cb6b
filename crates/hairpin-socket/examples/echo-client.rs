//! A client of an echo server, for low latency: `cargo run --example echo-client -- HOST:PORT`
#![allow(clippy::print_stdout, reason = "it shows the reports")]

use std::io::{Read, Result, Write};
use std::net::TcpStream;

pub(crate) fn echo(server: &str) -> Result<[u8; 4]> {
    let profile = hairpin_socket::Profile::low_latency().with_buffers(4096);
    let mut socket = TcpStream::connect(server)?;
    let thread = profile.apply_to_thread();
    println!("{}\n{}", profile.apply_to(&socket), thread.report());
    let mut answer = *b"PING";
    socket.write_all(&answer)?;
    socket.read_exact(&mut answer)?;
    Ok(answer)
}

fn main() -> Result<()> {
    echo(&std::env::args().nth(1).expect("HOST:PORT")).map(|answer| println!("{}", answer.escape_ascii()))
}
