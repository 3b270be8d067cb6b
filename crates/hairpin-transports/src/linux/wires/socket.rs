//! Wires over connection-oriented sockets (TCP, Unix stream and seqpacket) and datagram sockets (UDP, Unix datagram).

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hairpin_model::trace::End;
use socket2::{SockAddr, Socket};

use super::awaited::awaited;
use super::description::{Connected, SocketTransport};
pub(crate) use super::description::{facts, local_address};
use super::descriptor::DescriptorWire;
use super::hello::{self, Handshake, Nonce, PendingConnections};
use super::socket_port::SocketPort;
use crate::linux::binding;
use crate::options::{Family, Moment};
use crate::system::descriptor::{WRITABLE, poll};
use crate::system::{received, sockopt};
use crate::wire::{Connection, Listener, PassedSocket, Setup, TransportError};
use crate::wires::one_wire::OneWire;
use crate::wires::{Deadline, failed, second_connection, slice, unreached};

pub(crate) type SocketWire = DescriptorWire<SocketPort>;

fn connection(
    transport: &SocketTransport,
    socket: Socket,
    setup: &Setup,
    handshake: Handshake,
    end: End,
) -> Result<Box<dyn Connection>, TransportError> {
    transport.set_options(&socket, setup, Moment::Connected)?;
    // Removes the time-out of a Unix socket's connect, which would set a timer in every later call.
    let reset = socket.set_write_timeout(None);
    reset.map_err(|source| failed("reset the time-out of", "the socket", source, ""))?;
    if let (Some(server), Some(foreign)) = (&setup.foreign, transport.foreign) {
        return (foreign.open)(Connected { socket, transport: transport.clone(), setup, handshake, end }, server);
    }
    if let Some(open) = transport.layer {
        return open(Connected { socket, transport: transport.clone(), setup, handshake, end });
    }
    let error =
        |source| failed("set an alarm for", "the socket", source, "is a limit on signals (ulimit -i) reached?");
    let port = SocketPort::new(socket, transport.clone(), setup, handshake);
    let wire = DescriptorWire::new(port, setup.waiting, setup.timeout).map_err(error)?;
    Ok(OneWire::boxed(transport.card.name, awaited(wire, setup)?))
}

/// The server of a connection-oriented socket.
struct StreamListener {
    /// `None` if the listener was created from an accepted connection.
    socket: Option<Socket>,
    address: String,
    pending: PendingConnections,
    transport: SocketTransport,
    setup: Setup,
}

/// Maximum connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Creates a server on a bound socket.
pub(super) fn listen(
    socket: Socket,
    transport: &SocketTransport,
    setup: &Setup,
) -> Result<Box<dyn Listener>, TransportError> {
    if transport.is_datagram() {
        return Ok(Box::new(DatagramListener::new(socket, None, transport, setup)));
    }
    let address = local_address(&socket);
    // A passed socket may already listen, with its own backlog.
    if !socket.is_listener().unwrap_or(false) {
        // Other programs may connect before the client.
        socket.listen(BACKLOG).map_err(|source| failed("listen on", &address, source, ""))?;
    }
    if transport.has_tcp_info() && setup.server.is_some() {
        // Without kernel support the facts about the IP header are missing.
        drop(received::save_syn(socket.as_fd()));
    }
    let (pending, transport, setup) = (PendingConnections::default(), transport.clone(), setup.clone());
    Ok(Box::new(StreamListener { socket: Some(socket), address, pending, transport, setup }))
}

/// Creates a server on a passed socket: a bound socket, a connection whose hello is still to be received, or a datagram
/// socket whose client has sent its hello.
pub(super) fn listen_on(
    passed: PassedSocket,
    transport: &SocketTransport,
    setup: &Setup,
) -> Result<Box<dyn Listener>, TransportError> {
    match passed {
        PassedSocket::Bound(socket) => listen(transport.adopt(socket, setup)?, transport, setup),
        PassedSocket::Accepted(socket) if !transport.is_datagram() => {
            let socket = transport.adopt(socket, setup)?;
            let address = local_address(&socket);
            let (pending, transport, setup) = (PendingConnections::of(socket), transport.clone(), setup.clone());
            Ok(Box::new(StreamListener { socket: None, address, pending, transport, setup }))
        }
        PassedSocket::Confirmed(socket, header) if transport.is_datagram() => {
            let confirmed = Some(Handshake { ignored: 0, header });
            Ok(Box::new(DatagramListener::new(transport.adopt(socket, setup)?, confirmed, transport, setup)))
        }
        PassedSocket::Accepted(_) | PassedSocket::Confirmed(..) => Err(passed.unsupported(transport.card.name)),
    }
}

impl Listener for StreamListener {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        let Self { socket, address, pending, transport, setup } = self;
        if socket.is_none() && pending.is_empty() {
            return Err(second_connection(transport.card.name));
        }
        let timeout = setup.opening_timeout();
        let (socket, ignored) = pending.accept(socket.as_ref(), address, timeout, &setup.cookie, is_abandoned)?;
        let keeps_syn = transport.has_tcp_info() && setup.server.is_some();
        let header = if keeps_syn { received::syn_header(socket.as_fd()) } else { None };
        connection(transport, socket, setup, Handshake { ignored, header }, End::Server)
    }
}

/// Waits up to `timeout` for one of the events. Returns whether an event occurred.
fn wait_for(socket: &Socket, events: i16, timeout: Duration) -> std::io::Result<bool> {
    let mut deadline = Deadline::new(timeout);
    while let Some(left) = deadline.left() {
        match poll(socket.as_fd(), events, slice(left)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

pub(super) fn connect(
    socket: Socket,
    to: &SockAddr,
    address: &str,
    transport: &SocketTransport,
    setup: &Setup,
) -> Result<Box<dyn Connection>, TransportError> {
    binding::apply(&socket, &setup.binding)?;
    if transport.is_datagram() {
        socket.connect(to).map_err(|source| unreached("connect to", address, source))?;
        let began = Instant::now();
        let handshake = match setup.foreign {
            Some(_) => Handshake::default(),
            None => hello::connect(&socket, transport.card.name, address, setup)?,
        };
        note_hello(setup, began);
        return connection(transport, socket, setup, handshake, End::Client);
    }
    let timeout = setup.opening_timeout().max(Duration::from_millis(1));
    let reports_header = transport.family == Family::V6 && setup.server.is_some();
    received::report_headers(socket.as_fd(), reports_header);
    let connected = if transport.family == Family::Unix {
        // A Unix socket connects at once, or waits for room in the backlog up to the send time-out.
        socket.set_write_timeout(Some(timeout)).and_then(|()| socket.connect(to))
    } else {
        connect_within(&socket, to, timeout)
    };
    connected.map_err(|source| match source.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => {
            TransportError::TimedOut { what: "answered", after: setup.opening_timeout() }
        }
        _ => unreached("connect to", address, source),
    })?;
    // If nothing listens at a port of the dynamic range, the kernel may choose the same port for the connecting socket,
    // which then connects to itself (RFC 9293, 3.5: simultaneous open).
    let (local, peer) = (socket.local_addr(), socket.peer_addr());
    if transport.family != Family::Unix && matches!((local, peer), (Ok(local), Ok(peer)) if local == peer) {
        return Err(unreached("connect to", address, std::io::ErrorKind::ConnectionRefused.into()));
    }
    let header = if reports_header { received::last_packet_header(socket.as_fd()) } else { None };
    received::report_headers(socket.as_fd(), false);
    if setup.foreign.is_some() {
        return connection(transport, socket, setup, Handshake { ignored: 0, header }, End::Client);
    }
    let began = Instant::now();
    hello::send_hello(&socket, address, &setup.cookie)?;
    if setup.hello_ns.is_some() {
        // The first bytes would otherwise wait behind the hello (Nagle's algorithm).
        let mut left = Deadline::new(timeout);
        let is_in_flight = || sockopt::sender_state(socket.as_fd()).is_some_and(|state| state.in_flight_bytes > 0);
        while is_in_flight() && left.left().is_some() {
            std::thread::sleep(ACKNOWLEDGMENT_CHECK);
        }
        note_hello(setup, began);
    }
    connection(transport, socket, setup, Handshake { ignored: 0, header }, End::Client)
}

/// Interval of the checks whether the hello is acknowledged.
const ACKNOWLEDGMENT_CHECK: Duration = Duration::from_millis(1);

fn note_hello(setup: &Setup, began: Instant) {
    if let Some(hello_ns) = &setup.hello_ns {
        hello_ns.store(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

fn connect_within(socket: &Socket, to: &SockAddr, timeout: Duration) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    match socket.connect(to) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            if !wait_for(socket, WRITABLE, timeout)? {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            socket.take_error()?.map_or(Ok(()), Err)?;
        }
        connected => connected?,
    }
    socket.set_nonblocking(false)
}

/// The server of a datagram socket. It connects the listening socket itself to the client: a second socket would need a
/// shared port, which other processes could also bind.
struct DatagramListener {
    /// `None` once all clients have connected.
    socket: Option<Socket>,
    address: String,
    /// Clients not connected yet.
    expected: u32,
    /// Set if the socket was passed after its client's hello, so that only the welcome is missing.
    confirmed: Option<Handshake>,
    /// The nonce of the challenges so far.
    nonce: Option<Nonce>,
    transport: SocketTransport,
    setup: Setup,
}

impl DatagramListener {
    fn new(socket: Socket, confirmed: Option<Handshake>, transport: &SocketTransport, setup: &Setup) -> Self {
        let (address, transport, setup) = (local_address(&socket), transport.clone(), setup.clone());
        Self { socket: Some(socket), address, expected: 1, confirmed, nonce: None, transport, setup }
    }
}

impl Listener for DatagramListener {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn expect(&mut self, clients: u32) {
        // Unix sockets cannot share an address.
        if self.transport.family != Family::Unix {
            self.expected = clients;
        }
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        let Self { socket: slot, address, expected, confirmed, nonce, transport, setup } = self;
        let socket = slot.take().ok_or_else(|| second_connection(transport.card.name))?;
        if let Some(handshake) = confirmed {
            hello::welcome(&socket, address, setup)?;
            return connection(transport, socket, setup, *handshake, End::Server);
        }
        let mut next = None;
        let accepted = hello::accept(&socket, address, setup, nonce, is_abandoned, &mut || {
            next = if *expected > 1 { Some(open_shared(&socket, transport, setup)?) } else { None };
            Ok(())
        });
        let handshake = match accepted {
            Ok(handshake) => handshake,
            Err(error) => {
                // A failed attempt leaves the listener unchanged.
                *slot = Some(socket);
                return Err(error);
            }
        };
        *nonce = None;
        *expected = expected.saturating_sub(1);
        *slot = next;
        connection(transport, socket, setup, handshake, End::Server)
    }
}

/// Opens another socket at the address of a connected socket, for the datagrams of all other senders. Only sockets of
/// the same user can share an address by `SO_REUSEPORT` (socket(7)).
fn open_shared(connected: &Socket, transport: &SocketTransport, setup: &Setup) -> Result<Socket, TransportError> {
    let error = |source| failed("open", &format!("another {transport} socket"), source, "");
    let socket = transport.open(setup)?;
    let shared = connected.set_reuse_port(true).and_then(|()| socket.set_reuse_port(true));
    shared.and_then(|()| socket.bind(&connected.local_addr()?)).map_err(error)?;
    Ok(socket)
}

/// Describes the loopback device for [`hairpin_model::card::Receipt`].
pub(crate) fn loopback_detail(family: &str) -> String {
    match std::fs::read_to_string("/sys/class/net/lo/mtu") {
        Ok(mtu) => format!("{family} loopback, MTU {}", mtu.trim()),
        Err(_) => format!("{family} loopback"),
    }
}
