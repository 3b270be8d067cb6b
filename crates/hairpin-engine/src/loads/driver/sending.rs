//! The end that sends: it keeps every wire full until each has sent its amount.

use std::sync::atomic::AtomicBool;

use hairpin_transports::{Batch, Interest, Wire};

use super::end::{CALLS_PER_TURN, End, room_for};
use super::phase::{HEADER_BYTES, Phase, number};
use super::{Amount, Counts, DriverError, Ended, Marks, Outcome};
use crate::clock::Clock;

/// What the sending end is told.
pub struct Sending<'a, C> {
    /// The clock.
    pub clock: &'a C,
    /// The transport keeps message boundaries.
    pub boundaries: bool,
    /// The size of a message, or of a write on a byte stream.
    pub write_size_bytes: usize,
    /// How many of them one call sends at most, 1 to [`Batch::MOST`].
    pub batch: usize,
    /// What is sent before.
    pub warm_up: Amount,
    /// What is measured.
    pub amount: Amount,
    /// How long it may take in all, in ns.
    pub within_ns: u64,
    /// Raised when the user ends the run.
    pub stop: &'a AtomicBool,
}

/// A wire between two sends.
#[derive(Clone, Copy)]
struct Lane {
    phase: Phase,
    /// Bytes sent in this phase.
    bytes: u64,
    is_done: bool,
}

/// What is the same for all wires.
struct Run<'a, C> {
    order: &'a Sending<'a, C>,
    size: u64,
    end: End<'a, C>,
    lanes: Vec<Lane>,
    left: usize,
    /// Room for what one call sends.
    messages: Vec<u8>,
    /// On a byte stream, which phase the bytes of `messages` say.
    filled: Phase,
    began_ns: u64,
    /// When the first wire began to measure.
    measured_ns: Option<u64>,
}

impl<C: Clock> Sending<'_, C> {
    /// Sends on all wires.
    ///
    /// # Errors
    /// What makes it impossible to begin or to wait; a wire that fails is told by [`Outcome::ended`].
    pub fn run(&self, wires: &mut [Box<dyn Wire>], marks: &mut dyn Marks) -> Result<Outcome, DriverError> {
        let least = if self.boundaries { HEADER_BYTES } else { 1 };
        if self.write_size_bytes < least {
            return Err(DriverError::TooShort { bytes: self.write_size_bytes, least });
        }
        let end = End::new(self.clock, self.stop, self.within_ns, wires, Interest::Write)?;
        let began_ns = end.now_ns;
        let mut run = Run {
            order: self,
            size: self.write_size_bytes as u64,
            end,
            lanes: vec![Lane { phase: Phase::WarmUp, bytes: 0, is_done: false }; wires.len()],
            left: wires.len(),
            messages: vec![0; self.write_size_bytes * self.batch.clamp(1, Batch::MOST)],
            filled: Phase::WarmUp,
            began_ns,
            measured_ns: None,
        };
        let mut ready = room_for(wires);
        let ended = loop {
            if run.left == 0 {
                break Ended::Complete;
            }
            if let Some(ended) = run.end.wait(&mut ready, run.next_change_ns(), marks)? {
                break ended;
            }
            let turns = ready.iter().try_for_each(|one| run.turn(one.token, &mut *wires[one.token], marks));
            // A wire that has no room gets no turn, and may have no more to send.
            let turns = turns.and_then(|()| if run.is_time_over() { run.retire(wires, marks) } else { Ok(()) });
            if let Err(error) = turns {
                break Ended::Failed(error);
            }
        };
        Ok(run.end.outcome(ended))
    }
}

impl<C: Clock> Run<'_, C> {
    /// When a phase ends by time, in ns.
    fn phase_ends_ns(&self) -> u64 {
        let phase = self.measured_ns.map_or((self.began_ns, self.order.warm_up), |at_ns| (at_ns, self.order.amount));
        match phase {
            (began_ns, Amount::DurationNs(duration_ns)) => began_ns.saturating_add(duration_ns),
            (_, Amount::Count(_)) => u64::MAX,
        }
    }

    /// Until when to wait. Where the time is over already, only room for what is left is waited for.
    fn next_change_ns(&self) -> u64 {
        let ends_ns = self.phase_ends_ns();
        if ends_ns > self.end.now_ns { ends_ns } else { u64::MAX }
    }

    fn is_time_over(&self) -> bool {
        self.measured_ns.is_some() && self.end.now_ns >= self.phase_ends_ns()
    }

    /// Ends the wires that have sent all and have no room.
    fn retire(&mut self, wires: &[Box<dyn Wire>], marks: &mut dyn Marks) -> Result<(), DriverError> {
        for (wire, opened) in wires.iter().enumerate() {
            if !self.lanes[wire].is_done && !self.has_more(wire, marks) {
                self.finish(wire, &**opened)?;
            }
        }
        Ok(())
    }

    /// Sends until the wire has no room, or the others have their turn.
    fn turn(&mut self, wire: usize, opened: &mut dyn Wire, marks: &mut dyn Marks) -> Result<(), DriverError> {
        for _ in 0..CALLS_PER_TURN {
            if self.lanes[wire].is_done {
                return Ok(());
            }
            if !self.has_more(wire, marks) {
                return self.finish(wire, opened);
            }
            let offered = self.offer(wire);
            let sent = opened.send_batch(&self.messages[..offered], self.order.write_size_bytes);
            let sent = sent.map_err(|source| DriverError::Wire { wire, source })?;
            if sent > 0 {
                self.has_sent(wire, sent as u64);
            }
            if sent < offered {
                return Ok(());
            }
        }
        Ok(())
    }

    fn finish(&mut self, wire: usize, opened: &dyn Wire) -> Result<(), DriverError> {
        self.lanes[wire].is_done = true;
        self.left -= 1;
        self.end.leave(wire, opened)
    }

    /// Whether the wire has more to send; between two messages it goes on to its next phase.
    fn has_more(&mut self, wire: usize, marks: &mut dyn Marks) -> bool {
        loop {
            let lane = self.lanes[wire];
            if !lane.bytes.is_multiple_of(self.size) || !self.is_over(lane) {
                return true;
            }
            if lane.phase == Phase::Measured {
                return false;
            }
            self.lanes[wire] = Lane { phase: Phase::Measured, bytes: 0, is_done: false };
            if self.measured_ns.is_none() {
                marks.begin();
                self.end.look();
                self.measured_ns = Some(self.end.now_ns);
            }
        }
    }

    fn is_over(&self, lane: Lane) -> bool {
        let (amount, began_ns) = match lane.phase {
            Phase::WarmUp => (self.order.warm_up, self.began_ns),
            Phase::Measured => (self.order.amount, self.measured_ns.unwrap_or(self.end.now_ns)),
        };
        match amount {
            Amount::Count(count) => lane.bytes / self.size >= count,
            Amount::DurationNs(duration_ns) => self.end.now_ns.saturating_sub(began_ns) >= duration_ns,
        }
    }

    /// Prepares the next messages of a wire; how many bytes they are.
    fn offer(&mut self, wire: usize) -> usize {
        let lane = self.lanes[wire];
        let begun = lane.bytes % self.size;
        let left = match (lane.phase, self.order.warm_up, self.order.amount) {
            (Phase::WarmUp, Amount::Count(count), _) | (Phase::Measured, _, Amount::Count(count)) => {
                count.saturating_mul(self.size) - lane.bytes
            }
            // Its time may be over: then only the message that has begun is sent.
            _ if self.is_over(lane) => self.size - begun,
            _ => u64::MAX,
        };
        // At most what there is room for.
        let offered = left.min(self.messages.len() as u64 - begun) as usize;
        if self.order.boundaries {
            let sequence = lane.bytes / self.size;
            let messages = self.messages[..offered].chunks_exact_mut(self.order.write_size_bytes);
            (sequence..).zip(messages).for_each(|(sequence, message)| number(message, lane.phase, sequence));
        } else if self.filled != lane.phase {
            self.messages.fill(lane.phase as u8);
            self.filled = lane.phase;
        }
        offered
    }

    fn has_sent(&mut self, wire: usize, bytes: u64) {
        let lane = &mut self.lanes[wire];
        let whole_before = lane.bytes / self.size;
        lane.bytes += bytes;
        let messages_sent = lane.bytes / self.size - whole_before;
        let is_measured = lane.phase == Phase::Measured;
        self.end.look();
        self.end.count(wire, is_measured, Counts { messages_sent, bytes_sent: bytes, ..Counts::default() });
    }
}
