//! Ctrl-C: the first one ends the round in flight and the run is saved and reported; the second one ends at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The exit code of a run that the user ended.
pub const EXIT_CODE: u8 = 130;

/// Has Ctrl-C (and SIGTERM, SIGHUP) raise a sign that the engine looks at between two messages.
///
/// # Errors
/// The system refuses the handler.
pub fn raised_by_user() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the second signal finds the sign raised and ends the program; the echo half dies with it.
        flag::register_conditional_shutdown(signal, i32::from(EXIT_CODE), Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
