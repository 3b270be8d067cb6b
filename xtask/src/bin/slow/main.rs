//! Small slow programs with one known cause each, and their fixed forms, for `cargo xtask explain`:
//! `slow CAUSE slow|fixed server|client HOST`, where HOST may be omitted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

const REQUEST: usize = 50;
const REPLY: usize = 200;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, cause, form, role, rest @ ..] = words.as_slice() else {
        panic!("slow CAUSE slow|fixed server|client [HOST]")
    };
    let host = rest.first().map_or("127.0.0.1", String::as_str);
    match role.as_str() {
        "server" => serve(),
        _ => ask(cause, form == "slow", host),
    }
}

fn serve() {
    let listener = TcpListener::bind("0.0.0.0:7000").expect("a free port");
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || answer(stream));
    }
}

fn answer(mut stream: TcpStream) {
    drop(stream.set_nodelay(true));
    let mut request = [0; REQUEST];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&[1; REPLY]).is_ok() {}
}

fn dial(host: &str) -> TcpStream {
    for _ in 0..200 {
        if let Ok(stream) = TcpStream::connect((host, 7000)) {
            drop(stream.set_nodelay(true));
            return stream;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("no server")
}

fn request(stream: &mut TcpStream, number: usize) {
    stream.write_all(&vec![0; REQUEST * number]).expect("a server");
    stream.read_exact(&mut vec![0; REPLY * number]).expect("a server");
}

fn ask(cause: &str, is_slow: bool, host: &str) {
    match (cause, is_slow) {
        ("one-request-per-round-trip", true) => {
            let mut stream = dial(host);
            (0..60).for_each(|_| request(&mut stream, 1));
        }
        ("connection-per-request", true) => (0..30).for_each(|_| request(&mut dial(host), 1)),
        ("client-idle", _) => {
            let mut stream = dial(host);
            for _ in 0..30 {
                request(&mut stream, 1);
                sleep(Duration::from_millis(if is_slow { 50 } else { 0 }));
            }
        }
        _ => request(&mut dial(host), 30),
    }
}
