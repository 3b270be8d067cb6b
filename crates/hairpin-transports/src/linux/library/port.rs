//! Wires of a connection that a library drives.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_model::options::OptionName;
use hairpin_model::{Fact, SenderState};

use super::mailbox::Mailbox;
use super::runtime::{Handle, Runtime};
use crate::linux::readiness::{DescriptorState, Interest, Readiness, WireState};
use crate::linux::wires::description::{Connected, SocketTransport};
use crate::linux::wires::descriptor::DescriptorWire;
use crate::linux::wires::port::{Miss, Port};
use crate::options;
use crate::system::descriptor::READABLE;
use crate::system::sockopt;
use crate::wire::{Segments, Setup, TransportError, Wire};
use crate::wires::{Deadline, MAX_SLICE, failed, slice};

/// How long a closing wire waits until the library has sent its data, and on this host, where the data that were sent have
/// arrived.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(2);
const LOCAL_CLOSING_TIMEOUT: Duration = Duration::from_millis(300);

/// Longest time between two calls to [`Wire::drive`].
const DRIVE_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) struct Driven {
    runtime: Mutex<Runtime>,
    handle: Handle,
    pub(crate) transport: SocketTransport,
    facts: Box<dyn Fn() -> Vec<Fact> + Send + Sync>,
    /// Closes the connection once its last wire is closed.
    close: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Driven {
    pub(crate) fn new(
        runtime: Runtime,
        transport: SocketTransport,
        facts: impl Fn() -> Vec<Fact> + Send + Sync + 'static,
        close: impl FnOnce() + Send + 'static,
    ) -> Arc<Self> {
        let (handle, close) = (runtime.handle(), Mutex::new(Some(Box::new(close) as Box<_>)));
        Arc::new(Self { runtime: Mutex::new(runtime), handle, transport, facts: Box::new(facts), close })
    }

    /// The driver of a connection that ends with its socket.
    pub(crate) fn of_socket(runtime: Runtime, connected: Connected<'_>) -> Arc<Self> {
        let transport = connected.transport.clone();
        let port = Mutex::new(connected.into_port());
        let facts = move || port.lock().unwrap_or_else(PoisonError::into_inner).facts();
        Self::new(runtime, transport, facts, || ())
    }

    fn lock(&self) -> MutexGuard<'_, Runtime> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Drives the library until the other end has opened the wire.
    ///
    /// # Errors
    /// The connection ended, or the time-out passed.
    pub(crate) fn wait_until_opened(&self, mailbox: &Mailbox, setup: &Setup) -> Result<(), TransportError> {
        let error = |why: String| failed("open", "a stream", io::Error::other(why), "see the cause at the other end");
        let mut runtime = self.lock();
        runtime.drive(true, true);
        let timeout = setup.opening_timeout();
        let opened = runtime.park_until(Deadline::new(timeout), |_| {
            mailbox.is_opened().map(|opened| opened.then_some(())).transpose()
        });
        match opened.map_err(|source| failed("wait for", "the other end", source, ""))? {
            Some(opened) => opened.map_err(error),
            None => Err(TransportError::TimedOut { what: "opened its stream", after: timeout }),
        }
    }

    /// Returns the wire of this mailbox, for messages of up to `limit` bytes.
    pub(crate) fn wire(
        self: &Arc<Self>,
        mailbox: Mailbox,
        form: Form,
        limit: usize,
        setup: &Setup,
    ) -> Result<Box<dyn Wire>, TransportError> {
        let closing_timeout = if setup.server.is_some() { CLOSING_TIMEOUT } else { LOCAL_CLOSING_TIMEOUT };
        let port = LibraryPort {
            connection: Arc::clone(self),
            mailbox,
            form,
            limit,
            closing_timeout,
            has_answers: setup.has_answers,
            received_at: Instant::now(),
            attempts: 0,
        };
        let wire = DescriptorWire::new(port, setup.waiting, setup.timeout);
        wire.map(|wire| Box::new(wire) as _).map_err(|source| failed("set an alarm for", "the socket", source, ""))
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if let Some(close) = self.close.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            close();
            self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).drive(true, true);
        }
    }
}

/// Minimum time between two attempts to receive while a wire only sends.
const RECEIVE_INTERVAL: Duration = Duration::from_micros(200);

/// How a wire passes data to its library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Whole messages, which the other end receives as messages.
    Messages,
    /// Whole messages, which the other end receives as bytes.
    Requests,
    Bytes,
}

struct LibraryPort {
    connection: Arc<Driven>,
    mailbox: Mailbox,
    form: Form,
    limit: usize,
    closing_timeout: Duration,
    has_answers: bool,
    /// When a send last looked for received packets.
    received_at: Instant,
    attempts: u64,
}

/// Bytes of a stream that are put at once.
const MAX_PART_BYTES: usize = 256 << 10;

impl LibraryPort {
    /// Makes attempts and drives the library between them.
    fn attempt(
        &mut self,
        may_block: bool,
        mut attempt: impl FnMut(&Mailbox) -> Result<usize, Miss>,
    ) -> Result<usize, Miss> {
        let mut runtime = self.connection.lock();
        runtime.drive(!may_block, !may_block);
        match attempt(&self.mailbox) {
            Err(Miss::Nothing) if may_block => {}
            answer => return answer,
        }
        let mut deadline = Deadline::new(MAX_SLICE);
        while let Some(left) = deadline.left() {
            runtime.park(slice(left))?;
            match attempt(&self.mailbox) {
                Err(Miss::Nothing) => {}
                answer => return answer,
            }
        }
        // The wire checks its own deadline.
        Err(Miss::Again)
    }
}

impl Port for LibraryPort {
    fn receive(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        self.attempts += 1;
        let whole = self.form == Form::Messages;
        match self.mailbox.take(into, whole) {
            Err(Miss::Nothing) => self.attempt(may_block, |mailbox| mailbox.take(into, whole)),
            answer => answer,
        }
    }

    fn send(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        self.attempts += 1;
        if bytes.is_empty() && self.form == Form::Bytes {
            return Ok(0);
        }
        if bytes.len() > self.limit {
            return Err(Miss::Failed(io::Error::from_raw_os_error(libc::EMSGSIZE)));
        }
        let part = if self.form == Form::Bytes { &bytes[..bytes.len().min(MAX_PART_BYTES)] } else { bytes };
        let sent = match self.mailbox.put(part) {
            Err(Miss::Nothing) => self.attempt(may_block, |mailbox| mailbox.put(part))?,
            answer => answer?,
        };
        // A sender that receives no messages still has to receive acknowledgments.
        let receives = !self.has_answers && self.received_at.elapsed() > RECEIVE_INTERVAL;
        if receives {
            self.received_at = Instant::now();
        }
        self.connection.lock().drive(receives, receives);
        Ok(sent)
    }

    fn wait(&mut self, events: i16, at_most: Duration) -> Option<io::Result<bool>> {
        let is_ready =
            |mailbox: &Mailbox| if events == READABLE { mailbox.is_readable() } else { mailbox.is_writable() };
        let mut runtime = self.connection.lock();
        runtime.drive(true, true);
        let mut deadline = Deadline::from_now(at_most);
        while !is_ready(&self.mailbox) {
            let Some(left) = deadline.left() else { return Some(Ok(false)) };
            if let Err(error) = runtime.park(slice(left)) {
                return Some(Err(error));
            }
        }
        Some(Ok(true))
    }

    fn drive(&mut self) -> Option<Duration> {
        let mut runtime = self.connection.lock();
        runtime.drive(true, true);
        Some(runtime.due_in().map_or(DRIVE_INTERVAL, |due_in| due_in.min(DRIVE_INTERVAL)))
    }

    fn sends_files(&self) -> bool {
        false
    }

    fn next_stored(&mut self, into: &mut [u8]) -> Option<usize> {
        self.mailbox.take(into, self.form == Form::Messages).ok()
    }

    fn has_stored(&self) -> bool {
        self.mailbox.has_messages()
    }

    fn readiness(&self) -> Option<Arc<dyn Readiness>> {
        Some(Arc::new(LibraryReadiness { connection: Arc::clone(&self.connection), mailbox: self.mailbox.clone() }))
    }

    fn extra_calls(&self) -> u64 {
        self.connection.lock().system_calls().saturating_sub(self.attempts)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.connection.handle.socket().as_fd()
    }

    fn writable(&self) -> BorrowedFd<'_> {
        self.readable()
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = (self.connection.facts)();
        facts.extend(self.mailbox.facts());
        facts
    }

    fn begin_close(&mut self) {
        self.mailbox.close();
        self.connection.lock().drive(true, true);
    }

    fn is_stream(&self) -> bool {
        self.form != Form::Messages
    }

    fn send_more(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, Miss> {
        self.send(bytes, may_block)
    }

    fn send_vectored(&mut self, parts: &[io::IoSlice<'_>], may_block: bool) -> Result<usize, Miss> {
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.send(&whole, may_block)
    }

    fn set(&mut self, option: OptionName, on: bool) -> io::Result<()> {
        if !self.connection.transport.card.options.contains(&option) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        options::switch(self.readable(), self.connection.transport.family, option, on)
    }

    fn segments(&self) -> Option<Segments> {
        if self.connection.transport.has_tcp_info() { sockopt::segments(self.readable()) } else { None }
    }

    fn sender_state(&self) -> Option<SenderState> {
        if self.connection.transport.has_tcp_info() { sockopt::sender_state(self.readable()) } else { None }
    }
}

impl Drop for LibraryPort {
    /// Lets the library send what was put.
    fn drop(&mut self) {
        self.begin_close();
        let is_sent = |runtime: &Runtime| (self.mailbox.is_finished() && !runtime.wants_write()).then_some(());
        drop(self.connection.lock().park_until(Deadline::from_now(self.closing_timeout), is_sent));
    }
}

/// The part of a wire in a set of wires.
struct LibraryReadiness {
    connection: Arc<Driven>,
    mailbox: Mailbox,
}

impl Readiness for LibraryReadiness {
    fn drive(&self, on: DescriptorState, _interest: Interest) -> WireState {
        let mut runtime = self.connection.lock();
        runtime.drive(on.readable, on.writable);
        WireState {
            readable: self.mailbox.is_readable(),
            writable: self.mailbox.is_writable(),
            wants_write: runtime.wants_write(),
            due_in: runtime.due_in(),
        }
    }
}
