//! Programs in a link's namespaces: starting, waiting and signals.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::isolation;
use super::namespace::Refusal;
use super::process::{die_with_parent, readable};

/// Makes the program of `command` run in `namespace` and isolated as in [`isolation`], and makes the kernel kill the
/// program when the thread that spawns it ends. [`refusals`] returns what the kernel refused.
pub(crate) fn run_in(command: &mut Command, namespace: File, mut tell: PipeWriter) {
    let starter = std::process::id();
    let mut beneath_sys = isolation::mounts_beneath_sys();
    let enter = move || {
        let mut report = |refusal: Refusal| {
            drop(tell.write(&refusal.to_bytes()));
            refusal.error
        };
        isolation::isolate(namespace.as_fd()).map_err(&mut report)?;
        // Without its own /sys the program can still use the network.
        drop(isolation::mount_sys(&mut beneath_sys).map_err(&mut report));
        if die_with_parent(starter) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: between fork and exec, `enter` only makes system calls; it allocates nothing and takes no locks.
    unsafe { command.pre_exec(enter) };
}

/// Returns the steps of [`run_in`] that the kernel refused. Call it after spawning the command.
pub(crate) fn refusals(reader: &mut PipeReader) -> io::Result<Vec<Refusal>> {
    let mut bytes = [0; 4 * Refusal::BYTES];
    // The command still holds the write end open, so a read would not see the end of file.
    let count = if readable(reader.as_fd(), 0)? { reader.read(&mut bytes)? } else { 0 };
    Ok(bytes[..count].chunks(Refusal::BYTES).filter_map(Refusal::from_bytes).collect())
}

/// A descriptor that is readable once process `child` has ended (pidfd_open(2)). The child must not be reaped yet.
pub(crate) fn exit_descriptor(child: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers and returns a new descriptor or -1.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, child, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    let raw = i32::try_from(raw).expect("a descriptor is a small number");
    // SAFETY: a new descriptor without another owner; the kernel makes it close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Sends a signal to a child that is not yet reaped, or to the process group that the child leads.
pub(crate) fn signal(child: u32, whole_group: bool, signal: i32) -> io::Result<()> {
    let id = i32::try_from(child).expect("process numbers are small");
    // SAFETY: takes two integers.
    let result = unsafe { libc::kill(if whole_group { -id } else { id }, signal) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The event to wait for on a descriptor. An error, or the other side closing, also ends the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Only an error, or the other side closing.
    Nothing,
}

/// Waits until a file is ready, a signal arrives or `timeout` has passed (`None`: unlimited). Returns for each file
/// whether it is ready.
pub(crate) fn wait_for(files: &[(BorrowedFd<'_>, Interest)], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let events = |interest| match interest {
        Interest::Read => libc::POLLIN,
        Interest::Write => libc::POLLOUT,
        Interest::Nothing => 0,
    };
    let mut entries: Vec<libc::pollfd> = files
        .iter()
        .map(|(file, interest)| libc::pollfd { fd: file.as_raw_fd(), events: events(*interest), revents: 0 })
        .collect();
    let milliseconds = |timeout: Duration| i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let count = entries.len() as libc::nfds_t;
    // SAFETY: the count is that of the valid entries, and the descriptors are open while borrowed.
    let result = unsafe { libc::poll(entries.as_mut_ptr(), count, timeout.map_or(-1, milliseconds)) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(vec![false; files.len()]) } else { Err(error) };
    }
    Ok(entries.iter().map(|entry| entry.revents != 0).collect())
}

/// Whether this process is in the foreground of a terminal, so that Ctrl-C reaches this process and its whole group.
pub(crate) fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    // SAFETY: takes an open descriptor; getpgrp takes nothing.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}
