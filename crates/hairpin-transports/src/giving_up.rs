//! A flag that ends all waits, for users who interrupt a round.

use std::sync::atomic::{AtomicBool, Ordering};

/// Applies to the whole process, and is never reset.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Ends all waits of wires, connects and accepts as if they had timed out: current waits within half a second, later
/// waits at once. Async-signal-safe.
pub fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Whether [`give_up`] was called.
pub fn has_given_up() -> bool {
    GIVEN_UP.load(Ordering::Relaxed)
}
