//! The clock of the bare loop: the time-stamp counter on x86-64.

use libc::CLOCK_MONOTONIC_RAW;

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
    kernel_ns(libc::CLOCK_MONOTONIC)
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
