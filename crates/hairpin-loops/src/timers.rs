//! How a control loop waits for its releases.

use std::time::Duration;

use hairpin_model::periodic::{Periodic, Timing};
use hairpin_model::{Failure, FailureKind};

use crate::linux::system::time::monotonic_ns;
use crate::linux::system::timers::{self, Timer};

#[derive(Debug)]
pub struct ReleaseTimer {
    pub(crate) timing: Timing,
    timer: Option<Timer>,
}

impl ReleaseTimer {
    /// Creates the timer of a loop.
    ///
    /// # Errors
    /// The period is below the resolution of the machine's timers, or there is no descriptor for a timer.
    pub fn new(periodic: &Periodic) -> Result<Self, Failure> {
        let resolution_ns = timers::resolution_ns();
        if periodic.period_ns < resolution_ns {
            let cause = format!(
                "the period of {:?} is below the resolution of this machine's timers, {:?}",
                Duration::from_nanos(periodic.period_ns),
                Duration::from_nanos(resolution_ns)
            );
            return Err(Failure::new(FailureKind::Unsupported, cause, "use a longer --period"));
        }
        let timer = (periodic.timing == Timing::Timerfd).then(Timer::new).transpose();
        let timer = timer.map_err(|error| {
            Failure::new(
                &error,
                format!("cannot create a timer: {error}"),
                "raise the limit of descriptors, or use --timing absolute",
            )
        })?;
        Ok(Self { timing: periodic.timing, timer })
    }

    /// Sleeps for `ns`, or until a signal arrives.
    pub(crate) fn sleep(&self, ns: u64) {
        match (self.timing, &self.timer) {
            (Timing::Sleep, _) => timers::sleep(ns),
            (_, Some(timer)) => timer.sleep_until(monotonic_ns() + ns),
            (_, None) => timers::sleep_until(monotonic_ns() + ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_below_the_resolution_is_refused() {
        let failure = ReleaseTimer::new(&Periodic::default()).unwrap_err();
        assert!(failure.cause.starts_with("the period of 0ns is below the resolution"), "{}", failure.cause);
    }
}
