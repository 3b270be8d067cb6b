//! Whether a process is still there.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::descriptor::{READABLE, owned, poll};

/// A process that may die without a word (SIGKILL).
pub(crate) struct Process {
    pid: i32,
    /// A handle that a later process with the same number cannot be mistaken for (Linux 5.3).
    handle: Option<OwnedFd>,
}

impl Process {
    /// The process of that number; of none when the number cannot be one.
    pub(crate) fn new(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
        // SAFETY: plain integers in, a new descriptor out.
        let handle = unsafe {
            let raw = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            i32::try_from(raw).ok().and_then(|raw| owned(raw).ok())
        };
        Some(Self { pid, handle })
    }

    /// Whether it has ended.
    pub(crate) fn is_gone(&self) -> bool {
        match &self.handle {
            Some(handle) => poll(handle.as_fd(), READABLE, Duration::ZERO).unwrap_or(false),
            None => {
                // SAFETY: signal 0 is never delivered; it only asks.
                let answer = unsafe { libc::kill(self.pid, 0) };
                answer == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
            }
        }
    }
}

/// The kernel's number of this thread.
pub(crate) fn thread_id() -> i32 {
    thread_local! {
        static ID: std::cell::Cell<i32> = const { std::cell::Cell::new(0) };
    }
    ID.with(|id| {
        if id.get() == 0 {
            // SAFETY: takes nothing, cannot fail.
            id.set(unsafe { libc::gettid() });
        }
        id.get()
    })
}
