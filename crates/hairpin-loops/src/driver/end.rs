//! Shared parts of both ends of a one-way load: waiting, and periodic checks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hairpin_model::Waiting;
use hairpin_transports::{Interest, Ready, Wire, WireSet};

use super::states::SenderStates;
use super::time_line::TimeLine;
use super::times::TimesOfMessages;
use super::{Counts, DriverError, LOOK_NS, Marks, Outcome, PROGRESS_NS, StreamEnd, Transfer};
use crate::clock::Clock;

/// Maximum calls on one wire before the clock is read and other wires are served.
const CALLS_PER_TURN: usize = 16;
/// Maximum calls in a turn if there is only one wire.
const CALLS_ALONE: usize = 64;
/// Longest turn to aim for when calls block, in ns. If the last call of a turn receives nothing, all arrivals of the
/// turn get the time of its beginning.
const WAITING_TURN_NS: u64 = 200_000;

enum Waits {
    Together(WireSet),
    /// The end waits inside calls on the only wire, or never waits. Holds the indices of the open wires.
    InCalls(Vec<usize>),
}

pub(super) struct End<'a, C> {
    clock: &'a C,
    stop: &'a AtomicBool,
    deadline_ns: u64,
    next_look_ns: u64,
    next_progress_ns: u64,
    interest: Interest,
    waits: Waits,
    /// Whether calls on the wire block.
    pub(super) blocks: bool,
    pub(super) now_ns: u64,
    pub(super) wires: Vec<Transfer>,
    pub(super) total: Transfer,
    pub(super) times: TimesOfMessages,
    pub(super) calls_per_turn: usize,
    turn_began_ns: u64,
    time_line: TimeLine,
    /// At a sender, the nonce that its messages carry; at a receiver, the last nonce received.
    pub(super) nonce: u64,
    /// The states of a sender's first wire; empty at a receiver.
    pub(super) states: SenderStates,
    pending: Pending,
}

/// Counts not yet added to the totals, because each addition costs a tenth of the time for a small message.
#[derive(Default)]
struct Pending {
    wire: usize,
    is_measured: bool,
    counts: Counts,
}

impl<'a, C: Clock> End<'a, C> {
    /// Creates an end whose deadline is `within_ns` from now. The end records no times and no states.
    pub(super) fn new(
        (clock, stop): (&'a C, &'a AtomicBool),
        within_ns: u64,
        waiting: Waiting,
        interest: Interest,
        wires: &[Box<dyn Wire>],
    ) -> Result<Self, DriverError> {
        let blocks = waiting == Waiting::Block;
        if blocks && wires.len() != 1 {
            return Err(DriverError::Blocks { wires: wires.len() });
        }
        let waits = if waiting == Waiting::Poll {
            let mut set = WireSet::new(wires.len())?;
            for (wire, opened) in wires.iter().enumerate() {
                set.add(wire, &**opened, interest)?;
            }
            Waits::Together(set)
        } else {
            Waits::InCalls((0..wires.len()).collect())
        };
        let now_ns = clock.now_ns();
        Ok(Self {
            clock,
            stop,
            deadline_ns: now_ns.saturating_add(within_ns),
            next_look_ns: now_ns,
            next_progress_ns: now_ns.saturating_add(PROGRESS_NS),
            interest,
            waits,
            blocks,
            now_ns,
            wires: vec![Transfer::default(); wires.len()],
            total: Transfer::default(),
            times: TimesOfMessages::new(0),
            calls_per_turn: match wires.len() {
                1 if blocks && interest == Interest::Read => 1,
                1 => CALLS_ALONE,
                _ => CALLS_PER_TURN,
            },
            turn_began_ns: now_ns,
            time_line: TimeLine::default(),
            nonce: 0,
            states: SenderStates::new(now_ns, false),
            pending: Pending::default(),
        })
    }

    /// Waits until a wire is ready, at most until `until_ns`. Returns the reason to end, if any.
    pub(super) fn wait(
        &mut self,
        ready: &mut Vec<Ready>,
        until_ns: u64,
        marks: &mut dyn Marks,
    ) -> Result<Option<StreamEnd>, DriverError> {
        match &mut self.waits {
            Waits::Together(set) => {
                let left_ns = until_ns.saturating_sub(self.now_ns).min(LOOK_NS);
                set.wait(Duration::from_nanos(left_ns), ready)?;
                self.read_clock();
            }
            Waits::InCalls(open) => {
                ready.clear();
                let of_one = |wire: &usize| Ready { token: *wire, readable: true, writable: true };
                ready.extend(open.iter().map(of_one));
                self.read_clock();
                self.turn_began_ns = self.now_ns;
            }
        }
        Ok(self.run_checks(marks))
    }

    /// Reports progress if a report is due. Returns the reason to end, if any.
    pub(super) fn run_checks(&mut self, marks: &mut dyn Marks) -> Option<StreamEnd> {
        if self.now_ns >= self.next_look_ns {
            self.next_look_ns = self.now_ns.saturating_add(LOOK_NS);
            marks.look(self.now_ns);
        }
        if self.now_ns >= self.next_progress_ns {
            self.next_progress_ns = self.now_ns.saturating_add(PROGRESS_NS);
            marks.progress(&self.total, self.nonce);
            if self.interest == Interest::Write {
                self.nonce = marks.nonce();
            }
        }
        if self.stop.load(Ordering::Relaxed) {
            Some(StreamEnd::Stopped)
        } else {
            (self.now_ns >= self.deadline_ns).then_some(StreamEnd::DeadlinePassed)
        }
    }

    /// Takes the nonce of a received message. The first one is reported at once: the sender waits for it.
    #[inline]
    pub(super) fn on_nonce(&mut self, nonce: u64) {
        if self.nonce == 0 && nonce != 0 {
            self.next_progress_ns = self.now_ns;
        }
        self.nonce = nonce;
    }

    #[inline]
    pub(super) fn read_clock(&mut self) {
        self.now_ns = self.clock.now_ns();
    }

    /// Starts timing all bytes, including the bytes of wires still in warm-up.
    pub(super) fn begin(&mut self) {
        self.total.first_ns.get_or_insert(self.now_ns);
    }

    /// Notes the result of a call on a wire. The results of a turn are counted at its end, with one time for all
    /// calls. Only the first measured call is counted at once.
    #[inline]
    pub(super) fn count(&mut self, wire: usize, is_measured: bool, counts: Counts) {
        if (self.pending.wire, self.pending.is_measured) != (wire, is_measured) {
            self.count_pending();
            (self.pending.wire, self.pending.is_measured) = (wire, is_measured);
        }
        self.pending.counts.add(counts);
        if is_measured && self.total.first_ns.is_none() {
            self.read_clock();
            self.count_pending();
        }
    }

    /// Adds the pending counts to the totals, at the current time.
    pub(super) fn count_pending(&mut self) {
        let Pending { wire, is_measured, counts } = std::mem::take(&mut self.pending);
        if counts == Counts::default() {
            return;
        }
        let bytes = counts.bytes_sent + counts.bytes_received;
        if let Waits::Together(set) = &mut self.waits {
            set.made_progress();
        }
        let is_timed = bytes > 0 && (is_measured || self.total.first_ns.is_some());
        for tally in [&mut self.wires[wire], &mut self.total] {
            tally.count(is_measured, counts);
            if is_timed {
                tally.moved(self.now_ns, bytes);
            }
        }
        if bytes > 0 {
            self.time_line.note(self.now_ns, bytes);
        }
    }

    /// Ends a turn that moved data. `waited_in_vain` is true if the last call of the turn moved nothing.
    #[inline]
    pub(super) fn end_turn(&mut self, waited_in_vain: bool) {
        if !(self.blocks && waited_in_vain) {
            self.read_clock();
        }
        self.count_pending();
        if self.blocks {
            let is_long = self.now_ns.saturating_sub(self.turn_began_ns) > WAITING_TURN_NS;
            let calls = if is_long { self.calls_per_turn / 2 } else { 2 * self.calls_per_turn };
            self.calls_per_turn = calls.clamp(1, CALLS_ALONE);
        }
    }

    pub(super) fn close_wire(&mut self, wire: usize, opened: &dyn Wire) -> Result<(), DriverError> {
        match &mut self.waits {
            Waits::Together(set) => set.remove(wire, opened, self.interest)?,
            Waits::InCalls(open) => open.retain(|other| *other != wire),
        }
        Ok(())
    }

    pub(super) fn outcome(mut self, ended: StreamEnd) -> Outcome {
        self.count_pending();
        let Self { wires, total, time_line, times, waits, states, .. } = self;
        let waits = if let Waits::Together(set) = waits { set.system_calls() } else { 0 };
        Outcome { wires, total, time_line, times, waits, pacing: None, states: states.ended(), observed: None, ended }
    }
}

/// An empty result buffer for waits, with room for all wires.
pub(super) fn room_for(wires: &[Box<dyn Wire>]) -> Vec<Ready> {
    Vec::with_capacity(2 * wires.len() + 1)
}
