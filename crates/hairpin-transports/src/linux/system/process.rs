//! Whether another process has ended; the death signal, descriptor limits and thread ids of this process.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::descriptor::{READABLE, owned, poll};

pub(crate) struct Process {
    pid: i32,
    /// A pidfd, which cannot refer to a later process with the same pid (Linux 5.3).
    handle: Option<OwnedFd>,
}

impl Process {
    /// Refers to the process with that pid; `None` for an invalid pid.
    pub(crate) fn new(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
        // SAFETY: plain integers in, a new descriptor out.
        let handle = unsafe {
            let raw = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            i32::try_from(raw).ok().and_then(|raw| owned(raw).ok())
        };
        Some(Self { pid, handle })
    }

    pub(crate) fn has_ended(&self) -> bool {
        match &self.handle {
            Some(handle) => poll(handle.as_fd(), READABLE, Duration::ZERO).unwrap_or(false),
            None => {
                // SAFETY: signal 0 is not delivered; it only checks that the process exists.
                let answer = unsafe { libc::kill(self.pid, 0) };
                answer == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
            }
        }
    }
}

/// Defers the death signal (`PR_SET_PDEATHSIG`, prctl(2)) until `work` is done: if the parent dies during `work`, this
/// process is killed only after `work` has cleaned up.
pub(crate) fn with_deferred_death<T>(work: impl FnOnce() -> T) -> T {
    let mut signal = 0_i32;
    // SAFETY: PR_GET_PDEATHSIG writes one integer, for which there is room; PR_SET_PDEATHSIG takes one.
    let parent = unsafe {
        libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal);
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        libc::getppid()
    };
    let result = work();
    if signal != 0 {
        // SAFETY: as above; `raise` takes the signal number that the kernel returned.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, signal);
            if libc::getppid() != parent {
                libc::raise(signal);
            }
        }
    }
    result
}

/// This process's limits on open descriptors (`RLIMIT_NOFILE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// `getrlimit(2)`.
pub(crate) fn descriptor_limits() -> io::Result<Limits> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the two numbers.
    super::check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) })?;
    Ok(Limits { soft: limits.rlim_cur, hard: limits.rlim_max })
}

/// `setrlimit(2)`.
pub(crate) fn set_descriptor_limits(limits: Limits) -> io::Result<()> {
    let limits = libc::rlimit { rlim_cur: limits.soft, rlim_max: limits.hard };
    // SAFETY: the call reads the two numbers.
    super::check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) })
}

thread_local! {
    static THREAD_ID: Cell<i32> = const { Cell::new(0) };
}

#[inline(always)]
pub(crate) fn thread_id() -> i32 {
    match THREAD_ID.get() {
        0 => ask_thread_id(),
        known => known,
    }
}

#[cold]
fn ask_thread_id() -> i32 {
    // SAFETY: has no arguments and cannot fail.
    let id = unsafe { libc::gettid() };
    THREAD_ID.set(id);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death_signal() -> i32 {
        let mut signal = -1_i32;
        // SAFETY: PR_GET_PDEATHSIG writes one integer, for which there is room.
        unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) };
        signal
    }

    #[test]
    fn the_death_signal_is_deferred_during_the_work() {
        // The signal belongs to the thread, so other tests are not affected.
        let thread = std::thread::spawn(|| {
            // SAFETY: PR_SET_PDEATHSIG takes one integer.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            (with_deferred_death(death_signal), death_signal())
        });
        assert_eq!(thread.join().unwrap(), (0, libc::SIGKILL));
        assert_eq!((with_deferred_death(death_signal), death_signal()), (0, 0), "no signal was set");
    }
}
