//! Exit status of a child process that has closed its output.

use std::process::Child;
use std::time::Duration;

/// Waits up to a second for the process, which may exit slowly on a busy machine. `None` if it is still running.
pub(crate) fn exit_status(child: &mut Child) -> Option<String> {
    for _ in 0..500 {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.to_string()),
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => return None,
        }
    }
    None
}
