//! Runs the futures of a library on the thread that uses its wires, and waits for the only socket of their connection.
//!
//! It does what a current-thread runtime does: it polls what was woken, then waits for the socket and the earliest timer.
//! There is no task for each message: the futures of a connection live as long as the connection.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::system::descriptor::{ERROR, READABLE, WRITABLE, poll_events};
use crate::system::socket;
use crate::wires::{Deadline, slice};

pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls of one call of [`Runtime::drive`], so that a future that always wakes itself does not keep the thread.
const MAX_POLLS: usize = 10_000;
/// Time of one such call, checked after each [`POLLS_PER_CLOCK_READ`]: a peer may send without a pause.
const MAX_DRIVE: Duration = Duration::from_millis(20);
const POLLS_PER_CLOCK_READ: usize = 8;
/// Receives of one poll. A library may otherwise read as long as a peer sends.
const MAX_RECEIVES: u32 = 4;

/// The futures of one connection.
pub(crate) struct Runtime {
    handle: Handle,
    tasks: Vec<Option<Running>>,
    free: Vec<usize>,
}

struct Running {
    task: Task,
    wake: Arc<TaskWake>,
    waker: Waker,
}

/// What the futures of a runtime use: the socket, timers, and more futures.
#[derive(Clone)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    socket: Socket,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    spawned: Vec<Task>,
    /// Indices of woken tasks.
    woken: VecDeque<usize>,
    timers: BTreeMap<(Instant, u64), Waker>,
    next_timer: u64,
    /// Whether a receive may find data, and a send room: false after a call that found none.
    may_receive: bool,
    may_send: bool,
    /// Receives of the current poll.
    receives: u32,
    receiver: Option<Waker>,
    /// Several futures may wait for room.
    senders: Vec<Waker>,
    /// Calls to receive, to send and to wait.
    system_calls: u64,
}

struct TaskWake {
    index: usize,
    handle: Handle,
    is_woken: AtomicBool,
}

impl Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.handle.lock().woken.push_back(self.index);
        }
    }
}

impl Runtime {
    /// A runtime without futures, for a connected socket.
    pub(crate) fn new(socket: Socket) -> Self {
        let state = State { may_receive: true, may_send: true, ..State::default() };
        let handle = Handle { shared: Arc::new(Shared { socket, state: Mutex::new(state) }) };
        Self { handle, tasks: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Polls the woken futures until none is woken. `readable` and `writable` say that the socket may be ready.
    pub(crate) fn drive(&mut self, readable: bool, writable: bool) {
        self.handle.on_ready(readable, writable);
        let mut long_since: Option<Instant> = None;
        for polls in 1..=MAX_POLLS {
            let (spawned, next) = {
                let mut state = self.handle.lock();
                state.receives = 0;
                (std::mem::take(&mut state.spawned), state.woken.pop_front())
            };
            let is_idle = spawned.is_empty() && next.is_none();
            spawned.into_iter().for_each(|task| self.add(task));
            if is_idle {
                return;
            }
            next.into_iter().for_each(|index| self.poll_task(index));
            let is_long = polls % POLLS_PER_CLOCK_READ == 0;
            if is_long && long_since.get_or_insert_with(Instant::now).elapsed() > MAX_DRIVE {
                return;
            }
        }
    }

    fn add(&mut self, task: Task) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            self.tasks.len() - 1
        });
        let wake = Arc::new(TaskWake { index, handle: self.handle.clone(), is_woken: true.into() });
        let waker = Arc::clone(&wake).into();
        self.tasks[index] = Some(Running { task, wake, waker });
        self.handle.lock().woken.push_back(index);
    }

    fn poll_task(&mut self, index: usize) {
        let Some(Running { task, wake, waker }) = &mut self.tasks[index] else { return };
        wake.is_woken.store(false, Ordering::Release);
        if task.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
            self.tasks[index] = None;
            self.free.push(index);
        }
    }

    /// Waits until the socket is ready or a timer has expired, at most `at_most`, and drives the futures.
    ///
    /// # Errors
    /// The wait was interrupted or failed.
    pub(crate) fn park(&mut self, at_most: Duration) -> io::Result<()> {
        let (events, due_in) = {
            let mut state = self.handle.lock();
            state.system_calls += 1;
            // What the last call did not get to.
            let due_in = if state.woken.is_empty() { state.due_in() } else { Some(Duration::ZERO) };
            (state.events(), due_in)
        };
        let at_most = due_in.map_or(at_most, |due_in| due_in.min(at_most));
        let found = poll_events(self.handle.shared.socket.as_fd(), events, Some(at_most))?;
        self.drive(found & (READABLE | ERROR) != 0 || found & !WRITABLE != 0, found & !READABLE != 0);
        Ok(())
    }

    /// Drives the futures until this one is complete; `None` after the time-out.
    pub(crate) fn complete<T: Send + 'static>(
        &mut self,
        future: impl Future<Output = T> + Send + 'static,
        timeout: Duration,
    ) -> io::Result<Option<T>> {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        let take = || result.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.handle.spawn(Box::pin(async move {
            let value = future.await;
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        }));
        self.drive(true, true);
        self.park_until(Deadline::new(timeout), |_| take())
    }

    /// Drives the futures until `outcome` returns a value; `None` after the deadline.
    pub(crate) fn park_until<T>(
        &mut self,
        mut deadline: Deadline,
        outcome: impl Fn(&Self) -> Option<T>,
    ) -> io::Result<Option<T>> {
        loop {
            if let Some(value) = outcome(self) {
                return Ok(Some(value));
            }
            let Some(left) = deadline.left() else { return Ok(None) };
            match self.park(slice(left)) {
                Err(interrupted) if interrupted.kind() == io::ErrorKind::Interrupted => {}
                parked => parked?,
            }
        }
    }

    pub(crate) fn due_in(&self) -> Option<Duration> {
        self.handle.lock().due_in()
    }

    pub(crate) fn wants_write(&self) -> bool {
        !self.handle.lock().senders.is_empty()
    }

    pub(crate) fn system_calls(&self) -> u64 {
        self.handle.lock().system_calls
    }
}

impl Drop for Runtime {
    /// The tasks hold handles to this runtime.
    fn drop(&mut self) {
        self.tasks.clear();
        let mut state = self.handle.lock();
        let (spawned, timers) = (std::mem::take(&mut state.spawned), std::mem::take(&mut state.timers));
        let wakers = (state.receiver.take(), std::mem::take(&mut state.senders));
        drop(state);
        drop((spawned, timers, wakers));
    }
}

impl Handle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.shared.socket
    }

    /// Wakes the futures that wait for the socket or for an expired timer.
    fn on_ready(&self, readable: bool, writable: bool) {
        let mut state = self.lock();
        state.may_receive |= readable;
        state.may_send |= writable;
        let receiver = state.receiver.take_if(|_| readable);
        let mut woken = if writable { std::mem::take(&mut state.senders) } else { Vec::new() };
        if !state.timers.is_empty() {
            let now = Instant::now();
            while let Some(first) = state.timers.first_entry().filter(|first| first.key().0 <= now) {
                woken.push(first.remove());
            }
        }
        // A waker takes the lock.
        drop(state);
        receiver.into_iter().chain(woken).for_each(Waker::wake);
    }

    /// Adds a future, which is polled in the next [`Runtime::drive`].
    pub(crate) fn spawn(&self, task: Task) {
        self.lock().spawned.push(task);
    }

    /// Makes a call that receives, unless an earlier call found nothing and the socket was not ready since.
    pub(crate) fn poll_receive<T>(
        &self,
        context: &Context<'_>,
        mut call: impl FnMut(&Socket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.lock();
        state.receives += 1;
        if state.receives > MAX_RECEIVES {
            drop(state);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        while state.may_receive {
            state.system_calls += 1;
            drop(state);
            let answer = call(&self.shared.socket);
            let kind = answer.as_ref().err().map(io::Error::kind);
            if !matches!(kind, Some(io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)) {
                return Poll::Ready(answer);
            }
            state = self.lock();
            state.may_receive = kind == Some(io::ErrorKind::Interrupted);
        }
        state.receiver = Some(context.waker().clone());
        Poll::Pending
    }

    /// Makes a call that sends, unless an earlier call found no room and the socket was not ready since.
    pub(crate) fn poll_send<T>(
        &self,
        context: &Context<'_>,
        call: impl FnMut(&Socket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        match self.try_send(call) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.lock().senders.push(context.waker().clone());
                Poll::Pending
            }
            answer => Poll::Ready(answer),
        }
    }

    /// Sends the parts in one call, as far as there is room.
    pub(crate) fn poll_send_vectored(
        &self,
        context: &Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, |socket| socket::send_vectored(socket.as_fd(), parts, false))
    }

    /// Receives bytes of a stream; 0 after its end.
    pub(crate) fn poll_receive_into(&self, context: &Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let room = into.len();
        let received = self.poll_receive(context, |socket| socket::receive(socket.as_fd(), into, false, false));
        received.map_ok(|bytes| {
            if (1..room).contains(&bytes) {
                self.on_all_received();
            }
            bytes
        })
    }

    /// Like [`Handle::poll_send`], but fails if the call cannot be made now.
    pub(crate) fn try_send<T>(&self, mut call: impl FnMut(&Socket) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.lock();
        while state.may_send {
            state.system_calls += 1;
            drop(state);
            let answer = call(&self.shared.socket);
            let kind = answer.as_ref().err().map(io::Error::kind);
            if !matches!(kind, Some(io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)) {
                return answer;
            }
            state = self.lock();
            state.may_send = kind == Some(io::ErrorKind::Interrupted);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Waits until [`Handle::try_send`] may succeed.
    pub(crate) fn poll_may_send(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        if state.may_send {
            return Poll::Ready(Ok(()));
        }
        state.senders.push(context.waker().clone());
        Poll::Pending
    }

    /// Notes that the last receive took all data, so that the next one need not try before the socket is ready.
    pub(crate) fn on_all_received(&self) {
        self.lock().may_receive = false;
    }

    /// Sets a timer. Returns its key.
    pub(crate) fn set_timer(&self, at: Instant, waker: Waker) -> (Instant, u64) {
        let mut state = self.lock();
        state.next_timer += 1;
        let key = (at, state.next_timer);
        state.timers.insert(key, waker);
        key
    }

    pub(crate) fn cancel_timer(&self, key: (Instant, u64)) {
        self.lock().timers.remove(&key);
    }
}

impl State {
    /// The events for which a future waits. Data that no future wants yet would end each wait at once.
    fn events(&self) -> i16 {
        let receives = if self.receiver.is_some() { READABLE } else { 0 };
        receives | if self.senders.is_empty() { 0 } else { WRITABLE }
    }

    fn due_in(&self) -> Option<Duration> {
        let ((at, _), _) = self.timers.first_key_value()?;
        Some(at.saturating_duration_since(Instant::now()))
    }
}
