//! `async` and `async-threads`: tasks of a tokio runtime.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hairpin_model::Waiting;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use super::in_runtime::{Driven, Received, TICKS_PER_TIMEOUT};
use super::wire::{AwaitedWire, Method, SocketWire, Sockets};
use crate::system::descriptor::read;
use crate::system::watched::{ticks, watch};
use crate::wire::{InRuntime, Runtime, Task, TransportError, Wire, WireError};
use crate::wires::{Deadline, failed};

/// Most bytes of a stream that are received before they are asked for.
const AHEAD_BYTES: usize = 4 << 10;

/// The part of a wire that belongs to the runtime.
pub(crate) struct Tokio {
    ready: Readiness,
    ahead: Ahead,
    /// Wakes the task to check its deadline.
    tick: AsyncFd<OwnedFd>,
    /// Set while the task waits.
    deadline: Option<Deadline>,
    runtime: Arc<Tasks>,
}

struct Tasks(tokio::runtime::Runtime);

/// What was received of a stream beyond a message. Room for more than a message shows without another call that there is no more.
struct Ahead {
    memory: Box<[u8]>,
    rest: Range<usize>,
}

impl Ahead {
    /// Takes what was received before.
    #[inline]
    fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        let bytes = self.rest.len().min(into.len());
        into[..bytes].copy_from_slice(&self.memory[self.rest.start..self.rest.start + bytes]);
        self.rest.start += bytes;
        (bytes > 0).then_some(bytes)
    }

    /// Receives with one call. Returns the bytes taken, and whether the socket has no more.
    #[inline]
    fn receive(&mut self, from: &mut SocketWire, into: &mut [u8]) -> Result<Option<(usize, bool)>, WireError> {
        if !from.is_byte_stream() || into.len() >= self.memory.len() {
            let received = from.attempt(into)?;
            return Ok(received.map(|bytes| (bytes, from.is_byte_stream() && bytes < into.len())));
        }
        let Some(bytes) = from.attempt(&mut self.memory)? else { return Ok(None) };
        self.rest = 0..bytes;
        Ok(self.take(into).map(|taken| (taken, bytes < self.memory.len())))
    }
}

/// Who tells that there is data.
enum Readiness {
    Socket(AsyncFd<OwnedFd>),
    /// A task for each socket, by its place.
    Tasks(mpsc::Receiver<usize>),
}

pub(super) fn awaited(of: Sockets, waiting: Waiting) -> Result<Box<dyn Wire>, TransportError> {
    let error = |source| failed("start", "a tokio runtime", source, "is a limit of threads or descriptors reached?");
    let runtime = match waiting.more_threads(1) as usize {
        0 => Builder::new_current_thread().enable_io().build(),
        workers => Builder::new_multi_thread().worker_threads(workers).enable_io().build(),
    };
    let runtime = runtime.map_err(error)?;
    let entered = runtime.enter();
    let ready = ready_of(&of, &runtime).map_err(error)?;
    let tick = ticks(of.timeout / TICKS_PER_TIMEOUT).map_err(error)?;
    drop(entered);
    let ahead = Ahead { memory: vec![0; AHEAD_BYTES].into(), rest: 0..0 };
    let method = Tokio { ready, ahead, tick, deadline: None, runtime: Arc::new(Tasks(runtime)) };
    Ok(Box::new(AwaitedWire { of, method }))
}

fn ready_of(of: &Sockets, runtime: &tokio::runtime::Runtime) -> io::Result<Readiness> {
    let mut registered = Vec::new();
    for (_, on) in of.descriptors() {
        registered.push(watch(on.readable)?);
    }
    if registered.len() == 1
        && let Some(only) = registered.pop()
    {
        return Ok(Readiness::Socket(only));
    }
    let (tell, told) = mpsc::channel(registered.len());
    for (place, socket) in registered.into_iter().enumerate() {
        let tell = tell.clone();
        runtime.spawn(async move {
            while let Ok(mut ready) = socket.readable().await {
                // The descriptor is edge-triggered: the next data make it ready again.
                ready.clear_ready();
                if tell.send(place).await.is_err() {
                    break;
                }
            }
        });
    }
    Ok(Readiness::Tasks(told))
}

impl Runtime for Tasks {
    fn block_on(&self, task: Task<'_>) -> Result<(), TransportError> {
        self.0.block_on(task);
        Ok(())
    }
}

/// Outside of the runtime, the wire polls the socket.
impl Method for Tokio {
    fn wait(&mut self, of: &mut Sockets, at_most: Duration) -> Result<Option<usize>, WireError> {
        Ok((!self.ahead.rest.is_empty() || of.current().wait(at_most)?).then_some(of.at))
    }

    fn take(&mut self, from: &mut SocketWire, _place: usize, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        match self.ahead.take(into) {
            None => from.attempt(into),
            taken => Ok(taken),
        }
    }

    fn in_runtime(wire: &mut AwaitedWire<Self>) -> Option<&mut dyn InRuntime> {
        Some(wire)
    }
}

impl Driven for Tokio {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.runtime) as Arc<dyn Runtime>
    }

    fn has_ticked(&mut self, context: &mut Context<'_>) -> bool {
        let mut has_ticked = false;
        while let Poll::Ready(Ok(mut ready)) = self.tick.poll_read_ready(context) {
            // A periodic timer continues only after its expirations have been read.
            drop(read(self.tick.get_ref().as_fd(), &mut [0; 8]));
            ready.clear_ready();
            has_ticked = true;
        }
        has_ticked
    }

    fn deadline(&mut self) -> &mut Option<Deadline> {
        &mut self.deadline
    }

    fn poll_ready(&mut self, of: &mut Sockets, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Received> {
        match &mut self.ready {
            Readiness::Socket(socket) => loop {
                if let Some(bytes) = self.ahead.take(into) {
                    return Poll::Ready(Ok(bytes));
                }
                let Ok(mut ready) = ready!(socket.poll_read_ready(context)) else {
                    return Poll::Ready(Err(WireError::Closed));
                };
                match self.ahead.receive(of.current(), into)? {
                    Some((bytes, is_empty)) => {
                        if is_empty {
                            ready.clear_ready();
                        }
                        return Poll::Ready(Ok(bytes));
                    }
                    None => ready.clear_ready(),
                }
            },
            Readiness::Tasks(told) => loop {
                if let Some(bytes) = of.current().attempt(into)? {
                    return Poll::Ready(Ok(bytes));
                }
                match ready!(told.poll_recv(context)) {
                    Some(place) => of.at = place,
                    None => return Poll::Ready(Err(WireError::Closed)),
                }
            },
        }
    }
}
