//! Reference programs with the protocol libraries, as `cargo xtask fidelity --libraries` runs them: the plainest client and server
//! in two processes (fork).
//!
//! rustls and tungstenite use blocking sockets. hyper, tonic and quinn run on tokio's current-thread runtime, or on a minimal
//! loop that polls the woken futures and waits in ppoll(2), as Hairpin does.

mod blocking;
mod framed;
mod grpc;
mod http;
mod load;
mod own_loop;
mod own_quic;
mod quic;
mod runtime;
mod waits;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

use clap::Parser;
use clap::builder::RangedU64ValueParser as Ranged;
use hyper::rt::{Read, Write};

use crate::clock;
use crate::system::{fork, kill, pin};
use load::Load;
use runtime::{Runtime, Spawn};

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Time limit of both processes (SIGALRM); longer than any measurement.
const MAX_S: u32 = 60;

#[derive(Clone, Debug, Parser)]
#[command(name = "bare-loop library", no_binary_name = true)]
pub(crate) struct Options {
    #[arg(long, value_parser = TRANSPORTS)]
    transport: String,
    /// What polls an asynchronous library; tls and websocket have only `none`
    #[arg(long, value_enum)]
    runtime: Runtime,
    /// CPUs of client and server
    #[arg(long, value_parser = crate::options::cpus, value_name = "CLIENT,SERVER")]
    cpus: (usize, usize),
    /// One-way messages of this size in bytes; 0 for round trips of 4 bytes
    #[arg(long, value_parser = Ranged::<usize>::new().range(..=1 << 20), default_value = "0")]
    size: usize,
    /// Round trips
    #[arg(long, value_parser = Ranged::<usize>::new().range(1..=1_000_000), default_value = "2000")]
    count: usize,
    /// Unmeasured round trips before the measured ones
    #[arg(long, value_parser = Ranged::<usize>::new().range(..=1_000_000), default_value = "300")]
    warmup: usize,
    #[arg(long, value_parser = Ranged::<u64>::new().range(1..=10_000), default_value = "50")]
    warmup_ms: u64,
    #[arg(long, value_parser = Ranged::<u64>::new().range(1..=10_000), default_value = "200")]
    duration_ms: u64,
}

#[rustfmt::skip]
const TRANSPORTS: [&str; 11] = [
    "tcp", "tls", "tcp-streams", "websocket", "http1", "rest", "http2", "grpc", "grpc-stream", "quic", "quic-datagram",
];

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let asked = Self::try_parse_from(words).map_err(|error| error.to_string())?;
        let fits = match asked.transport.as_str() {
            "tcp" => asked.size == 0 && matches!(asked.runtime, Runtime::Tokio | Runtime::Uring),
            "tls" | "websocket" => asked.runtime == Runtime::None,
            _ => matches!(asked.runtime, Runtime::Tokio | Runtime::Loop),
        };
        if !fits {
            return Err(format!("{} cannot have this runtime", asked.transport));
        }
        Ok(asked)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

enum Socket {
    Tcp(TcpStream),
    /// With the address of the server.
    Udp(UdpSocket, SocketAddr),
}

fn open(transport: &str) -> io::Result<[Socket; 2]> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    if transport.starts_with("quic") {
        let (client, server) = (UdpSocket::bind(any)?, UdpSocket::bind(any)?);
        let address = server.local_addr()?;
        return Ok([client, server].map(|socket| Socket::Udp(socket, address)));
    }
    let listener = TcpListener::bind(any)?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    // As Hairpin's transports do.
    for socket in [&client, &server] {
        socket.set_nodelay(!["tcp", "tls"].contains(&transport))?;
    }
    Ok([client, server].map(Socket::Tcp))
}

/// Measures, and returns the figures as JSON.
pub(crate) fn measure(asked: &Options) -> Outcome<String> {
    let [client, server] = open(&asked.transport)?;
    let load = Load::new(asked)?;
    let child = fork(MAX_S, || serve(asked, server, load))?;
    let measured = pin(asked.cpus.0).map_err(Into::into).and_then(|()| run(asked, End::Client, client, load));
    kill(child);
    // One-way sends fail once the server has ended, which it does after a failure.
    let ticks = measured?;
    if load.is_one_way() {
        return load.rates();
    }
    Ok(crate::figures(ticks, clock::ns_per_tick(50_000_000), clock::resolution_ticks()))
}

#[expect(clippy::print_stderr, reason = "the only way to report from this process")]
fn serve(asked: &Options, socket: Socket, load: Load) -> i32 {
    let served = pin(asked.cpus.1).map_err(Into::into).and_then(|()| run(asked, End::Server, socket, load));
    if let (Err(error), false) = (served, load.is_complete()) {
        eprintln!("bare-loop: the server of {}: {error}", asked.transport);
    }
    1
}

/// Runs one end. A client returns the times of its round trips in ticks.
fn run(asked: &Options, end: End, socket: Socket, load: Load) -> Outcome<Vec<u64>> {
    match socket {
        Socket::Tcp(socket) => {
            match asked.runtime {
                Runtime::None => return blocking::run(&asked.transport, end, socket, load),
                Runtime::Uring => return waits::on_uring(end, &socket, load),
                Runtime::Tokio | Runtime::Loop => socket.set_nonblocking(true)?,
            }
            let (transport, runtime) = (asked.transport.as_str(), asked.runtime);
            match runtime {
                Runtime::Tokio if transport == "tcp" => runtime.block_on(-1, waits::on_tokio(end, socket, load)),
                Runtime::Tokio => runtime.block_on(-1, async move {
                    let io = hyper_util::rt::TokioIo::new(tokio::net::TcpStream::from_std(socket)?);
                    over_stream(transport, end, io, Spawn(runtime), load).await
                }),
                _ => {
                    let io = own_loop::Io(socket.as_raw_fd());
                    runtime.block_on(socket.as_raw_fd(), over_stream(transport, end, io, Spawn(runtime), load))
                }
            }
        }
        Socket::Udp(socket, address) => {
            socket.set_nonblocking(true)?;
            let as_datagrams = asked.transport == "quic-datagram";
            let running = quic::run(end, socket.try_clone()?, address, asked.runtime, as_datagrams, load);
            asked.runtime.block_on(socket.as_raw_fd(), running)
        }
    }
}

async fn over_stream<I: Read + Write + Unpin + Send + 'static>(
    transport: &str,
    end: End,
    io: I,
    spawn: Spawn,
    load: Load,
) -> Outcome<Vec<u64>> {
    match (transport, end) {
        ("tcp-streams", _) => framed::run(end, io, load).await,
        ("http1" | "rest", End::Client) => http::client1(io, spawn, load).await,
        ("http2", End::Client) => http::client2(io, spawn, load).await,
        ("http1" | "rest" | "http2", End::Server) => http::serve(transport == "http2", io, spawn, load).await,
        (_, End::Client) => grpc::client(io, spawn, transport == "grpc", load).await,
        (_, End::Server) => grpc::serve(io, spawn, load).await,
    }
}
