//! The echo server at the far end of a link: echoes all data on port 7, over TCP and UDP (RFC 862).
//!
//! This server is for programs started by `hairpin link run` and is not the measured server. A single thread waits in
//! poll(2). It holds at most `MAX_CONNECTIONS` connections, each with at most `BUFFER_BYTES` not yet echoed; further
//! connections and bytes wait in the kernel.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use rustix::event::PollFlags;

use crate::system::process;
use crate::wait::wait_any;

pub const COMMAND: &str = "__echo-server";

/// The port of the echo protocol (RFC 862).
pub const PORT: u16 = 7;

/// The server writes this once it is reachable.
pub const READY: &str = "ready\n";

/// Maximum concurrent connections. Further connections wait until one closes.
const MAX_CONNECTIONS: usize = 256;

/// Maximum bytes that a connection has received but not yet echoed.
const BUFFER_BYTES: usize = 64 * 1024;

/// Maximum datagrams echoed before connections are served again.
const DATAGRAMS_AT_ONCE: usize = 64;

/// Serves until standard input closes. `parent` is the id of the process that started this one.
pub fn serve_as_process(parent: u32) -> Result<(), String> {
    if !process::die_with_parent(parent) {
        return Err("the program that started this echo server has exited".to_owned());
    }
    process::ignore_interrupts();
    let cannot = |error: io::Error| format!("the echo server cannot listen on port {PORT}: {error}");
    let mut server = Server::listen(PORT).map_err(cannot)?;
    let mut output = io::stdout().lock();
    output.write_all(READY.as_bytes()).and_then(|()| output.flush()).map_err(|error| error.to_string())?;
    let input = io::stdin();
    while !server.turn(&input).map_err(|error| format!("the echo server cannot wait: {error}"))? {}
    Ok(())
}

/// The sockets of both transports.
struct Server {
    listener: TcpListener,
    datagrams: UdpSocket,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Start of the unsent bytes in the buffer.
    sent: usize,
}

impl Server {
    fn listen(port: u16) -> io::Result<Self> {
        // One socket serves both families (RFC 3493, section 3.7); the IPv4 address is for kernels without IPv6.
        let addresses: [SocketAddr; 2] =
            [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)].map(|ip| (ip, port).into());
        let listener = TcpListener::bind(&addresses[..])?;
        let datagrams = UdpSocket::bind(&addresses[..])?;
        listener.set_nonblocking(true)?;
        datagrams.set_nonblocking(true)?;
        Ok(Self { listener, datagrams, connections: Vec::new(), buffer: vec![0; 1 << 16] })
    }

    /// Waits for traffic and echoes it. Returns whether `end` is readable.
    fn turn(&mut self, end: impl AsFd) -> io::Result<bool> {
        let accepts = if self.connections.len() < MAX_CONNECTIONS { PollFlags::IN } else { PollFlags::empty() };
        let own =
            [(end.as_fd(), PollFlags::IN), (self.datagrams.as_fd(), PollFlags::IN), (self.listener.as_fd(), accepts)];
        let events = |one: &Connection| if one.buffer.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        let connections = self.connections.iter().map(|one| (one.stream.as_fd(), events(one)));
        let ready = wait_any(own.into_iter().chain(connections), None)?;
        if ready[1] {
            self.answer_datagrams();
        }
        // Connections accepted in this turn are handled in the next turn.
        let mut of_connections = ready[3..].iter();
        self.connections.retain_mut(|one| match of_connections.next() {
            Some(true) => one.serve(),
            _ => true,
        });
        if ready[2] {
            self.accept();
        }
        Ok(ready[0])
    }

    fn answer_datagrams(&mut self) {
        for _ in 0..DATAGRAMS_AT_ONCE {
            match self.datagrams.recv_from(&mut self.buffer) {
                // Drop a datagram that cannot be echoed: UDP may lose datagrams.
                Ok((size, from)) => drop(self.datagrams.send_to(&self.buffer[..size], from)),
                Err(_) => return,
            }
        }
    }

    fn accept(&mut self) {
        // Skip a connection that was already closed.
        if let Ok((stream, _)) = self.listener.accept()
            && stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok()
        {
            self.connections.push(Connection { stream, buffer: Vec::new(), sent: 0 });
        }
    }
}

impl Connection {
    /// Reads new bytes or writes pending bytes. Returns whether the connection is still open.
    fn serve(&mut self) -> bool {
        match self.transfer() {
            Ok(open) => open,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn transfer(&mut self) -> io::Result<bool> {
        if self.buffer.is_empty() {
            self.buffer.resize(BUFFER_BYTES, 0);
            let read = self.stream.read(&mut self.buffer);
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Ok(false);
            }
        }
        self.sent += self.stream.write(&self.buffer[self.sent..])?;
        if self.sent == self.buffer.len() {
            self.buffer.clear();
            self.sent = 0;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// A server on an unused port. It ends when `end` is dropped.
    struct Running {
        tcp: SocketAddr,
        udp: SocketAddr,
        end: Option<UnixStream>,
        server: Option<std::thread::JoinHandle<usize>>,
    }

    impl Running {
        fn start() -> Self {
            let mut server = Server::listen(0).unwrap();
            let at = |address: SocketAddr| SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
            let tcp = at(server.listener.local_addr().unwrap());
            let udp = at(server.datagrams.local_addr().unwrap());
            let (end, ended) = UnixStream::pair().unwrap();
            let server = std::thread::spawn(move || {
                while !server.turn(&ended).unwrap() {}
                server.connections.len()
            });
            Self { tcp, udp, end: Some(end), server: Some(server) }
        }

        fn connect(&self) -> TcpStream {
            let stream = TcpStream::connect_timeout(&self.tcp, TIMEOUT).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            stream
        }

        /// Ends the server. Returns the number of its connections.
        fn end(mut self) -> usize {
            drop(self.end.take());
            self.server.take().unwrap().join().unwrap()
        }
    }

    #[test]
    fn every_byte_of_a_connection_goes_back_in_order() {
        let server = Running::start();
        let mut stream = server.connect();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut writing = stream.try_clone().unwrap();
        let writer = std::thread::spawn({
            let sent = sent.clone();
            move || writing.write_all(&sent).and_then(|()| writing.shutdown(std::net::Shutdown::Write)).unwrap()
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        writer.join().unwrap();
        assert!(back == sent, "{} of {} bytes", back.len(), sent.len());
        assert_eq!(server.end(), 0, "closed connections are dropped");
    }

    #[test]
    fn datagrams_are_echoed_whole_and_one_by_one() {
        let server = Running::start();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.connect(server.udp).unwrap();
        for size in [0, 1, 1472, 60_000] {
            let message: Vec<u8> = (0..size).map(|at: u32| at.to_le_bytes()[0]).collect();
            socket.send(&message).unwrap();
            let mut back = vec![0; 65_535];
            let length = socket.recv(&mut back).unwrap();
            assert!(back[..length] == message, "{size}");
        }
        server.end();
    }

    #[test]
    fn connections_beyond_the_bound_wait_until_one_closes() {
        let server = Running::start();
        let mut held: Vec<TcpStream> = (0..MAX_CONNECTIONS).map(|_| server.connect()).collect();
        for stream in &mut held {
            let mut back = [0];
            stream.write_all(b"x").and_then(|()| stream.read_exact(&mut back)).unwrap();
        }
        let mut late = server.connect();
        late.write_all(b"y").unwrap();
        drop(held.pop());
        let mut back = [0];
        late.read_exact(&mut back).unwrap();
        assert_eq!((back, server.end()), (*b"y", MAX_CONNECTIONS));
    }
}
