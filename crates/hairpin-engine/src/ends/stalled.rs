//! Detects one-way loads that make no progress, and peers that stopped reporting.

use hairpin_model::{Failure, FailureKind, Load};

use hairpin_loops::clock::{Clock, RealClock};
use hairpin_loops::driver::{Counts, PROGRESS_NS, Transfer};

/// Tracks the time since bytes last moved and since the peer's last report. The report is needed because a sender of
/// datagrams moves bytes whether or not they are received.
pub(super) struct Stalled<'a> {
    pub(super) clock: &'a RealClock,
    pub(super) timeout_ns: u64,
    /// Longest normal pause in ns.
    pub(super) gap_ns: u64,
    pub(super) moved_bytes: u64,
    pub(super) since_ns: u64,
    pub(super) heard_ns: u64,
}

/// Longest time in which no message is due, in ns.
pub(super) fn longest_idle_ns(load: &Load) -> u64 {
    match load {
        // The plan limits this gap to less than a year, even for bursts.
        Load::Offered { offered_per_s, arrivals, .. } => (arrivals.longest_gap_s(*offered_per_s) * 1e9) as u64,
        _ => 0,
    }
}

impl Stalled<'_> {
    /// Returns a failure if bytes were due but none moved within the time-out.
    pub(super) fn check_progress(&mut self, so_far: &Transfer) -> Option<Failure> {
        let bytes = |counts: &Counts| counts.bytes_sent + counts.bytes_received;
        let moved_bytes = bytes(&so_far.measured) + bytes(&so_far.warm_up);
        let now_ns = self.clock.now_ns();
        if moved_bytes != self.moved_bytes {
            (self.moved_bytes, self.since_ns) = (moved_bytes, now_ns);
        }
        let within_ns = self.timeout_ns.saturating_add(self.gap_ns);
        (now_ns.saturating_sub(self.since_ns) >= within_ns).then(|| self.failure("the load"))
    }

    /// Returns a failure if the peer reported nothing within the time-out plus several report intervals.
    pub(super) fn check_peer(&self, peer: &str) -> Option<Failure> {
        let silent_ns = self.clock.now_ns().saturating_sub(self.heard_ns);
        (silent_ns >= self.timeout_ns.saturating_add(4 * PROGRESS_NS)).then(|| self.failure(peer))
    }

    fn failure(&self, what: &str) -> Failure {
        Failure::new(
            FailureKind::TimedOut,
            format!("timed out: {what} made no progress for {} ms", self.timeout_ns / 1_000_000),
            "is the path down, or has the other end stopped? for a slow path, raise --timeout",
        )
    }
}
