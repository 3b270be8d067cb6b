//! Seccomp user notification (seccomp(2), seccomp_unotify(2)): system calls of a program wait until this process answers.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use hairpin_transports::bpf::{jump, statement};
use libc::{BPF_ABS, BPF_JEQ, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::done;

/// Offsets in `struct seccomp_data`: the call's number, the architecture, the low word of an argument (little endian).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `AUDIT_ARCH_*` (include/uapi/linux/audit.h): a program of another architecture is not notified.
#[cfg(target_arch = "x86_64")]
const THIS_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(not(target_arch = "x86_64"))]
const THIS_ARCHITECTURE: u32 = 0xc000_00b7;

/// ioctl numbers of the listener (include/uapi/linux/seccomp.h).
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const IS_VALID: libc::c_ulong = 0x4008_2102;

/// `pidfd_open` of a thread that leads no process (Linux 6.9).
const PIDFD_THREAD: u32 = libc::O_EXCL.cast_unsigned();

/// Bytes that a program tells: its id, and the descriptor of the listener.
pub(crate) const TOLD_BYTES: usize = 8;
/// What the supervisor writes when it has the listener.
const TAKEN: [u8; 1] = [1];

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    pub(crate) id: u64,
    pub(crate) thread: u32,
    pub(crate) call: i64,
    pub(crate) arguments: [u64; 6],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The kernel carries the call out.
    Continue,
    /// The call returns 0 and does nothing.
    Done,
}

/// Returns a filter that notifies of connect(2) and listen(2), and of setsockopt(2) for these options: level and number.
pub(crate) fn filter(options: &[(i32, i32)]) -> Vec<sock_filter> {
    let load = |offset: u32| statement(BPF_LD | BPF_W | BPF_ABS, offset);
    let pairs = u8::try_from(options.len()).expect("there are few options");
    // The last two instructions: allow, then notify.
    let allow = 6 + 4 * pairs;
    let beyond = |here: u8, target: u8| target - here - 1;
    let call = |number: libc::c_long| u32::try_from(number).expect("numbers of calls are small");
    let mut program = vec![
        load(ARCHITECTURE),
        jump(BPF_JEQ, THIS_ARCHITECTURE, 0, beyond(1, allow)),
        load(NUMBER),
        jump(BPF_JEQ, call(libc::SYS_connect), beyond(3, allow + 1), 0),
        jump(BPF_JEQ, call(libc::SYS_listen), beyond(4, allow + 1), 0),
        jump(BPF_JEQ, call(libc::SYS_setsockopt), 0, beyond(5, allow)),
    ];
    for (here, (level, number)) in (6_u8..).step_by(4).zip(options) {
        program.extend([
            load(ARGUMENTS + 8),
            jump(BPF_JEQ, level.cast_unsigned(), 0, 2),
            load(ARGUMENTS + 16),
            jump(BPF_JEQ, number.cast_unsigned(), beyond(here + 3, allow + 1), 0),
        ]);
    }
    program.push(statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW));
    program.push(statement(BPF_RET | BPF_K, libc::SECCOMP_RET_USER_NOTIF));
    program
}

/// Makes the program of `command` install the filter before it runs, so that it can gain no privileges (no_new_privs). It tells
/// its id and the listener's descriptor on `tell`, and waits on `go` until [`listener`] has taken it.
pub(crate) fn install_in(command: &mut Command, filter: Vec<sock_filter>, mut tell: PipeWriter, mut go: PipeReader) {
    let install = move || {
        let program = libc::sock_fprog {
            len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: takes four numbers.
        done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        // SAFETY: the pointer is that of a live sock_fprog, whose pointer and length describe a live slice.
        let listener = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const program,
            )
        };
        let listener = i32::try_from(listener).ok().filter(|listener| *listener >= 0);
        let listener = listener.ok_or_else(io::Error::last_os_error)?;
        let id = std::process::id();
        tell.write_all(&id.to_ne_bytes())?;
        tell.write_all(&listener.to_ne_bytes())?;
        // The listener closes on exec; the supervisor has its copy by then, or reports that it cannot have one. The pipe would not end,
        // because this process has both of its ends.
        let mut answer = [0];
        go.read_exact(&mut answer)?;
        if answer == TAKEN { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    };
    // SAFETY: between fork and exec, `install` only makes system calls; it allocates nothing and takes no locks.
    unsafe { command.pre_exec(install) };
}

/// Takes the listener of a program that runs [`install_in`], and lets it continue.
pub(crate) fn listener(mut told: PipeReader, mut go: PipeWriter) -> io::Result<OwnedFd> {
    let mut words = [0; TOLD_BYTES];
    told.read_exact(&mut words)?;
    let word = |at: usize| i32::from_ne_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
    let process = Pid::from_raw(word(0)).ok_or(io::ErrorKind::InvalidData)?;
    let taken = pidfd_open(process, PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, word(4), PidfdGetfdFlags::empty()));
    go.write_all(if taken.is_ok() { &TAKEN } else { &[0] })?;
    Ok(taken?)
}

/// Receives a notification. `None` if the call has ended meanwhile, for instance because a signal interrupted it.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> io::Result<Option<Notification>> {
    // SAFETY: plain numbers, for which all zeroes is a valid value, as the kernel demands.
    let mut found: libc::seccomp_notif = unsafe { zeroed() };
    // SAFETY: the kernel writes one `seccomp_notif`.
    let received = done(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut found) });
    match received {
        Ok(()) => Ok(Some(Notification {
            id: found.id,
            thread: found.pid,
            call: found.data.nr.into(),
            arguments: found.data.args,
        })),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the call still waits: then its thread's id belongs to it.
pub(crate) fn is_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads one number.
    done(unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID as _, &raw const id) }).is_ok()
}

/// Answers a notification. A call that has ended meanwhile needs no answer.
pub(crate) fn answer(listener: BorrowedFd<'_>, id: u64, answer: Answer) {
    let flags = if answer == Answer::Continue { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 };
    let response = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the kernel reads one `seccomp_notif_resp`. It fails only if the call has ended.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) };
}

/// The process of a thread, with which it shares its descriptors: kernels before 6.9 open no other threads.
fn process_of(thread: u32) -> Option<Pid> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let id = text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
    Pid::from_raw(id)
}

/// Returns a copy of a thread's descriptor. Close it at once: while it is open, the program's close(2) sends no FIN.
pub(crate) fn borrow(thread: u32, descriptor: i32) -> io::Result<OwnedFd> {
    let id = i32::try_from(thread).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let of_process = pidfd_open(id, PidfdFlags::empty());
    let owner = of_process
        .or_else(|_| pidfd_open(id, PidfdFlags::from_bits_retain(PIDFD_THREAD)))
        .or_else(|why| process_of(thread).map_or(Err(why), |id| pidfd_open(id, PidfdFlags::empty())))?;
    Ok(pidfd_getfd(owner.as_fd(), descriptor, PidfdGetfdFlags::empty())?)
}
