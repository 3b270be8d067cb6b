//! The allowed CPUs, pinning, and the usage of a thread.

use std::io;
use std::mem;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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

/// Reduces the timer slack of the calling thread from the default 50 us to 1 ns (prctl(2)).
pub(crate) fn reduce_timer_slack() {
    set_timer_slack(1);
}

/// Sets the timer slack of the calling thread, in ns; 0 is the default of the thread (prctl(2)). Threads and programs that it
/// starts inherit it.
pub(crate) fn set_timer_slack(ns: u64) {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns, 0, 0, 0) };
}

/// Sets the scheduling policy of the calling thread to `SCHED_BATCH`, or back to `SCHED_OTHER` (sched(7)).
pub(crate) fn set_batch(is_batch: bool) -> io::Result<()> {
    let policy = if is_batch { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
    // The kernel's `sched_param` is one number, the priority. musl has no such function, only glibc.
    let priority: i32 = 0;
    // SAFETY: a live number, which the kernel only reads; 0 is the calling thread.
    let set = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
    // SAFETY: PR_GET_TIMERSLACK touches no memory.
    let slack_ns = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(slack_ns).unwrap_or(0)
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
    let limit = libc::rlimit { rlim_cur: max_us, rlim_max: max_us };
    // SAFETY: a live structure, which the kernel only reads.
    outcome(unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit) })
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
    // As in `set_batch`. SAFETY: a live number, which the kernel only reads; 0 is the calling thread.
    let set = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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

fn outcome(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
