//! Two processes on the requested CPUs: the sender's loop and the receiver's loop.
//!
//! The sender announces the end of the warm-up in shared memory. The time begins when the receiver has seen it, which
//! may be later if another process has its CPU, and the sender continues until the receiver has seen the end. So both
//! ends are at full rate at both edges of the measurement, even if datagrams are lost.

use std::io::{self, Error, ErrorKind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::carry::Call;
use crate::options::Options;

/// Counts of one end between two moments of its own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Bytes moved by its calls.
    pub(crate) bytes: u64,
    /// Its send or receive calls.
    pub(crate) calls: u64,
    /// Time between the two moments.
    pub(crate) elapsed_ns: u64,
}

/// Phases of a run, in order.
const WARM_UP: u32 = 0;
const MEASURED: u32 = 1;
const OVER: u32 = 2;

/// Send calls per read of the clock.
const CALLS_BETWEEN_CLOCK_READS: u32 = 32;

/// SIGALRM ends a run that takes this much longer than requested.
const GRACE_S: u64 = 10;

/// The sender writes the first line, the receiver the second.
#[repr(C, align(64))]
struct CacheLine<T>(T);

struct Shared {
    phase: CacheLine<AtomicU32>,
    received: CacheLine<Received>,
}

struct Received {
    bytes: AtomicU64,
    calls: AtomicU64,
    elapsed_ns: AtomicU64,
    /// 1 after the first measured arrival.
    started: AtomicU32,
    /// 1 when the others are written.
    complete: AtomicU32,
}

/// Forks the receiver, runs the sender, waits for the receiver; returns the counts of both. `close_sender` and
/// `close_receiver` close the end that a process does not use, so that each notices when the other is gone.
pub(crate) fn run(
    asked: &Options,
    (mut sender, close_sender): (impl Call, impl FnOnce()),
    (mut receiver, close_receiver): (impl Call, impl FnOnce()),
) -> io::Result<(Count, Count)> {
    let shared = shared()?;
    // SAFETY: this process has one thread, so the child may call anything.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Err(Error::last_os_error()),
        0 => {
            limit(asked);
            close_sender();
            // SAFETY: plain integers. The receiver ends with the sender in any case.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let outcome = pin(asked.cpus.1).and_then(|()| receive(&mut receiver, shared));
            // SAFETY: the child must not go back into the parent's code.
            unsafe { libc::_exit(outcome.map_or_else(|why| why.raw_os_error().unwrap_or(1), |()| 0)) }
        }
        _ => {}
    }
    limit(asked);
    close_receiver();
    let sent = pin(asked.cpus.0).and_then(|()| send(asked, &mut sender, shared));
    let ended = end(child, sent.is_ok());
    let (sent, ()) = (sent?, ended?);
    let received = &shared.received.0;
    Ok((
        sent,
        Count {
            bytes: received.bytes.load(Relaxed),
            calls: received.calls.load(Relaxed),
            elapsed_ns: received.elapsed_ns.load(Relaxed),
        },
    ))
}

/// Sends until the receiver has seen the end; counts what was sent between the end of the warm-up and the end of the
/// time.
fn send(asked: &Options, sender: &mut impl Call, shared: &Shared) -> io::Result<Count> {
    let (mut count, mut started_ns) = (Count::default(), now_ns());
    let received = &shared.received.0;
    let (mut counts, mut measured) = (false, None);
    while received.complete.load(Acquire) == 0 {
        for _ in 0..CALLS_BETWEEN_CLOCK_READS {
            match sender.call() {
                Ok(bytes) => count.bytes += bytes,
                // A receiver that has seen everything exits.
                Err(_) if received.complete.load(Acquire) == 1 => break,
                Err(why) => return Err(why),
            }
            count.calls += 1;
        }
        let elapsed_ns = now_ns() - started_ns;
        match shared.phase.0.load(Relaxed) {
            WARM_UP if elapsed_ns >= asked.warmup_ms * 1_000_000 => {
                shared.phase.0.store(MEASURED, Release);
            }
            MEASURED if !counts && received.started.load(Acquire) == 1 => {
                (counts, count, started_ns) = (true, Count::default(), now_ns());
            }
            MEASURED if counts && elapsed_ns >= asked.duration_ms * 1_000_000 => {
                shared.phase.0.store(OVER, Release);
                measured = Some(Count { elapsed_ns, ..count });
            }
            _ => {}
        }
    }
    measured.ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "the receiver ended before the time was over"))
}

/// Receives until the time is over; stores the counts between the first and the last arrival within it.
fn receive(receiver: &mut impl Call, shared: &Shared) -> io::Result<()> {
    let mut take = || match receiver.call() {
        Ok(0) => Err(Error::from_raw_os_error(libc::ECONNRESET)),
        Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    };
    while shared.phase.0.load(Relaxed) == WARM_UP {
        take()?;
    }
    // The arrival that starts the time does not count.
    while take()? == 0 {}
    let (mut count, started_ns) = (Count::default(), now_ns());
    let received = &shared.received.0;
    received.started.store(1, Release);
    while shared.phase.0.load(Relaxed) != OVER {
        count.bytes += take()?;
        count.calls += 1;
    }
    received.elapsed_ns.store(now_ns() - started_ns, Relaxed);
    received.bytes.store(count.bytes, Relaxed);
    received.calls.store(count.calls, Relaxed);
    received.complete.store(1, Release);
    Ok(())
}

/// Waits for the receiver, or kills it if the sender failed.
fn end(child: libc::pid_t, wait: bool) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the child is ours and has not been waited for, so its id is still its own; the pointer is to a live
    // integer.
    unsafe {
        if !wait {
            libc::kill(child, libc::SIGKILL);
        }
        libc::waitpid(child, &raw mut status, 0);
    }
    match libc::WEXITSTATUS(status) {
        _ if !wait => Ok(()),
        0 if libc::WIFEXITED(status) => Ok(()),
        code if libc::WIFEXITED(status) => Err(Error::from_raw_os_error(code)),
        _ => Err(Error::other("a signal ended the receiver")),
    }
}

/// Zeroed memory shared across a fork.
fn shared() -> io::Result<&'static Shared> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping; nothing is overwritten.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Shared>(), protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    // SAFETY: the page is zeroed (a valid Shared), aligned, large enough, and never unmapped.
    Ok(unsafe { &*page.cast::<Shared>() })
}

/// Ends this process if it takes too long.
fn limit(asked: &Options) {
    let seconds = (asked.warmup_ms + asked.duration_ms).div_ceil(1000) + GRACE_S;
    // SAFETY: plain integers; the default action of SIGALRM ends the process. SIGPIPE is an error of `write` instead.
    unsafe {
        libc::alarm(u32::try_from(seconds).unwrap_or(u32::MAX));
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= usize::try_from(libc::CPU_SETSIZE).expect("1024") {
        return Err(Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: an all-zero set is valid; the CPU is within it; pointer and length are those of the live set.
    let answer = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}
