//! System calls behind safe functions, and files of the kernel. The only module of this crate with `unsafe` code.
#![allow(unsafe_code, reason = "std has no socket options by number and no settings of threads")]

use std::fs;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The most CPUs for which Linux can be built (x86-64).
pub(super) const MAX_CPUS: usize = 8192;

fn check(answer: impl Into<i64>) -> io::Result<i64> {
    let answer = answer.into();
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Reads an `int` option of a socket, by its level and number.
pub(super) fn option(of: BorrowedFd<'_>, (level, name): (i32, i32)) -> io::Result<i32> {
    let (mut value, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` bytes, the size of `value`, which lives through the call.
    let answer = unsafe { libc::getsockopt(of.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) };
    check(answer).map(|_| value)
}

/// Sets an `int` option of a socket.
pub(super) fn set_option(of: BorrowedFd<'_>, (level, name): (i32, i32), value: i32) -> io::Result<()> {
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel only reads `length` bytes, the size of `value`, which lives through the call.
    let answer = unsafe { libc::setsockopt(of.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    check(answer).map(|_| ())
}

/// The CPUs on which the calling thread may run, in ascending order.
pub(super) fn affinity() -> io::Result<Vec<usize>> {
    let mut mask = [0_u64; MAX_CPUS / 64];
    // SAFETY: the kernel writes at most the given size, that of `mask`, a plain array; 0 is the calling thread.
    let answer = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), (&raw mut mask).cast()) };
    check(answer)?;
    Ok((0..MAX_CPUS).filter(|cpu| mask[cpu / 64] & 1 << (cpu % 64) != 0).collect())
}

/// Lets the calling thread run only on these CPUs. Numbers beyond the mask are omitted, as those of missing CPUs are.
pub(super) fn set_affinity(cpus: impl IntoIterator<Item = usize>) -> io::Result<()> {
    let mut mask = [0_u64; MAX_CPUS / 64];
    for cpu in cpus.into_iter().filter(|cpu| *cpu < MAX_CPUS) {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the kernel only reads the given size, that of `mask`; 0 is the calling thread.
    let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), (&raw const mask).cast()) };
    check(answer).map(|_| ())
}

/// The policy of the calling thread, with its flag, and its priority.
pub(super) fn class() -> io::Result<(i32, i32)> {
    let mut priority = 0_i32;
    // SAFETY: no memory is passed; 0 is the calling thread. Not the function of libc, which musl refuses.
    let policy = check(unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) })?;
    // SAFETY: the kernel's `sched_param` is one `int`, which lives through the call.
    check(unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority) })?;
    Ok((i32::try_from(policy).unwrap_or(i32::MAX), priority))
}

/// Sets policy, flag and priority of the calling thread. Its nice value and its time slice stay.
pub(super) fn set_class(policy: i32, priority: i32) -> io::Result<()> {
    // SAFETY: the kernel only reads one `int`, its `sched_param`, which lives through the call.
    check(unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) }).map(|_| ())
}

/// The timer slack of the calling thread, in ns.
pub(super) fn timer_slack_ns() -> io::Result<u64> {
    // SAFETY: no memory is passed. Not the function of libc, whose result has 32 bits.
    let slack = check(unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) })?;
    Ok(slack.cast_unsigned())
}

/// Sets the timer slack of the calling thread, in ns; 0 is its default.
pub(super) fn set_timer_slack(ns: u64) -> io::Result<()> {
    // SAFETY: one number is passed, and no memory.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns as libc::c_ulong, 0, 0, 0) }).map(|_| ())
}

/// Locks the memory of the process, present and future, or ends all its locks.
pub(super) fn lock_memory(on: bool) -> io::Result<()> {
    // SAFETY: pages become resident, or may be paged again; no mapping changes.
    let answer =
        unsafe { if on { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } else { libc::munlockall() } };
    check(answer).map(|_| ())
}

/// A number of `/proc/sys`, by its name for sysctl(8); the last one if there are several.
pub(super) fn sysctl(name: &str) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    text.split_whitespace().last()?.parse().ok()
}

/// The soft limit of this process for a resource, by its row of `/proc/self/limits`.
pub(super) fn soft_limit(row: &str) -> Option<u64> {
    let soft = first_word("/proc/self/limits", row)?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// A number of bytes of `/proc/self/status`, which has them in KiB.
pub(super) fn status_bytes(row: &str) -> Option<u64> {
    Some(first_word("/proc/self/status", row)?.parse::<u64>().ok()? * 1024)
}

fn first_word(file: &str, row: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(row))?;
    rest.split_whitespace().next().map(str::to_owned)
}
