//! Ends what a command left running.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

use super::tree::Tree;

/// Time for the programs to end after a request, before they are killed.
const END_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Programs that this process starts from now on, and what they start, also if a parent in between ends.
pub struct Leftovers(Tree);

impl Leftovers {
    /// Orphans among them become children of this process (`PR_SET_CHILD_SUBREAPER`).
    pub fn adopt() -> Self {
        // Without it, orphans are not ended.
        let _ = set_child_subreaper(Some(getpid()));
        Self(Tree::of_this_process())
    }

    /// Ends those that still run, after the command itself has ended. Returns how many there were.
    pub fn end(self) -> usize {
        // What has ended waits for this process to reap it.
        self.are_running();
        let found = self.0.processes().len();
        let deadline = Instant::now() + END_TIMEOUT;
        self.signal(Signal::TERM);
        while Instant::now() < deadline && self.are_running() {
            std::thread::sleep(POLL_INTERVAL);
        }
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline && self.are_running() {
            // A process may start another one meanwhile.
            self.signal(Signal::KILL);
            std::thread::sleep(POLL_INTERVAL);
        }
        found
    }

    /// Sends a signal to all of them that run.
    pub fn forward(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            self.signal(signal);
        }
    }

    fn signal(&self, signal: Signal) {
        for process in self.0.processes() {
            // One that has ended meanwhile is not reaped before `are_running`, so its id is not used again.
            let id = i32::try_from(process).ok().and_then(Pid::from_raw);
            let _ = id.map(|id| kill_process(id, signal));
        }
    }

    /// Reaps what has ended. Returns whether something still runs.
    fn are_running(&self) -> bool {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        !self.0.processes().is_empty()
    }
}
