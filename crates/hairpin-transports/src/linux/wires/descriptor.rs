//! A wire over file descriptors, which waits by `block`, `poll` or `spin`.

mod attempts;
mod stamps;
mod stream;

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hairpin_model::{Fact, Waiting};

use super::port::{Miss, Port};
use crate::batch::{Batch, send_each};
use crate::linux::readiness::Readiness;
use crate::system::alarm::Alarm;
use crate::system::descriptor::{ERROR, READABLE, WRITABLE, poll, poll_events, set_nonblocking};
use crate::system::pipe::memory_file_of;
use crate::wire::{Descriptors, KernelStamps, Repeated, Stream, Wire, WireError};
use crate::wires::codes::Codes;
use crate::wires::{Deadline, MAX_SLICE, slice};

/// Attempts of a spinning wire between two clock reads. The attempts take far longer than a clock read (20 ns).
const TRIES_PER_CLOCK_READ: u32 = 256;

/// Attempts of a receive that does not wait: datagrams of others may arrive without a pause.
const MAX_TRIES: u32 = 64;
/// Maximum time that a call of a one-way load blocks in the kernel before a signal interrupts it.
const MAX_CALL: Duration = Duration::from_millis(50);

pub(crate) struct DescriptorWire<P> {
    port: P,
    /// A basic mode.
    waiting: Waiting,
    timeout: Duration,
    /// Interrupts blocking calls, so that the deadline can be checked; `None` if no call has blocked without a time-out.
    alarm: Option<Alarm>,
    /// The other end has closed or died: calls no longer wait, and receives return the remaining data.
    peer_gone: bool,
    system_calls: u64,
    /// The file of [`Wire::load_file`] and its length in bytes.
    file: Option<(OwnedFd, usize)>,
}

impl<P: Port> DescriptorWire<P> {
    pub(crate) fn new(port: P, waiting: Waiting, timeout: Duration) -> io::Result<Self> {
        let waiting = waiting.basic();
        let alarm = (waiting == Waiting::Block).then(|| Alarm::start(timeout)).transpose()?;
        Ok(Self { port, waiting, timeout, alarm, peer_gone: false, system_calls: 0, file: None })
    }

    /// Prepares for a call that may block.
    #[inline]
    fn set_alarm(&mut self, operation: &'static str) -> Result<(), WireError> {
        match &mut self.alarm {
            Some(alarm) => alarm.follow().map_err(|source| WireError::System { operation, source }),
            None => Ok(()),
        }
    }

    /// Calls [`Port::receive`] and counts the system call.
    #[inline(always)]
    fn receive_once(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        self.system_calls += 1;
        self.port.receive(into, may_block)
    }

    /// Receives available data without blocking, even if the descriptor is blocking.
    #[inline]
    fn receive_available(&mut self, into: &mut [u8]) -> Result<usize, Miss> {
        // No other reader takes the data between `poll` and the read.
        if !P::IS_SOCKET && self.waiting == Waiting::Block {
            self.system_calls += 1;
            if !poll(self.port.readable(), READABLE, Duration::ZERO)? {
                return Err(Miss::Nothing);
            }
        }
        self.receive_once(into, false)
    }

    #[inline(always)]
    fn receive_blocking(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        self.set_alarm("receive")?;
        match self.receive_once(into, true) {
            Ok(bytes) => Ok(bytes),
            Err(miss) => self.receive_again(miss, into),
        }
    }

    /// Continues a receive after the first attempt.
    #[inline(never)]
    fn receive_again(&mut self, mut miss: Miss, into: &mut [u8]) -> Result<usize, WireError> {
        let mut deadline = Deadline::new(self.timeout);
        loop {
            match miss {
                Miss::Nothing => break,
                Miss::Again if deadline.left().is_some() => {}
                Miss::Again => break,
                miss => return self.on_closed(miss, into),
            }
            match self.receive_once(into, true) {
                Ok(bytes) => return Ok(bytes),
                Err(again) => miss = again,
            }
        }
        Err(Deadline::timed_out("receive", self.timeout))
    }

    #[inline(never)]
    fn receive_polling(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        if self.alarm.is_none() {
            let started = Alarm::start(self.timeout);
            self.alarm = Some(started.map_err(|source| WireError::System { operation: "receive", source })?);
        }
        let mut deadline = Deadline::new(self.timeout);
        while self.wait_for(READABLE, &mut deadline)? {
            match self.receive_once(into, false) {
                Ok(bytes) => return Ok(bytes),
                Err(Miss::Nothing | Miss::Again) => {}
                Err(miss) => return self.on_closed(miss, into),
            }
            // A signal arrived, or a datagram had a wrong checksum: waits for the remaining time.
            if deadline.left().is_none() {
                break;
            }
        }
        Err(Deadline::timed_out("receive", self.timeout))
    }

    #[inline(never)]
    fn receive_spinning(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let mut deadline = Deadline::new(self.timeout);
        loop {
            for _ in 0..TRIES_PER_CLOCK_READ {
                match self.receive_once(into, false) {
                    Ok(bytes) => return Ok(bytes),
                    Err(Miss::Nothing) => {}
                    // It took long if a library has read what is no message.
                    Err(Miss::Again) => break,
                    Err(miss) => return self.on_closed(miss, into),
                }
            }
            if deadline.left().is_none() {
                return Err(Deadline::timed_out("receive", self.timeout));
            }
        }
    }

    /// Handles a closed or failed connection. Returns the remaining data from the other end, or [`WireError::Closed`].
    #[cold]
    fn on_closed(&mut self, miss: Miss, into: &mut [u8]) -> Result<usize, WireError> {
        match miss {
            Miss::Failed(source) => Err(WireError::of_call("receive", source)),
            Miss::Ended => {
                self.peer_gone = true;
                Err(WireError::Closed)
            }
            _ => {
                self.peer_gone = true;
                self.drain(into)
            }
        }
    }

    /// Receives the data that the other end sent before it closed. Makes several attempts, since a socket may first
    /// return each pending error once.
    #[cold]
    fn drain(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        for _ in 0..8 {
            match self.receive_available(into) {
                Ok(bytes) => return Ok(bytes),
                Err(Miss::Gone | Miss::Again) => {}
                Err(Miss::Nothing | Miss::Ended) => break,
                Err(Miss::Failed(source)) => return Err(WireError::of_call("receive", source)),
            }
        }
        Err(WireError::Closed)
    }

    /// Converts the result of one attempt to send; no room is `Ok(0)`.
    #[inline(always)]
    fn send_result(&mut self, answer: Result<usize, Miss>) -> Result<usize, WireError> {
        match answer {
            Ok(bytes) => Ok(bytes),
            Err(miss) => self.on_send_miss(miss),
        }
    }

    #[cold]
    fn on_send_miss(&mut self, miss: Miss) -> Result<usize, WireError> {
        match miss {
            // After a signal the caller just tries again.
            Miss::Nothing | Miss::Again => Ok(0),
            Miss::Gone | Miss::Ended => {
                self.peer_gone = true;
                Err(WireError::Closed)
            }
            Miss::Failed(source) if source.raw_os_error() == Some(libc::ENOBUFS) => Err(WireError::Refused),
            Miss::Failed(source) => Err(WireError::of_call("send", source)),
        }
    }

    /// Receives one piece of a one-way load; `None` if nothing is available.
    #[inline(always)]
    fn receive_piece(&mut self, into: &mut [u8], may_block: bool) -> Result<Option<usize>, WireError> {
        if self.peer_gone {
            return self.drain(into).map(Some);
        }
        self.system_calls += 1;
        let taken = if may_block { self.port.receive(into, true) } else { self.port.try_receive(into) };
        match taken {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Miss::Nothing) => match self.port.on_nothing_received() {
                Ok(()) => Ok(None),
                Err(source) => Err(WireError::System { operation: "receive", source }),
            },
            Err(Miss::Again) => Ok(None),
            Err(miss) => self.on_closed(miss, into).map(Some),
        }
    }

    /// Prepares a call of a one-way load that may block for up to [`MAX_CALL`]. Returns whether calls block.
    #[inline(always)]
    fn prepare_blocking(&mut self, operation: &'static str) -> Result<bool, WireError> {
        if self.waiting != Waiting::Block {
            return Ok(false);
        }
        self.set_alarm(operation)?;
        let shortened = self.alarm.as_mut().map_or(Ok(()), |alarm| alarm.shorten(MAX_CALL));
        shortened.map(|()| true).map_err(|source| WireError::System { operation, source })
    }

    /// Sends one message, or the bytes of a stream for which there is room, with one call.
    #[inline(always)]
    fn send_once(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, WireError> {
        if self.peer_gone {
            return Err(WireError::Closed);
        }
        self.system_calls += 1;
        let answer = if may_block { self.port.send(bytes, true) } else { self.port.try_send(bytes) };
        self.send_result(answer)
    }

    #[inline(always)]
    fn send_messages(&mut self, messages: &[u8], size: usize, may_block: bool) -> Result<usize, WireError> {
        if self.peer_gone {
            return Err(WireError::Closed);
        }
        match self.port.send_batch(messages, size, may_block) {
            Some(answer) => {
                self.system_calls += 1;
                self.send_result(answer)
            }
            None if self.port.is_stream() || messages.len() <= size => self.send_once(messages, may_block),
            None if may_block => self.send_once(&messages[..size], true),
            None => send_each(messages, size, |message| self.send_once(message, false)),
        }
    }

    #[inline(always)]
    fn receive_messages(&mut self, into: &mut Batch, may_block: bool) -> Result<usize, WireError> {
        if self.port.has_stored() {
            return into.fill(|slot| Ok(self.port.next_stored(slot)));
        }
        if !self.peer_gone
            && let Some(answer) = self.port.receive_batch(into, may_block)
        {
            self.system_calls += 1;
            return match answer {
                Ok(taken) => {
                    self.peer_gone = taken.ended;
                    Ok(taken.pieces)
                }
                Err(Miss::Nothing | Miss::Again) => into.fill_one(|_| Ok(None)),
                Err(miss) => into.fill_one(|slot| self.on_closed(miss, slot).map(Some)),
            };
        }
        if self.port.is_stream() || may_block {
            into.fill_one(|slot| self.receive_piece(slot, may_block))
        } else {
            into.fill(|slot| self.receive_piece(slot, false))
        }
    }

    /// Polls for `events` until the deadline. Polls again after a signal or a time stamp, which are not the events. If
    /// the deadline's clock has not started, the first poll may take the wire's whole time-out.
    fn wait_for(&mut self, events: i16, deadline: &mut Deadline) -> Result<bool, WireError> {
        let mut left = deadline.running().unwrap_or(self.timeout);
        loop {
            self.system_calls += 1;
            let at_most = slice(left);
            // A time-out of the call would set a timer, which takes 5 % of a round trip on one CPU.
            let is_timed = self.alarm.is_none() || at_most < MAX_SLICE;
            if !is_timed {
                self.set_alarm("poll")?;
            }
            let polled = match self.port.wait(events, at_most) {
                Some(found) => found.map(|found| if found { events } else { 0 }),
                None => {
                    let on = if events == READABLE { self.port.readable() } else { self.port.writable() };
                    poll_events(on, events, is_timed.then_some(at_most))
                }
            };
            match polled {
                Ok(ERROR) if self.store_stamps()? => {}
                Ok(0) if left > MAX_SLICE => {}
                Ok(found) => return Ok(found != 0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(WireError::System { operation: "poll", source }),
            }
            match deadline.left() {
                Some(more) => left = more,
                None => return Ok(false),
            }
        }
    }

    /// Stores the time stamps and completions from the error queue. Returns whether the queue had any.
    #[cold]
    fn store_stamps(&mut self) -> Result<bool, WireError> {
        match self.port.stamping() {
            Some((stamping, socket)) if stamping.may_have_entries() => stamping.store(socket).map_err(stamps_error),
            _ => Ok(false),
        }
    }

    /// Removes time stamps from the receive buffer before a read, see [`KernelStamps`]. First waits for data if stamps
    /// may arrive together with the data.
    fn clear_stamps(&mut self) -> Result<(), WireError> {
        if self.port.stamping().is_some_and(|(stamping, _)| stamping.may_arrive_any_time()) {
            let system_calls = self.system_calls;
            let has_data = Wire::wait(self, self.timeout)?;
            self.system_calls = system_calls;
            if !has_data {
                return Err(Deadline::timed_out("receive", self.timeout));
            }
        }
        self.store_stamps().map(|_| ())
    }

    /// Sends `total` bytes. `send` makes one attempt; its arguments are the bytes already sent and whether it may
    /// block.
    #[inline(always)]
    fn send_by(
        &mut self,
        total: usize,
        send: impl Fn(&mut P, usize, bool) -> Result<usize, Miss>,
    ) -> Result<(), WireError> {
        if self.peer_gone {
            return Err(WireError::Closed);
        }
        self.set_alarm("send")?;
        self.system_calls += 1;
        match send(&mut self.port, 0, self.waiting == Waiting::Block) {
            Ok(bytes) if bytes >= total => Ok(()),
            answer => self.send_rest(total, answer, send),
        }
    }

    /// Continues a send after the first attempt.
    #[inline(never)]
    fn send_rest(
        &mut self,
        total: usize,
        mut answer: Result<usize, Miss>,
        send: impl Fn(&mut P, usize, bool) -> Result<usize, Miss>,
    ) -> Result<(), WireError> {
        let may_block = self.waiting == Waiting::Block;
        let mut sent = 0;
        let mut deadline = Deadline::new(self.timeout);
        let mut tries = 0;
        loop {
            match answer {
                Ok(bytes) if bytes >= total - sent => return Ok(()),
                Ok(bytes) => {
                    sent += bytes;
                    deadline = Deadline::new(self.timeout);
                }
                Err(Miss::Nothing) if may_block => break,
                Err(Miss::Nothing | Miss::Again) => {
                    tries += 1;
                    let look = self.waiting != Waiting::Spin || tries % TRIES_PER_CLOCK_READ == 0;
                    if look && deadline.left().is_none() {
                        break;
                    }
                    if self.waiting == Waiting::Poll && !self.wait_for(WRITABLE, &mut deadline)? {
                        break;
                    }
                }
                Err(Miss::Gone | Miss::Ended) => {
                    self.peer_gone = true;
                    return Err(WireError::Closed);
                }
                Err(Miss::Failed(source)) => return Err(WireError::of_call("send", source)),
            }
            self.system_calls += 1;
            answer = send(&mut self.port, sent, may_block);
        }
        Err(Deadline::timed_out("send", self.timeout))
    }
}

impl<P: Port> Wire for DescriptorWire<P> {
    // Part of the closed loops, see `own_type`.
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.send_by(message.len(), |port, sent, may_block| port.send(&message[sent..], may_block))
    }

    #[inline(always)]
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        if let Some(bytes) = self.port.next_stored(into) {
            return Ok(bytes);
        }
        if self.peer_gone {
            return self.drain(into);
        }
        match self.waiting {
            Waiting::Block => self.receive_blocking(into),
            Waiting::Spin => self.receive_spinning(into),
            _ => self.receive_polling(into),
        }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        if let Some(bytes) = self.port.next_stored(into) {
            return Ok(Some(bytes));
        }
        if self.peer_gone {
            return self.drain(into).map(Some);
        }
        for _ in 0..MAX_TRIES {
            match self.receive_available(into) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Miss::Nothing) => return Ok(None),
                Err(Miss::Again) => {}
                Err(miss) => return self.on_closed(miss, into).map(Some),
            }
        }
        Ok(None)
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        self.send_once(bytes, false)
    }

    fn send_batch(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        self.send_messages(messages, size, false)
    }

    fn receive_batch(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        self.receive_messages(into, false)
    }

    fn send_batch_waiting(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        let may_block = self.prepare_blocking("send")?;
        self.send_messages(messages, size, may_block)
    }

    fn send_repeatedly(&mut self, bytes: &[u8], times: u64, waits: bool) -> Result<Repeated, WireError> {
        let may_block = waits && self.prepare_blocking("send")?;
        Repeated::send(bytes.len(), times, || self.send_messages(bytes, bytes.len(), may_block))
    }

    fn receive_batch_waiting(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        let may_block = self.prepare_blocking("receive")?;
        self.receive_messages(into, may_block)
    }

    fn sends_in_flight(&mut self) -> Result<u64, WireError> {
        self.port.sends_in_flight().map_err(|source| WireError::System { operation: "take completions", source })
    }

    fn take_codes(&mut self) -> Option<Codes> {
        self.port.take_codes()
    }

    fn load_file(&mut self, content: &[u8]) -> Result<(), WireError> {
        let failed = |source| WireError::System { operation: "load a file", source };
        if !self.port.sends_files() {
            return Err(failed(io::ErrorKind::Unsupported.into()));
        }
        if self.waiting != Waiting::Block {
            // Unlike send(2), sendfile(2) has no per-call flag.
            set_nonblocking(self.port.writable(), true).map_err(failed)?;
        }
        self.file = Some((memory_file_of(content).map_err(failed)?, content.len()));
        Ok(())
    }

    fn send_file(&mut self, from: usize, to: usize, may_wait: bool) -> Result<usize, WireError> {
        let failed = |kind: io::ErrorKind| WireError::System { operation: "send a file", source: kind.into() };
        if !self.port.sends_files() {
            return Err(failed(io::ErrorKind::Unsupported));
        }
        if self.peer_gone {
            return Err(WireError::Closed);
        }
        let may_block = may_wait && self.prepare_blocking("send a file")?;
        let Some((file, length)) = &self.file else { return Err(failed(io::ErrorKind::InvalidInput)) };
        if from > to || to > *length {
            return Err(failed(io::ErrorKind::InvalidInput));
        }
        self.system_calls += 1;
        let answer = self.port.send_file(file.as_fd(), from, to - from, may_block);
        self.send_result(answer)
    }

    fn as_any(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn into_any(self: Box<Self>) -> Option<Box<dyn Any>> {
        Some(self)
    }

    fn descriptors(&self) -> Option<Descriptors<'_>> {
        Some(Descriptors { readable: self.port.readable(), writable: self.port.writable() })
    }

    fn drive(&mut self) -> Option<Duration> {
        self.port.drive()
    }

    fn readiness(&self) -> Option<Arc<dyn Readiness>> {
        self.port.readiness()
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        if self.peer_gone || self.port.has_stored() {
            return Ok(true);
        }
        let mut deadline = Deadline::from_now(at_most);
        if self.waiting != Waiting::Spin {
            return self.wait_for(READABLE, &mut deadline);
        }
        loop {
            if self.wait_for(READABLE, &mut Deadline::from_now(Duration::ZERO))? {
                return Ok(true);
            }
            if deadline.left().is_none() {
                return Ok(false);
            }
        }
    }

    fn effective(&self) -> Vec<Fact> {
        self.port.facts()
    }

    fn system_calls(&self) -> Option<u64> {
        Some(self.system_calls + self.port.extra_calls())
    }

    fn farewell(&mut self) {
        self.port.farewell();
    }

    fn begin_close(&mut self) {
        self.port.begin_close();
    }

    fn stream(&mut self) -> Option<&mut dyn Stream> {
        if self.port.is_stream() { Some(self) } else { None }
    }

    fn stamp_arrivals(&mut self) -> Result<(), WireError> {
        let begun = self.port.stamp_arrivals();
        begun.map_err(|source| WireError::System { operation: "request time stamps", source })
    }

    fn kernel_stamps(&mut self) -> Option<&mut dyn KernelStamps> {
        if self.port.stamping().is_some() { Some(self) } else { None }
    }
}

fn stamps_error(source: io::Error) -> WireError {
    WireError::System { operation: "take time stamps", source }
}
