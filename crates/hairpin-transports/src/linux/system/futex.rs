//! Waits on a word of memory shared by two processes (futex(2), without the PRIVATE flag).

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awake {
    /// Woken, or the word had already changed: the caller checks the word again.
    LookAgain,
    /// A signal arrived: the caller checks the word and its deadline again.
    Interrupted,
    TimedOut,
}

/// Sleeps while `word` is `expected`, up to `at_most`. With `None` no timer is set, which makes the call faster.
pub(crate) fn wait(word: &AtomicU32, expected: u32, at_most: Option<Duration>) -> io::Result<Awake> {
    let at_most = at_most.and_then(|at_most| Timespec::try_from(at_most).ok());
    match futex::wait(word, Flags::empty(), expected, at_most.as_ref()) {
        Ok(()) | Err(Errno::AGAIN) => Ok(Awake::LookAgain),
        Err(Errno::INTR) => Ok(Awake::Interrupted),
        Err(Errno::TIMEDOUT) => Ok(Awake::TimedOut),
        Err(error) => Err(error.into()),
    }
}

/// Wakes one sleeper, if any.
pub(crate) fn wake(word: &AtomicU32) {
    // It cannot fail for a mapped, aligned word.
    let _ = futex::wake(word, Flags::empty(), 1);
}
