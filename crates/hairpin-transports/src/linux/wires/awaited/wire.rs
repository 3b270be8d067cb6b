//! A wire over sockets that wait together, by a method.

use std::any::Any;
use std::time::Duration;

use hairpin_model::{Fact, WhyNot};

use crate::linux::wires::descriptor::DescriptorWire;
use crate::linux::wires::socket_port::SocketPort;
use crate::wire::{Descriptors, InRuntime, KernelStamps, Setup, Stream, TransportError, Wire, WireError};
use crate::wires::{Deadline, slice};

pub(crate) type SocketWire = DescriptorWire<SocketPort>;

/// A way to wait.
pub(crate) trait Method: Send + Sized + 'static {
    /// Whether the sockets' own calls receive, which take the kernel's time stamps too.
    const READS_SOCKETS: bool = true;

    /// Waits without a result between two readings of the clock.
    const WAITS_PER_CLOCK_READ: u32 = 1;

    /// Waits until a socket may have data or the time `at_most` has passed. Returns its index; `None` without data.
    fn wait(&mut self, of: &mut Sockets, at_most: Duration) -> Result<Option<usize>, WireError>;

    /// Receives from a socket that may have data; `None` without a message.
    #[inline(always)]
    fn take(&mut self, from: &mut SocketWire, _place: usize, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        from.attempt(into)
    }

    /// Receives a message, or some bytes of a stream. Sets the place of their socket.
    #[inline(always)]
    fn receive(&mut self, of: &mut Sockets, into: &mut [u8]) -> Result<usize, WireError> {
        if of.current().is_pending()
            && let Some(bytes) = of.current().attempt(into)?
        {
            return Ok(bytes);
        }
        let mut deadline = Deadline::new(of.timeout);
        let mut left = of.timeout;
        loop {
            for _ in 0..Self::WAITS_PER_CLOCK_READ {
                if let Some(place) = self.wait(of, slice(left))?
                    && let Some(bytes) = self.take(&mut of.wires[place], place, into)?
                {
                    of.at = place;
                    return Ok(bytes);
                }
            }
            match deadline.left() {
                Some(more) => left = more,
                None => return Err(Deadline::timed_out("receive", of.timeout)),
            }
        }
    }

    /// Sends a message, see [`Wire::send`] and [`Wire::send_before_receive`].
    #[inline(always)]
    fn send(&mut self, of: &mut Sockets, message: &[u8], _before_receive: bool) -> Result<(), WireError> {
        of.current().send(message)
    }

    /// System calls besides those of the sockets.
    fn system_calls(&self) -> u64 {
        0
    }

    fn in_runtime(_: &mut AwaitedWire<Self>) -> Option<&mut dyn InRuntime> {
        None
    }
}

pub(crate) struct Sockets {
    pub(super) wires: Vec<SocketWire>,
    /// The place of the socket that was used last.
    pub(super) at: usize,
    /// Whether each message goes to the next socket. Otherwise it goes to that of the last message received.
    takes_turns: bool,
    pub(super) timeout: Duration,
}

impl Sockets {
    pub(super) fn of(wires: Vec<SocketWire>, takes_turns: bool) -> Self {
        let timeout = wires[0].timeout();
        Self { wires, at: 0, takes_turns, timeout }
    }

    #[inline(always)]
    pub(super) fn current(&mut self) -> &mut SocketWire {
        &mut self.wires[self.at]
    }

    #[inline(always)]
    fn take_turn(&mut self) {
        if self.takes_turns {
            self.at = if self.at + 1 == self.wires.len() { 0 } else { self.at + 1 };
        }
    }

    fn system_calls(&self) -> u64 {
        self.wires.iter().filter_map(SocketWire::system_calls).sum()
    }
}

/// A wire over sockets that wait together.
pub(crate) struct AwaitedWire<M> {
    pub(super) of: Sockets,
    pub(super) method: M,
}

impl<M: Method> Wire for AwaitedWire<M> {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.of.take_turn();
        self.method.send(&mut self.of, message, false)
    }

    #[inline(always)]
    fn send_before_receive(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.of.take_turn();
        self.method.send(&mut self.of, message, true)
    }

    #[inline(always)]
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        self.method.receive(&mut self.of, into)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        if self.of.current().is_pending() {
            return self.of.current().try_receive(into);
        }
        let Some(place) = self.method.wait(&mut self.of, Duration::ZERO)? else { return Ok(None) };
        self.of.at = place;
        self.method.take(&mut self.of.wires[place], place, into)
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        if self.of.current().is_pending() {
            return Ok(true);
        }
        let mut deadline = Deadline::from_now(at_most);
        while let Some(left) = deadline.left() {
            if self.method.wait(&mut self.of, slice(left))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        self.of.current().try_send(bytes)
    }

    fn descriptors(&self) -> Option<Descriptors<'_>> {
        self.of.wires[0].descriptors()
    }

    fn effective(&self) -> Vec<Fact> {
        self.of.wires[0].effective()
    }

    fn system_calls(&self) -> Option<u64> {
        Some(self.of.system_calls() + self.method.system_calls())
    }

    fn farewell(&mut self) {
        self.of.wires.iter_mut().for_each(Wire::farewell);
    }

    fn stream(&mut self) -> Option<&mut dyn Stream> {
        self.of.wires[0].stream()
    }

    fn stamp_arrivals(&mut self) -> Result<(), WireError> {
        self.of.wires[0].stamp_arrivals()
    }

    fn kernel_stamps(&mut self) -> Option<&mut dyn KernelStamps> {
        if M::READS_SOCKETS { self.of.wires[0].kernel_stamps() } else { None }
    }

    fn as_any(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn in_runtime(&mut self) -> Option<&mut dyn InRuntime> {
        M::in_runtime(self)
    }
}

/// Most bytes of a stream in one receive or send outside of the sockets' own calls.
const MAX_PIECE: usize = 64 << 10;
/// Room for a repeated hello after a message.
pub(super) const MIN_PIECE: usize = 64;

/// Bytes of memory for a receive outside of the sockets' own calls.
pub(super) fn piece(setup: &Setup, is_stream: bool) -> usize {
    let piece = setup.largest_message.saturating_add(MIN_PIECE);
    if is_stream { piece.min(MAX_PIECE) } else { piece }
}

pub(super) fn boxed<M: Method>(method: M, of: Sockets) -> Box<dyn Wire> {
    Box::new(AwaitedWire { of, method })
}

pub(super) fn impossible(reason: &str, hint: &str) -> TransportError {
    TransportError::Impossible(WhyNot::new(reason, hint))
}
