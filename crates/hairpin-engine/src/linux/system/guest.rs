//! Starts programs in a link's namespaces.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::isolation;
use super::namespace::Refusal;
use super::process::die_with_parent;
use crate::wait::readable;

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

/// Makes the kernel kill the program of `command` when the thread that spawns it ends.
pub(crate) fn die_with_this_thread(command: &mut Command) {
    let starter = std::process::id();
    let die = move || if die_with_parent(starter) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) };
    // SAFETY: between fork and exec, `die` only makes system calls; it allocates nothing and takes no locks.
    unsafe { command.pre_exec(die) };
}

/// Returns the steps of [`run_in`] that the kernel refused. Call it after spawning the command.
pub(crate) fn refusals(reader: &mut PipeReader) -> io::Result<Vec<Refusal>> {
    let mut bytes = [0; 4 * Refusal::BYTES];
    // The command still holds the write end open, so a read would not see the end of file.
    let count = if readable(&*reader, Duration::ZERO)? { reader.read(&mut bytes)? } else { 0 };
    Ok(bytes[..count].chunks(Refusal::BYTES).filter_map(Refusal::from_bytes).collect())
}

/// Whether this process is in the foreground of a terminal, so that Ctrl-C reaches this process and its whole group.
pub fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    // SAFETY: takes an open descriptor; getpgrp takes nothing.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}
