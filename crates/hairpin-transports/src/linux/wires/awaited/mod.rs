//! Wires that wait in a way of their own for the answers of round trips, on one socket or on several together.
//!
//! The way is chosen when the wire is made. All calls but those of round trips are the socket's own, in the basic mode of the
//! waiting ([`Waiting::basic`]).

mod in_runtime;
mod ready;
#[cfg(feature = "async")]
mod runtime;
mod spin_then_block;
mod threads;
mod uring;
mod wire;

use hairpin_model::Waiting;

use crate::system::sockopt;
use crate::wire::{Setup, TransportError, Wire};
use crate::wires::failed;
use ready::{Epolled, Polled, Spun};
use spin_then_block::SpinThenBlock;
use threads::Threads;
use uring::Uring;
pub use uring::may_use_io_uring;
use wire::{AwaitedWire, SocketWire, Sockets, boxed, impossible};

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
        Waiting::ThreadPerConnection => Ok(boxed(Threads::of(&of, setup)?, of)),
        #[cfg(feature = "async")]
        Waiting::Async | Waiting::AsyncThreads => runtime::awaited(of, setup.waiting),
        _ => Err(impossible(
            &format!("an end that waits by {} waits for one connection only", setup.waiting),
            "use epoll, or one connection",
        )),
    }
}
