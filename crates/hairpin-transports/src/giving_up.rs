//! A flag that ends all waits: the user wants the program to end, and has waited.

use std::sync::atomic::{AtomicBool, Ordering};

/// For the whole process, and never reset.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Ends every wait of a wire, a connect and an accept as if it had timed out: future ones at once, current ones within
/// half a second. Async-signal-safe.
pub fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Whether [`give_up`] was called.
pub fn has_given_up() -> bool {
    GIVEN_UP.load(Ordering::Relaxed)
}
