//! A wire over file descriptors: waiting by `block`, `poll` and `spin` for all of them.

mod stream;

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hairpin_model::{Fact, Waiting};

use super::port::{Miss, Port, unsupported};
use crate::batch::{Batch, send_each};
use crate::system::alarm::Alarm;
use crate::system::descriptor::{ERROR, READABLE, WRITABLE, poll, poll_events, set_nonblocking};
use crate::system::pipe::memory_file_of;
use crate::wire::{Descriptors, KernelStamps, RawStamp, Repeated, Stream, Wire, WireError};
use crate::wires::{Deadline, LOOK, slice};

/// Attempts of a spinning wire between two clock reads: tens of microseconds, against which the 20 ns of a clock read
/// are negligible.
const TRIES_PER_LOOK: u32 = 256;

/// Maximum time that a call of a one-way load blocks in the kernel before a signal interrupts it.
const MAX_CALL: Duration = Duration::from_millis(50);

/// A wire over one or two descriptors.
pub(crate) struct DescriptorWire<P> {
    port: P,
    waiting: Waiting,
    timeout: Duration,
    /// Interrupts blocking calls, so that their time-out can be checked; present if calls block.
    alarm: Option<Alarm>,
    /// The other end is gone: nothing waits any more, and only the remaining data is received.
    gone: bool,
    /// See [`Wire::system_calls`].
    system_calls: u64,
    /// See [`Wire::load_file`]: the file and its length.
    file: Option<(OwnedFd, usize)>,
}

impl<P: Port> DescriptorWire<P> {
    pub(crate) fn new(port: P, waiting: Waiting, timeout: Duration) -> io::Result<Self> {
        let alarm = (waiting == Waiting::Block).then(|| Alarm::start(timeout)).transpose()?;
        Ok(Self { port, waiting, timeout, alarm, gone: false, system_calls: 0, file: None })
    }

    /// Prepares for a call that may block.
    #[inline]
    fn set_alarm(&mut self, operation: &'static str) -> Result<(), WireError> {
        match &mut self.alarm {
            Some(alarm) => alarm.follow().map_err(|source| WireError::System { operation, source }),
            None => Ok(()),
        }
    }

    /// [`Port::take`], counted.
    #[inline(always)]
    fn take(&mut self, into: &mut [u8], may_block: bool) -> Result<usize, Miss> {
        self.system_calls += 1;
        self.port.take(into, may_block)
    }

    /// Takes what is there and never blocks, even if the descriptor does.
    #[inline]
    fn take_now(&mut self, into: &mut [u8]) -> Result<usize, Miss> {
        // There is no other reader, so data that is there now is there for the read.
        if !P::IS_SOCKET && self.waiting == Waiting::Block {
            self.system_calls += 1;
            if !poll(self.port.readable(), READABLE, Duration::ZERO)? {
                return Err(Miss::Nothing);
            }
        }
        self.take(into, false)
    }

    #[inline(always)]
    fn receive_blocking(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        self.set_alarm("receive")?;
        match self.take(into, true) {
            Ok(bytes) => Ok(bytes),
            Err(miss) => self.receive_again(miss, into),
        }
    }

    /// Continues after the first attempt.
    #[inline(never)]
    fn receive_again(&mut self, mut miss: Miss, into: &mut [u8]) -> Result<usize, WireError> {
        let mut deadline = Deadline::new(self.timeout);
        loop {
            match miss {
                Miss::Nothing => break,
                Miss::Again if deadline.left().is_some() => {}
                Miss::Again => break,
                miss => return self.lost(miss, into),
            }
            match self.take(into, true) {
                Ok(bytes) => return Ok(bytes),
                Err(again) => miss = again,
            }
        }
        Err(Deadline::timed_out("receive", self.timeout))
    }

    #[inline(never)]
    fn receive_polling(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let mut deadline = Deadline::new(self.timeout);
        while self.wait_for(READABLE, &mut deadline)? {
            match self.take(into, false) {
                Ok(bytes) => return Ok(bytes),
                Err(Miss::Nothing | Miss::Again) => {}
                Err(miss) => return self.lost(miss, into),
            }
            // Readable, but nothing to receive (a datagram with a bad checksum, a signal): wait for the rest of the
            // time.
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
            for _ in 0..TRIES_PER_LOOK {
                match self.take(into, false) {
                    Ok(bytes) => return Ok(bytes),
                    Err(Miss::Nothing | Miss::Again) => {}
                    Err(miss) => return self.lost(miss, into),
                }
            }
            if deadline.left().is_none() {
                return Err(Deadline::timed_out("receive", self.timeout));
            }
        }
    }

    /// Handles the end of the other end: returns what it sent before, or that it is closed.
    #[cold]
    fn lost(&mut self, miss: Miss, into: &mut [u8]) -> Result<usize, WireError> {
        match miss {
            Miss::Failed(source) => Err(WireError::System { operation: "receive", source }),
            Miss::Ended => {
                self.gone = true;
                Err(WireError::Closed)
            }
            _ => {
                self.gone = true;
                self.drain(into)
            }
        }
    }

    /// Takes what the other end left behind. A socket may return its error before its data, but only once, so a few
    /// attempts reach the data.
    #[cold]
    fn drain(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        for _ in 0..8 {
            match self.take_now(into) {
                Ok(bytes) => return Ok(bytes),
                Err(Miss::Gone | Miss::Again) => {}
                Err(Miss::Nothing | Miss::Ended) => break,
                Err(Miss::Failed(source)) => return Err(WireError::System { operation: "receive", source }),
            }
        }
        Err(WireError::Closed)
    }

    /// The result of one attempt to send without waiting.
    #[inline(always)]
    fn sent_now(&mut self, answer: Result<usize, Miss>) -> Result<usize, WireError> {
        match answer {
            Ok(bytes) => Ok(bytes),
            Err(miss) => self.unsent(miss),
        }
    }

    #[cold]
    fn unsent(&mut self, miss: Miss) -> Result<usize, WireError> {
        match miss {
            // After a signal there is room as before: the next attempt uses it.
            Miss::Nothing | Miss::Again => Ok(0),
            Miss::Gone | Miss::Ended => {
                self.gone = true;
                Err(WireError::Closed)
            }
            Miss::Failed(source) if source.raw_os_error() == Some(libc::ENOBUFS) => Err(WireError::Refused),
            Miss::Failed(source) => Err(WireError::System { operation: "send", source }),
        }
    }

    /// Takes one piece of a one-way load; `None` if there is none.
    #[inline(always)]
    fn take_piece(&mut self, into: &mut [u8], may_block: bool) -> Result<Option<usize>, WireError> {
        if self.gone {
            return self.drain(into).map(Some);
        }
        self.system_calls += 1;
        let taken = if may_block { self.port.take(into, true) } else { self.port.take_at_once(into) };
        match taken {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Miss::Nothing) => match self.port.nothing_came() {
                Ok(()) => Ok(None),
                Err(source) => Err(WireError::System { operation: "receive", source }),
            },
            Err(Miss::Again) => Ok(None),
            Err(miss) => self.lost(miss, into).map(Some),
        }
    }

    /// Prepares for a call of a one-way load that may wait in the kernel. Returns whether it does on this wire.
    #[inline(always)]
    fn may_wait(&mut self, operation: &'static str) -> Result<bool, WireError> {
        if self.waiting != Waiting::Block {
            return Ok(false);
        }
        self.set_alarm(operation)?;
        let shortened = self.alarm.as_mut().map_or(Ok(()), |alarm| alarm.shorten(MAX_CALL));
        shortened.map(|()| true).map_err(|source| WireError::System { operation, source })
    }

    /// Sends one message, or what one call takes of a stream.
    #[inline(always)]
    fn put_one(&mut self, bytes: &[u8], may_block: bool) -> Result<usize, WireError> {
        if self.gone {
            return Err(WireError::Closed);
        }
        self.system_calls += 1;
        let answer = if may_block { self.port.put(bytes, true) } else { self.port.put_now(bytes) };
        self.sent_now(answer)
    }

    #[inline(always)]
    fn send_messages(&mut self, messages: &[u8], size: usize, may_block: bool) -> Result<usize, WireError> {
        if self.gone {
            return Err(WireError::Closed);
        }
        match self.port.put_batch(messages, size, may_block) {
            Some(answer) => {
                self.system_calls += 1;
                self.sent_now(answer)
            }
            None if self.port.is_stream() || messages.len() <= size => self.put_one(messages, may_block),
            None if may_block => self.put_one(&messages[..size], true),
            None => send_each(messages, size, |message| self.put_one(message, false)),
        }
    }

    #[inline(always)]
    fn receive_messages(&mut self, into: &mut Batch, may_block: bool) -> Result<usize, WireError> {
        if self.port.has_kept() {
            return into.fill(|slot| Ok(self.port.kept(slot)));
        }
        if !self.gone
            && let Some(answer) = self.port.take_batch(into, may_block)
        {
            self.system_calls += 1;
            return match answer {
                Ok(taken) => {
                    self.gone = taken.ended;
                    Ok(taken.pieces)
                }
                Err(Miss::Nothing | Miss::Again) => into.first(|_| Ok(None)),
                Err(miss) => into.first(|slot| self.lost(miss, slot).map(Some)),
            };
        }
        if self.port.is_stream() || may_block {
            into.first(|slot| self.take_piece(slot, may_block))
        } else {
            into.fill(|slot| self.take_piece(slot, false))
        }
    }

    /// `poll` until the deadline, again after a signal or a time stamp, which is not what the caller waits for. A
    /// deadline whose clock has not started lasts the wire's whole time-out.
    fn wait_for(&mut self, events: i16, deadline: &mut Deadline) -> Result<bool, WireError> {
        let mut left = deadline.running().unwrap_or(self.timeout);
        loop {
            self.system_calls += 1;
            let on = if events == READABLE { self.port.readable() } else { self.port.writable() };
            match poll_events(on, events, slice(left)) {
                Ok(ERROR) if self.keep_stamps()? => {}
                Ok(0) if left > LOOK => {}
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

    /// Takes the time stamps and completions that a poll has reported. Returns whether there were any.
    #[cold]
    fn keep_stamps(&mut self) -> Result<bool, WireError> {
        match self.port.stamping() {
            Some((stamping, socket)) if stamping.may_have_news() => stamping.keep(socket).map_err(cannot_take),
            _ => Ok(false),
        }
    }

    /// Takes the time stamps that a read would find in the receive buffer, see [`KernelStamps`]. If they may arrive
    /// with the data to be read, it first waits for that data.
    fn clear_the_way(&mut self) -> Result<(), WireError> {
        if self.port.stamping().is_some_and(|(stamping, _)| stamping.come_at_any_time()) {
            let counted = self.system_calls;
            let has_come = Wire::wait(self, self.timeout)?;
            self.system_calls = counted;
            if !has_come {
                return Err(Deadline::timed_out("receive", self.timeout));
            }
        }
        self.keep_stamps().map(|_| ())
    }

    /// Sends `total` bytes in as many attempts as needed; `put` makes one, given the number of bytes already sent.
    #[inline(always)]
    fn send_by(
        &mut self,
        total: usize,
        put: impl Fn(&mut P, usize, bool) -> Result<usize, Miss>,
    ) -> Result<(), WireError> {
        if self.gone {
            return Err(WireError::Closed);
        }
        self.set_alarm("send")?;
        self.system_calls += 1;
        match put(&mut self.port, 0, self.waiting == Waiting::Block) {
            Ok(bytes) if bytes >= total => Ok(()),
            answer => self.send_rest(total, answer, put),
        }
    }

    /// Continues after the first attempt.
    #[inline(never)]
    fn send_rest(
        &mut self,
        total: usize,
        mut answer: Result<usize, Miss>,
        put: impl Fn(&mut P, usize, bool) -> Result<usize, Miss>,
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
                    let look = self.waiting != Waiting::Spin || tries % TRIES_PER_LOOK == 0;
                    if look && deadline.left().is_none() {
                        break;
                    }
                    if self.waiting == Waiting::Poll && !self.wait_for(WRITABLE, &mut deadline)? {
                        break;
                    }
                }
                Err(Miss::Gone | Miss::Ended) => {
                    self.gone = true;
                    return Err(WireError::Closed);
                }
                Err(Miss::Failed(source)) => return Err(WireError::System { operation: "send", source }),
            }
            self.system_calls += 1;
            answer = put(&mut self.port, sent, may_block);
        }
        Err(Deadline::timed_out("send", self.timeout))
    }
}

impl<P: Port> Wire for DescriptorWire<P> {
    // Part of the closed loops, see `own_type`.
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.send_by(message.len(), |port, sent, may_block| port.put(&message[sent..], may_block))
    }

    #[inline(always)]
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        if let Some(bytes) = self.port.kept(into) {
            return Ok(bytes);
        }
        if self.gone {
            return self.drain(into);
        }
        match self.waiting {
            Waiting::Block => self.receive_blocking(into),
            Waiting::Poll => self.receive_polling(into),
            Waiting::Spin => self.receive_spinning(into),
        }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        if let Some(bytes) = self.port.kept(into) {
            return Ok(Some(bytes));
        }
        if self.gone {
            return self.drain(into).map(Some);
        }
        loop {
            match self.take_now(into) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Miss::Nothing) => return Ok(None),
                Err(Miss::Again) => {}
                Err(miss) => return self.lost(miss, into).map(Some),
            }
        }
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        self.put_one(bytes, false)
    }

    fn send_batch(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        self.send_messages(messages, size, false)
    }

    fn receive_batch(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        self.receive_messages(into, false)
    }

    fn send_batch_waiting(&mut self, messages: &[u8], size: usize) -> Result<usize, WireError> {
        let may_block = self.may_wait("send")?;
        self.send_messages(messages, size, may_block)
    }

    fn send_repeatedly(&mut self, bytes: &[u8], times: u64, waits: bool) -> Result<Repeated, WireError> {
        let may_block = waits && self.may_wait("send")?;
        Repeated::of(bytes.len(), times, || self.send_messages(bytes, bytes.len(), may_block))
    }

    fn receive_batch_waiting(&mut self, into: &mut Batch) -> Result<usize, WireError> {
        let may_block = self.may_wait("receive")?;
        self.receive_messages(into, may_block)
    }

    fn sends_in_flight(&mut self) -> Result<u64, WireError> {
        self.port.sends_in_flight().map_err(|source| WireError::System { operation: "take completions", source })
    }

    fn load_file(&mut self, content: &[u8]) -> Result<(), WireError> {
        let failed = |source| WireError::System { operation: "load a file", source };
        if !self.port.is_stream() {
            return Err(failed(io::ErrorKind::Unsupported.into()));
        }
        if self.waiting != Waiting::Block {
            // All other calls request per call that they do not wait.
            set_nonblocking(self.port.writable(), true).map_err(failed)?;
        }
        self.file = Some((memory_file_of(content).map_err(failed)?, content.len()));
        Ok(())
    }

    fn send_file(&mut self, from: usize, to: usize, may_wait: bool) -> Result<usize, WireError> {
        let failed = |kind: io::ErrorKind| WireError::System { operation: "send a file", source: kind.into() };
        if !self.port.is_stream() {
            return Err(failed(io::ErrorKind::Unsupported));
        }
        if self.gone {
            return Err(WireError::Closed);
        }
        let may_block = may_wait && self.may_wait("send a file")?;
        let Some((file, length)) = &self.file else { return Err(failed(io::ErrorKind::InvalidInput)) };
        if from > to || to > *length {
            return Err(failed(io::ErrorKind::InvalidInput));
        }
        self.system_calls += 1;
        let answer = self.port.put_file(file.as_fd(), from, to - from, may_block);
        self.sent_now(answer)
    }

    fn as_any(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn descriptors(&self) -> Option<Descriptors<'_>> {
        Some(Descriptors { readable: self.port.readable(), writable: self.port.writable() })
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        if self.gone || self.port.has_kept() {
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
        Some(self.system_calls + self.port.more_calls())
    }

    fn farewell(&mut self) {
        self.port.farewell();
    }

    fn stream(&mut self) -> Option<&mut dyn Stream> {
        if self.port.is_stream() { Some(self) } else { None }
    }

    fn kernel_stamps(&mut self) -> Option<&mut dyn KernelStamps> {
        if self.port.stamping().is_some() { Some(self) } else { None }
    }
}

impl<P: Port> KernelStamps for DescriptorWire<P> {
    fn begin(&mut self, acknowledged: bool) -> Result<(), WireError> {
        let stamping = self.port.stamping().ok_or_else(unsupported);
        let begun = stamping.and_then(|(stamping, socket)| stamping.begin(socket, acknowledged));
        begun.map_err(|source| WireError::System { operation: "ask for time stamps", source })
    }

    fn take(&mut self, into: &mut Vec<RawStamp>) -> Result<(), WireError> {
        let (stamping, socket) = self.port.stamping().ok_or_else(unsupported).map_err(cannot_take)?;
        stamping.take(socket, into).map_err(cannot_take)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<(usize, Option<u64>), WireError> {
        self.clear_the_way()?;
        let bytes = Wire::receive(self, into)?;
        Ok((bytes, self.port.stamping().and_then(|(stamping, _)| stamping.received_ns())))
    }
}

fn cannot_take(source: io::Error) -> WireError {
    WireError::System { operation: "take time stamps", source }
}
