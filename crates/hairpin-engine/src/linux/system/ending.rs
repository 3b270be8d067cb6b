//! The time limit for a round after the user ends the run.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use hairpin_transports::giving_up::give_up;
use signal_hook::consts::SIGALRM;
use signal_hook::low_level;

use hairpin_loops::time::monotonic_ns;

/// Time for the current round to finish, in s. The longest round trip of a built-in link is 0.6 s.
const GRACE_S: u32 = 2;

/// When to abandon all waits, in ns of CLOCK_MONOTONIC; [`NEVER`] until the user ends the run.
static DEADLINE_NS: AtomicU64 = AtomicU64::new(NEVER);

const NEVER: u64 = u64::MAX;

/// After one of these signals the current round has 2 s to finish. Then the process abandons all waits ([`give_up`]),
/// and the round fails.
pub fn bound(signals: &[c_int]) -> io::Result<()> {
    // Any process may send SIGALRM, so the signal only triggers the check, and the clock decides whether time is up.
    let look = || {
        if is_over(DEADLINE_NS.load(Ordering::Relaxed), monotonic_ns()) {
            give_up();
        }
    };
    // SAFETY: the handler only reads a clock, which signal handlers may do (signal-safety(7)), and uses atomics.
    // Interrupted calls are restarted; blocking wires and waits check for the end by their own timers.
    unsafe { low_level::register(SIGALRM, look) }?;
    for signal in signals {
        let start = || {
            let deadline_ns = monotonic_ns().saturating_add(u64::from(GRACE_S) * 1_000_000_000);
            // The clock is read before the alarm is set, so the alarm fires after the deadline.
            DEADLINE_NS.store(deadline_ns, Ordering::Relaxed);
            // SAFETY: alarm(2) takes a number; signal handlers may call it.
            unsafe { libc::alarm(GRACE_S) };
        };
        // SAFETY: the handler reads a clock, stores to an atomic and makes one async-signal-safe system call.
        unsafe { low_level::register(*signal, start) }?;
    }
    Ok(())
}

fn is_over(deadline_ns: u64, now_ns: u64) -> bool {
    deadline_ns != NEVER && now_ns >= deadline_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_and_not_the_signal_decides() {
        assert_eq!(
            [(NEVER, 0), (NEVER, NEVER), (7, 6), (7, 7), (7, 8)].map(|(deadline, now)| is_over(deadline, now)),
            [false, false, false, true, true]
        );
    }
}
