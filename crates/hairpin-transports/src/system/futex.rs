//! Sleeping on a word of memory that two processes share (futex(2), without the PRIVATE flag).

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::descriptor::timespec;

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awake {
    /// Somebody woke us, or the word had already changed, or a signal came: look again.
    LookAgain,
    /// The time is over.
    TimedOut,
}

/// Sleeps while `word` is `expected`, `at_most` so long.
pub(crate) fn wait(word: &AtomicU32, expected: u32, at_most: Duration) -> io::Result<Awake> {
    let at_most = timespec(at_most);
    // SAFETY: the word and the time outlive the call; FUTEX_WAIT only reads them.
    let answer = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const at_most, 0_usize, 0)
    };
    if answer == 0 {
        return Ok(Awake::LookAgain);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(Awake::LookAgain),
        Some(libc::ETIMEDOUT) => Ok(Awake::TimedOut),
        _ => Err(error),
    }
}

/// Wakes one sleeper, if there is one.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE takes the address only as a name. It cannot fail for a mapped, aligned word.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1, 0_usize, 0_usize, 0);
    }
}
