//! Timers that wake a thread at a time of CLOCK_MONOTONIC.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Sleeps for `ns`, or until a signal arrives (nanosleep(2)).
pub(crate) fn sleep(ns: u64) {
    let wait = spec(ns);
    // SAFETY: a valid timespec, which the kernel only reads; a null pointer requests nothing.
    unsafe { libc::nanosleep(&raw const wait, std::ptr::null_mut()) };
}

/// Sleeps until `monotonic_ns`, or until a signal arrives (clock_nanosleep(2)).
pub(crate) fn sleep_until(monotonic_ns: u64) {
    let until = spec(monotonic_ns);
    // SAFETY: as in `sleep`.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut())
    };
}

/// Resolution of CLOCK_MONOTONIC and its timers, in ns (clock_getres(2)).
pub(crate) fn resolution_ns() -> u64 {
    let mut resolution = spec(0);
    // SAFETY: a valid place for one timespec.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut resolution) };
    u64::try_from(resolution.tv_sec * 1_000_000_000 + resolution.tv_nsec).unwrap_or(1)
}

/// A timer with a descriptor (timerfd_create(2)).
#[derive(Debug)]
pub(crate) struct Timer(OwnedFd);

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes two numbers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn sleep_until(&self, monotonic_ns: u64) {
        let once = libc::itimerspec { it_interval: spec(0), it_value: spec(monotonic_ns.max(1)) };
        let mut expirations = 0_u64;
        // SAFETY: a valid itimerspec, which the kernel only reads, and room for the 8 bytes that the read writes.
        unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const once, std::ptr::null_mut());
            libc::read(self.0.as_raw_fd(), (&raw mut expirations).cast(), 8);
        }
    }
}

fn spec(ns: u64) -> libc::timespec {
    let part = |ns: u64| ns.try_into().expect("a number of seconds, or less than 1e9");
    libc::timespec { tv_sec: part(ns / 1_000_000_000), tv_nsec: part(ns % 1_000_000_000) }
}
