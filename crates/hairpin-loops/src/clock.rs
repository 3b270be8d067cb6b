//! The only clock of the program.
//!
//! If the kernel's clock source is the x86-64 time stamp counter, a clock read is one RDTSC and one multiplication
//! (about 10 ns). Otherwise the clock is CLOCK_MONOTONIC. The clock's cost, resolution and calibration error are
//! measured and saved in the run's environment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hairpin_model::ClockFacts;
use hairpin_model::periodic::Timing;
use serde::{Deserialize, Serialize};

use crate::linux::system::time::{kernel_source, monotonic_ns, ticks};
use crate::timers::ReleaseTimer;

/// A monotonic clock, in ns since an arbitrary time in the past.
pub trait Clock: Send + Sync {
    fn now_ns(&self) -> u64;

    /// Sleeps until `until_ns`. Returns at once if that time has passed.
    fn sleep_until(&self, until_ns: u64);

    /// Waits until `until_ns` as the timer does. Returns at once if that time has passed.
    fn release_at(&self, until_ns: u64, _timer: &ReleaseTimer) {
        self.sleep_until(until_ns);
    }

    /// Like [`Clock::sleep_until`], but busy-waits.
    fn spin_until(&self, until_ns: u64) {
        while self.now_ns() < until_ns {
            std::hint::spin_loop();
        }
    }
}

/// Duration of the busy-wait at the end of each sleep, in ns: waking up takes tens of microseconds.
const SPIN_NS: u64 = 60_000;

/// A wait that a signal or the calibration error ended at most this early, in ns, is completed by polling.
const EARLY_NS: u64 = 20_000;

/// Duration of the calibration against CLOCK_MONOTONIC, in ns.
const CALIBRATION_NS: u64 = 20_000_000;

/// The machine's clock. The server uses the client's calibration: the counter is the same on all CPUs, and another
/// calibration would take 20 ms per round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealClock {
    origin_ticks: u64,
    origin_ns: u64,
    /// Nanoseconds per tick as a fixed-point number with 32 fractional bits.
    scale: u64,
    error_ppm: f64,
    counts_ticks: bool,
}

impl RealClock {
    /// Chooses the clock source and calibrates it, which takes 20 ms.
    pub fn calibrated() -> Self {
        // The kernel uses the counter only if its rate is constant, even in idle states, and all CPUs agree.
        if !(cfg!(target_arch = "x86_64") && kernel_source() == "tsc") {
            return Self { origin_ticks: 0, origin_ns: 0, scale: 1 << 32, error_ppm: 0.0, counts_ticks: false };
        }
        let first = Bracket::read();
        while monotonic_ns() < first.ns + CALIBRATION_NS {
            std::hint::spin_loop();
        }
        let last = Bracket::read();
        let elapsed_ns = (last.ns - first.ns) as f64;
        let ns_per_tick = elapsed_ns / (last.ticks - first.ticks) as f64;
        let error_ppm = (first.width_ticks + last.width_ticks) as f64 * ns_per_tick / elapsed_ns * 1e6;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a tick is a fraction of 1 ns to some ns"
        )]
        let scale = (ns_per_tick * (1_u64 << 32) as f64).round() as u64;
        Self { origin_ticks: first.ticks, origin_ns: first.ns, scale, error_ppm, counts_ticks: true }
    }

    /// Facts about the clock. Measures resolution and cost, which takes about 1 ms.
    pub fn facts(&self) -> ClockFacts {
        const READS: usize = 2000;
        let mut steps: Vec<u64> = Vec::with_capacity(READS);
        let mut batches: Vec<u64> = Vec::with_capacity(READS / 20);
        let mut last = self.now_ns();
        for _ in 0..READS {
            let now = self.now_ns();
            steps.push(now - last);
            last = now;
        }
        for _ in 0..READS / 20 {
            let begin = self.now_ns();
            (0..20).for_each(|_| {
                std::hint::black_box(self.now_ns());
            });
            batches.push(self.now_ns() - begin);
        }
        batches.sort_unstable();
        let resolution_ns = steps.iter().copied().filter(|step| *step > 0).min().unwrap_or(0) as f64;
        ClockFacts {
            source: if self.counts_ticks { "tsc" } else { "clock_monotonic" }.to_owned(),
            kernel_source: kernel_source(),
            resolution_ns,
            read_cost_ns: batches[batches.len() / 2] as f64 / 21.0,
            recorder_cost_ns: None,
            ns_per_tick: self.scale as f64 / (1_u64 << 32) as f64,
            calibration_error_ppm: self.error_ppm,
        }
    }
}

impl Clock for RealClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        if !self.counts_ticks {
            return monotonic_ns();
        }
        // The counters of two CPUs may differ by a few ticks, so this subtraction must not wrap.
        let elapsed = ticks().saturating_sub(self.origin_ticks);
        #[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
        let elapsed_ns = ((u128::from(elapsed) * u128::from(self.scale)) >> 32) as u64;
        self.origin_ns + elapsed_ns
    }

    fn sleep_until(&self, until_ns: u64) {
        let left_ns = until_ns.saturating_sub(self.now_ns());
        if left_ns > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left_ns - SPIN_NS));
        }
        self.spin_until(until_ns);
    }

    fn release_at(&self, until_ns: u64, timer: &ReleaseTimer) {
        let mut has_waited = false;
        loop {
            let left_ns = until_ns.saturating_sub(self.now_ns());
            match timer.timing {
                _ if left_ns == 0 => return,
                _ if has_waited && left_ns <= EARLY_NS => self.spin_until(until_ns),
                Timing::Spin => self.spin_until(until_ns),
                Timing::SleepSpin => self.sleep_until(until_ns),
                Timing::Sleep | Timing::Absolute | Timing::Timerfd => timer.sleep(left_ns),
            }
            has_waited = true;
        }
    }
}

/// A reading of CLOCK_MONOTONIC between two readings of the counter that are `width_ticks` apart.
struct Bracket {
    ticks: u64,
    ns: u64,
    width_ticks: u64,
}

impl Bracket {
    fn read() -> Self {
        let one = || {
            let before = ticks();
            let ns = monotonic_ns();
            let after = ticks();
            Self { ticks: before + (after - before) / 2, ns, width_ticks: after - before }
        };
        (0..64).map(|_| one()).min_by_key(|bracket| bracket.width_ticks).expect("64 readings were made")
    }
}

/// A clock that advances only when a test advances it, for exact numbers without sleeping.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep_until(&self, until_ns: u64) {
        self.0.fetch_max(until_ns, Ordering::Relaxed);
    }

    fn spin_until(&self, until_ns: u64) {
        self.sleep_until(until_ns);
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::Periodic;

    use super::*;

    #[test]
    fn the_real_clock_agrees_with_the_kernel_and_never_goes_back() {
        let clock = RealClock::calibrated();
        let mut last = 0;
        for _ in 0..10_000 {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
        // The clock must read a time between the kernel's two readings, within the calibration error since the
        // origin.
        let before = monotonic_ns();
        let ours = clock.now_ns();
        let after = monotonic_ns();
        let slack = 1_000 + (after - clock.origin_ns.min(after)) / 1_000;
        assert!(ours + slack >= before && ours <= after + slack, "{before} {ours} {after}");
    }

    #[test]
    fn a_sleep_is_never_too_short() {
        let clock = RealClock::calibrated();
        for nap_ns in [0, 1, SPIN_NS, 3 * SPIN_NS] {
            let until_ns = clock.now_ns() + nap_ns;
            clock.sleep_until(until_ns);
            assert!(clock.now_ns() >= until_ns, "{nap_ns}");
        }
        clock.sleep_until(0);
    }

    #[test]
    fn no_timing_returns_early() {
        let clock = RealClock::calibrated();
        for timing in Timing::ALL {
            let periodic = Periodic { period_ns: 1_000, timing: *timing, ..Periodic::default() };
            let timer = ReleaseTimer::new(&periodic).unwrap();
            for wait_ns in [0, 1, 70_000] {
                let until_ns = clock.now_ns() + wait_ns;
                clock.release_at(until_ns, &timer);
                assert!(clock.now_ns() >= until_ns, "{timing}");
            }
            clock.release_at(0, &timer);
        }
    }

    #[test]
    fn the_manual_clock_never_advances_on_its_own() {
        let clock = ManualClock::default();
        assert_eq!(clock.now_ns(), 0);
        clock.clone().advance(5);
        assert_eq!(clock.now_ns(), 5);
        clock.sleep_until(9);
        clock.sleep_until(3);
        assert_eq!(clock.now_ns(), 9, "the clock never goes back");
        clock.spin_until(12);
        assert_eq!(clock.now_ns(), 12);
    }
}
