//! Traffic for `cargo xtask links`: measures a link from outside, without code of Hairpin.
//!
//! The server uses the kernel's time stamps of datagrams at its interface, so the figures depend neither on the link's
//! own clock or log nor on the server's wake-up time.
#![expect(unsafe_code, reason = "the kernel returns stamps with recvmsg, which std does not have")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its result")]
#![expect(clippy::cast_precision_loss, reason = "nanoseconds and counts are far below 2^53")]

mod stamped;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use stamped::{realtime_ns, receive_stamped, stamp};

const USAGE: &str = "link-traffic far | paced COUNT GAP_US | flood KBIT_PER_S SECONDS | stream SECONDS";

/// Port of the server, for UDP and TCP.
const PORT: u16 = 7001;
const ASK: &[u8] = b"figures?";
/// UDP payload of an IP packet of 1500 bytes.
const FULL_BYTES: usize = 1472;
const HEADER_BYTES: usize = 28;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().map_err(|_| io::Error::other(format!("`{word}` is not a number")));
    let done = match words.as_slice() {
        ["far"] => far(),
        ["paced", count, gap_us] => {
            number(count).and_then(|count| paced(count, Duration::from_micros(number(gap_us)?)))
        }
        ["flood", rate, seconds] => number(rate).and_then(|rate| flood(rate, number(seconds)?)),
        ["stream", seconds] => number(seconds).and_then(stream),
        _ => Err(io::Error::other(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("link-traffic: {why}");
            ExitCode::FAILURE
        }
    }
}

fn far() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    thread::spawn(move || serve_streams(&listener));
    stamp(&socket)?;
    let mut datagrams: Vec<(u64, u64, usize)> = Vec::new();
    let mut bytes = vec![0; 2 * FULL_BYTES];
    loop {
        let (length, from, came_ns) = receive_stamped(&socket, &mut bytes)?;
        if &bytes[..length] == ASK {
            socket.send_to(figures(&datagrams).as_bytes(), from)?;
        } else if let Some(sent) = bytes.first_chunk() {
            datagrams.push((u64::from_le_bytes(*sent), came_ns, length));
        }
    }
}

/// Returns the delays of the received datagrams, and the rate of their IP packets, as JSON.
fn figures(datagrams: &[(u64, u64, usize)]) -> String {
    let mut delays_ns: Vec<u64> =
        datagrams.iter().map(|(sent_ns, came_ns, _)| came_ns.saturating_sub(*sent_ns)).collect();
    delays_ns.sort_unstable();
    let at = |percent: usize| delays_ns.get(delays_ns.len() * percent / 100).copied().unwrap_or(0);
    // The first datagram is not counted, since the time begins at its arrival.
    let rate = match datagrams {
        [(_, first_ns, _), others @ .., (_, last_ns, last)] => {
            let bytes: usize =
                others.iter().map(|(_, _, length)| length).chain([last]).map(|length| length + HEADER_BYTES).sum();
            bytes as f64 * 8e9 / last_ns.saturating_sub(*first_ns).max(1) as f64
        }
        _ => 0.0,
    };
    format!(
        r#"{{"datagrams": {}, "delay_p50_ns": {}, "delay_p99_ns": {}, "bits_per_s": {rate:.1}}}"#,
        delays_ns.len(),
        at(50),
        at(99)
    )
}

/// Reads each connection to the end, and answers with the rate.
fn serve_streams(listener: &TcpListener) {
    let one = |mut connection: TcpStream| -> io::Result<()> {
        let (mut buffer, mut bytes, began) = (vec![0; 1 << 20], 0_u64, Instant::now());
        loop {
            match connection.read(&mut buffer)? {
                0 => break,
                count => bytes += count as u64,
            }
        }
        let bits_per_s = bytes as f64 * 8.0 / began.elapsed().as_secs_f64();
        connection.write_all(format!(r#"{{"bits_per_s": {bits_per_s:.1}}}"#).as_bytes())
    };
    for connection in listener.incoming() {
        if let Err(why) = connection.and_then(one) {
            eprintln!("link-traffic: a connection failed: {why}");
        }
    }
}

/// Returns the server's address, which `hairpin link run` passes to its command.
fn far_address() -> io::Result<(String, u16)> {
    let address = std::env::var("HAIRPIN_FAR").map_err(|_| io::Error::other("HAIRPIN_FAR is not set"))?;
    Ok((address, PORT))
}

fn to_far() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(far_address()?)?;
    Ok(socket)
}

/// Sends `count` datagrams of 64 bytes with a gap between them.
fn paced(count: u64, gap: Duration) -> io::Result<()> {
    let socket = to_far()?;
    let began = Instant::now();
    for number in 0..u32::try_from(count).unwrap_or(u32::MAX) {
        thread::sleep((gap * number).saturating_sub(began.elapsed()));
        send(&socket, 64)?;
    }
    ask(&socket)
}

/// Sends datagrams of full size in a burst every millisecond. `kbit_per_s` is the rate of the IP packets.
fn flood(kbit_per_s: u64, seconds: u64) -> io::Result<()> {
    let socket = to_far()?;
    let (began, mut sent) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        let due_bits = u128::from(kbit_per_s) * began.elapsed().as_micros() / 1000;
        while sent < due_bits / (8 * (FULL_BYTES + HEADER_BYTES) as u128) {
            send(&socket, FULL_BYTES)?;
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    ask(&socket)
}

fn send(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    let mut payload = [0; FULL_BYTES];
    payload[..8].copy_from_slice(&realtime_ns().to_le_bytes());
    socket.send(&payload[..bytes]).map(drop)
}

/// Asks the server for its figures until the server answers, and prints them.
fn ask(socket: &UdpSocket) -> io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let mut answer = [0; 500];
    for _ in 0..20 {
        socket.send(ASK)?;
        if let Ok(length) = socket.recv(&mut answer) {
            println!("{}", String::from_utf8_lossy(&answer[..length]));
            return Ok(());
        }
    }
    Err(io::Error::other("the server does not answer"))
}

fn stream(seconds: u64) -> io::Result<()> {
    let mut connection = TcpStream::connect(far_address()?)?;
    let (bytes, began) = (vec![7; 1 << 18], Instant::now());
    while began.elapsed() < Duration::from_secs(seconds) {
        connection.write_all(&bytes)?;
    }
    connection.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    println!("{answer}");
    Ok(())
}
