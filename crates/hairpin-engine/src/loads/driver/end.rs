//! What both ends of a one-way load share: waiting, and when to look up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hairpin_transports::{Interest, Ready, Wire, WireSet};

use super::time_line::TimeLine;
use super::{Counts, DriverError, Ended, LOOK_NS, Marks, Outcome, PROGRESS_NS, Tally};
use crate::clock::Clock;

/// Calls on one wire before the others have their turn.
pub(super) const CALLS_PER_TURN: usize = 16;

/// One end while it runs.
pub(super) struct End<'a, C> {
    clock: &'a C,
    stop: &'a AtomicBool,
    deadline_ns: u64,
    next_progress_ns: u64,
    interest: Interest,
    set: WireSet,
    pub(super) now_ns: u64,
    pub(super) wires: Vec<Tally>,
    pub(super) total: Tally,
    time_line: TimeLine,
}

impl<'a, C: Clock> End<'a, C> {
    /// An end that waits for all of the wires; its deadline is `within_ns` from now.
    pub(super) fn new(
        clock: &'a C,
        stop: &'a AtomicBool,
        within_ns: u64,
        wires: &[Box<dyn Wire>],
        interest: Interest,
    ) -> Result<Self, DriverError> {
        let mut set = WireSet::new(wires.len())?;
        for (wire, opened) in wires.iter().enumerate() {
            set.add(wire, &**opened, interest)?;
        }
        let now_ns = clock.now_ns();
        Ok(Self {
            clock,
            stop,
            deadline_ns: now_ns.saturating_add(within_ns),
            next_progress_ns: now_ns.saturating_add(PROGRESS_NS),
            interest,
            set,
            now_ns,
            wires: vec![Tally::default(); wires.len()],
            total: Tally::default(),
            time_line: TimeLine::default(),
        })
    }

    /// Waits for a wire, until `until_ns` at most; why to end, if there is a reason.
    pub(super) fn wait(
        &mut self,
        ready: &mut Vec<Ready>,
        until_ns: u64,
        marks: &mut dyn Marks,
    ) -> Result<Option<Ended>, DriverError> {
        let left_ns = until_ns.saturating_sub(self.now_ns).min(LOOK_NS);
        self.set.wait(Duration::from_nanos(left_ns), ready)?;
        self.look();
        if self.now_ns >= self.next_progress_ns {
            self.next_progress_ns = self.now_ns.saturating_add(PROGRESS_NS);
            marks.progress(&self.total);
        }
        Ok(if self.stop.load(Ordering::Relaxed) {
            Some(Ended::Stopped)
        } else {
            (self.now_ns >= self.deadline_ns).then_some(Ended::DeadlinePassed)
        })
    }

    /// Reads the clock.
    pub(super) fn look(&mut self) {
        self.now_ns = self.clock.now_ns();
    }

    /// Times what moves from now on, whether it is measured or not.
    pub(super) fn begin(&mut self) {
        self.total.first_ns.get_or_insert(self.now_ns);
        self.time_line.note(self.now_ns, 0);
    }

    /// Counts what a call on a wire did; its bytes moved now.
    pub(super) fn count(&mut self, wire: usize, is_measured: bool, counts: Counts) {
        self.set.made_progress();
        let bytes = counts.bytes_sent + counts.bytes_received;
        let is_timed = bytes > 0 && (is_measured || self.total.first_ns.is_some());
        for tally in [&mut self.wires[wire], &mut self.total] {
            tally.count(is_measured, counts);
            if is_timed {
                tally.moved(self.now_ns, bytes);
            }
        }
        if is_timed {
            self.time_line.note(self.now_ns, bytes);
        }
    }

    /// The wire is not waited for any longer.
    pub(super) fn leave(&mut self, wire: usize, opened: &dyn Wire) -> Result<(), DriverError> {
        Ok(self.set.remove(wire, opened, self.interest)?)
    }

    pub(super) fn outcome(self, ended: Ended) -> Outcome {
        let Self { wires, total, time_line, set, .. } = self;
        Outcome { wires, total, time_line, waits: set.system_calls(), ended }
    }
}

/// Room for what one wait gives.
pub(super) fn room_for(wires: &[Box<dyn Wire>]) -> Vec<Ready> {
    Vec::with_capacity(2 * wires.len() + 1)
}
