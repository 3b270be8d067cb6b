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
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

use clap::Parser;
use clap::builder::RangedU64ValueParser as Ranged;
use hyper::rt::{Read, Write};

use crate::clock;
use crate::system::pin;
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

const TRANSPORTS: [&str; 11] = [
    "tcp",
    "tls",
    "tcp-streams",
    "websocket",
    "http1",
    "rest",
    "http2",
    "grpc",
    "grpc-stream",
    "quic",
    "quic-datagram",
];

impl Options {
    /// Parses the command line after `library`.
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

/// The sockets of both ends.
enum Sockets {
    Tcp(TcpStream, TcpStream),
    Udp(UdpSocket, UdpSocket),
}

impl Sockets {
    fn open(transport: &str) -> io::Result<Self> {
        let any = (Ipv4Addr::LOCALHOST, 0);
        if transport.starts_with("quic") {
            return Ok(Self::Udp(UdpSocket::bind(any)?, UdpSocket::bind(any)?));
        }
        let listener = TcpListener::bind(any)?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        // As Hairpin's transports do.
        for socket in [&client, &server] {
            socket.set_nodelay(!["tcp", "tls"].contains(&transport))?;
        }
        Ok(Self::Tcp(client, server))
    }
}

/// Measures, and returns the figures as JSON.
pub(crate) fn measure(asked: &Options) -> Outcome<String> {
    let sockets = Sockets::open(&asked.transport)?;
    let load = Load::new(asked)?;
    // SAFETY: this process has one thread, so the child may call anything.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Err(io::Error::last_os_error().into()),
        0 => serve_for_ever(asked, sockets, load),
        _ => {}
    }
    // SAFETY: plain integer; the default action of SIGALRM ends the process.
    unsafe { libc::alarm(MAX_S) };
    let measured = pin(asked.cpus.0).map_err(Into::into).and_then(|()| run(asked, End::Client, sockets, load));
    // SAFETY: the child has not been waited for, so its id is not reused.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    // One-way sends fail once the server has ended, which it does after a failure.
    let ticks = measured?;
    if load.is_one_way() {
        return load.rates();
    }
    Ok(crate::figures(ticks, clock::ns_per_tick(50_000_000), clock::resolution_ticks()))
}

/// The child must not return into the parent's code: the client kills it.
#[expect(clippy::print_stderr, reason = "the only way to report from this process")]
fn serve_for_ever(asked: &Options, sockets: Sockets, load: Load) -> ! {
    // SAFETY: plain integers. The kernel kills the server when the client ends.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::alarm(MAX_S);
    }
    let served = pin(asked.cpus.1).map_err(Into::into).and_then(|()| run(asked, End::Server, sockets, load));
    if let (Err(error), false) = (served, load.is_complete()) {
        eprintln!("bare-loop: the server of {}: {error}", asked.transport);
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(1) }
}

/// Runs one end. A client returns the times of its round trips in ticks.
fn run(asked: &Options, end: End, sockets: Sockets, load: Load) -> Outcome<Vec<u64>> {
    match (sockets, end) {
        (Sockets::Tcp(socket, other), End::Client) | (Sockets::Tcp(other, socket), End::Server) => {
            drop(other);
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
        (Sockets::Udp(client, server), end) => {
            let address = server.local_addr()?;
            let socket = if end == End::Client { client } else { server };
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
