//! The echo half's process: it must never outlive the client half.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Has the kernel kill this process when the thread that started it ends, and says whether that parent still lives.
pub(crate) fn die_with_parent(parent: u32) -> bool {
    // SAFETY: PR_SET_PDEATHSIG takes one integer; getppid takes nothing.
    let now = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0);
        libc::getppid()
    };
    u32::try_from(now).is_ok_and(|now| now == parent)
}

/// Leaves Ctrl-C, a closed terminal and a request to end to the client half, which ends the round in order; the echo
/// half goes with it.
pub(crate) fn ignore_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a valid disposition for these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Waits until `file` can be read, or for `at_most_ms`; says whether it can.
pub(crate) fn readable(file: BorrowedFd<'_>, at_most_ms: i32) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one valid pollfd is given, and the descriptor is open while borrowed.
        let count = unsafe { libc::poll(&raw mut entry, 1, at_most_ms) };
        if count >= 0 {
            return Ok(count > 0);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Whether this process acts as root.
pub(crate) fn is_root() -> bool {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
