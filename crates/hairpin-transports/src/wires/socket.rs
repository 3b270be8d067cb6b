//! Wires over sockets: connected ones (TCP, Unix stream and seqpacket) and datagrams (UDP, Unix datagram).

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hairpin_model::fact::Fact;
use hairpin_model::fact_names;
use hairpin_model::options::OptionName;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::descriptor::{DescriptorWire, Miss, Port};
use super::hello;
use super::stamping::Stamping;
use super::{Deadline, failed, slice, unreached};
use crate::options::{self, Family, Moment};
use crate::system::descriptor::{WRITABLE, poll};
use crate::system::{socket, sockopt};
use crate::wire::{Accept, Cookie, Segments, Setup, TransportError, Wire};

/// What a transport says about its sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) family: Family,
    pub(crate) sort: Type,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) options: &'static [OptionName],
}

impl Kind {
    /// Opens a socket and asks for its options, before anything is bound or connected.
    pub(crate) fn open(&self, setup: &Setup) -> Result<Socket, TransportError> {
        let domain = match self.family {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
            Family::Unix => Domain::UNIX,
        };
        let socket = Socket::new(domain, self.sort, self.protocol)
            .map_err(|source| failed("open", &format!("a {self} socket"), source, ""))?;
        options::apply(socket.as_fd(), self.family, &setup.options, Moment::Opened)?;
        Ok(socket)
    }

    fn is_datagram(&self) -> bool {
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

    /// The wire over a connected socket.
    fn wire(&self, socket: Socket, setup: &Setup, ignored: u64) -> Result<Box<dyn Wire>, TransportError> {
        options::apply(socket.as_fd(), self.family, &setup.options, Moment::Connected)?;
        // The hello of datagrams has time-outs of its own, which would cost a timer in every later call.
        let quiet = socket.set_read_timeout(None).and_then(|()| socket.set_write_timeout(None));
        quiet.map_err(|source| failed("reset the time-outs of", "the socket", source, ""))?;
        let error =
            |source| failed("set an alarm for", "the socket", source, "is a limit on signals (ulimit -i) reached?");
        let hello = self.is_datagram().then_some(setup.cookie);
        let stamping = self.has_stamps().then(Stamping::default);
        let port = SocketPort { socket, kind: *self, hello, ignored, crosses_link: setup.server.is_some(), stamping };
        Ok(Box::new(DescriptorWire::new(port, setup.waiting, setup.timeout).map_err(error)?))
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

/// The server of a connected socket, before anybody connected.
pub(crate) struct Listener {
    socket: Socket,
    kind: Kind,
    setup: Setup,
}

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 16;

/// Listens on a bound socket.
pub(crate) fn listen(socket: Socket, kind: &Kind, setup: &Setup) -> Result<Box<dyn Accept>, TransportError> {
    // Others may come before the client does.
    socket.listen(BACKLOG).map_err(|source| failed("listen on", &local_address(&socket), source, ""))?;
    Ok(Box::new(Listener { socket, kind: *kind, setup: setup.clone() }))
}

impl Accept for Listener {
    fn address(&self) -> String {
        local_address(&self.socket)
    }

    fn accept(self: Box<Self>) -> Result<Box<dyn Wire>, TransportError> {
        let Setup { cookie, .. } = &self.setup;
        let (socket, ignored) = hello::accept(&self.socket, &self.address(), self.setup.opening_timeout(), cookie)?;
        self.kind.wire(socket, &self.setup, ignored)
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
) -> Result<Box<dyn Wire>, TransportError> {
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
    kind.wire(socket, setup, 0)
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

/// The server of a datagram socket, before anybody said hello.
pub(crate) struct DatagramListener {
    socket: Socket,
    kind: Kind,
    setup: Setup,
}

/// The server over a bound socket.
pub(crate) fn listen_datagram(socket: Socket, kind: &Kind, setup: &Setup) -> Box<dyn Accept> {
    Box::new(DatagramListener { socket, kind: *kind, setup: setup.clone() })
}

impl Accept for DatagramListener {
    fn address(&self) -> String {
        local_address(&self.socket)
    }

    fn accept(self: Box<Self>) -> Result<Box<dyn Wire>, TransportError> {
        let Setup { cookie, .. } = &self.setup;
        let ignored = hello::hear(&self.socket, &self.address(), self.setup.opening_timeout(), cookie)?;
        self.kind.wire(self.socket, &self.setup, ignored)
    }
}

/// Connects an open socket to a server that waits for a hello.
pub(crate) fn connect_datagram(
    socket: Socket,
    to: &SockAddr,
    address: &str,
    kind: &Kind,
    setup: &Setup,
) -> Result<Box<dyn Wire>, TransportError> {
    socket.connect(to).map_err(|source| unreached("connect to", address, source))?;
    hello::say(&socket, address, setup.opening_timeout(), &setup.cookie)?;
    kind.wire(socket, setup, 0)
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
