//! Helpers for child processes: end with the parent, ignore its signals, poll, and end other processes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Makes the kernel kill this process when the thread that started it ends. Returns whether `parent` still runs.
pub(crate) fn die_with_parent(parent: u32) -> bool {
    signal_with_parent(libc::SIGKILL);
    is_parent(parent)
}

/// Requests SIGCONT when the thread that started this process ends. A stopped link process then continues, and can end
/// the programs in its namespaces.
pub(crate) fn continue_without_parent() {
    signal_with_parent(libc::SIGCONT);
}

fn signal_with_parent(signal: libc::c_int) {
    // SAFETY: PR_SET_PDEATHSIG takes one integer.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::c_long::from(signal), 0, 0, 0) };
}

/// Ignores Ctrl-C, a closed terminal and termination requests: the parent handles them and shuts this process down.
/// Also ignores SIGALRM, which the parent uses to interrupt its own waits.
pub(crate) fn ignore_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGALRM] {
        // SAFETY: SIG_IGN is a valid disposition for these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Ignores Ctrl-C and a closed terminal: the parent handles them and forwards what this process needs.
pub(crate) fn ignore_the_terminal() {
    for signal in [libc::SIGINT, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a valid disposition for these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Moves this process into its own session (setsid(2)), out of reach of signals to the parent's process group. For a
/// process group leader setsid fails, and the process stays in its session.
pub(crate) fn leave_session() {
    // SAFETY: takes no arguments; failing, for a process group leader, changes nothing.
    unsafe { libc::setsid() };
}

/// Waits until `file` is readable, a signal arrives or `at_most_ms` have passed. Returns whether it is readable.
pub(crate) fn readable(file: impl AsFd, at_most_ms: i32) -> io::Result<bool> {
    poll(file.as_fd(), libc::POLLIN, at_most_ms)
}

/// Waits until `file` is writable, like [`readable`].
pub(crate) fn writable(file: BorrowedFd<'_>, at_most_ms: i32) -> io::Result<bool> {
    poll(file, libc::POLLOUT, at_most_ms)
}

fn poll(file: BorrowedFd<'_>, events: libc::c_short, at_most_ms: i32) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 };
    // SAFETY: one valid pollfd is given, and the descriptor is open while borrowed.
    let count = unsafe { libc::poll(&raw mut entry, 1, at_most_ms) };
    if count >= 0 {
        return Ok(count > 0);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) }
}

/// Whether the process that started this one is still its parent.
pub(crate) fn is_parent(id: u32) -> bool {
    // SAFETY: takes no arguments and cannot fail.
    u32::try_from(unsafe { libc::getppid() }).is_ok_and(|parent| parent == id)
}

/// A handle to a process that stays valid if its id is reused (pidfd_open(2)).
#[derive(Debug)]
pub(crate) struct Process(OwnedFd);

impl Process {
    pub(crate) fn with_id(id: u32) -> io::Result<Self> {
        // SAFETY: takes two integers and returns a new descriptor or -1.
        let file = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) };
        match i32::try_from(file) {
            // SAFETY: a new descriptor without another owner.
            Ok(file) if file >= 0 => Ok(Self(unsafe { OwnedFd::from_raw_fd(file) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.signal(libc::SIGKILL)
    }

    /// Asks the process to end (SIGTERM). Returns no error if it has already ended.
    pub(crate) fn ask_to_end(&self) -> io::Result<()> {
        match self.signal(libc::SIGTERM) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            asked => asked,
        }
    }

    fn signal(&self, signal: libc::c_int) -> io::Result<()> {
        let (file, no_details) = (self.0.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: takes an open descriptor, a signal, no details and no flags.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, file, signal, no_details, 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits up to `at_most_ms` for the process to end. Returns whether it has ended.
    pub(crate) fn ends_within(&self, at_most_ms: i32) -> io::Result<bool> {
        readable(self.0.as_fd(), at_most_ms)
    }
}

pub(crate) fn is_root() -> bool {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
