//! Descriptors that a tokio runtime watches.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a copy of the descriptor for reading, in the current runtime.
pub(crate) fn watch(on: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    register(on.try_clone_to_owned()?)
}

/// A timer (timerfd_create(2)) that becomes readable every `period`.
pub(crate) fn ticks(period: Duration) -> io::Result<AsyncFd<OwnedFd>> {
    let period = period.max(Duration::from_millis(1));
    let period = Timespec::try_from(period).map_err(|_| io::ErrorKind::InvalidInput)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: period, it_value: period })?;
    register(timer)
}

fn register(own: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(own, Interest::READABLE)? })
}
