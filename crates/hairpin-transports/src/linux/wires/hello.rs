//! The hello that opens a connection or a datagram flow.
//!
//! A server recognizes its client by a cookie of 16 random bytes, which came with the order of the round. So the client
//! sends it first. Over a stream, once. Over datagrams, whose source address may be forged, the server answers with a
//! challenge, which only the receiver at that address can confirm, and completes it with a welcome (like QUIC's address
//! validation, RFC 9000, section 8.1). A hello is as long as each answer, so a server never sends more than it
//! received.
//!
//! The first byte is between those of STUN and DTLS (RFC 7983, section 7), so that one port can serve other protocols.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{SockAddr, Socket};

use crate::system::descriptor::{READABLE, poll, poll_all};
use crate::system::{random, received, socket};
use crate::wire::{Cookie, Setup, TransportError};
use crate::wires::ip_header::IpHeader;
use crate::wires::{Deadline, failed, left_to_accept, unreached};

/// The kind of a hello, in its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelloKind {
    /// From the client: it knows the cookie.
    Hello = 4,
    /// From a datagram server: prove that you receive at this address.
    Challenge = 5,
    /// From a datagram client: the nonce of the challenge.
    Confirm = 6,
    /// From a datagram server: connected.
    Welcome = 7,
}

/// The second byte.
const VERSION: u8 = 1;
/// The last bytes, by which a link recognizes a hello without knowing its cookie.
const MARK: [u8; 6] = *b"hrpn\xb5\x1e";
/// The length of each hello: kind, version, cookie, nonce, mark.
pub const HELLO_BYTES: usize = 40;

/// Sent in a challenge; a datagram client needs it to confirm its hello.
pub type Nonce = [u8; 16];

/// Time that a client waits for an answer before it repeats its datagram.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Maximum connections that have not sent their hello yet; beyond it the oldest is closed.
const MAX_PENDING: usize = 16;

/// Whether a datagram is a hello of any kind and cookie, and so not a message.
pub fn is_hello(datagram: &[u8]) -> bool {
    datagram.len() == HELLO_BYTES && kind_of(datagram).is_some() && datagram.ends_with(&MARK)
}

/// A client's hello to a server that serves many rounds at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloMessage {
    Hello(Cookie),
    /// It has this cookie, and the nonce of a challenge.
    Confirm(Cookie, Nonce),
}

/// Parses a client's hello from a datagram or the first bytes of a stream; `None` if it is not one.
pub fn parse_hello(bytes: &[u8]) -> Option<HelloMessage> {
    if !is_hello(bytes) {
        return None;
    }
    let cookie = Cookie(bytes[2..18].try_into().ok()?);
    match kind_of(bytes)? {
        HelloKind::Hello => Some(HelloMessage::Hello(cookie)),
        HelloKind::Confirm => Some(HelloMessage::Confirm(cookie, bytes[18..34].try_into().ok()?)),
        HelloKind::Challenge | HelloKind::Welcome => None,
    }
}

/// The answer to a datagram hello, no longer than that: the client must prove that it receives at its address.
pub fn challenge(cookie: &Cookie, nonce: &Nonce) -> [u8; HELLO_BYTES] {
    hello(HelloKind::Challenge, cookie, nonce)
}

/// A datagram client's answer to a challenge.
pub fn confirm(cookie: &Cookie, nonce: &Nonce) -> [u8; HELLO_BYTES] {
    hello(HelloKind::Confirm, cookie, nonce)
}

/// The first datagram of a client.
pub fn hello_of(cookie: &Cookie) -> [u8; HELLO_BYTES] {
    hello(HelloKind::Hello, cookie, &[0; 16])
}

/// The nonce, if a datagram is a challenge to the hello with that cookie.
pub fn challenged(datagram: &[u8], cookie: &Cookie) -> Option<Nonce> {
    read(datagram, cookie).and_then(|(kind, nonce)| (kind == HelloKind::Challenge).then_some(nonce))
}

fn kind_of(start: &[u8]) -> Option<HelloKind> {
    if start.get(1).is_some_and(|version| *version != VERSION) {
        return None;
    }
    [HelloKind::Hello, HelloKind::Challenge, HelloKind::Confirm, HelloKind::Welcome]
        .into_iter()
        .find(|kind| start.first() == Some(&(*kind as u8)))
}

fn hello(kind: HelloKind, cookie: &Cookie, nonce: &Nonce) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[0] = kind as u8;
    bytes[1] = VERSION;
    bytes[2..18].copy_from_slice(&cookie.0);
    bytes[18..34].copy_from_slice(nonce);
    bytes[34..].copy_from_slice(&MARK);
    bytes
}

/// Kind and nonce of a hello with that cookie; `None` for anything else.
fn read(bytes: &[u8], cookie: &Cookie) -> Option<(HelloKind, Nonce)> {
    let known = is_hello(bytes) && bytes[2..18] == cookie.0;
    known.then(|| Some((kind_of(bytes)?, bytes[18..34].try_into().ok()?))).flatten()
}

/// The kind of a repeated hello after the flow has begun; `None` for a message. The datagram has `bytes` bytes; a
/// buffer for shorter messages only holds its beginning, `start`.
#[inline(always)]
pub(crate) fn repeated(start: &[u8], bytes: usize, cookie: &Cookie) -> Option<HelloKind> {
    // Nearly every message has another length, so this comparison is the whole cost.
    if bytes == HELLO_BYTES { repeated_of_length(start, cookie) } else { None }
}

#[cold]
fn repeated_of_length(start: &[u8], cookie: &Cookie) -> Option<HelloKind> {
    let cookie_fits = start.iter().skip(2).zip(&cookie.0).all(|(one, other)| one == other);
    let mark_fits = start.len() < HELLO_BYTES || start.ends_with(&MARK);
    if cookie_fits && mark_fits { kind_of(start) } else { None }
}

/// Repeats the welcome: the last one was lost.
pub(crate) fn welcome_again(socket: BorrowedFd<'_>, cookie: &Cookie) {
    // If this one is lost too, another confirmation follows.
    drop(socket::send(socket, &hello(HelloKind::Welcome, cookie, &[0; 16]), false));
}

/// Number of welcomes sent across a link, where they may be lost.
const WELCOMES_ACROSS_A_LINK: u32 = 3;

/// Sends the hello on a connected stream, or in one message if there are boundaries.
pub(crate) fn send_hello(socket: &Socket, address: &str, cookie: &Cookie) -> Result<(), TransportError> {
    let sent = socket::send(socket.as_fd(), &hello(HelloKind::Hello, cookie, &[0; 16]), true);
    let whole = |sent| if sent == HELLO_BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) };
    sent.and_then(whole).map_err(|source| unreached("say hello to", address, source))
}

/// How the other end connected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handshake {
    /// Connections or datagrams without the hello before it.
    pub(crate) ignored: u64,
    /// Header of an opening packet of the other end, if the kernel reports it.
    pub(crate) header: Option<IpHeader>,
}

/// Sends the hello on a connected datagram socket, and answers challenges, until it is welcome.
pub(crate) fn connect(
    socket: &Socket,
    transport: &'static str,
    address: &str,
    setup: &Setup,
) -> Result<Handshake, TransportError> {
    let (timeout, cookie) = (setup.opening_timeout(), &setup.cookie);
    let error = |operation| move |source| unreached(operation, &format!("{address} over {transport}"), source);
    let mut deadline = Deadline::new(timeout);
    let mut own = hello(HelloKind::Hello, cookie, &[0; 16]);
    let (mut sent, mut answers) = (0, 0);
    let mut is_due = true;
    received::report_headers(socket.as_fd(), setup.server.is_some());
    while let Some(left) = deadline.left() {
        if is_due {
            socket::send(socket.as_fd(), &own, false).map_err(error("say hello to"))?;
            sent += 1;
        }
        is_due = true;
        if patient_poll(socket, left.min(AGAIN_AFTER)).map_err(error("wait for an answer of"))? {
            let mut answer = [0; HELLO_BYTES + 1];
            match received::receive_from(socket.as_fd(), &mut answer) {
                Ok((bytes, _, header)) => match answer.get(..bytes).and_then(|answer| read(answer, cookie)) {
                    Some((HelloKind::Welcome, _)) => {
                        received::report_headers(socket.as_fd(), false);
                        return Ok(Handshake { ignored: 0, header });
                    }
                    Some((HelloKind::Challenge, nonce)) => {
                        own = hello(HelloKind::Confirm, cookie, &nonce);
                        answers += 1;
                    }
                    _ => is_due = false,
                },
                Err(source) if source.kind() == io::ErrorKind::WouldBlock => is_due = false,
                Err(source) => return Err(error("receive an answer of")(source)),
            }
        }
    }
    Err(TransportError::Unwelcome { transport, address: address.to_owned(), sent, answers, after: timeout })
}

/// Receives hellos on a bound datagram socket until one is confirmed, and connects to its sender. `connected` is called
/// before the other end is welcomed.
pub(crate) fn accept(
    socket: &Socket,
    address: &str,
    setup: &Setup,
    is_abandoned: &mut dyn FnMut() -> bool,
    connected: &mut dyn FnMut() -> Result<(), TransportError>,
) -> Result<Handshake, TransportError> {
    let (timeout, cookie) = (setup.opening_timeout(), &setup.cookie);
    let error = |operation| move |source| failed(operation, address, source, "");
    received::report_headers(socket.as_fd(), setup.server.is_some());
    let own: Nonce = random::bytes().map_err(error("draw a nonce for"))?;
    let mut ignored = 0;
    let mut deadline = Deadline::new(timeout);
    while let Some(left) = left_to_accept(&mut deadline, is_abandoned)? {
        if !patient_poll(socket, left).map_err(error("wait for a hello at"))? {
            continue;
        }
        let one = one_hello(socket, cookie).map_err(error("receive a hello at"))?;
        let Some(Datagram { from, header, message }) = one else { continue };
        match message {
            // A challenge that cannot be sent counts as lost: another hello follows.
            Some((HelloKind::Hello, _)) => drop(socket.send_to(&hello(HelloKind::Challenge, cookie, &own), &from)),
            Some((HelloKind::Confirm, nonce)) if nonce == own => {
                socket.connect(&from).map_err(error("connect back from"))?;
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

/// Welcomes the client that a socket was just connected to.
pub(crate) fn welcome(socket: &Socket, address: &str, setup: &Setup) -> Result<(), TransportError> {
    // Datagrams of others from before the connect are still in the queue.
    let mut thrown_away = [0; 1];
    while socket::receive(socket.as_fd(), &mut thrown_away, false, false).is_ok() {}
    let welcome = hello(HelloKind::Welcome, &setup.cookie, &[0; 16]);
    // A server that sends at once would not notice that a welcome was lost.
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
    /// Kind and nonce if it is a hello.
    message: Option<(HelloKind, Nonce)>,
}

/// The next datagram; `None` if there is none after all, for instance with a wrong checksum.
fn one_hello(socket: &Socket, cookie: &Cookie) -> io::Result<Option<Datagram>> {
    let mut datagram = [0; HELLO_BYTES + 1];
    match received::receive_from(socket.as_fd(), &mut datagram) {
        Ok((bytes, from, header)) => {
            let message = datagram.get(..bytes).and_then(|datagram| read(datagram, cookie));
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
    /// Number of connections that sent something else, or closed.
    ignored: u64,
}

impl PendingConnections {
    /// A connection that was accepted elsewhere.
    pub(crate) fn of(socket: Socket) -> Self {
        Self { pending: vec![Pending::new(socket)], ignored: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Accepts on a listening socket, if there is one, until a connection sends the hello with the cookie. Returns it,
    /// and the number of others that did not. Bytes after the hello are not taken.
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
            let has_come = ready.get(self.pending.len()).is_some_and(|ready| *ready);
            if let Some(socket) = self.poll(&ready, cookie) {
                return Ok((socket, self.ignored + self.pending.len() as u64));
            }
            match listener {
                Some(listener) if has_come => self.take_in(listener).map_err(error("accept at"))?,
                None if self.is_empty() => {
                    let stranger = io::Error::new(io::ErrorKind::InvalidData, "a client connected without a hello");
                    return Err(error("hear a hello at")(stranger));
                }
                _ => {}
            }
        }
        Err(TransportError::TimedOut { what: "connected", after: timeout })
    }

    /// Reads from the connections that are ready. Returns the first with a complete hello.
    fn poll(&mut self, ready: &[bool], cookie: &Cookie) -> Option<Socket> {
        // From the last to the first, so that removing one does not move those still to be checked.
        for place in (0..self.pending.len()).rev().filter(|place| ready[*place]) {
            match hear_part(&mut self.pending[place], cookie) {
                HelloState::Hello => return Some(self.pending.swap_remove(place).socket),
                HelloState::Part => {}
                HelloState::Stranger => {
                    self.pending.swap_remove(place);
                    self.ignored += 1;
                }
            }
        }
        None
    }

    fn take_in(&mut self, listener: &Socket) -> io::Result<()> {
        match listener.accept() {
            Ok((socket, _)) => {
                if self.pending.len() == MAX_PENDING {
                    self.pending.remove(0);
                    self.ignored += 1;
                }
                self.pending.push(Pending::new(socket));
                Ok(())
            }
            // Closed again, or accepted through another descriptor of the same port.
            Err(gone) if matches!(gone.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {
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
    /// Other bytes, or the end.
    Stranger,
}

fn hear_part(pending: &mut Pending, cookie: &Cookie) -> HelloState {
    let mut bytes = [0; HELLO_BYTES];
    let missing = HELLO_BYTES - pending.message.len();
    match socket::receive(pending.socket.as_fd(), &mut bytes[..missing], false, false) {
        Ok(0) => HelloState::Stranger,
        Ok(count) => {
            pending.message.extend_from_slice(&bytes[..count]);
            match read(&pending.message, cookie) {
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

fn patient_poll(socket: &Socket, at_most: Duration) -> io::Result<bool> {
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
    fn only_a_whole_hello_with_the_cookie_is_one() {
        for kind in [HelloKind::Hello, HelloKind::Challenge, HelloKind::Confirm, HelloKind::Welcome] {
            let bytes = hello(kind, &OWN, &[9; 16]);
            assert!((4..=15).contains(&bytes[0]) && is_hello(&bytes));
            assert_eq!(read(&bytes, &OWN), Some((kind, [9; 16])));
            assert_eq!(read(&bytes, &Cookie([8; 16])), None, "of another round");
            for place in [0, 1, 39] {
                let mut other = bytes;
                other[place] ^= 0x40;
                assert_eq!((read(&other, &OWN), is_hello(&other)), (None, false), "byte {place}");
            }
            assert_eq!(read(&bytes[..39], &OWN), None);
        }
    }

    #[test]
    fn a_server_of_many_rounds_reads_the_cookie_from_the_hello() {
        let of = |kind| parse_hello(&hello(kind, &OWN, &[9; 16]));
        assert_eq!(of(HelloKind::Hello), Some(HelloMessage::Hello(OWN)));
        assert_eq!(of(HelloKind::Confirm), Some(HelloMessage::Confirm(OWN, [9; 16])));
        assert_eq!([of(HelloKind::Challenge), of(HelloKind::Welcome)], [None, None]);
        assert_eq!(parse_hello(&hello(HelloKind::Hello, &OWN, &[0; 16])[..39]), None);
        assert_eq!(read(&challenge(&OWN, &[9; 16]), &OWN), Some((HelloKind::Challenge, [9; 16])));
    }

    #[test]
    fn a_repeated_hello_is_recognized_in_a_short_buffer() {
        let bytes = hello(HelloKind::Confirm, &OWN, &[9; 16]);
        for room in [1, 2, 5, 20, 40] {
            assert_eq!(repeated(&bytes[..room], 40, &OWN), Some(HelloKind::Confirm), "{room}");
        }
        assert_eq!(repeated(&bytes[..5], 5, &OWN), None, "a message of 5 bytes");
        assert_eq!(repeated(&bytes, 40, &Cookie([8; 16])), None);
        assert_eq!(repeated(&[0; 40], 40, &OWN), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_what_is_read_is_a_hello_written_again(
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
            repeated(start, bytes.len(), &OWN);
            prop_assert_eq!(challenged(&bytes, &OWN), None, "of another round");
            let written = parse_hello(&bytes).map(|message| match message {
                HelloMessage::Hello(cookie) => hello(HelloKind::Hello, &cookie, &bytes[18..34].try_into().unwrap()),
                HelloMessage::Confirm(cookie, nonce) => confirm(&cookie, &nonce),
            });
            prop_assert!(!is_like_one || written.is_some() == [4, 6].contains(&kind));
            prop_assert!(written.is_none_or(|written| written[..] == bytes));
        }
    }
}
