//! Descriptors that a tokio runtime watches.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::check;
use super::descriptor::{owned, timespec};

/// Watches a copy of the descriptor for reading, in the current runtime.
pub(crate) fn watch(on: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    register(on.try_clone_to_owned()?)
}

/// A timer (timerfd_create(2)) that becomes readable every `period`.
pub(crate) fn ticks(period: Duration) -> io::Result<AsyncFd<OwnedFd>> {
    let period = timespec(period.max(Duration::from_millis(1)));
    let times = libc::itimerspec { it_interval: period, it_value: period };
    // SAFETY: the descriptor is new and owned from here on, and the times live during the call.
    let timer = unsafe {
        let timer = owned(libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK))?;
        check(libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const times, ptr::null_mut()))?;
        timer
    };
    register(timer)
}

fn register(own: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(own, Interest::READABLE)? })
}
