//! Waits for the other end, until a time-out or until the user ends the program.

use std::io;
use std::time::{Duration, Instant};

use hairpin_transports::giving_up::has_given_up;

/// Maximum interval between checks whether the user ended the program.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Ready,
    GivenUp,
    TimedOut,
}

/// Calls `look` with a time-out in ms until it returns true. If the user ends the program, the current call is the
/// last one; the peer can still answer during this call.
pub(crate) fn wait(patience: Duration, look: impl FnMut(i32) -> io::Result<bool>) -> io::Result<WaitOutcome> {
    wait_until(patience, look, has_given_up)
}

fn wait_until(
    patience: Duration,
    mut look: impl FnMut(i32) -> io::Result<bool>,
    has_given_up: impl Fn() -> bool,
) -> io::Result<WaitOutcome> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let at_most_ms = i32::try_from(left.min(POLL_INTERVAL).as_millis()).expect("at most a second");
        if look(at_most_ms)? {
            return Ok(WaitOutcome::Ready);
        }
        if has_given_up() {
            return Ok(WaitOutcome::GivenUp);
        }
        if left.is_zero() {
            return Ok(WaitOutcome::TimedOut);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Waits for a silent peer. The user ends the program during call `given_up_in`. Returns the calls' time-outs.
    fn looks(given_up_in: usize) -> (WaitOutcome, Vec<i32>) {
        let (looks, given_up) = (RefCell::new(Vec::new()), Cell::new(false));
        let look = |at_most_ms| {
            looks.borrow_mut().push(at_most_ms);
            given_up.set(looks.borrow().len() >= given_up_in);
            Ok(false)
        };
        let waited = wait_until(Duration::from_secs(3600), look, || given_up.get()).unwrap();
        (waited, looks.into_inner())
    }

    #[test]
    fn no_call_begins_after_the_user_ended_the_program() {
        for given_up_in in [1, 2, 5] {
            assert_eq!(looks(given_up_in), (WaitOutcome::GivenUp, vec![200; given_up_in]));
        }
        assert_eq!(
            wait_until(Duration::ZERO, |_| Ok(true), || true).unwrap(),
            WaitOutcome::Ready,
            "an available message is received"
        );
        assert_eq!(wait_until(Duration::ZERO, |_| Ok(false), || false).unwrap(), WaitOutcome::TimedOut);
    }
}
