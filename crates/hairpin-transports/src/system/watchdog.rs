//! A time-out for blocking reads and writes that have none of their own (pipes).
//!
//! A thread looks a few times per time-out whether the wire is still in the same blocking call; when it has been
//! for the whole time-out, the thread is sent a signal, whose handler does nothing, until the call returns `EINTR`.
//! The wire pays three relaxed stores a call. The watching thread ends when the [`Watchdog`] is dropped.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::process::thread_id;

/// Watches the blocking calls of one wire.
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    /// How many calls have begun or ended; odd during a call.
    turn: u64,
    watcher: Option<JoinHandle<()>>,
}

struct Shared {
    turn: AtomicU64,
    /// The thread that makes the call; a wire may move between threads from one call to the next.
    thread: AtomicI32,
    /// The turn whose time is over; even when there is none.
    expired: AtomicU64,
    ended: Mutex<bool>,
    end: Condvar,
}

/// How long to wait between two signals to a thread that had not yet entered its call when the first one came.
const AGAIN: Duration = Duration::from_millis(2);

impl Watchdog {
    /// Starts the watching thread.
    pub(crate) fn start(timeout: Duration) -> io::Result<Self> {
        install_handler()?;
        let shared = Arc::new(Shared {
            turn: AtomicU64::new(0),
            thread: AtomicI32::new(0),
            expired: AtomicU64::new(0),
            ended: Mutex::new(false),
            end: Condvar::new(),
        });
        let watched = Arc::clone(&shared);
        let watcher = std::thread::Builder::new()
            .name("hairpin-watchdog".to_owned())
            .stack_size(64 * 1024)
            .spawn(move || watched.watch(timeout))?;
        Ok(Self { shared, turn: 0, watcher: Some(watcher) })
    }

    /// Runs one system call that may block; `EINTR` from a time-out becomes [`io::ErrorKind::TimedOut`].
    #[inline]
    pub(crate) fn guard(&mut self, call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        self.shared.thread.store(thread_id(), Relaxed);
        self.shared.turn.store(self.turn + 1, Relaxed);
        let answer = call();
        self.turn += 2;
        self.shared.turn.store(self.turn, Relaxed);
        match answer {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(self.reason(error)),
            answer => answer,
        }
    }

    #[cold]
    fn reason(&self, interrupted: io::Error) -> io::Error {
        let expired = self.shared.expired.load(Relaxed) == self.turn - 1;
        if expired { io::Error::from(io::ErrorKind::TimedOut) } else { interrupted }
    }
}

impl Shared {
    fn watch(&self, timeout: Duration) {
        let look = (timeout / 4).clamp(Duration::from_millis(1), Duration::from_millis(500));
        let (mut seen, mut since) = (0, Instant::now());
        while !self.pause(look) {
            let turn = self.turn.load(Relaxed);
            if turn != seen {
                (seen, since) = (turn, Instant::now());
            } else if turn % 2 == 1 && since.elapsed() >= timeout {
                self.expired.store(turn, Relaxed);
                while self.turn.load(Relaxed) == turn {
                    interrupt(self.thread.load(Relaxed));
                    if self.pause(AGAIN) {
                        return;
                    }
                }
            }
        }
    }

    /// Sleeps; says whether the watchdog is being dropped.
    fn pause(&self, at_most: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, _) =
            self.end.wait_timeout_while(ended, at_most, |ended| !*ended).unwrap_or_else(PoisonError::into_inner);
        *ended
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.end.notify_all();
        if let Some(watcher) = self.watcher.take() {
            // It has nothing to say, and it cannot panic.
            let _ = watcher.join();
        }
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
