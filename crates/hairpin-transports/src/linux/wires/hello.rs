//! The hello that opens a connection or a datagram flow.
//!
//! A server recognizes its client by a cookie of 16 random bytes, which both ends got in the order of the round. Over a
//! stream, the client begins with one hello that contains the cookie. The source address of a datagram may be forged,
//! so a datagram server answers a hello with a challenge, which only the owner of the address can confirm, and then
//! sends a welcome (like QUIC's address validation, RFC 9000, section 8.1). All these datagrams have the same length,
//! so that the server cannot amplify traffic to a forged address.
//!
//! The first byte differs from the first bytes of STUN and DTLS (RFC 7983, section 7), so that one port can serve all.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use hairpin_model::card::Protocol;
use socket2::{SockAddr, Socket};

use crate::system::descriptor::{READABLE, poll, poll_all};
use crate::system::{random, received, socket};
use crate::wire::{Cookie, Setup, TransportError};
use crate::wires::ip_header::IpHeader;
use crate::wires::{Deadline, failed, left_to_accept, unreached};

/// First byte of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloKind {
    /// From the client: its first message, with the cookie.
    Hello = 4,
    /// From a datagram server: a nonce, which the client must echo to prove that it owns its address.
    Challenge = 5,
    /// From a datagram client: echoes the nonce of the challenge.
    Confirm = 6,
    /// From a datagram server: the flow is open.
    Welcome = 7,
    /// From either end of a datagram flow between hosts: it sends no more.
    End = 8,
}

/// Second byte of a hello.
const VERSION: u8 = 1;
/// Last bytes of a hello. A link does not know the cookie and recognizes hellos by this mark.
const MARK: [u8; 6] = *b"hrpn\xb5\x1e";
/// The length of each hello: kind, version, cookie, nonce, mark.
pub const HELLO_BYTES: usize = 40;

/// Random bytes in a challenge, which a datagram client must echo.
pub type Nonce = [u8; 16];

/// Time without an answer after which a client repeats its datagram.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Time without an answer after which a client between hosts believes an ICMP error.
const BELIEF_TIME: Duration = Duration::from_secs(2);
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// ICMP errors in a row that a send ignores. The kernel also reports a missing route with such an error, each time.
pub(crate) const MAX_ICMP_ERRORS: u32 = 8;
/// Maximum connections that have not sent their hello yet. One more closes the oldest.
const MAX_PENDING: usize = 16;

/// Packets and bytes, with IPv4 headers, that a hello adds to a connection across a link, both ways. A stream's hello is
/// acknowledged; its TCP headers have time stamps.
pub fn hello_on_the_wire(protocol: Protocol) -> [u64; 2] {
    const IPV4_UDP_BYTES: u64 = 28;
    const IPV4_TCP_BYTES: u64 = 52;
    let bytes = HELLO_BYTES as u64;
    match protocol {
        Protocol::Udp => {
            let packets = 3 + u64::from(WELCOMES_ACROSS_A_LINK);
            [packets, packets * (bytes + IPV4_UDP_BYTES)]
        }
        Protocol::Tcp => [2, bytes + 2 * IPV4_TCP_BYTES],
        _ => [0, 0],
    }
}

/// Whether a datagram is a hello of any kind with any cookie; other datagrams are messages.
pub fn is_hello(datagram: &[u8]) -> bool {
    datagram.len() == HELLO_BYTES && kind_of(datagram).is_some() && datagram.ends_with(&MARK)
}

/// Parses a hello from a datagram or the first bytes of a stream; `None` for other bytes.
pub fn parse_hello(bytes: &[u8]) -> Option<(HelloKind, Cookie, Nonce)> {
    let kind = kind_of(bytes).filter(|_| is_hello(bytes))?;
    Some((kind, Cookie(bytes[2..18].try_into().ok()?), bytes[18..34].try_into().ok()?))
}

fn kind_of(start: &[u8]) -> Option<HelloKind> {
    if start.get(1).is_some_and(|version| *version != VERSION) {
        return None;
    }
    [HelloKind::Hello, HelloKind::Challenge, HelloKind::Confirm, HelloKind::Welcome, HelloKind::End]
        .into_iter()
        .find(|kind| start.first() == Some(&(*kind as u8)))
}

/// Encodes a hello. Only challenges and their confirmations have a nonce.
pub fn encode_hello(kind: HelloKind, cookie: &Cookie, nonce: &Nonce) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[0] = kind as u8;
    bytes[1] = VERSION;
    bytes[2..18].copy_from_slice(&cookie.0);
    bytes[18..34].copy_from_slice(nonce);
    bytes[34..].copy_from_slice(&MARK);
    bytes
}

/// Parses a hello with that cookie. Returns its kind and nonce; `None` for other datagrams.
fn parse(bytes: &[u8], cookie: &Cookie) -> Option<(HelloKind, Nonce)> {
    parse_hello(bytes).filter(|(_, own, _)| own == cookie).map(|(kind, _, nonce)| (kind, nonce))
}

/// Returns the kind of a hello that was repeated after the flow has begun; `None` for a message. The datagram has
/// `bytes` bytes; `start` is the received part, which may be shorter.
#[inline(always)]
pub(crate) fn repeated_kind(start: &[u8], bytes: usize, cookie: &Cookie) -> Option<HelloKind> {
    // Nearly all messages have another length and cost only this comparison.
    if bytes == HELLO_BYTES { repeated_kind_of_length(start, cookie) } else { None }
}

#[cold]
fn repeated_kind_of_length(start: &[u8], cookie: &Cookie) -> Option<HelloKind> {
    let cookie_fits = start.iter().skip(2).zip(&cookie.0).all(|(one, other)| one == other);
    let mark_fits = start.len() < HELLO_BYTES || start.ends_with(&MARK);
    if cookie_fits && mark_fits { kind_of(start) } else { None }
}

/// Repeats the welcome, since the previous one was lost.
pub(crate) fn welcome_again(socket: BorrowedFd<'_>, cookie: &Cookie) {
    // On an error the client sends another confirmation.
    drop(socket::send(socket, &encode_hello(HelloKind::Welcome, cookie, &[0; 16]), false));
}

/// Number of welcomes sent across a link, since a link may lose some.
const WELCOMES_ACROSS_A_LINK: u32 = 3;

/// Whether an ICMP error may have caused a socket's error (`icmp_err_convert` in net/ipv4/icmp.c).
pub(crate) fn is_icmp_error(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::ENOPROTOOPT
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EPROTO
                | libc::EACCES
                | libc::EMSGSIZE
        )
    )
}

pub(crate) fn send_hello(socket: &Socket, address: &str, cookie: &Cookie) -> Result<(), TransportError> {
    let sent = socket::send(socket.as_fd(), &encode_hello(HelloKind::Hello, cookie, &[0; 16]), true);
    let whole = |sent| if sent == HELLO_BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) };
    sent.and_then(whole).map_err(|source| unreached("send a hello to", address, source))
}

/// Details about how the other end connected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handshake {
    /// Number of earlier connections or datagrams without the hello.
    pub(crate) ignored: u64,
    /// IP header of one of the other end's handshake packets, if the kernel reports it.
    pub(crate) header: Option<IpHeader>,
}

/// Sends hellos on a connected datagram socket, and confirms challenges, until the welcome arrives.
pub(crate) fn connect(
    socket: &Socket,
    transport: &'static str,
    address: &str,
    setup: &Setup,
) -> Result<Handshake, TransportError> {
    let (timeout, cookie) = (setup.opening_timeout(), &setup.cookie);
    let error = |operation| move |source| unreached(operation, &format!("{address} over {transport}"), source);
    let mut deadline = Deadline::new(timeout);
    let mut message = encode_hello(HelloKind::Hello, cookie, &[0; 16]);
    let (mut sent, mut answers) = (0, 0);
    let mut is_due = true;
    // Between hosts, an ICMP error alone is no reason to stop: anyone can send one. The kernel reports it once; an error of
    // this host comes back.
    let is_doubtful = |source: &io::Error| setup.codes.is_some() && is_icmp_error(source);
    let mut errors = 0;
    let began = Instant::now();
    received::report_headers(socket.as_fd(), setup.server.is_some());
    while let Some(left) = deadline.left() {
        if is_due {
            match socket::send(socket.as_fd(), &message, false) {
                Err(source) if is_doubtful(&source) && errors < MAX_ICMP_ERRORS => {
                    errors += 1;
                    continue;
                }
                sent => sent.map_err(error("send a hello to"))?,
            };
            (sent, errors) = (sent + 1, 0);
        }
        is_due = true;
        if poll_once(socket, left.min(RETRY_INTERVAL)).map_err(error("wait for an answer from"))? {
            let mut answer = [0; HELLO_BYTES + 1];
            match received::receive_from(socket.as_fd(), &mut answer) {
                Ok((bytes, _, header)) => match answer.get(..bytes).and_then(|answer| parse(answer, cookie)) {
                    Some((HelloKind::Welcome, _)) => {
                        received::report_headers(socket.as_fd(), false);
                        return Ok(Handshake { ignored: 0, header });
                    }
                    Some((HelloKind::Challenge, nonce)) => {
                        message = encode_hello(HelloKind::Confirm, cookie, &nonce);
                        answers += 1;
                    }
                    _ => is_due = false,
                },
                Err(source) if source.kind() == io::ErrorKind::WouldBlock => is_due = false,
                Err(source) if is_doubtful(&source) && (answers > 0 || began.elapsed() < BELIEF_TIME) => {
                    std::thread::sleep(ERROR_PAUSE);
                }
                Err(source) => return Err(error("receive an answer from")(source)),
            }
        }
    }
    Err(TransportError::Unwelcome {
        transport,
        address: address.to_owned(),
        sent,
        answers,
        after: timeout,
        bytes: None,
    })
}

/// Receives hellos on a bound datagram socket until a client confirms its hello, and connects the socket to this
/// client. Calls `connected` before the welcome is sent. After an abandoned call, `nonce` has the nonce of its challenges.
pub(crate) fn accept(
    socket: &Socket,
    address: &str,
    setup: &Setup,
    nonce: &mut Option<Nonce>,
    is_abandoned: &mut dyn FnMut() -> bool,
    connected: &mut dyn FnMut() -> Result<(), TransportError>,
) -> Result<Handshake, TransportError> {
    let (timeout, cookie) = (setup.opening_timeout(), &setup.cookie);
    let error = |operation| move |source| failed(operation, address, source, "");
    received::report_headers(socket.as_fd(), setup.server.is_some());
    let nonce = match *nonce {
        Some(nonce) => nonce,
        None => *nonce.insert(random::bytes().map_err(error("generate a nonce for"))?),
    };
    let mut ignored = 0;
    let mut deadline = Deadline::new(timeout);
    while let Some(left) = left_to_accept(&mut deadline, is_abandoned)? {
        if !poll_once(socket, left).map_err(error("wait for a hello at"))? {
            continue;
        }
        let datagram = receive_datagram(socket, cookie).map_err(error("receive a hello at"))?;
        let Some(Datagram { from, header, message }) = datagram else { continue };
        match message {
            // If the challenge cannot be sent, the client sends another hello.
            Some((HelloKind::Hello, _)) => {
                drop(socket.send_to(&encode_hello(HelloKind::Challenge, cookie, &nonce), &from))
            }
            Some((HelloKind::Confirm, echoed)) if echoed == nonce => {
                socket.connect(&from).map_err(error("connect to a client from"))?;
                received::report_headers(socket.as_fd(), false);
                connected()?;
                welcome(socket, address, setup)?;
                return Ok(Handshake { ignored, header });
            }
            _ => ignored += 1,
        }
    }
    Err(TransportError::TimedOut { what: "connected", after: timeout })
}

/// Sends the welcome to the client of a newly connected socket.
pub(crate) fn welcome(socket: &Socket, address: &str, setup: &Setup) -> Result<(), TransportError> {
    // Discards datagrams that other senders sent before the connect.
    let mut discarded = [0; 1];
    while socket::receive(socket.as_fd(), &mut discarded, false, false).is_ok() {}
    let welcome = encode_hello(HelloKind::Welcome, &setup.cookie, &[0; 16]);
    // A server that only sends does not read repeated confirmations, and so would not repeat a lost welcome.
    for _ in 0..if setup.server.is_some() { WELCOMES_ACROSS_A_LINK } else { 1 } {
        socket::send(socket.as_fd(), &welcome, false)
            .map_err(|source| unreached("answer a hello at", address, source))?;
    }
    Ok(())
}

/// A datagram received by a server.
struct Datagram {
    from: SockAddr,
    header: Option<IpHeader>,
    /// Kind and nonce if the datagram is a hello with the cookie.
    message: Option<(HelloKind, Nonce)>,
}

/// Receives the next datagram; `None` if poll(2) reported a datagram with a wrong checksum.
fn receive_datagram(socket: &Socket, cookie: &Cookie) -> io::Result<Option<Datagram>> {
    let mut datagram = [0; HELLO_BYTES + 1];
    match received::receive_from(socket.as_fd(), &mut datagram) {
        Ok((bytes, from, header)) => {
            let message = datagram.get(..bytes).and_then(|datagram| parse(datagram, cookie));
            Ok(Some(Datagram { from, header, message }))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// A connection whose hello is not complete.
struct Pending {
    socket: Socket,
    message: Vec<u8>,
}

impl Pending {
    fn new(socket: Socket) -> Self {
        Self { socket, message: Vec::with_capacity(HELLO_BYTES) }
    }
}

/// Connections to a server that have not sent their hello yet.
#[derive(Default)]
pub(crate) struct PendingConnections {
    pending: Vec<Pending>,
    /// Number of connections that sent other bytes, or closed.
    ignored: u64,
}

impl PendingConnections {
    /// Begins with a connection that was accepted elsewhere.
    pub(crate) fn of(socket: Socket) -> Self {
        Self { pending: vec![Pending::new(socket)], ignored: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Waits until a connection sends the hello with the cookie; with `listener`, also accepts more connections.
    /// Returns the connection, and the number of other connections. Bytes after the hello are not read.
    pub(crate) fn accept(
        &mut self,
        listener: Option<&Socket>,
        address: &str,
        timeout: Duration,
        cookie: &Cookie,
        is_abandoned: &mut dyn FnMut() -> bool,
    ) -> Result<(Socket, u64), TransportError> {
        let error = |operation| move |source| failed(operation, address, source, "");
        if let Some(listener) = listener {
            listener.set_nonblocking(true).map_err(error("make non-blocking"))?;
        }
        let mut deadline = Deadline::new(timeout);
        while let Some(left) = left_to_accept(&mut deadline, is_abandoned)? {
            let pending = self.pending.iter().map(|one| one.socket.as_fd());
            let watched: Vec<BorrowedFd<'_>> = pending.chain(listener.map(AsFd::as_fd)).collect();
            let ready = match poll_all(&watched, READABLE, left) {
                Err(interrupted) if interrupted.kind() == io::ErrorKind::Interrupted => continue,
                ready => ready.map_err(error("accept at"))?,
            };
            let has_connection = ready.get(self.pending.len()).is_some_and(|ready| *ready);
            if let Some(socket) = self.poll(&ready, cookie) {
                return Ok((socket, self.ignored + self.pending.len() as u64));
            }
            match listener {
                Some(listener) if has_connection => self.accept_one(listener).map_err(error("accept at"))?,
                None if self.is_empty() => {
                    let stranger = io::Error::new(io::ErrorKind::InvalidData, "a client connected without a hello");
                    return Err(error("receive a hello at")(stranger));
                }
                _ => {}
            }
        }
        Err(TransportError::TimedOut { what: "connected", after: timeout })
    }

    /// Reads from the connections that are ready. Returns the first with a complete hello.
    fn poll(&mut self, ready: &[bool], cookie: &Cookie) -> Option<Socket> {
        // In reverse order, since `swap_remove` moves only connections that were already checked.
        for index in (0..self.pending.len()).rev().filter(|index| ready[*index]) {
            match read_part(&mut self.pending[index], cookie) {
                HelloState::Hello => return Some(self.pending.swap_remove(index).socket),
                HelloState::Part => {}
                HelloState::Stranger => {
                    self.pending.swap_remove(index);
                    self.ignored += 1;
                }
            }
        }
        None
    }

    fn accept_one(&mut self, listener: &Socket) -> io::Result<()> {
        match listener.accept() {
            Ok((socket, _)) => {
                if self.pending.len() == MAX_PENDING {
                    self.pending.remove(0);
                    self.ignored += 1;
                }
                self.pending.push(Pending::new(socket));
                Ok(())
            }
            // The connection was closed, or accepted through another descriptor of the same port.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {
                Ok(())
            }
            Err(source) => Err(source),
        }
    }
}

enum HelloState {
    Hello,
    /// The hello is not complete yet.
    Part,
    /// The connection sent other bytes, or closed.
    Stranger,
}

fn read_part(pending: &mut Pending, cookie: &Cookie) -> HelloState {
    let mut bytes = [0; HELLO_BYTES];
    let missing = HELLO_BYTES - pending.message.len();
    match socket::receive(pending.socket.as_fd(), &mut bytes[..missing], false, false) {
        Ok(0) => HelloState::Stranger,
        Ok(count) => {
            pending.message.extend_from_slice(&bytes[..count]);
            match parse(&pending.message, cookie) {
                Some((HelloKind::Hello, _)) => HelloState::Hello,
                _ if pending.message.len() < HELLO_BYTES => HelloState::Part,
                _ => HelloState::Stranger,
            }
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            HelloState::Part
        }
        Err(_) => HelloState::Stranger,
    }
}

fn poll_once(socket: &Socket, at_most: Duration) -> io::Result<bool> {
    match poll(socket.as_fd(), READABLE, at_most) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: Cookie = Cookie([7; 16]);

    #[test]
    fn only_a_complete_hello_with_the_cookie_is_accepted() {
        for kind in [HelloKind::Hello, HelloKind::Challenge, HelloKind::Confirm, HelloKind::Welcome] {
            let bytes = encode_hello(kind, &OWN, &[9; 16]);
            assert!((4..=15).contains(&bytes[0]) && is_hello(&bytes));
            assert_eq!(parse(&bytes, &OWN), Some((kind, [9; 16])));
            assert_eq!(parse(&bytes, &Cookie([8; 16])), None, "a hello of another round");
            for index in [0, 1, 39] {
                let mut other = bytes;
                other[index] ^= 0x40;
                assert_eq!((parse(&other, &OWN), is_hello(&other)), (None, false), "byte {index}");
            }
            assert_eq!(parse(&bytes[..39], &OWN), None);
        }
    }

    #[test]
    fn a_server_of_many_rounds_reads_the_cookie_from_the_hello() {
        for kind in [HelloKind::Hello, HelloKind::Challenge, HelloKind::Confirm, HelloKind::Welcome] {
            assert_eq!(parse_hello(&encode_hello(kind, &OWN, &[9; 16])), Some((kind, OWN, [9; 16])));
        }
        assert_eq!(parse_hello(&encode_hello(HelloKind::Hello, &OWN, &[0; 16])[..39]), None);
    }

    #[test]
    fn a_repeated_hello_is_recognized_in_a_short_buffer() {
        let bytes = encode_hello(HelloKind::Confirm, &OWN, &[9; 16]);
        for room in [1, 2, 5, 20, 40] {
            assert_eq!(repeated_kind(&bytes[..room], 40, &OWN), Some(HelloKind::Confirm), "{room}");
        }
        assert_eq!(repeated_kind(&bytes[..5], 5, &OWN), None, "a message of 5 bytes");
        assert_eq!(repeated_kind(&bytes, 40, &Cookie([8; 16])), None);
        assert_eq!(repeated_kind(&[0; 40], 40, &OWN), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_parsed_hellos_encode_to_the_same_bytes(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..64),
            kind in 0..12_u8,
            is_like_one in any::<bool>(),
            room in 0..64_usize,
        ) {
            if is_like_one {
                bytes.resize(HELLO_BYTES, 0);
                bytes[..2].copy_from_slice(&[kind, VERSION]);
                bytes[34..].copy_from_slice(&MARK);
            }
            let start = &bytes[..room.min(bytes.len())];
            repeated_kind(start, bytes.len(), &OWN);
            prop_assert_eq!(parse(&bytes, &OWN), None, "a hello of another round");
            let written = parse_hello(&bytes).map(|(kind, cookie, nonce)| encode_hello(kind, &cookie, &nonce));
            prop_assert!(!is_like_one || written.is_some() == (4..9).contains(&kind));
            prop_assert!(written.is_none_or(|written| written[..] == bytes));
        }
    }
}
