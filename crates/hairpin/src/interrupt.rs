//! Ctrl-C: the first one ends the round in flight and the run is saved and reported; the second one ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a run that the user ended.
pub const EXIT_CODE: u8 = 130;

/// Has Ctrl-C (and SIGTERM, SIGHUP) raise a sign that the engine looks at between two messages.
///
/// # Errors
/// The system refuses the handler, or there is one already.
pub fn raised_by_user() -> Result<Arc<AtomicBool>, ctrlc::Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let sign = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if sign.swap(true, Ordering::Relaxed) {
            #[expect(clippy::exit, reason = "the user asked twice; the echo half dies with this process")]
            std::process::exit(i32::from(EXIT_CODE));
        }
    })?;
    Ok(stop)
}
