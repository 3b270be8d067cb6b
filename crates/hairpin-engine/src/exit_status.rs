//! Exit status of a child process that has closed its output.

use std::process::Child;
use std::time::Duration;

/// It has ended or is about to; on a busy machine that takes long. `None` if it still runs after a second.
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
