//! `uring`: one call submits an answer and the next receive, and waits for both.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::time::Duration;

use hairpin_model::{Waiting, WhyNot};

use super::wire::{MIN_PIECE, Method, SocketWire, Sockets, impossible, piece};
use crate::system::alarm::Alarm;
use crate::system::uring::{Completed, Ring};
use crate::wire::{Setup, TransportError, Wire, WireError};
use crate::wires::{Deadline, MAX_SLICE, failed, slice};

const HINT: &str = "sysctl kernel.io_uring_disabled, a seccomp filter or RLIMIT_MEMLOCK may forbid it";

/// Whether this process may set an io_uring up.
///
/// # Errors
/// The kernel's reason, with a hint.
pub fn may_use_io_uring() -> Result<(), WhyNot> {
    let tried = Ring::new(1, MIN_PIECE, false, false);
    tried.map(drop).map_err(|source| WhyNot::new(format!("cannot set up an io_uring: {source}"), HINT))
}

pub(crate) struct Uring {
    ring: Ring,
    /// Interrupts waits, so that the deadline can be checked.
    alarm: Alarm,
    is_stream: bool,
    /// Sockets without a receive in flight, whose memory may be received into.
    idle: Vec<usize>,
    received: VecDeque<(usize, io::Result<usize>)>,
    /// Bytes of a stream that were received and not taken yet.
    rest: Option<(usize, Range<usize>)>,
    /// The socket of the send in flight, and the bytes of it that were not sent yet.
    sending: (usize, Range<usize>),
}

impl Uring {
    pub(super) fn of(sockets: &Sockets, setup: &Setup) -> Result<Self, TransportError> {
        if setup.codes.is_some() {
            let hint = "use another waiting, or a transport with connections";
            return Err(impossible("io_uring does not check the codes of datagrams", hint));
        }
        let is_stream = sockets.wires[0].is_byte_stream();
        let piece = piece(setup, is_stream);
        let (count, sqpoll) = (sockets.wires.len(), setup.waiting == Waiting::UringSqpoll);
        let ring = Ring::new(count, piece, !is_stream, sqpoll);
        let ring = ring.map_err(|source| failed("set up", "an io_uring", source, HINT))?;
        let alarm = Alarm::start(sockets.timeout);
        let alarm = alarm.map_err(|source| failed("set an alarm for", "the socket", source, "see `ulimit -i`"))?;
        let (idle, received) = ((0..count).collect(), VecDeque::with_capacity(count));
        Ok(Self { ring, alarm, is_stream, idle, received, rest: None, sending: (0, 0..0) })
    }

    /// Submits what is queued, waits for `wanted` completions, up to `at_most`, and takes all completions.
    #[inline(always)]
    fn enter(&mut self, of: &mut Sockets, wanted: usize, at_most: Duration) -> Result<(), WireError> {
        let entered = if at_most < MAX_SLICE {
            self.ring.enter_for(wanted, at_most)
        } else {
            self.alarm.follow().and_then(|()| self.ring.enter(wanted))
        };
        entered.map_err(|source| system("enter an io_uring", source))?;
        while let Some(completed) = self.ring.next() {
            match completed {
                Completed::Receive(place, answer) => self.received.push_back((place, answer)),
                Completed::Send(answer) => self.on_sent(of, answer)?,
            }
        }
        Ok(())
    }

    /// Sends the rest, if the kernel did not take all.
    #[inline(always)]
    fn on_sent(&mut self, of: &mut Sockets, answer: io::Result<usize>) -> Result<(), WireError> {
        let (place, left) = &mut self.sending;
        let wire = &mut of.wires[*place];
        left.start += wire.sent(answer)?;
        match wire.descriptors() {
            Some(on) if left.start < left.end => {
                self.ring.queue_rest(on.writable, left.start, left.end).map_err(|source| system("send", source))
            }
            _ => Ok(()),
        }
    }

    /// Waits until the send in flight is complete.
    #[inline]
    fn finish_send(&mut self, of: &mut Sockets) -> Result<(), WireError> {
        let (timeout, mut deadline) = (of.timeout, Deadline::new(of.timeout));
        while self.ring.is_sending() {
            let left = deadline.left();
            if left.is_none() {
                self.ring.cancel_send();
            }
            match self.enter(of, usize::from(left.is_some()), left.map_or(Duration::ZERO, slice)) {
                Err(WireError::System { source, .. }) if source.raw_os_error() == Some(libc::ECANCELED) => {}
                entered => entered?,
            }
            if left.is_none() && (self.ring.is_sending() || self.sending.1.start < self.sending.1.end) {
                return Err(Deadline::timed_out("send", timeout));
            }
        }
        Ok(())
    }
}

impl Method for Uring {
    const READS_SOCKETS: bool = false;

    #[inline(always)]
    fn wait(&mut self, of: &mut Sockets, at_most: Duration) -> Result<Option<usize>, WireError> {
        if let Some((place, _)) = &self.rest {
            return Ok(Some(*place));
        }
        while let Some(place) = self.idle.pop() {
            if let Some(on) = of.wires[place].descriptors() {
                let queued = self.ring.queue_receive(place, on.readable);
                queued.map_err(|source| system("receive", source))?;
            }
        }
        if self.received.is_empty() {
            let wanted = if at_most.is_zero() { 0 } else { 1 + usize::from(self.ring.is_sending()) };
            self.enter(of, wanted, at_most)?;
        }
        Ok(self.received.front().map(|(place, _)| *place))
    }

    #[inline(always)]
    fn take(&mut self, from: &mut SocketWire, place: usize, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        let Some(memory) = self.ring.received(place) else { return Ok(None) };
        let range = match self.rest.take() {
            Some((_, range)) => range,
            None => {
                let Some((_, received)) = self.received.pop_front() else { return Ok(None) };
                self.idle.push(place);
                match from.examined(received, memory)? {
                    Some(bytes) => 0..bytes,
                    None => return Ok(None),
                }
            }
        };
        let bytes = range.len().min(into.len());
        into[..bytes].copy_from_slice(&memory[range.start..range.start + bytes]);
        if self.is_stream && bytes < range.len() {
            self.rest = Some((place, range.start + bytes..range.end));
        }
        Ok(Some(bytes))
    }

    #[inline(always)]
    fn send(&mut self, of: &mut Sockets, message: &[u8], before_receive: bool) -> Result<(), WireError> {
        let is_too_long = !self.is_stream && message.len() > self.ring.piece();
        if is_too_long || of.current().is_peer_gone() {
            return of.current().send(message);
        }
        let mut left = message;
        loop {
            self.finish_send(of)?;
            let place = of.at;
            let Some(on) = of.wires[place].descriptors() else { return Err(WireError::Closed) };
            let queued = self.ring.queue_send(on.writable, left).map_err(|source| system("send", source))?;
            self.sending = (place, 0..queued);
            left = &left[queued..];
            if left.is_empty() {
                return if before_receive { Ok(()) } else { self.finish_send(of) };
            }
        }
    }

    fn system_calls(&self) -> u64 {
        self.ring.calls()
    }
}

fn system(operation: &'static str, source: io::Error) -> WireError {
    WireError::of_call(operation, source)
}
