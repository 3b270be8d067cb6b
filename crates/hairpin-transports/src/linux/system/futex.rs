//! Waits on a word of memory shared by two processes (futex(2), without the PRIVATE flag).

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::descriptor::timespec;

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
    let at_most = at_most.map(timespec);
    let at_most = at_most.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time outlive the call; FUTEX_WAIT only reads them.
    let answer =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, at_most, 0_usize, 0) };
    if answer == 0 {
        return Ok(Awake::LookAgain);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Ok(Awake::LookAgain),
        Some(libc::EINTR) => Ok(Awake::Interrupted),
        Some(libc::ETIMEDOUT) => Ok(Awake::TimedOut),
        _ => Err(error),
    }
}

/// Wakes one sleeper, if any.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE uses the address only as a key. It cannot fail for a mapped, aligned word.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1, 0_usize, 0_usize, 0);
    }
}
