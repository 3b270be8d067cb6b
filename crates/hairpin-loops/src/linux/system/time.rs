//! Reading clocks.

/// CLOCK_MONOTONIC in ns, read through the vDSO.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME in ns since 1970-01-01 UTC, read through the vDSO. The kernel's packet timestamps use this clock.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of this process, in ns.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec, and these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    #[expect(clippy::cast_sign_loss, reason = "these clocks are never negative")]
    let ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    ns
}

/// The value of the time stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC. The caller checks that its rate is constant.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// On machines without a time stamp counter, ticks are nanoseconds of CLOCK_MONOTONIC.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn ticks() -> u64 {
    monotonic_ns()
}

/// The kernel's clock source, for instance `tsc`.
pub fn kernel_source() -> String {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
