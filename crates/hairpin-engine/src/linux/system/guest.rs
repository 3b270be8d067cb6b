//! Programs that run in a link's namespaces: how they enter, are waited for and are told to end.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::isolation;
use super::namespace::Refusal;
use super::process::{die_with_parent, readable};

/// Has the program of `command` run in that network namespace, isolated from the host otherwise too, and has the kernel
/// kill it when the thread that spawns it ends. What the kernel refuses is told to [`refusals`].
pub(crate) fn run_in(command: &mut Command, namespace: File, mut tell: PipeWriter) {
    let starter = std::process::id();
    let mut beneath_sys = isolation::mounts_beneath_sys();
    let enter = move || {
        let mut told = |refusal: Refusal| {
            drop(tell.write(&refusal.to_bytes()));
            refusal.error
        };
        isolation::isolate(namespace.as_fd()).map_err(&mut told)?;
        // Without a /sys of its own the program still has its network.
        drop(isolation::mount_sys(&mut beneath_sys).map_err(&mut told));
        if die_with_parent(starter) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: between fork and exec it makes system calls; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(enter) };
}

/// What was refused to a program of [`run_in`], once it has been spawned or could not be.
pub(crate) fn refusals(told: &mut PipeReader) -> io::Result<Vec<Refusal>> {
    let mut bytes = [0; 4 * Refusal::BYTES];
    // The command has the other side open too, so that there is no end to read to.
    let count = if readable(told.as_fd(), 0)? { told.read(&mut bytes)? } else { 0 };
    Ok(bytes[..count].chunks(Refusal::BYTES).filter_map(Refusal::from_bytes).collect())
}

/// A descriptor of that process, readable once it has ended (pidfd_open(2)). It must be a child that nobody has waited
/// for yet.
pub(crate) fn ended(child: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers and returns a new descriptor or -1.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, child, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    let raw = i32::try_from(raw).expect("a descriptor is a small number");
    // SAFETY: the descriptor was just made and nobody else owns it; it is closed on exec by itself.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Sends a signal to a child that nobody has waited for yet, or to the process group that it leads.
pub(crate) fn signal(child: u32, whole_group: bool, signal: i32) -> io::Result<()> {
    let id = i32::try_from(child).expect("process numbers are small");
    // SAFETY: takes two integers.
    let result = unsafe { libc::kill(if whole_group { -id } else { id }, signal) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What is waited for on a descriptor; an error or a closed other side count too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// That it can be read.
    Read,
    /// That it can be written.
    Write,
    /// Nothing but errors.
    Nothing,
}

/// Waits until one of the files is as wanted, for at most `patience` (`None`: without end), and says which are. A signal
/// ends the wait too.
pub(crate) fn wait_for(files: &[(BorrowedFd<'_>, Interest)], patience: Option<Duration>) -> io::Result<Vec<bool>> {
    let events = |interest| match interest {
        Interest::Read => libc::POLLIN,
        Interest::Write => libc::POLLOUT,
        Interest::Nothing => 0,
    };
    let mut entries: Vec<libc::pollfd> = files
        .iter()
        .map(|(file, interest)| libc::pollfd { fd: file.as_raw_fd(), events: events(*interest), revents: 0 })
        .collect();
    let milliseconds = |patience: Duration| i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    let count = entries.len() as libc::nfds_t;
    // SAFETY: as many valid entries are given as are said, and the descriptors are open while borrowed.
    let result = unsafe { libc::poll(entries.as_mut_ptr(), count, patience.map_or(-1, milliseconds)) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(vec![false; files.len()]) } else { Err(error) };
    }
    Ok(entries.iter().map(|entry| entry.revents != 0).collect())
}

/// Whether this process is in the foreground of a terminal, so that its keys (Ctrl-C) reach it, and all of its group.
pub(crate) fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    // SAFETY: takes an open descriptor; getpgrp takes nothing.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}
