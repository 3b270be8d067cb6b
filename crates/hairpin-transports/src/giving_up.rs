//! The sign that nothing is waited for any longer: the user wants the program to end, and has waited.

use std::sync::atomic::{AtomicBool, Ordering};

/// Of the process, as the wish is: it is never taken back.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// From now on every wait of a wire, a connect and an accept ends as if its time were over: those to come at once,
/// those under way within half a second. A handler of signals may call it.
pub fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Whether that has been said.
#[must_use]
pub fn has_given_up() -> bool {
    GIVEN_UP.load(Ordering::Relaxed)
}
