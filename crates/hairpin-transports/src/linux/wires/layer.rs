//! Protocols on a connected socket: a library takes over the socket after the hello.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::{Fact, SenderState};
use rustls::Connection as Tls;

use super::description::Connected;
use super::descriptor::DescriptorWire;
use super::port::{Miss, Port};
use super::socket_port::SocketPort;
use crate::linux::readiness::{DescriptorState, Interest, Readiness, WireState};
use crate::system::descriptor::{READABLE, WRITABLE, poll, poll_events};
use crate::wire::{Connection, Segments, Setup, TransportError};
use crate::wires::one_wire::OneWire;
use crate::wires::{Deadline, failed, slice};

impl Connected<'_> {
    pub(crate) fn into_port(self) -> SocketPort {
        SocketPort::new(self.socket, self.transport, self.setup, self.handshake)
    }

    /// The socket as the stream of a library that reads and writes.
    pub(crate) fn into_io(self) -> Io {
        let deadline = Deadline::new(self.setup.opening_timeout());
        Io {
            port: self.into_port(),
            may_block: false,
            more: false,
            miss: None,
            calls: 0,
            received: 0,
            header: [0; HEADER_END.len()],
            is_offline: false,
            tls: None,
            deadline: Some(deadline),
            tries: MAX_TRIES,
        }
    }
}

/// A library's state for one wire.
pub(crate) trait Session: Send + 'static {
    /// Whether the wire is a byte stream.
    const IS_STREAM: bool;

    /// Reads from the socket until the library holds received data. Returns false after the end of the data.
    fn fill(&mut self) -> io::Result<bool>;
    /// Takes one message, or some bytes of a stream, that the library holds; `None` if it holds none.
    fn take(&mut self, into: &mut [u8]) -> Option<usize>;
    /// Whether [`Session::take`] returns data.
    fn has_stored(&self) -> bool;
    /// Gives the library one message, or the beginning of some bytes.
    fn put(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Sends what the library holds.
    fn flush(&mut self) -> io::Result<()>;
    /// Whether the library holds data to be sent.
    fn has_unsent(&self) -> bool;
    /// Tells the library that this end sends no more.
    fn close(&mut self);
    fn io(&self) -> &Io;
    fn io_mut(&mut self) -> &mut Io;
}

const HEADER_END: &[u8; 4] = b"\r\n\r\n";

/// A connected socket for libraries that use [`Read`] and [`Write`].
pub(crate) struct Io {
    port: SocketPort,
    may_block: bool,
    /// Whether sends tell the kernel that more follow (`MSG_MORE`).
    more: bool,
    /// Why the last call failed.
    miss: Option<Miss>,
    /// System calls to receive and to send.
    calls: u64,
    /// Received bytes, without the header of an HTTP handshake.
    received: u64,
    /// The last bytes of this header; [`HEADER_END`] after its end.
    header: [u8; HEADER_END.len()],
    is_offline: bool,
    /// Encrypts what is read and written, if the library does not do so itself.
    tls: Option<Box<Tls>>,
    /// Set during the handshake.
    deadline: Option<Deadline>,
    /// Reads, and failed writes, that are left to the library's call.
    tries: u32,
}

/// Reads, and failed writes, of one call of a library, which does not return while the other end sends what is no message, such
/// as pings. Then the wire checks its deadline.
const MAX_TRIES: u32 = 16;

impl Io {
    fn or_missed(&mut self, answer: Result<usize, Miss>) -> io::Result<usize> {
        self.calls += 1;
        match answer {
            Err(Miss::Ended) => Ok(0),
            answer => answer.map_err(|miss| {
                self.miss = Some(miss);
                io::ErrorKind::WouldBlock.into()
            }),
        }
    }

    /// The result of a library's call: the reason of the socket if there is one, else the library's own error.
    fn outcome<T>(&mut self, answer: io::Result<T>) -> Result<T, Miss> {
        match (answer, self.miss.take()) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(miss)) => Err(miss),
            (Err(error), None) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Miss::Ended),
            (Err(error), None) => Err(Miss::Failed(error)),
        }
    }

    /// Sets whether reads return at once, without a system call.
    pub(crate) fn set_offline(&mut self, is_offline: bool) {
        self.is_offline = is_offline;
    }

    /// Completes the handshake of TLS, which encrypts all that follows.
    ///
    /// # Errors
    /// Of the socket and of TLS.
    pub(crate) fn encrypt(&mut self, mut tls: Tls) -> io::Result<&Tls> {
        tls.complete_io(&mut Raw(self))?;
        Ok(self.tls.insert(Box::new(tls)))
    }

    /// Calls TLS with the socket; `None` without TLS.
    fn over_tls<T>(&mut self, call: impl FnOnce(&mut Tls, &mut Raw<'_>) -> io::Result<T>) -> Option<io::Result<T>> {
        let mut tls = self.tls.take()?;
        let answer = call(&mut tls, &mut Raw(self));
        self.tls = Some(tls);
        Some(answer)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    fn count_received(&mut self, mut bytes: &[u8]) {
        while self.deadline.is_some() && self.header != *HEADER_END {
            let Some((first, rest)) = bytes.split_first() else { return };
            self.header.rotate_left(1);
            self.header[HEADER_END.len() - 1] = *first;
            bytes = rest;
        }
        self.received += bytes.len() as u64;
    }

    /// Ends the handshake, during which calls wait until the opening time-out.
    fn end_handshake(&mut self) {
        (self.deadline, self.calls) = (None, 0);
    }

    fn call(&mut self, events: i16, mut call: impl FnMut(&mut Self) -> Result<usize, Miss>) -> io::Result<usize> {
        loop {
            if self.tries == 0 {
                self.miss = Some(Miss::Again);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let answer = call(self);
            let Some(deadline) = &mut self.deadline else {
                self.tries -= u32::from(events == READABLE || answer.is_err());
                return self.or_missed(answer);
            };
            match answer {
                Ok(bytes) => return Ok(bytes),
                Err(Miss::Failed(error)) => return Err(error),
                Err(Miss::Ended | Miss::Gone) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(Miss::Nothing | Miss::Again) => {}
            }
            let left = deadline.left().ok_or(io::ErrorKind::TimedOut)?;
            match poll(self.port.readable(), events, slice(left)) {
                Err(interrupted) if interrupted.kind() == io::ErrorKind::Interrupted => {}
                polled => drop(polled?),
            }
        }
    }
}

pub(crate) fn handshake_failed(protocol: &str, setup: &Setup, source: io::Error) -> TransportError {
    if source.kind() == io::ErrorKind::TimedOut {
        return TransportError::TimedOut { what: "completed its handshake", after: setup.opening_timeout() };
    }
    failed("complete the handshake of", protocol, source, "see the cause at the other end")
}

/// The socket without TLS.
struct Raw<'i>(&'i mut Io);

impl Read for Raw<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.0.is_offline {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.0.call(READABLE, |io| io.port.receive(into, io.may_block))
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.call(WRITABLE, |io| match io.more {
            true => io.port.send_more(bytes, io.may_block),
            false => io.port.send(bytes, io.may_block),
        })
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match parts {
            [one] => self.write(one),
            parts if self.0.more => self.write(parts.iter().find(|part| !part.is_empty()).map_or(&[], |part| part)),
            parts => self.0.call(WRITABLE, |io| io.port.send_vectored(parts, io.may_block)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Io {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let decrypted = self.over_tls(|tls, socket| {
            loop {
                match tls.reader().read(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => drop(tls.complete_io(socket)?),
                    answer => return answer,
                }
            }
        });
        let bytes = decrypted.unwrap_or_else(|| Raw(self).read(into))?;
        self.count_received(&into[..bytes]);
        Ok(bytes)
    }
}

impl Write for Io {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let put = self.over_tls(|tls, socket| {
            send_all(tls, socket)?;
            tls.writer().write(bytes)
        });
        put.unwrap_or_else(|| Raw(self).write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let put = self.over_tls(|tls, socket| {
            send_all(tls, socket)?;
            tls.writer().write_vectored(parts)
        });
        put.unwrap_or_else(|| Raw(self).write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.over_tls(send_all).unwrap_or(Ok(()))
    }
}

fn send_all(tls: &mut Tls, socket: &mut Raw<'_>) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(socket)?;
    }
    Ok(())
}

pub(crate) fn connection<S: Session>(
    transport: &'static str,
    setup: &Setup,
    mut session: S,
) -> Result<Box<dyn Connection>, TransportError> {
    session.io_mut().end_handshake();
    let port = LayeredPort { session, attempts: 0, stored: Arc::new(Stored::default()) };
    port.stored.set(port.session.has_stored());
    let wire = DescriptorWire::new(port, setup.waiting, setup.timeout);
    let wire = wire.map_err(|source| failed("set an alarm for", "the socket", source, ""))?;
    Ok(OneWire::connection(transport, wire))
}

struct LayeredPort<S: Session> {
    session: S,
    attempts: u64,
    stored: Arc<Stored>,
}

/// Whether a session holds received data, for a set of wires.
#[derive(Debug, Default)]
struct Stored(AtomicBool);

impl Stored {
    fn set(&self, has_stored: bool) {
        self.0.store(has_stored, Ordering::Relaxed);
    }
}

impl Readiness for Stored {
    fn drive(&self, on: DescriptorState, interest: Interest) -> WireState {
        let readable = on.readable || self.0.load(Ordering::Relaxed);
        WireState { readable, writable: on.writable, wants_write: interest.writes(), due_in: None }
    }
}

impl<S: Session> LayeredPort<S> {
    /// Calls the library, and returns why the socket or the library failed.
    #[inline]
    fn call<T>(&mut self, may_block: bool, call: impl FnOnce(&mut S) -> io::Result<T>) -> Result<T, Miss> {
        let io = self.session.io_mut();
        (io.may_block, io.tries) = (may_block, MAX_TRIES);
        let answer = call(&mut self.session);
        self.session.io_mut().outcome(answer)
    }

    /// Gives the library data, once it has sent the data of earlier calls.
    fn put(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        self.attempts += 1;
        if self.session.has_unsent() {
            self.call(may_block, Session::flush)?;
        }
        let put = self.call(may_block, |session| session.put(bytes))?;
        self.send_rest(may_block).map(|()| put)
    }

    /// Sends what the library holds, as far as there is room. The next call sends the rest.
    fn send_rest(&mut self, may_block: bool) -> Result<(), Miss> {
        match self.call(may_block, Session::flush) {
            Err(Miss::Nothing | Miss::Again) => Ok(()),
            answer => answer,
        }
    }
}

impl<S: Session> Port for LayeredPort<S> {
    fn receive(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        self.attempts += 1;
        if self.session.has_unsent() {
            // The next send reports an error again. What the other end sent before is received all the same.
            drop(self.send_rest(may_block));
        }
        if !self.session.has_stored() && !self.call(may_block, Session::fill)? {
            return Err(Miss::Ended);
        }
        self.next_stored(into).ok_or(Miss::Again)
    }

    fn send(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        self.put(bytes, may_block)
    }

    fn wait(&mut self, events: i16, at_most: Duration) -> Option<io::Result<bool>> {
        let mut deadline = Deadline::from_now(at_most);
        while !self.session.has_stored() {
            // The answer may not come before the rest of the message is sent.
            let rest = if events == READABLE && self.session.has_unsent() { WRITABLE } else { 0 };
            let left = deadline.left();
            let found = match poll_events(self.readable(), events | rest, Some(left.unwrap_or_default())) {
                Ok(WRITABLE) if rest != 0 => match self.send_rest(false) {
                    Ok(()) if left.is_some() => continue,
                    sent => Ok(sent.is_err()),
                },
                found => found.map(|found| found & !rest != 0),
            };
            match found {
                Ok(true) if events == READABLE => match self.call(false, Session::fill) {
                    Ok(true) => {}
                    Err(Miss::Nothing | Miss::Again) if deadline.left().is_some() => {}
                    Err(Miss::Nothing | Miss::Again) => return Some(Ok(false)),
                    // The next receive reports it again.
                    Ok(false) | Err(_) => return Some(Ok(true)),
                },
                answer => return Some(answer),
            }
        }
        self.stored.set(true);
        Some(Ok(true))
    }

    fn drive(&mut self) -> Option<Duration> {
        if !self.session.has_unsent() {
            return None;
        }
        let sent = self.call(false, Session::flush);
        sent.is_err().then_some(DRIVE_INTERVAL)
    }

    fn sends_files(&self) -> bool {
        false
    }

    fn next_stored(&mut self, into: &mut [u8]) -> Option<usize> {
        let received = self.session.take(into);
        self.stored.set(self.session.has_stored());
        received
    }

    fn has_stored(&self) -> bool {
        self.session.has_stored()
    }

    fn readiness(&self) -> Option<Arc<dyn Readiness>> {
        Some(Arc::clone(&self.stored) as Arc<dyn Readiness>)
    }

    fn extra_calls(&self) -> u64 {
        self.session.io().calls.saturating_sub(self.attempts)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.session.io().port.readable()
    }

    fn writable(&self) -> BorrowedFd<'_> {
        self.session.io().port.writable()
    }

    fn facts(&self) -> Vec<Fact> {
        self.session.io().port.facts()
    }

    fn is_stream(&self) -> bool {
        S::IS_STREAM
    }

    fn send_more(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        self.session.io_mut().more = true;
        let answer = self.send(bytes, may_block);
        self.session.io_mut().more = false;
        answer
    }

    fn send_vectored(&mut self, parts: &[IoSlice<'_>], may_block: bool) -> Result<usize, Miss> {
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.send(&whole, may_block)
    }

    fn set(&mut self, option: OptionName, on: bool) -> io::Result<()> {
        self.session.io_mut().port.set(option, on)
    }

    fn segments(&self) -> Option<Segments> {
        self.session.io().port.segments()
    }

    fn sender_state(&self) -> Option<SenderState> {
        self.session.io().port.sender_state()
    }
}

impl<S: Session> Drop for LayeredPort<S> {
    fn drop(&mut self) {
        self.session.io_mut().may_block = false;
        self.session.close();
        while let Err(Miss::Nothing | Miss::Again) = self.call(false, Session::flush) {
            if !poll(self.writable(), WRITABLE, CLOSING_TIMEOUT).unwrap_or(false) {
                return;
            }
        }
    }
}

/// How long a closing end waits for the other end to take the rest of its data.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between attempts to send what a library holds.
const DRIVE_INTERVAL: Duration = Duration::from_millis(1);
