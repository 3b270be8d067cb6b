//! The clock of the bare loop (the time-stamp counter on x86-64), and the cost of clock reads.

use std::hint::black_box;

use libc::{CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW};

use crate::system::kernel_ns;

/// Reads the time-stamp counter without a fence, like Hairpin.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: RDTSC has no precondition in user mode; Linux does not disable it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads CLOCK_MONOTONIC instead of a time-stamp counter: a tick is a nanosecond.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    kernel_ns(CLOCK_MONOTONIC)
}

/// Returns the nanoseconds per tick, from two comparisons with CLOCK_MONOTONIC_RAW, `over_ns` apart.
pub(crate) fn ns_per_tick(over_ns: u64) -> f64 {
    let (ticks_before, ns_before) = read_bracketed();
    while kernel_ns(CLOCK_MONOTONIC_RAW) < ns_before + over_ns {
        std::hint::spin_loop();
    }
    let (ticks_after, ns_after) = read_bracketed();
    (ns_after - ns_before) as f64 / (ticks_after - ticks_before) as f64
}

/// Reads the counter and the kernel's clock (in ns) at nearly the same time: the closest of 50 attempts.
fn read_bracketed() -> (u64, u64) {
    (0..50)
        .map(|_| {
            let before = ticks();
            let ns = kernel_ns(CLOCK_MONOTONIC_RAW);
            let after = ticks();
            (after.wrapping_sub(before), before.midpoint(after), ns)
        })
        .min()
        .map(|(_, middle, ns)| (middle, ns))
        .expect("50 attempts")
}

/// Returns the resolution in ticks, since the counter may advance in larger steps and a reading takes time: the 10th
/// percentile of the non-zero differences between 10 000 adjacent readings.
pub(crate) fn resolution_ticks() -> u64 {
    let readings: Vec<u64> = (0..10_000).map(|_| ticks()).collect();
    let mut steps: Vec<u64> =
        readings.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).filter(|step| *step > 0).collect();
    steps.sort_unstable();
    steps.get(steps.len() / 10).copied().unwrap_or(0)
}

/// Name of a clock, and a function that reads it.
type Read = (&'static str, fn() -> u64);

/// Returns the median cost in ns of each kind of clock read on this machine, for back-to-back reads.
pub(crate) fn costs() -> Vec<(&'static str, f64)> {
    #[cfg(target_arch = "x86_64")]
    let counters: &[Read] = &[("rdtsc", ticks), ("rdtscp", rdtscp), ("lfence_rdtsc", lfence_rdtsc)];
    #[cfg(not(target_arch = "x86_64"))]
    let counters: &[Read] = &[];
    let kernel: &[Read] = &[
        ("clock_gettime_monotonic", || kernel_ns(CLOCK_MONOTONIC)),
        ("clock_gettime_monotonic_raw", || kernel_ns(CLOCK_MONOTONIC_RAW)),
    ];
    counters.iter().chain(kernel).map(|(name, read)| (*name, cost_ns(*read))).collect()
}

fn cost_ns(read: fn() -> u64) -> f64 {
    const READS: u32 = 20_000;
    let mut costs: Vec<f64> = (0..51)
        .map(|_| {
            let before = kernel_ns(CLOCK_MONOTONIC_RAW);
            for _ in 0..READS {
                black_box(read());
            }
            (kernel_ns(CLOCK_MONOTONIC_RAW) - before) as f64 / f64::from(READS)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

#[cfg(target_arch = "x86_64")]
fn rdtscp() -> u64 {
    let mut cpu = 0;
    // SAFETY: the pointer is to a live u32; all x86-64 CPUs since about 2008 have RDTSCP.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut cpu) }
}

#[cfg(target_arch = "x86_64")]
fn lfence_rdtsc() -> u64 {
    // SAFETY: LFENCE is part of SSE2, which every x86-64 CPU has; RDTSC has no precondition.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}
