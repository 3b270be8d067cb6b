//! The allowed CPUs, pinning, and the usage of a thread.

use std::num::NonZeroU64;
use std::{io, mem};

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CpuSet, current_timer_slack, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

/// The CPUs on which the calling thread may run.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Lets the calling thread run only on these CPUs.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    Ok(sched_setaffinity(None, &set)?)
}

/// Voluntary and involuntary context switches of the calling thread, or of its process, so far.
pub(crate) fn switches(of_process: bool) -> (u64, u64) {
    let whose = if of_process { libc::RUSAGE_SELF } else { libc::RUSAGE_THREAD };
    // SAFETY: rusage is plain numbers, for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is a valid place for one rusage.
    unsafe { libc::getrusage(whose, &raw mut usage) };
    #[expect(clippy::cast_sign_loss, reason = "the kernel counts up from zero")]
    let switches = (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64);
    switches
}

/// Sets the timer slack of the calling thread, in ns; 0 is the default of the thread (prctl(2)). Threads and programs that it
/// starts inherit it.
pub(crate) fn set_timer_slack(ns: u64) {
    let _ = set_current_timer_slack(NonZeroU64::new(ns));
}

/// Sets the scheduling policy of the calling thread to `SCHED_BATCH`, or back to `SCHED_OTHER` (sched(7)).
pub(crate) fn set_batch(is_batch: bool) -> io::Result<()> {
    set_policy(if is_batch { libc::SCHED_BATCH } else { libc::SCHED_OTHER }, 0)
}

/// Requests time slices of 0.1 ms instead of a few ms for the calling thread (sched_setattr(2), `sched_runtime`). The
/// thread's share of the CPU does not change, but when it wakes it preempts threads with longer slices. Kernels
/// before 6.12 ignore this request. A thread with another scheduling policy is left unchanged.
pub(crate) fn shorten_time_slices() {
    let size = u32::try_from(mem::size_of::<libc::sched_attr>()).expect("48 bytes");
    // SAFETY: plain numbers, for which all zeroes is a valid value.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    // SAFETY: a live structure of the given size, which the kernel fills; 0 is the calling thread.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if known != 0 || attributes.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
        return;
    }
    attributes.sched_runtime = 100_000;
    // SAFETY: a live structure of the size that it states, which the kernel only reads.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// The timer slack of the calling thread, in ns (prctl(2)).
pub(crate) fn timer_slack_ns() -> u64 {
    current_timer_slack().unwrap_or(0)
}

/// Locks all memory of this process, present and future (mlockall(2)).
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: the call takes one number.
    outcome(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })
}

/// Whether this process may lock its memory. Locks only pages that are touched meanwhile.
pub(crate) fn may_lock_memory() -> io::Result<()> {
    // SAFETY: both calls take at most one number.
    let locked = outcome(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) });
    // SAFETY: as above.
    unsafe { libc::munlockall() };
    locked
}

/// Limits the CPU time that a real-time thread of this process may use without a call that blocks (`RLIMIT_RTTIME`,
/// getrlimit(2)).
pub(crate) fn limit_realtime_us(max_us: u64) -> io::Result<()> {
    Ok(setrlimit(Resource::Rttime, Rlimit { current: Some(max_us), maximum: Some(max_us) })?)
}

/// Sets the policy of the calling thread to `SCHED_FIFO`, which threads and programs that it starts do not inherit.
pub(crate) fn set_fifo(priority: i32) -> io::Result<()> {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// Sets the policy of the calling thread back to `SCHED_OTHER`.
pub(crate) fn set_other() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

fn set_policy(policy: i32, priority: i32) -> io::Result<()> {
    // The kernel's `sched_param` is one number, the priority. musl has no such function, only glibc.
    // SAFETY: a live number, which the kernel only reads; 0 is the calling thread.
    outcome(unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) })
}

/// Reserves `runtime_ns` of each period for the calling thread (`SCHED_DEADLINE`), which may run on all CPUs.
pub(crate) fn set_deadline(runtime_ns: u64, period_ns: u64) -> io::Result<()> {
    // SAFETY: plain numbers, for which all zeroes is a valid value.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    attributes.size = u32::try_from(mem::size_of::<libc::sched_attr>()).expect("48 bytes");
    attributes.sched_policy = libc::SCHED_DEADLINE.cast_unsigned();
    attributes.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK.cast_unsigned().into();
    (attributes.sched_runtime, attributes.sched_deadline, attributes.sched_period) =
        (runtime_ns, period_ns, period_ns);
    // SAFETY: a live structure of the size that it states, which the kernel only reads.
    outcome(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) })
}

/// The policy of the calling thread, as the kernel reports it.
pub(crate) fn policy() -> &'static str {
    // SAFETY: 0 is the calling thread, and the call touches no memory.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    match i32::try_from(policy).unwrap_or(-1) & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => "SCHED_OTHER",
        libc::SCHED_BATCH => "SCHED_BATCH",
        libc::SCHED_FIFO => "SCHED_FIFO",
        libc::SCHED_DEADLINE => "SCHED_DEADLINE",
        _ => "another",
    }
}

fn outcome(result: impl Into<libc::c_long>) -> io::Result<()> {
    if result.into() == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
