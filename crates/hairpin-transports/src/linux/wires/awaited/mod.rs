//! Wires that wait in a way of their own for the answers of round trips, on one socket or on several together.
//!
//! The way is chosen when the wire is made. All calls but those of round trips are the socket's own, in the basic mode of the
//! waiting ([`Waiting::basic`]).

mod ready;
#[cfg(feature = "async")]
mod runtime;
mod spin_then_block;
mod uring;

use std::any::Any;
use std::time::Duration;

use hairpin_model::{Fact, Waiting, WhyNot};

use super::socket::SocketWire;
use crate::system::sockopt;
use crate::wire::{Descriptors, InRuntime, KernelStamps, Setup, Stream, TransportError, Wire, WireError};
use crate::wires::{Deadline, failed, slice};
use ready::{Epolled, Polled, Spun};
use spin_then_block::SpinThenBlock;
use uring::Uring;
pub use uring::may_use_io_uring;

/// A way to wait.
pub(crate) trait Method: Send + Sized + 'static {
    /// Whether the sockets' own calls receive, which take the kernel's time stamps too.
    const READS_SOCKETS: bool = true;

    /// Waits without a result between two readings of the clock.
    const WAITS_PER_CLOCK_READ: u32 = 1;

    /// Waits until a socket may have data, `at_most` so long. Returns its place; `None` for a wait without a result.
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

    /// See [`Wire::in_runtime`].
    fn in_runtime(_: &mut AwaitedWire<Self>) -> Option<&mut dyn InRuntime> {
        None
    }
}

/// The sockets of a wire.
pub(crate) struct Sockets {
    wires: Vec<SocketWire>,
    /// The place of the socket that was used last.
    at: usize,
    /// Whether each message goes to the next socket. Otherwise it goes to that of the last message received.
    takes_turns: bool,
    timeout: Duration,
}

impl Sockets {
    fn of(wires: Vec<SocketWire>, takes_turns: bool) -> Self {
        let timeout = wires[0].timeout();
        Self { wires, at: 0, takes_turns, timeout }
    }

    #[inline(always)]
    fn current(&mut self) -> &mut SocketWire {
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
    of: Sockets,
    method: M,
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

/// The wires for which loops are compiled, see [`crate::own_type`].
pub(crate) type EpolledWire = AwaitedWire<Epolled>;
pub(crate) type UringWire = AwaitedWire<Uring>;
pub(crate) type SpinThenBlockWire = AwaitedWire<SpinThenBlock>;

/// Makes a socket wait as the setup says.
pub(super) fn awaited(wire: SocketWire, setup: &Setup) -> Result<Box<dyn Wire>, TransportError> {
    if setup.waiting == Waiting::BusyPoll {
        busy_poll(&wire)?;
        return Ok(Box::new(wire));
    }
    if Waiting::BASIC.contains(&setup.waiting) || setup.connections > 1 {
        return Ok(Box::new(wire));
    }
    together(vec![wire], setup, false)
}

/// How long the kernel busy-polls the device in a receive call, in us.
const BUSY_POLL_US: i32 = 50;

fn busy_poll(wire: &SocketWire) -> Result<(), TransportError> {
    let Some(on) = wire.descriptors() else { return Ok(()) };
    if sockopt::get(on.readable, sockopt::INCOMING_NAPI_ID).unwrap_or(0) == 0 {
        let reason =
            "its packets come from a device without a queue to busy-poll (NAPI id 0), as loopback and veth are";
        return Err(impossible(reason, "use --waiting spin, or a path over a network card"));
    }
    sockopt::set(on.readable, sockopt::BUSY_POLL, BUSY_POLL_US).map_err(|source| {
        failed("set SO_BUSY_POLL of", "the socket", source, "values above net.core.busy_read need CAP_NET_ADMIN")
    })
}

/// Makes several connections one wire, which waits for all of them: each message goes to the next connection if
/// `takes_turns`, else to that of the last message received.
///
/// # Errors
/// [`TransportError::Impossible`] if the connections cannot be joined, or cannot wait together in this way.
pub fn join(wires: Vec<Box<dyn Wire>>, setup: &Setup, takes_turns: bool) -> Result<Box<dyn Wire>, TransportError> {
    let socket = |wire: Box<dyn Wire>| wire.into_any()?.downcast::<SocketWire>().ok().map(|wire| *wire);
    let sockets: Option<Vec<SocketWire>> = wires.into_iter().map(socket).collect();
    match sockets {
        Some(sockets) if !sockets.is_empty() => together(sockets, setup, takes_turns),
        _ => Err(impossible("its connections cannot wait together", "use tcp, udp or a Unix socket")),
    }
}

fn together(wires: Vec<SocketWire>, setup: &Setup, takes_turns: bool) -> Result<Box<dyn Wire>, TransportError> {
    let several = wires.len() > 1;
    let of = Sockets::of(wires, takes_turns);
    let no_epoll = |source| failed("watch by epoll", "the sockets", source, "is a limit of descriptors reached?");
    match setup.waiting {
        Waiting::Poll => Ok(boxed(Polled::of(&of), of)),
        Waiting::Spin => Ok(boxed(Spun::default(), of)),
        Waiting::Epoll => Ok(boxed(Epolled::of(&of).map_err(no_epoll)?, of)),
        Waiting::SpinThenBlock if !several => Ok(boxed(SpinThenBlock, of)),
        Waiting::Uring | Waiting::UringSqpoll => Ok(boxed(Uring::of(&of, setup)?, of)),
        #[cfg(feature = "async")]
        Waiting::Async | Waiting::AsyncThreads => runtime::awaited(of, setup.waiting),
        _ => Err(impossible(
            &format!("an end that waits by {} waits for one connection only", setup.waiting),
            "use epoll, or one connection",
        )),
    }
}

fn boxed<M: Method>(method: M, of: Sockets) -> Box<dyn Wire> {
    Box::new(AwaitedWire { of, method })
}

fn impossible(reason: &str, hint: &str) -> TransportError {
    TransportError::Impossible(WhyNot::new(reason, hint))
}
