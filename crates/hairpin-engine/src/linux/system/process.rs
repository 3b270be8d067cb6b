//! Helpers for child processes: end with the parent, ignore its signals, poll, and end other processes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::parent_id;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_parent_process_death_signal, setsid,
};

use crate::wait::readable;

/// Makes the kernel kill this process when the thread that started it ends. Returns whether `parent` still runs.
pub(crate) fn die_with_parent(parent: u32) -> bool {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    parent_id() == parent
}

/// Requests SIGCONT when the thread that started this process ends. A stopped link process then continues, and can end
/// the programs in its namespaces.
pub(crate) fn continue_without_parent() {
    let _ = set_parent_process_death_signal(Some(Signal::CONT));
}

/// Ignores Ctrl-C, a closed terminal and termination requests: the parent handles them and shuts this process down.
/// Also ignores SIGALRM, which the parent uses to interrupt its own waits.
pub(crate) fn ignore_interrupts() {
    ignore(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGALRM]);
}

/// Ignores Ctrl-C and a closed terminal: the parent handles them and forwards what this process needs.
pub(crate) fn ignore_the_terminal() {
    ignore(&[libc::SIGINT, libc::SIGHUP]);
}

fn ignore(signals: &[libc::c_int]) {
    for signal in signals {
        // SAFETY: SIG_IGN is a valid disposition for these signals.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

/// Moves this process into its own session (setsid(2)), out of reach of signals to the parent's process group. For a
/// process group leader setsid fails, and the process stays in its session.
pub(crate) fn leave_session() {
    // Failing, for a process group leader, changes nothing.
    let _ = setsid();
}

/// A handle to a process that stays valid if its id is reused (pidfd_open(2)).
#[derive(Debug)]
pub(crate) struct Process(OwnedFd);

impl Process {
    pub(crate) fn with_id(id: u32) -> io::Result<Self> {
        let id = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(pidfd_open(id, PidfdFlags::empty())?))
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::KILL)?)
    }

    /// Asks the process to end (SIGTERM). Returns no error if it has already ended.
    pub(crate) fn ask_to_end(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.0, Signal::TERM) {
            Err(Errno::SRCH) => Ok(()),
            asked => Ok(asked?),
        }
    }

    pub(crate) fn ends_within(&self, at_most: Duration) -> io::Result<bool> {
        readable(self, at_most)
    }
}

/// The descriptor is readable once the process has ended.
impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
