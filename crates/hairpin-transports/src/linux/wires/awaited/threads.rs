//! `thread-per-connection`: a thread for each connection sleeps in its receive call, and runs the loop for the messages that it
//! receives. So each end has one wake-up for each message, as with `block`, and no thread waits for another one.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use super::in_runtime::{Driven, Received, TICKS_PER_TIMEOUT};
use super::wire::{AwaitedWire, Method, SocketWire, Sockets, piece};
use crate::system::alarm;
use crate::system::process::thread_id;
use crate::system::socket;
use crate::wire::{InRuntime, Runtime, Setup, Task, TransportError, Wire, WireError};
use crate::wires::{Deadline, failed};

/// Stack of a thread. Beside the loop it has room for what ends do when the measurement begins and ends.
const STACK_BYTES: usize = 256 << 10;
/// Interval between attempts to interrupt the receive calls when the loop is over.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) struct Threads {
    shared: Arc<Shared>,
    deadline: Option<Deadline>,
}

struct Shared {
    /// Copies, for the receive calls of the threads.
    sockets: Vec<OwnedFd>,
    /// Most bytes of a receive call.
    piece: usize,
    is_stream: bool,
    tick: Duration,
    inbox: Mutex<Inbox>,
}

/// What the threads have received and the loop has not taken yet.
#[derive(Default)]
struct Inbox {
    pieces: VecDeque<Piece>,
    /// Memory for the next receive calls.
    unused: Vec<Box<[u8]>>,
    has_ticked: bool,
    receive_calls: u64,
}

struct Piece {
    place: usize,
    content: Content,
    memory: Box<[u8]>,
}

enum Content {
    /// The result of a receive call.
    New(io::Result<usize>),
    /// Bytes of a stream that the loop has not taken yet.
    Rest(Range<usize>),
}

impl Threads {
    pub(super) fn of(of: &Sockets, setup: &Setup) -> Result<Self, TransportError> {
        let copies = of.descriptors().map(|(_, on)| on.readable.try_clone_to_owned());
        let sockets = copies.collect::<io::Result<_>>().map_err(|source| {
            failed("copy the descriptor of", "a socket", source, "is the limit of descriptors reached?")
        })?;
        let is_stream = of.wires[0].is_byte_stream();
        let (piece, tick, inbox) = (piece(setup, is_stream), of.timeout / TICKS_PER_TIMEOUT, Mutex::default());
        Ok(Self { shared: Arc::new(Shared { sockets, piece, is_stream, tick, inbox }), deadline: None })
    }
}

/// Outside of the loop, the wire polls the sockets.
impl Method for Threads {
    const READS_SOCKETS: bool = false;

    fn wait(&mut self, of: &mut Sockets, at_most: Duration) -> Result<Option<usize>, WireError> {
        match lock(&self.shared.inbox).pieces.front() {
            Some(first) => Ok(Some(first.place)),
            None => Ok(of.current().wait(at_most)?.then_some(of.at)),
        }
    }

    fn take(&mut self, from: &mut SocketWire, _: usize, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        let mut inbox = lock(&self.shared.inbox);
        let Some(Piece { place, content, mut memory }) = inbox.pieces.pop_front() else { return from.attempt(into) };
        let range = match content {
            Content::Rest(range) => Some(range),
            Content::New(received) => from.examined(received, &mut memory)?.map(|bytes| 0..bytes),
        };
        let taken = range.map(|Range { start, end }| {
            let bytes = (end - start).min(into.len());
            into[..bytes].copy_from_slice(&memory[start..start + bytes]);
            (bytes, start + bytes..end)
        });
        match &taken {
            Some((_, rest)) if self.shared.is_stream && !rest.is_empty() => {
                inbox.pieces.push_front(Piece { place, content: Content::Rest(rest.clone()), memory });
            }
            _ => inbox.unused.push(memory),
        }
        Ok(taken.map(|(bytes, _)| bytes))
    }

    fn system_calls(&self) -> u64 {
        lock(&self.shared.inbox).receive_calls
    }

    fn in_runtime(wire: &mut AwaitedWire<Self>) -> Option<&mut dyn InRuntime> {
        Some(wire)
    }
}

impl Driven for Threads {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.shared) as Arc<dyn Runtime>
    }

    fn poll_ready(&mut self, of: &mut Sockets, _: &mut Context<'_>, into: &mut [u8]) -> Poll<Received> {
        if of.current().is_pending()
            && let Some(bytes) = of.current().attempt(into)?
        {
            return Poll::Ready(Ok(bytes));
        }
        loop {
            let first = lock(&self.shared.inbox).pieces.front().map(|piece| piece.place);
            let Some(place) = first else { return Poll::Pending };
            if let Some(bytes) = self.take(&mut of.wires[place], place, into)? {
                of.at = place;
                return Poll::Ready(Ok(bytes));
            }
        }
    }

    fn has_ticked(&mut self, _: &mut Context<'_>) -> bool {
        std::mem::take(&mut lock(&self.shared.inbox).has_ticked)
    }

    fn deadline(&mut self) -> &mut Option<Deadline> {
        &mut self.deadline
    }
}

/// A loop that the threads run.
struct Running<'t> {
    /// `None` when the loop is over. Only the thread that holds the lock runs it.
    task: Mutex<Option<Task<'t>>>,
    is_over: AtomicBool,
    /// The kernel's ids of the threads.
    threads: Mutex<Vec<i32>>,
    waiting: Thread,
}

impl Running<'_> {
    /// Runs the loop until it needs the next message.
    fn poll(&self) {
        // A thread that has panicked ends the loop.
        let Ok(mut task) = self.task.lock() else { return self.end() };
        let mut context = Context::from_waker(Waker::noop());
        if task.as_mut().is_some_and(|task| task.as_mut().poll(&mut context).is_ready()) {
            *task = None;
            self.end();
        }
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.waiting.unpark();
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

impl Runtime for Shared {
    fn block_on(&self, task: Task<'_>) -> Result<(), TransportError> {
        let running = Running {
            task: Mutex::new(Some(task)),
            is_over: AtomicBool::new(false),
            threads: Mutex::default(),
            waiting: thread::current(),
        };
        thread::scope(|scope| {
            let running = &running;
            let start = |place| {
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, move || self.receive_on(place, running)).map_err(|source| {
                    let what = format!("thread {} of {}", place + 1, self.sockets.len());
                    let hint =
                        "raise RLIMIT_NPROC (ulimit -u) or pids.max of the control group, or use fewer connections";
                    failed("start", &what, source, hint)
                })
            };
            let mut threads = Vec::with_capacity(self.sockets.len());
            let started: Result<(), TransportError> = (0..self.sockets.len()).try_for_each(|place| {
                threads.push(start(place)?);
                Ok(())
            });
            match started {
                Ok(()) => running.poll(),
                Err(_) => running.end(),
            }
            while !running.is_over() {
                thread::park_timeout(self.tick);
                lock(&self.inbox).has_ticked = true;
                running.poll();
            }
            while threads.iter().any(|thread| !thread.is_finished()) {
                alarm::interrupt(&lock(&running.threads));
                thread::sleep(INTERRUPT_INTERVAL);
            }
            started
        })
    }
}

impl Shared {
    /// A thread: receives on one connection until the loop is over.
    fn receive_on(&self, place: usize, running: &Running<'_>) {
        lock(&running.threads).push(thread_id());
        let memory = || vec![0; self.piece].into_boxed_slice();
        let mut own = memory();
        while !running.is_over() {
            let received = socket::receive(self.sockets[place].as_fd(), &mut own, true, !self.is_stream);
            if received.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
                continue;
            }
            let mut inbox = lock(&self.inbox);
            inbox.receive_calls += 1;
            inbox.pieces.push_back(Piece { place, content: Content::New(received), memory: own });
            drop(inbox);
            running.poll();
            own = lock(&self.inbox).unused.pop().unwrap_or_else(memory);
        }
    }
}

/// Nothing panics while it holds these locks.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
