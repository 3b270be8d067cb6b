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

/// Calls on one wire before the clock is read and the other wires get a turn.
const CALLS_PER_TURN: usize = 16;
/// The same for a single wire.
const CALLS_ALONE: usize = 64;
/// If calls wait, a turn has few enough of them to stay below this, in ns: arrivals in a turn whose last call got
/// nothing are counted at the begin of the turn.
const WAITING_TURN_NS: u64 = 200_000;

/// How an end waits for its wires.
enum Waits {
    Together(WireSet),
    /// In the calls on a single wire, or not at all. Holds the open wires.
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
    /// Calls on the wire wait.
    pub(super) blocks: bool,
    pub(super) now_ns: u64,
    pub(super) wires: Vec<Transfer>,
    pub(super) total: Transfer,
    pub(super) times: TimesOfMessages,
    /// Maximum calls per turn.
    pub(super) calls_per_turn: usize,
    turn_began_ns: u64,
    time_line: TimeLine,
    /// At a sender the nonce that its messages carry, at a receiver the last one received.
    pub(super) nonce: u64,
    /// Of a sender only.
    pub(super) states: SenderStates,
    pending: Pending,
}

/// Counts not settled yet: counting costs a tenth of a small message.
#[derive(Default)]
struct Pending {
    wire: usize,
    is_measured: bool,
    counts: Counts,
}

pub(super) struct EndParams<'a, C> {
    pub(super) clock: &'a C,
    pub(super) stop: &'a AtomicBool,
    /// Its deadline from its creation.
    pub(super) within_ns: u64,
    pub(super) waiting: Waiting,
    pub(super) interest: Interest,
    pub(super) keep_times: usize,
    /// Whether to record the state of a sender's first wire.
    pub(super) keep_states: bool,
    /// A sender's first nonce; 0 for a receiver.
    pub(super) nonce: u64,
}

impl<'a, C: Clock> End<'a, C> {
    pub(super) fn new(about: EndParams<'a, C>, wires: &[Box<dyn Wire>]) -> Result<Self, DriverError> {
        let EndParams { clock, stop, within_ns, waiting, interest, keep_times, keep_states, nonce } = about;
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
            times: TimesOfMessages::new(keep_times),
            calls_per_turn: match wires.len() {
                1 if blocks && interest == Interest::Read => 1,
                1 => CALLS_ALONE,
                _ => CALLS_PER_TURN,
            },
            turn_began_ns: now_ns,
            time_line: TimeLine::default(),
            nonce,
            states: SenderStates::new(now_ns, keep_states),
            pending: Pending::default(),
        })
    }

    /// Waits for a wire, until `until_ns` at most. Returns the reason to end, if any.
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
                self.look();
            }
            Waits::InCalls(open) => {
                ready.clear();
                let of_one = |wire: &usize| Ready { token: *wire, readable: true, writable: true };
                ready.extend(open.iter().map(of_one));
                self.look();
                self.turn_began_ns = self.now_ns;
            }
        }
        Ok(self.attend(marks))
    }

    /// Reports progress when it is due. Returns the reason to end, if any.
    pub(super) fn attend(&mut self, marks: &mut dyn Marks) -> Option<StreamEnd> {
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

    #[inline]
    pub(super) fn look(&mut self) {
        self.now_ns = self.clock.now_ns();
    }

    /// Starts to time all bytes, measured or not.
    pub(super) fn begin(&mut self) {
        self.total.first_ns.get_or_insert(self.now_ns);
    }

    /// Notes the result of a call on a wire. It is counted at the end of the turn, with the time of the turn for all
    /// its calls; the first measured call is counted at once.
    #[inline]
    pub(super) fn count(&mut self, wire: usize, is_measured: bool, counts: Counts) {
        if (self.pending.wire, self.pending.is_measured) != (wire, is_measured) {
            self.settle();
            (self.pending.wire, self.pending.is_measured) = (wire, is_measured);
        }
        self.pending.counts.add(counts);
        if is_measured && self.total.first_ns.is_none() {
            self.look();
            self.settle();
        }
    }

    /// Counts what was noted, with the current time.
    pub(super) fn settle(&mut self) {
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

    /// Ends a turn that moved something. `waited_in_vain`: its last call waited without result.
    #[inline]
    pub(super) fn end_turn(&mut self, waited_in_vain: bool) {
        if !(self.blocks && waited_in_vain) {
            self.look();
        }
        self.settle();
        if self.blocks {
            let is_long = self.now_ns.saturating_sub(self.turn_began_ns) > WAITING_TURN_NS;
            let calls = if is_long { self.calls_per_turn / 2 } else { 2 * self.calls_per_turn };
            self.calls_per_turn = calls.clamp(1, CALLS_ALONE);
        }
    }

    pub(super) fn leave(&mut self, wire: usize, opened: &dyn Wire) -> Result<(), DriverError> {
        match &mut self.waits {
            Waits::Together(set) => set.remove(wire, opened, self.interest)?,
            Waits::InCalls(open) => open.retain(|other| *other != wire),
        }
        Ok(())
    }

    pub(super) fn outcome(mut self, ended: StreamEnd) -> Outcome {
        self.settle();
        let Self { wires, total, time_line, times, waits, states, .. } = self;
        let waits = if let Waits::Together(set) = waits { set.system_calls() } else { 0 };
        Outcome { wires, total, time_line, times, waits, pacing: None, states: states.ended(), ended }
    }
}

/// A buffer for the result of one wait.
pub(super) fn room_for(wires: &[Box<dyn Wire>]) -> Vec<Ready> {
    Vec::with_capacity(2 * wires.len() + 1)
}
