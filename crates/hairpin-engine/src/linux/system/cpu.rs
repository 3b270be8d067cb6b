//! The allowed CPUs, pinning, and the usage of a thread.

use std::io;
use std::mem;

/// The CPUs on which the calling thread may run.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: cpu_set_t is a plain bit set, for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is a valid place for a set of the given size.
    let result = unsafe { libc::sched_getaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw mut set) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let size = usize::try_from(libc::CPU_SETSIZE).expect("CPU_SETSIZE is positive");
    // SAFETY: every index is below CPU_SETSIZE.
    Ok((0..size).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// Lets the calling thread run only on these CPUs.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: as in `allowed`.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    let size = usize::try_from(libc::CPU_SETSIZE).expect("CPU_SETSIZE is positive");
    for cpu in cpus.iter().filter(|cpu| **cpu < size) {
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    // SAFETY: `set` is a valid set of the given size; 0 is the calling thread.
    let result = unsafe { libc::sched_setaffinity(0, mem::size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPU on which the calling thread is running.
pub(crate) fn current() -> Option<usize> {
    // SAFETY: takes no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Voluntary and involuntary context switches of the calling thread so far.
pub(crate) fn thread_switches() -> (u64, u64) {
    // SAFETY: rusage is plain numbers, for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is a valid place for one rusage.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    #[expect(clippy::cast_sign_loss, reason = "the kernel counts up from zero")]
    let switches = (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64);
    switches
}

/// Reduces the timer slack of the calling thread from the default 50 us to 1 ns (prctl(2)).
pub(crate) fn reduce_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0) };
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
