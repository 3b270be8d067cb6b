//! Wires over sockets: connected ones (TCP, Unix stream and seqpacket) and datagrams (UDP, Unix datagram).

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use hairpin_model::fact::Fact;
use hairpin_model::fact_names;
use hairpin_model::options::OptionName;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::descriptor::{DescriptorWire, Miss, Port, Taken};
use super::hello::{self, Unheard};
use super::stamping::Stamping;
use crate::batch::Batch;
use crate::options::{self, Family, Moment};
use crate::system::descriptor::{WRITABLE, poll};
use crate::system::{socket, sockopt};
use crate::wire::{Connection, Cookie, Handed, Listener, Segments, Setup, TransportError};
use crate::wires::one_wire::OneWire;
use crate::wires::{Deadline, failed, second_connection, slice, unreached};

/// What a transport says about its sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) transport: &'static str,
    pub(crate) family: Family,
    pub(crate) sort: Type,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) options: &'static [OptionName],
}

impl Kind {
    /// Opens a socket and asks for its options, before anything is bound or connected.
    pub(crate) fn open(&self, setup: &Setup) -> Result<Socket, TransportError> {
        let socket = Socket::new(self.domain(), self.sort, self.protocol)
            .map_err(|source| failed("open", &format!("a {self} socket"), source, ""))?;
        options::apply(socket.as_fd(), self.family, &setup.options, Moment::Opened)?;
        Ok(socket)
    }

    /// Takes over a socket that another part of the program opened, and asks for its options.
    fn adopt(&self, socket: OwnedFd, setup: &Setup) -> Result<Socket, TransportError> {
        let socket = Socket::from(socket);
        let error = |source| failed("take over", &format!("a socket for {}", self.transport), source, "");
        let is_alike = |socket: &Socket| -> io::Result<bool> {
            // The accepted end of a Multipath TCP connection that fell back is a TCP socket.
            let protocol = socket.protocol()?;
            let fits = protocol == self.protocol || self.is_mptcp() && protocol == Some(Protocol::TCP);
            Ok(fits && socket.domain()? == self.domain() && socket.r#type()? == self.sort)
        };
        if !is_alike(&socket).map_err(error)? {
            return Err(error(io::Error::new(io::ErrorKind::InvalidInput, "it is of another kind")));
        }
        socket.set_nonblocking(false).map_err(error)?;
        options::apply(socket.as_fd(), self.family, &setup.options, Moment::Opened)?;
        Ok(socket)
    }

    fn domain(&self) -> Domain {
        match self.family {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
            Family::Unix => Domain::UNIX,
        }
    }

    pub(crate) fn is_datagram(&self) -> bool {
        self.sort == Type::DGRAM
    }

    /// Whether the kernel has `TCP_INFO` for it: TCP, and for Multipath TCP its first subflow.
    fn has_tcp_info(&self) -> bool {
        self.sort == Type::STREAM && self.family != Family::Unix
    }

    /// Whether its segments are stamped. The stamps of Multipath TCP's stay with the subflows, which no program
    /// reaches.
    fn has_stamps(&self) -> bool {
        self.protocol == Some(Protocol::TCP)
    }

    fn is_mptcp(&self) -> bool {
        self.protocol == Some(Protocol::MPTCP)
    }

    /// The connection over a connected socket.
    fn connection(&self, socket: Socket, setup: &Setup, ignored: u64) -> Result<Box<dyn Connection>, TransportError> {
        options::apply(socket.as_fd(), self.family, &setup.options, Moment::Connected)?;
        // The hello of datagrams has time-outs of its own, which would cost a timer in every later call.
        let quiet = socket.set_read_timeout(None).and_then(|()| socket.set_write_timeout(None));
        quiet.map_err(|source| failed("reset the time-outs of", "the socket", source, ""))?;
        let error =
            |source| failed("set an alarm for", "the socket", source, "is a limit on signals (ulimit -i) reached?");
        let hello = self.is_datagram().then_some(setup.cookie);
        let stamping = self.has_stamps().then(Stamping::default);
        let port = SocketPort { socket, kind: *self, hello, ignored, crosses_link: setup.server.is_some(), stamping };
        Ok(OneWire::connection(
            self.transport,
            DescriptorWire::new(port, setup.waiting, setup.timeout).map_err(error)?,
        ))
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let family = match self.family {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
            Family::Unix => "Unix",
        };
        let sort = match self.sort {
            Type::STREAM => "stream",
            Type::SEQPACKET => "seqpacket",
            Type::DGRAM => "datagram",
            _ => "raw",
        };
        write!(out, "{family} {sort}")
    }
}

/// The server of connected sockets.
struct StreamListener {
    /// None where it was given the one connection that it has.
    socket: Option<Socket>,
    address: String,
    unheard: Unheard,
    kind: Kind,
    setup: Setup,
}

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 4096;

/// Listens on a bound socket.
pub(crate) fn listen(socket: Socket, kind: &Kind, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
    let address = local_address(&socket);
    // A socket that was handed over may listen already, with a backlog of its own.
    if !socket.is_listener().unwrap_or(false) {
        // Others may come before the client does.
        socket.listen(BACKLOG).map_err(|source| failed("listen on", &address, source, ""))?;
    }
    let unheard = Unheard::default();
    Ok(Box::new(StreamListener { socket: Some(socket), address, unheard, kind: *kind, setup: setup.clone() }))
}

/// Listens on a bound socket of another part of the program, or for the hello of a connection that it accepted.
pub(crate) fn listen_on(handed: Handed, kind: &Kind, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
    match handed {
        Handed::Bound(socket) => listen(kind.adopt(socket, setup)?, kind, setup),
        Handed::Accepted(socket) => {
            let socket = kind.adopt(socket, setup)?;
            let address = local_address(&socket);
            let unheard = Unheard::of(socket);
            Ok(Box::new(StreamListener { socket: None, address, unheard, kind: *kind, setup: setup.clone() }))
        }
    }
}

impl Listener for StreamListener {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        let Self { socket, address, unheard, kind, setup } = self;
        if socket.is_none() && unheard.is_empty() {
            return Err(second_connection(kind.transport));
        }
        let timeout = setup.opening_timeout();
        let (socket, ignored) = unheard.accept(socket.as_ref(), address, timeout, &setup.cookie, is_abandoned)?;
        kind.connection(socket, setup, ignored)
    }
}

/// Whether the socket is ready for that in time.
fn is_within(socket: &Socket, events: i16, timeout: Duration) -> std::io::Result<bool> {
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

/// Connects a new socket to a listener.
pub(crate) fn connect(
    to: &SockAddr,
    address: &str,
    kind: &Kind,
    setup: &Setup,
) -> Result<Box<dyn Connection>, TransportError> {
    let socket = kind.open(setup)?;
    let timeout = setup.opening_timeout().max(Duration::from_millis(1));
    let connected = if kind.family == Family::Unix {
        // A Unix socket connects at once or waits for room in the backlog as long as a send may.
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
    // A port of the dynamic range that nobody listens on may be given to the connecting socket itself (RFC 9293, 3.5:
    // simultaneous open), which then talks to itself.
    let (own, peer) = (socket.local_addr(), socket.peer_addr());
    if kind.family != Family::Unix && matches!((own, peer), (Ok(own), Ok(peer)) if own == peer) {
        return Err(refused(address));
    }
    hello::say_once(&socket, address, &setup.cookie)?;
    kind.connection(socket, setup, 0)
}

/// Connects within that time.
fn connect_within(socket: &Socket, to: &SockAddr, timeout: Duration) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    match socket.connect(to) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            if !is_within(socket, WRITABLE, timeout)? {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            socket.take_error()?.map_or(Ok(()), Err)?;
        }
        connected => connected?,
    }
    socket.set_nonblocking(false)
}

fn refused(address: &str) -> TransportError {
    unreached("connect to", address, std::io::ErrorKind::ConnectionRefused.into())
}

/// The server of a datagram socket. It connects that socket to its client, so that it has one: a second socket at the same
/// port would have to share it, and then whoever else may bind there would too.
struct DatagramListener {
    /// None once it has a client.
    socket: Option<Socket>,
    address: String,
    kind: Kind,
    setup: Setup,
}

/// The server over a bound socket.
pub(crate) fn listen_datagram(socket: Socket, kind: &Kind, setup: &Setup) -> Box<dyn Listener> {
    let address = local_address(&socket);
    Box::new(DatagramListener { socket: Some(socket), address, kind: *kind, setup: setup.clone() })
}

/// The server over a bound socket of another part of the program.
pub(crate) fn listen_datagram_on(
    handed: Handed,
    kind: &Kind,
    setup: &Setup,
) -> Result<Box<dyn Listener>, TransportError> {
    match handed {
        Handed::Bound(socket) => Ok(listen_datagram(kind.adopt(socket, setup)?, kind, setup)),
        Handed::Accepted(_) => Err(handed.unsupported(kind.transport)),
    }
}

impl Listener for DatagramListener {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        let Self { socket: slot, address, kind, setup } = self;
        let socket = slot.as_ref().ok_or_else(|| second_connection(kind.transport))?;
        let ignored = hello::hear(socket, address, setup.opening_timeout(), &setup.cookie, is_abandoned)?;
        let socket = slot.take().ok_or_else(|| second_connection(kind.transport))?;
        kind.connection(socket, setup, ignored)
    }
}

/// Connects an open socket to a server that waits for a hello.
pub(crate) fn connect_datagram(
    socket: Socket,
    to: &SockAddr,
    address: &str,
    kind: &Kind,
    setup: &Setup,
) -> Result<Box<dyn Connection>, TransportError> {
    socket.connect(to).map_err(|source| unreached("connect to", address, source))?;
    hello::say(&socket, address, setup.opening_timeout(), &setup.cookie)?;
    kind.connection(socket, setup, 0)
}

/// `127.0.0.1:7`, `[::1]:7`, or `@name` for a name in Linux's abstract space, which no file stands for and which ends
/// with the socket, however its process ends (unix(7)).
pub(crate) fn local_address(socket: &Socket) -> String {
    let Ok(address) = socket.local_addr() else { return "a socket".to_owned() };
    match (address.as_socket(), address.as_abstract_namespace()) {
        (Some(address), _) => address.to_string(),
        (None, Some(name)) => format!("@{}", String::from_utf8_lossy(name)),
        (None, None) => "unnamed".to_owned(),
    }
}

/// The facts that every socket has.
pub(crate) fn facts(socket: &Socket, family: Family, names: &[OptionName]) -> Vec<Fact> {
    let mut facts = options::effective(socket.as_fd(), family, names);
    facts.extend(sockopt::drops(socket.as_fd()).map(|drops| Fact::number(fact_names::SOCKET_DROPS, drops.into())));
    facts.push(Fact::word(fact_names::LOCAL_ADDRESS, local_address(socket)));
    facts
}

struct SocketPort {
    socket: Socket,
    kind: Kind,
    /// Set for datagrams until the first message: the other end may have said its part of the hello twice. Across a link it
    /// stays set.
    hello: Option<Cookie>,
    /// Connections or datagrams without the hello that came before it.
    ignored: u64,
    /// The way may lose, repeat and reorder datagrams.
    crosses_link: bool,
    /// Present where the kernel stamps segments.
    stamping: Option<Stamping>,
}

impl SocketPort {
    /// Whether the datagram of `bytes` was a hello that came again; a confirmation is then welcomed again.
    #[cold]
    fn is_hello(&mut self, start: &[u8], bytes: usize) -> bool {
        let Some(cookie) = self.hello.take() else { return false };
        let again = hello::again(start, bytes, &cookie);
        if again == Some(hello::Kind::Confirm) {
            hello::welcome_again(self.socket.as_fd(), &cookie);
        }
        // On a link a message may have overtaken it.
        if again.is_some() || self.crosses_link {
            self.hello = Some(cookie);
        }
        again.is_some()
    }

    /// Everything that is there, in one call; what is no message takes its slot and leaves it empty.
    fn take_many(&mut self, into: &mut Batch) -> Result<Taken, Miss> {
        let (slots, size, lengths) = into.emptied();
        let came = socket::receive_many(self.socket.as_fd(), slots, size, lengths, self.kind.is_datagram())?;
        let mut taken = Taken::default();
        for (slot, length) in slots.chunks_exact(size).zip(lengths).take(came) {
            let fitted = (*length).min(size);
            if *length == 0 {
                taken.ended = true;
            } else if self.hello.is_some() && self.is_hello(&slot[..fitted], *length) {
                *length = 0;
            } else {
                *length = fitted;
                taken.pieces += 1;
            }
        }
        match taken {
            Taken { pieces: 0, ended: true } => Err(Miss::Ended),
            Taken { pieces: 0, ended: false } => Err(Miss::Again),
            taken => Ok(taken),
        }
    }

    fn say_bye(&self) {
        let told = socket::send(self.socket.as_fd(), &[], false);
        if told.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            // The other end's queue is full: it is given a moment, and else finds out by its time-out.
            let _ = poll(self.socket.as_fd(), WRITABLE, Duration::from_millis(100));
            let _ = socket::send(self.socket.as_fd(), &[], false);
        }
    }
}

impl Port for SocketPort {
    // Part of the spinning loop: what it takes longer to come round is found later.
    #[inline(always)]
    fn take(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        let socket = self.socket.as_fd();
        let bytes = match &mut self.stamping {
            Some(stamping) if stamping.has_begun() => stamping.receive(socket, into, may_block)?,
            _ => socket::receive(socket, into, may_block, self.kind.is_datagram())?,
        };
        if bytes == 0 {
            // A stream's end, or a datagram's bye; messages are never empty.
            return Err(Miss::Ended);
        }
        let fitted = bytes.min(into.len());
        if self.hello.is_some() && self.is_hello(&into[..fitted], bytes) {
            return Err(Miss::Again);
        }
        Ok(fitted)
    }

    #[inline]
    fn put(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        Ok(socket::send(self.socket.as_fd(), bytes, may_block)?)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn writable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = facts(&self.socket, self.kind.family, self.kind.options);
        if self.kind.has_tcp_info() {
            facts.extend(sockopt::tcp_info(self.socket.as_fd()));
        }
        if self.ignored > 0 {
            facts.push(Fact::number(fact_names::IGNORED, self.ignored as f64));
        }
        if self.kind.is_mptcp() {
            let fell_back = sockopt::fell_back_to_tcp(self.socket.as_fd());
            facts.push(Fact::word(fact_names::FELL_BACK_TO_TCP, if fell_back { "yes" } else { "no" }));
        }
        facts
    }

    fn farewell(&mut self) {
        if self.kind.is_datagram() {
            // One may be lost on the way.
            (0..if self.crosses_link { 3 } else { 1 }).for_each(|_| self.say_bye());
        }
    }

    fn is_stream(&self) -> bool {
        self.kind.sort == Type::STREAM
    }

    fn put_batch(&mut self, messages: &[u8], size: usize) -> Option<Result<usize, Miss>> {
        let sent = || Ok(socket::send_many(self.socket.as_fd(), messages, size)?);
        (!self.is_stream()).then(sent)
    }

    fn take_batch(&mut self, into: &mut Batch) -> Option<Result<Taken, Miss>> {
        (!self.is_stream()).then(|| self.take_many(into))
    }

    #[inline]
    fn put_more(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        Ok(socket::send_more(self.socket.as_fd(), bytes, may_block)?)
    }

    #[inline]
    fn put_vectored(&mut self, parts: &[IoSlice<'_>], may_block: bool) -> Result<usize, Miss> {
        Ok(socket::send_vectored(self.socket.as_fd(), parts, may_block)?)
    }

    fn set(&mut self, option: OptionName, on: bool) -> io::Result<()> {
        options::switch(self.socket.as_fd(), self.kind.family, option, on)
    }

    fn stamping(&mut self) -> Option<(&mut Stamping, BorrowedFd<'_>)> {
        Some((self.stamping.as_mut()?, self.socket.as_fd()))
    }

    fn segments(&self) -> Option<Segments> {
        if self.kind.has_tcp_info() { sockopt::segments(self.socket.as_fd()) } else { None }
    }
}

impl Drop for SocketPort {
    /// Nothing tells a datagram's receiver that its sender has gone, so an empty datagram says bye.
    fn drop(&mut self) {
        if self.kind.is_datagram() {
            self.say_bye();
        }
    }
}

/// What [`hairpin_model::card::Receipt`] says of the loopback device.
pub(crate) fn loopback_detail(family: &str) -> String {
    match std::fs::read_to_string("/sys/class/net/lo/mtu") {
        Ok(mtu) => format!("{family} loopback, MTU {}", mtu.trim()),
        Err(_) => format!("{family} loopback"),
    }
}
