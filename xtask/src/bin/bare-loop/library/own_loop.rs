//! A minimal loop for the futures of one socket: polls what was woken, then waits for the socket and the earliest timer.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use hyper::rt::{Read, ReadBufCursor, Write};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct Loop {
    spawned: RefCell<Vec<Task>>,
    /// Whether a call may succeed: false after a call that found the socket not ready.
    may_receive: Cell<bool>,
    may_send: Cell<bool>,
    receiver: RefCell<Option<Waker>>,
    sender: RefCell<Option<Waker>>,
    timers: RefCell<Vec<(u64, Instant, Waker)>>,
}

thread_local! {
    static LOOP: Loop = Loop { may_receive: true.into(), may_send: true.into(), ..Loop::default() };
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Running<F> {
    future: F,
    woken: Arc<Woken>,
    waker: Waker,
}

impl<F: Future + Unpin> Running<F> {
    fn new(future: F) -> Self {
        let woken = Arc::new(Woken(true.into()));
        Self { future, waker: Arc::clone(&woken).into(), woken }
    }

    /// Polls the future if it was woken. `None` if it was not.
    fn poll(&mut self) -> Option<Poll<F::Output>> {
        let was_woken = self.woken.0.swap(false, Ordering::Relaxed);
        was_woken.then(|| Pin::new(&mut self.future).poll(&mut Context::from_waker(&self.waker)))
    }
}

pub(super) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    LOOP.with(|own| own.spawned.borrow_mut().push(Box::pin(future)));
}

pub(super) fn block_on<T>(socket: i32, future: impl Future<Output = T>) -> T {
    let future = pin!(future);
    let mut main = Running::new(future);
    let mut tasks: Vec<Running<Task>> = Vec::new();
    loop {
        let mut is_idle = true;
        if let Some(polled) = main.poll() {
            is_idle = false;
            if let Poll::Ready(value) = polled {
                return value;
            }
        }
        tasks.extend(LOOP.with(|own| own.spawned.take()).into_iter().map(Running::new));
        tasks.retain_mut(|task| {
            let polled = task.poll();
            is_idle &= polled.is_none();
            !matches!(polled, Some(Poll::Ready(())))
        });
        if is_idle && LOOP.with(|own| own.spawned.borrow().is_empty()) {
            LOOP.with(|own| own.wait(socket));
        }
    }
}

impl Loop {
    fn wait(&self, socket: i32) {
        let receives = if self.receiver.borrow().is_some() { libc::POLLIN } else { 0 };
        let sends = if self.sender.borrow().is_some() { libc::POLLOUT } else { 0 };
        let mut polled = libc::pollfd { fd: socket, events: receives | sends, revents: 0 };
        let due = self.timers.borrow().iter().map(|(_, due, _)| *due).min();
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let left = left
            .map(|left| libc::timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() });
        let left = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the pointers are to a live pollfd and to a live timespec or null; a null mask changes nothing.
        unsafe { libc::ppoll(&raw mut polled, 1, left, std::ptr::null()) };
        let failed = libc::POLLERR | libc::POLLHUP;
        if polled.revents & (libc::POLLIN | failed) != 0 {
            self.may_receive.set(true);
            self.receiver.take().into_iter().for_each(Waker::wake);
        }
        if polled.revents & (libc::POLLOUT | failed) != 0 {
            self.may_send.set(true);
            self.sender.take().into_iter().for_each(Waker::wake);
        }
        if due.is_some() {
            let now = Instant::now();
            self.timers.borrow_mut().retain(|(_, due, waker)| {
                let is_due = *due <= now;
                if is_due {
                    waker.wake_by_ref();
                }
                !is_due
            });
        }
    }
}

/// Makes a call that receives, unless the last one found nothing and the socket was not ready since.
pub(super) fn poll_receive<T>(context: &Context<'_>, mut call: impl FnMut() -> io::Result<T>) -> Poll<io::Result<T>> {
    LOOP.with(|own| {
        if own.may_receive.get() {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                answer => return Poll::Ready(answer),
            }
        }
        own.may_receive.set(false);
        *own.receiver.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    })
}

/// Makes a call that sends, unless the last one found no room and the socket was not ready since.
pub(super) fn try_send<T>(call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    LOOP.with(|own| {
        let answer = if own.may_send.get() { call() } else { Err(io::ErrorKind::WouldBlock.into()) };
        own.may_send.set(answer.as_ref().err().is_none_or(|error| error.kind() != io::ErrorKind::WouldBlock));
        answer
    })
}

/// Waits until [`try_send`] may succeed.
pub(super) fn poll_may_send(context: &Context<'_>) -> Poll<io::Result<()>> {
    LOOP.with(|own| {
        if own.may_send.get() {
            return Poll::Ready(Ok(()));
        }
        *own.sender.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    })
}

/// Sets timer `number`, or cancels it.
pub(super) fn set_timer(number: u64, due: Option<(Instant, Waker)>) {
    LOOP.with(|own| {
        let mut timers = own.timers.borrow_mut();
        timers.retain(|(set, ..)| *set != number);
        timers.extend(due.map(|(due, waker)| (number, due, waker)));
    });
}

pub(super) struct Io(pub(super) i32);

fn checked(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

impl Read for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: the kernel only writes to this memory.
        let room = unsafe { into.as_mut() };
        let length = room.len();
        // SAFETY: the pointer and the length describe live memory that is borrowed exclusively.
        let received =
            poll_receive(context, || checked(unsafe { libc::recv(self.0, room.as_mut_ptr().cast(), length, 0) }));
        received.map_ok(|bytes| {
            if bytes < length {
                LOOP.with(|own| own.may_receive.set(bytes == 0));
            }
            // SAFETY: the kernel has written this many bytes.
            unsafe { into.advance(bytes) }
        })
    }
}

impl Write for Io {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = parts.len().min(1024) as i32;
        // SAFETY: an IoSlice has the layout of an iovec; the pointer and the length describe live slices.
        let sent = try_send(|| checked(unsafe { libc::writev(self.0, parts.as_ptr().cast(), count) }));
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => poll_may_send(context).map_ok(|()| 0),
            answer => Poll::Ready(answer),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
