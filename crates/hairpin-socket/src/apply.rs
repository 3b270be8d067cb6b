//! Applies a profile to a socket or to the calling thread.

use crate::platform::{self, Socket};
use crate::profile::Profile;
use crate::report::{Report, Undo};

impl Profile {
    /// Requests the profile's settings of a socket, and reads back what is in effect.
    ///
    /// Never fails: what is refused or has no effect is an outcome with its reason. An accepted socket inherits
    /// `TCP_NODELAY` and the buffers of its listener, but not `TCP_QUICKACK` and `SO_PRIORITY`.
    pub fn apply_to(&self, socket: &(impl Socket + ?Sized)) -> Report {
        Report { outcomes: platform::apply_to_socket(self, socket) }
    }

    /// Requests the profile's settings of the calling thread until the guard is dropped.
    ///
    /// Never fails, as [`Profile::apply_to`]. The memory lock is the process's: the last guard that has it ends it.
    pub fn apply_to_thread(&self) -> ThreadGuard {
        let (outcomes, undo) = platform::apply_to_thread(self);
        ThreadGuard { report: Report { outcomes }, undo }
    }
}

/// Undoes on drop what [`Profile::apply_to_thread`] changed. Drop the guards of a thread in reverse order.
///
/// The settings belong to the thread, so the guard cannot leave it:
/// ```compile_fail
/// fn move_to_another_thread(_: impl Send) {}
/// move_to_another_thread(hairpin_socket::Profile::low_latency().apply_to_thread());
/// ```
/// Without `CAP_SYS_NICE` the kernel keeps `SCHED_RESET_ON_FORK`.
#[must_use = "the settings of the thread are undone when the guard is dropped"]
pub struct ThreadGuard {
    report: Report,
    /// Closures that are not `Send`.
    undo: Vec<Undo>,
}

impl ThreadGuard {
    /// What became of each setting.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        self.undo.drain(..).for_each(|undo| undo());
    }
}
