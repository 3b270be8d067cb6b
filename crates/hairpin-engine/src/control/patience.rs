//! Waits for the other end, until a time-out or until the user ends the program.

use std::io;
use std::time::{Duration, Instant};

use hairpin_transports::giving_up::has_given_up;

use super::ControlError;

/// Maximum interval between checks whether the user ended the program.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Calls `look` with a time-out until it returns true. Returns false after `patience`. If the user ends the program, the
/// current call is the last one; the peer can still answer during this call.
pub(crate) fn wait(patience: Duration, look: impl FnMut(Duration) -> io::Result<bool>) -> Result<bool, ControlError> {
    wait_until(patience, look, has_given_up)
}

fn wait_until(
    patience: Duration,
    mut look: impl FnMut(Duration) -> io::Result<bool>,
    has_given_up: impl Fn() -> bool,
) -> Result<bool, ControlError> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if look(left.min(POLL_INTERVAL))? {
            return Ok(true);
        }
        if has_given_up() {
            return Err(ControlError::GivenUp);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Waits for a silent peer. The user ends the program during call `given_up_in`. Returns the calls' time-outs.
    fn looks(given_up_in: usize) -> Vec<Duration> {
        let (looks, given_up) = (RefCell::new(Vec::new()), Cell::new(false));
        let look = |at_most| {
            looks.borrow_mut().push(at_most);
            given_up.set(looks.borrow().len() >= given_up_in);
            Ok(false)
        };
        let waited = wait_until(Duration::from_secs(3600), look, || given_up.get());
        assert!(matches!(waited, Err(ControlError::GivenUp)));
        looks.into_inner()
    }

    #[test]
    fn no_call_begins_after_the_user_ended_the_program() {
        for given_up_in in [1, 2, 5] {
            assert_eq!(looks(given_up_in), vec![Duration::from_millis(200); given_up_in]);
        }
        assert!(wait_until(Duration::ZERO, |_| Ok(true), || true).unwrap(), "an available message is received");
        assert!(!wait_until(Duration::ZERO, |_| Ok(false), || false).unwrap(), "the time is over");
    }
}
