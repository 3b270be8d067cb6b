//! A time-out for blocking system calls.
//!
//! Pipes have no time-out of their own, and a socket's (`SO_RCVTIMEO`) costs a timer in every call that sleeps: 2 to
//! 5 % of a round trip on one CPU. So one thread of the process looks a few times per time-out whether a wire is still
//! in the same blocking call. When it has been for the whole time-out, the calling thread is sent a signal, whose
//! handler does nothing, until the call returns `EINTR`. The wire pays three relaxed stores a call.
//!
//! The thread is started with the first watch. It wakes a few times a second at most, for a microsecond.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::process::thread_id;

/// Watches the blocking calls of one wire.
pub(crate) struct Watchdog {
    watched: Arc<Watched>,
    /// How many calls have begun or ended; odd during a call.
    turn: u64,
}

/// One wire, as the watching thread sees it.
struct Watched {
    timeout: Duration,
    turn: AtomicU64,
    /// The thread that makes the call; a wire may move between threads from one call to the next.
    thread: AtomicI32,
    /// The turn whose time is over; even when there is none.
    expired: AtomicU64,
}

/// What the watching thread remembers of a wire: the turn it saw last, and since when.
struct Entry {
    watched: Arc<Watched>,
    seen: u64,
    since: Instant,
}

/// The one watching thread's list.
struct Watcher {
    entries: Mutex<Vec<Entry>>,
}

/// How often the thread looks for something to watch.
const IDLE: Duration = Duration::from_millis(100);

/// How long to wait between two signals to a thread that had not yet entered its call when the first one came.
const AGAIN: Duration = Duration::from_millis(2);

impl Watchdog {
    /// Has the calls of one wire watched.
    pub(crate) fn start(timeout: Duration) -> io::Result<Self> {
        install_handler()?;
        let watched = Arc::new(Watched {
            timeout,
            turn: AtomicU64::new(0),
            thread: AtomicI32::new(0),
            expired: AtomicU64::new(0),
        });
        let entry = Entry { watched: Arc::clone(&watched), seen: 0, since: Instant::now() };
        // The watcher is not woken for it: it looks soon enough by itself, and nothing runs beside a new connection.
        watcher()?.lock().push(entry);
        Ok(Self { watched, turn: 0 })
    }

    /// The calling thread is about to make a system call that may block.
    #[inline]
    pub(crate) fn enter(&mut self) {
        self.watched.thread.store(thread_id(), Relaxed);
        self.watched.turn.store(self.turn + 1, Relaxed);
    }

    /// The call has returned.
    #[inline]
    pub(crate) fn leave(&mut self) {
        self.turn += 2;
        self.watched.turn.store(self.turn, Relaxed);
    }

    /// Whether the call that has just returned was ended for its time.
    #[cold]
    pub(crate) fn has_expired(&self) -> bool {
        self.watched.expired.load(Relaxed) == self.turn - 1
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Ok(watcher) = watcher() {
            // Signals are sent under this lock: once the entry is gone, none follows.
            watcher.lock().retain(|entry| !Arc::ptr_eq(&entry.watched, &self.watched));
        }
    }
}

/// The watching thread's list; the thread is started with it.
fn watcher() -> io::Result<&'static Watcher> {
    static WATCHER: OnceLock<Result<&'static Watcher, io::ErrorKind>> = OnceLock::new();
    let start = || {
        let watcher: &'static Watcher = Box::leak(Box::new(Watcher { entries: Mutex::new(Vec::new()) }));
        let thread = std::thread::Builder::new().name("hairpin-watchdog".to_owned()).stack_size(64 * 1024);
        thread.spawn(move || watcher.watch()).map(|_| watcher).map_err(|error| error.kind())
    };
    (*WATCHER.get_or_init(start)).map_err(io::Error::from)
}

impl Watcher {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        loop {
            let pause = self.lock().iter_mut().map(Entry::look).min().unwrap_or(IDLE);
            std::thread::sleep(pause);
        }
    }
}

impl Entry {
    /// Looks at the wire, ends its call if its time is over, and says when to look again.
    fn look(&mut self) -> Duration {
        let watched = &self.watched;
        let turn = watched.turn.load(Relaxed);
        if turn != self.seen {
            (self.seen, self.since) = (turn, Instant::now());
        } else if turn % 2 == 1 && self.since.elapsed() >= watched.timeout {
            watched.expired.store(turn, Relaxed);
            interrupt(watched.thread.load(Relaxed));
            return AGAIN;
        }
        (watched.timeout / 4).clamp(Duration::from_millis(1), Duration::from_millis(500))
    }
}

/// A real-time signal, because programs attach no meaning of their own to it; not the first few, which debuggers and
/// language runtimes like.
fn signal_number() -> i32 {
    libc::SIGRTMIN() + 11
}

extern "C" fn do_nothing(_: i32) {}

/// Installs the handler once, for the whole life of the process: without it the signal would end the process.
fn install_handler() -> io::Result<()> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    let failed = INSTALLED.get_or_init(|| {
        // SAFETY: an all-zero `sigaction` is valid (no flags, so no SA_RESTART; an empty mask), and the handler does
        // nothing, so it is safe at any moment.
        let answer = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = do_nothing as extern "C" fn(i32) as usize;
            libc::sigaction(signal_number(), &raw const action, std::ptr::null_mut())
        };
        super::done(answer).err().and_then(|error| error.raw_os_error())
    });
    failed.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
}

/// Signals one thread of this process. A thread that has ended meanwhile makes the call fail, which is fine.
fn interrupt(thread: i32) {
    // SAFETY: plain integers; the handler is installed.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal_number());
    }
}
