//! The end that sends messages when they are due, even if the other end does not keep up.
//!
//! A message that becomes due before the previous one was completely sent is sent late, and its latency counts from the
//! due time.

use std::sync::atomic::AtomicBool;

use hairpin_model::flow::{Observer, Pacing};
use hairpin_model::{Arrivals, Extent, Waiting};
use hairpin_transports::{Interest, Ready, Wire, WireError};

use super::end::{End, room_for};
use super::gaps::Gaps;
use super::messages::{Messages, Offer};
use super::phase::Phase;
use super::schedule::{Due, Schedule};
use super::states::SenderStates;
use super::times::TimesOfMessages;
use super::{Counts, DriverError, LOOK_NS, Marks, Outcome, StreamEnd};
use crate::clock::{Clock, RealClock};

/// The parameters of an end that sends at a rate.
pub struct Offering<'a, C> {
    pub clock: &'a C,
    /// Whether the transport keeps message boundaries.
    pub boundaries: bool,
    pub size_bytes: usize,
    /// Messages per second over all wires. The wires take turns.
    pub per_s: f64,
    /// The pattern of the due times.
    pub arrivals: Arrivals,
    /// How to wait for the due times. Kernel pacing is done by [`super::send`].
    pub pacing: Pacing,
    /// The seed of random arrivals.
    pub seed: u64,
    pub warm_up: Extent,
    /// The measured messages on each wire. A message that was partly sent when a duration ends is completed.
    pub amount: Extent,
    /// Maximum number of messages whose times are kept individually.
    pub keep_times: usize,
    /// Whether to record the state of the first wire over time.
    pub keep_states: bool,
    /// Total time limit, in ns.
    pub within_ns: u64,
    /// Set when the user ends the run.
    pub stop: &'a AtomicBool,
}

struct Run<'a, C> {
    order: &'a Offering<'a, C>,
    end: End<'a, C>,
    ready: Vec<Ready>,
    messages: Messages,
    gaps: Gaps,
    phase: Phase,
    /// The due time of the first message, in ns of the clock.
    began_ns: u64,
    /// When the measurement began.
    measured_ns: u64,
    /// Messages sent in this phase.
    in_phase: u64,
    /// The number of each wire's next message in this phase.
    sequences: Vec<u64>,
}

/// Sends on all wires. Not generic, so that it is compiled in this crate, with its optimisation.
pub fn offer(
    order: &Offering<'_, RealClock>,
    wires: &mut [Box<dyn Wire>],
    marks: &mut dyn Marks,
) -> Result<Outcome, DriverError> {
    order.run(wires, marks)
}

impl<C: Clock> Offering<'_, C> {
    pub(super) fn run(&self, wires: &mut [Box<dyn Wire>], marks: &mut dyn Marks) -> Result<Outcome, DriverError> {
        let mut messages = Messages::new(self.size_bytes, 1, self.boundaries, Observer::Recorder)?;
        messages.take_codes(wires);
        // This end waits only while the send buffer is full, which happens only if the receiver does not keep up.
        let mut end = End::new((self.clock, self.stop), self.within_ns, Waiting::Poll, Interest::Write, wires)?;
        end.times = TimesOfMessages::new(self.keep_times);
        end.states = SenderStates::new(end.now_ns, self.keep_states);
        end.nonce = marks.nonce();
        let mut schedule = Schedule::new(self.per_s, self.arrivals, self.seed);
        let began_ns = end.now_ns;
        let mut run = Run {
            order: self,
            end,
            ready: room_for(wires),
            messages,
            gaps: Gaps::new(schedule.nominal_ns()),
            phase: Phase::WarmUp,
            began_ns,
            measured_ns: began_ns,
            in_phase: 0,
            sequences: vec![0; wires.len()],
        };
        let mut turns = (0..wires.len()).cycle();
        let ended = loop {
            let Some(wire) = turns.next() else { break StreamEnd::Complete };
            run.end.states.look(run.end.now_ns, &mut *wires[0]);
            match run.offer(schedule.next(), wire, &mut *wires[wire], marks) {
                Ok(None) => {}
                Ok(Some(ended)) => break ended,
                Err(error) => break StreamEnd::Failed(error),
            }
        };
        let pacing = Some(run.gaps.error());
        Ok(Outcome { pacing, ..run.end.outcome(ended) })
    }
}

impl<C: Clock> Run<'_, C> {
    /// Sends the next message when it is due. Returns the reason to end, if any.
    fn offer(
        &mut self,
        due: Due,
        wire: usize,
        opened: &mut dyn Wire,
        marks: &mut dyn Marks,
    ) -> Result<Option<StreamEnd>, DriverError> {
        let mut due_ns = self.began_ns.saturating_add(due.at_ns);
        let warm_up_ns = due_ns.max(self.end.now_ns);
        if self.phase == Phase::WarmUp && self.is_over(warm_up_ns, self.began_ns, self.order.warm_up) {
            // Warm-up messages not sent in time are skipped, so that the measurement does not begin late.
            self.began_ns = self.began_ns.saturating_add(warm_up_ns - due_ns);
            due_ns = warm_up_ns;
            self.phase = Phase::Measured;
            self.measured_ns = due_ns;
            (self.in_phase, self.sequences) = (0, vec![0; self.sequences.len()]);
            marks.begin();
            self.end.read_clock();
            self.end.begin();
        }
        // Messages that are still unsent when the time is over are skipped.
        let latest_ns = due_ns.max(self.end.now_ns);
        if self.phase == Phase::Measured && self.is_over(latest_ns, self.measured_ns, self.order.amount) {
            return Ok(Some(StreamEnd::Complete));
        }
        if let Some(ended) = self.wait_until(due_ns, marks) {
            return Ok(Some(ended));
        }
        let sent_ns = self.end.now_ns;
        let ended = self.send(due_ns, wire, opened, marks)?;
        if self.phase == Phase::Measured {
            self.end.times.note(wire, self.sequences[wire], due_ns, sent_ns);
            self.gaps.note(sent_ns, due.apart_ns);
        }
        self.sequences[wire] += 1;
        self.in_phase += 1;
        Ok(ended)
    }

    fn is_over(&self, at_ns: u64, began_ns: u64, amount: Extent) -> bool {
        match amount {
            Extent::Count(count) => self.in_phase >= count.saturating_mul(self.sequences.len() as u64),
            Extent::DurationNs(duration_ns) => at_ns.saturating_sub(began_ns) >= duration_ns,
        }
    }

    /// Waits until a message is due. Returns the reason to end, if any.
    fn wait_until(&mut self, due_ns: u64, marks: &mut dyn Marks) -> Option<StreamEnd> {
        loop {
            self.end.read_clock();
            if let Some(ended) = self.end.run_checks(marks) {
                return Some(ended);
            }
            let until_ns = due_ns.min(self.end.now_ns.saturating_add(LOOK_NS));
            if self.end.now_ns >= until_ns {
                return None;
            }
            match self.order.pacing {
                Pacing::SleepSpin => self.order.clock.sleep_until(until_ns),
                Pacing::Spin | Pacing::Kernel => self.order.clock.spin_until(until_ns),
            }
        }
    }

    /// Sends one complete message. Returns the reason to end, if any.
    fn send(
        &mut self,
        due_ns: u64,
        wire: usize,
        opened: &mut dyn Wire,
        marks: &mut dyn Marks,
    ) -> Result<Option<StreamEnd>, DriverError> {
        let size = self.order.size_bytes;
        let first = self.sequences[wire];
        let offer = Offer { phase: self.phase, first, count: 1, next_stamp: first, begun_at_ns: None };
        self.messages.set_nonce(self.end.nonce);
        self.messages.prepare(offer, || due_ns);
        let mut sent = 0;
        loop {
            let mut counts = Counts::default();
            let taken = match opened.try_send(self.messages.bytes(sent, size - sent)) {
                Ok(bytes) => bytes,
                Err(WireError::Refused) if self.order.boundaries => {
                    counts.refused = 1;
                    size
                }
                Err(source) => return Err(DriverError::Wire { wire, source }),
            };
            sent += taken;
            counts.bytes_sent = taken as u64;
            (counts.messages_sent, counts.full) = if sent == size { (1, 0) } else { (0, 1) };
            // Parts of a message are counted at once, to show that the load makes progress.
            self.end.count(wire, self.phase == Phase::Measured, counts);
            self.end.end_turn(false);
            if sent == size {
                break;
            }
            if let Some(ended) = self.end.wait(&mut self.ready, u64::MAX, marks)? {
                return Ok(Some(ended));
            }
        }
        self.messages.unstamp();
        Ok(None)
    }
}
