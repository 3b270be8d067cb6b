//! `async` and `async-threads`: tasks of a tokio runtime.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hairpin_model::Waiting;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use super::in_runtime::{Driven, Received, TICKS_PER_TIMEOUT};
use super::wire::{AwaitedWire, Method, Sockets};
use crate::system::descriptor::read;
use crate::system::watched::{ticks, watch};
use crate::wire::{InRuntime, Runtime, Task, TransportError, Wire, WireError};
use crate::wires::{Deadline, failed};

/// The part of a wire that belongs to the runtime.
pub(crate) struct Tokio {
    ready: Readiness,
    /// Wakes the task to check its deadline.
    tick: AsyncFd<OwnedFd>,
    /// Set while the task waits.
    deadline: Option<Deadline>,
    runtime: Arc<Tasks>,
}

struct Tasks(tokio::runtime::Runtime);

/// Who tells that there is data.
enum Readiness {
    /// The only socket.
    Socket(AsyncFd<OwnedFd>),
    /// A task for each socket, by its place.
    Tasks(mpsc::Receiver<usize>),
}

/// Makes the sockets wait in a runtime.
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
    let method = Tokio { ready, tick, deadline: None, runtime: Arc::new(Tasks(runtime)) };
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
        Ok(of.current().wait(at_most)?.then_some(of.at))
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
            // A periodic timer goes on only when its expirations have been read.
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
                let Ok(mut ready) = ready!(socket.poll_read_ready(context)) else {
                    return Poll::Ready(Err(WireError::Closed));
                };
                match of.current().attempt(into)? {
                    Some(bytes) => {
                        // A buffer that is not full has taken all bytes of a stream.
                        if bytes < into.len() && of.current().is_byte_stream() {
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
