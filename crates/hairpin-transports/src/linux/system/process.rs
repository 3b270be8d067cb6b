//! Whether another process has ended; the death signal and thread ids of this process.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, getpid, getppid, kill_process, parent_process_death_signal, pidfd_open,
    set_parent_process_death_signal, test_kill_process,
};
use rustix::thread::gettid;

use super::descriptor::{READABLE, poll};

pub(crate) struct Process {
    pid: Pid,
    /// A pidfd, which cannot refer to a later process with the same pid (Linux 5.3).
    handle: Option<OwnedFd>,
}

impl Process {
    /// Refers to the process with that pid; `None` for an invalid pid.
    pub(crate) fn new(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        Some(Self { pid, handle: pidfd_open(pid, PidfdFlags::empty()).ok() })
    }

    pub(crate) fn has_ended(&self) -> bool {
        match &self.handle {
            Some(handle) => poll(handle.as_fd(), READABLE, Duration::ZERO).unwrap_or(false),
            None => test_kill_process(self.pid) == Err(Errno::SRCH),
        }
    }
}

/// Defers the death signal (`PR_SET_PDEATHSIG`, prctl(2)) until `work` is done: if the parent dies during `work`, this
/// process is killed only after `work` has cleaned up.
pub(crate) fn with_deferred_death<T>(work: impl FnOnce() -> T) -> T {
    let (signal, parent) = (parent_process_death_signal().ok().flatten(), getppid());
    let _ = set_parent_process_death_signal(None);
    let result = work();
    if let Some(signal) = signal {
        let _ = set_parent_process_death_signal(Some(signal));
        if getppid() != parent {
            let _ = kill_process(getpid(), signal);
        }
    }
    result
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
    let id = gettid().as_raw_nonzero().get();
    THREAD_ID.set(id);
    id
}

#[cfg(test)]
mod tests {
    use rustix::process::Signal;

    use super::*;

    fn death_signal() -> Option<Signal> {
        parent_process_death_signal().unwrap()
    }

    #[test]
    fn the_death_signal_is_deferred_during_the_work() {
        // The signal belongs to the thread, so other tests are not affected.
        let thread = std::thread::spawn(|| {
            set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
            (with_deferred_death(death_signal), death_signal())
        });
        assert_eq!(thread.join().unwrap(), (None, Some(Signal::KILL)));
        assert_eq!((with_deferred_death(death_signal), death_signal()), (None, None), "no signal was set");
    }
}
