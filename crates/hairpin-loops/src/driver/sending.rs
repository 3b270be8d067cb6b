//! The end that sends as fast as its wires accept.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hairpin_model::Waiting;
use hairpin_model::flow::Source;
use hairpin_transports::{Interest, Repeated, Wire, WireError};

use super::end::{End, EndParams, room_for};
use super::messages::{Messages, Offer};
use super::phase::Phase;
use super::{Amount, Counts, DriverError, Marks, Outcome, StreamEnd};
use crate::clock::Clock;

pub struct Sending<'a, C> {
    pub clock: &'a C,
    /// Whether the transport keeps message boundaries.
    pub boundaries: bool,
    /// How it waits for room; with [`Waiting::Block`] it has one wire.
    pub waiting: Waiting,
    /// Size of a message, or of a write on a byte stream.
    pub write_size_bytes: usize,
    /// Maximum number of these per call, 1 to [`hairpin_transports::Batch::MAX_MESSAGES`].
    pub batch: usize,
    /// Source of the bytes; only those from memory carry stamps.
    pub source: Source,
    /// The kernel may read a stream's bytes after the call that sent them: they never change, and carry no stamps.
    pub unchanging: bool,
    pub warm_up: Amount,
    /// The measured part.
    pub amount: Amount,
    /// Whether to record the state of the first wire over time.
    pub keep_states: bool,
    /// Total time limit, in ns.
    pub within_ns: u64,
    /// Set when the user ends the run.
    pub stop: &'a AtomicBool,
}

/// The state of a wire between two sends.
#[derive(Clone, Copy)]
struct WireState {
    phase: Phase,
    /// Messages completely sent in this phase. Never divided: a division costs a tenth of a small send.
    messages: u64,
    /// Bytes of the next message already sent.
    begun: u64,
    /// The stamp in that message, if it has one and part of it was sent.
    begun_at_ns: Option<u64>,
    /// Number of the next stamped message.
    next_stamp: u64,
    is_done: bool,
}

impl WireState {
    const fn of(phase: Phase) -> Self {
        Self { phase, messages: 0, begun: 0, begun_at_ns: None, next_stamp: 0, is_done: false }
    }
}

/// The state of all wires.
struct Run<'a, C> {
    order: &'a Sending<'a, C>,
    size: u64,
    end: End<'a, C>,
    lanes: Vec<WireState>,
    left: usize,
    messages: Messages,
    began_ns: u64,
    /// When the first wire began its measurement.
    measured_ns: Option<u64>,
}

impl<C: Clock> Sending<'_, C> {
    /// Sends on all wires.
    pub fn run(&self, wires: &mut [Box<dyn Wire>], marks: &mut dyn Marks) -> Result<Outcome, DriverError> {
        let messages = Messages::new(self.write_size_bytes, self.batch, self.boundaries)?;
        let messages = if self.unchanging { messages.unchanging() } else { messages };
        let about = EndParams {
            clock: self.clock,
            stop: self.stop,
            within_ns: self.within_ns,
            waiting: self.waiting,
            interest: Interest::Write,
            keep_times: 0,
            keep_states: self.keep_states,
            nonce: marks.nonce(),
        };
        let end = End::new(about, wires)?;
        let began_ns = end.now_ns;
        let mut run = Run {
            order: self,
            size: self.write_size_bytes as u64,
            end,
            lanes: vec![WireState::of(Phase::WarmUp); wires.len()],
            left: wires.len(),
            messages,
            began_ns,
            measured_ns: None,
        };
        let mut ready = room_for(wires);
        if self.source == Source::File {
            wires.iter_mut().enumerate().try_for_each(|(wire, opened)| run.load_file(wire, &mut **opened))?;
        }
        let ended = loop {
            if run.left == 0 {
                break StreamEnd::Complete;
            }
            if let Some(ended) = run.end.wait(&mut ready, run.next_change_ns(), marks)? {
                break ended;
            }
            run.messages.carry(run.end.nonce);
            run.end.states.look(run.end.now_ns, &mut *wires[0]);
            let turns = ready.iter().try_for_each(|one| run.turn(one.token, &mut *wires[one.token], marks));
            // A wire without room gets no turn, and may have nothing left to send.
            let turns = turns.and_then(|()| if run.is_time_over() { run.retire(wires, marks) } else { Ok(()) });
            if let Err(error) = turns {
                break StreamEnd::Failed(error);
            }
        };
        if self.unchanging && !has_landed(wires) {
            // The kernel still reads these bytes, so they are leaked.
            Box::leak(Box::new(run.messages));
        }
        Ok(run.end.outcome(ended))
    }
}

/// Number of checks whether all sends have completed, 1 ms apart.
const LOOKS_FOR_LANDING: u32 = 2000;

/// Waits until the kernel no longer reads the sent bytes; false if that takes too long.
fn has_landed(wires: &mut [Box<dyn Wire>]) -> bool {
    (0..LOOKS_FOR_LANDING).any(|_| {
        let in_flight: Result<u64, WireError> = wires.iter_mut().map(|wire| wire.sends_in_flight()).sum();
        let landed = matches!(in_flight, Ok(0));
        if !landed {
            std::thread::sleep(Duration::from_millis(1));
        }
        landed
    })
}

impl<C: Clock> Run<'_, C> {
    /// When the phase ends by time, in ns.
    fn phase_ends_ns(&self) -> u64 {
        let phase = self.measured_ns.map_or((self.began_ns, self.order.warm_up), |at_ns| (at_ns, self.order.amount));
        match phase {
            (began_ns, Amount::DurationNs(duration_ns)) => began_ns.saturating_add(duration_ns),
            (_, Amount::Count(_)) => u64::MAX,
        }
    }

    /// How long to wait. If the time is already over, only for room for the rest.
    fn next_change_ns(&self) -> u64 {
        let ends_ns = self.phase_ends_ns();
        if ends_ns > self.end.now_ns { ends_ns } else { u64::MAX }
    }

    fn is_time_over(&self) -> bool {
        self.measured_ns.is_some() && self.end.now_ns >= self.phase_ends_ns()
    }

    /// Ends the wires that have sent everything and have no room.
    fn retire(&mut self, wires: &mut [Box<dyn Wire>], marks: &mut dyn Marks) -> Result<(), DriverError> {
        for (wire, opened) in wires.iter_mut().enumerate() {
            if !self.lanes[wire].is_done && !self.has_more(wire, &mut **opened, marks)? {
                self.finish(wire, &**opened)?;
            }
        }
        Ok(())
    }

    /// Sends until the wire has no room, or the others get a turn.
    fn turn(&mut self, wire: usize, opened: &mut dyn Wire, marks: &mut dyn Marks) -> Result<(), DriverError> {
        let mut so_far = Counts::default();
        let mut calls = self.end.calls_per_turn;
        while calls > 0 && !self.lanes[wire].is_done {
            // Between two messages a wire may enter its next phase, which is counted separately.
            if self.lanes[wire].begun == 0 && self.is_over(self.lanes[wire]) {
                self.settle(wire, &mut so_far);
                if !self.has_more(wire, opened, marks)? {
                    return self.finish(wire, opened);
                }
            }
            let alike = self.calls_alike(wire).min(calls);
            let may_have_room = if alike > 1 {
                calls -= alike;
                self.send_alike(wire, opened, alike, &mut so_far)?
            } else {
                calls -= 1;
                self.send(wire, opened, &mut so_far)?
            };
            if !may_have_room {
                break;
            }
        }
        self.settle(wire, &mut so_far);
        Ok(())
    }

    /// Number of next calls that send the same bytes of a stream: whole batches without a stamp.
    fn calls_alike(&self, wire: usize) -> usize {
        let lane = &self.lanes[wire];
        if self.order.source != Source::Buffer || lane.begun > 0 || !self.messages.are_filled(lane.phase) {
            return 0;
        }
        let left = match (lane.phase, self.order.warm_up, self.order.amount) {
            (Phase::WarmUp, Amount::Count(count), _) | (Phase::Measured, _, Amount::Count(count)) => {
                count - lane.messages
            }
            _ => u64::MAX,
        };
        let batches = left.min(lane.next_stamp - lane.messages) / self.messages.room();
        usize::try_from(batches).unwrap_or(usize::MAX)
    }

    /// Makes `calls` identical calls. Returns whether there may be room for another. Nothing is checked between them,
    /// as that would cost a tenth of a small send.
    fn send_alike(
        &mut self,
        wire: usize,
        opened: &mut dyn Wire,
        calls: usize,
        so_far: &mut Counts,
    ) -> Result<bool, DriverError> {
        // The number of messages that fit is a length.
        let offered = self.order.write_size_bytes * self.messages.room() as usize;
        let done = opened.send_repeatedly(self.messages.bytes(0, offered), calls as u64, self.end.blocks);
        let Repeated { whole, rest } = done.map_err(|source| DriverError::Wire { wire, source })?;
        let messages = whole * self.messages.room();
        self.lanes[wire].messages += messages;
        so_far.messages_sent += messages;
        so_far.bytes_sent += messages * self.size;
        if rest > 0 {
            self.has_sent(wire, rest as u64, so_far);
        }
        so_far.full += u64::from(rest == 0 && whole < calls as u64);
        Ok(whole == calls as u64)
    }

    /// Counts what was sent since the last clock read.
    #[inline]
    fn settle(&mut self, wire: usize, so_far: &mut Counts) {
        if *so_far != Counts::default() {
            self.end.look();
            self.end.count(wire, self.lanes[wire].phase == Phase::Measured, std::mem::take(so_far));
            self.end.settle();
        }
    }

    /// Makes one call. Returns whether there may be room for another.
    #[inline]
    fn send(&mut self, wire: usize, opened: &mut dyn Wire, so_far: &mut Counts) -> Result<bool, DriverError> {
        let (offered, begun) = self.offer(wire);
        let (blocks, size) = (self.end.blocks, self.order.write_size_bytes);
        let answer = match self.order.source {
            Source::File => opened.send_file(begun, size, blocks),
            Source::Buffer if blocks => opened.send_batch_waiting(self.messages.bytes(begun, offered), size),
            Source::Buffer => opened.send_batch(self.messages.bytes(begun, offered), size),
        };
        self.messages.unstamp();
        let sent = match answer {
            Ok(sent) => sent,
            // The kernel dropped the first message; refused messages count as sent.
            Err(WireError::Refused) if self.order.boundaries => {
                so_far.refused += 1;
                size
            }
            Err(source) => return Err(DriverError::Wire { wire, source }),
        };
        if sent == 0 {
            so_far.full += 1;
            return Ok(false);
        }
        self.has_sent(wire, sent as u64, so_far);
        Ok(sent == offered)
    }

    fn finish(&mut self, wire: usize, opened: &dyn Wire) -> Result<(), DriverError> {
        self.lanes[wire].is_done = true;
        self.left -= 1;
        self.end.leave(wire, opened)
    }

    /// Whether the wire has more to send; between two messages it may enter its next phase.
    fn has_more(&mut self, wire: usize, opened: &mut dyn Wire, marks: &mut dyn Marks) -> Result<bool, DriverError> {
        loop {
            let lane = self.lanes[wire];
            if lane.begun > 0 || !self.is_over(lane) {
                return Ok(true);
            }
            if lane.phase == Phase::Measured {
                return Ok(false);
            }
            self.lanes[wire] = WireState::of(Phase::Measured);
            if self.order.source == Source::File {
                self.load_file(wire, opened)?;
            }
            if self.measured_ns.is_none() {
                marks.begin();
                self.end.look();
                self.measured_ns = Some(self.end.now_ns);
                self.end.begin();
            }
        }
    }

    fn load_file(&self, wire: usize, opened: &mut dyn Wire) -> Result<(), DriverError> {
        let content = vec![self.lanes[wire].phase as u8; self.order.write_size_bytes];
        opened.load_file(&content).map_err(|source| DriverError::Wire { wire, source })
    }

    #[inline]
    fn is_over(&self, lane: WireState) -> bool {
        let (amount, began_ns) = match lane.phase {
            Phase::WarmUp => (self.order.warm_up, self.began_ns),
            Phase::Measured => (self.order.amount, self.measured_ns.unwrap_or(self.end.now_ns)),
        };
        match amount {
            Amount::Count(count) => lane.messages >= count,
            Amount::DurationNs(duration_ns) => self.end.now_ns.saturating_sub(began_ns) >= duration_ns,
        }
    }

    /// Prepares the next messages of a wire. Returns the number of bytes offered, and how many of the first message
    /// were already sent.
    #[inline]
    fn offer(&mut self, wire: usize) -> (usize, usize) {
        let lane = self.lanes[wire];
        let left = match (lane.phase, self.order.warm_up, self.order.amount) {
            (Phase::WarmUp, Amount::Count(count), _) | (Phase::Measured, _, Amount::Count(count)) => {
                count - lane.messages
            }
            // If its time is over, only the message that has begun is sent.
            _ if lane.begun > 0 && self.is_over(lane) => 1,
            _ => u64::MAX,
        };
        // A call from a file sends one write.
        let count = if self.order.source == Source::File { 1 } else { left.min(self.messages.room()) };
        if self.order.source == Source::Buffer {
            let end = &mut self.end;
            let offer = Offer {
                phase: lane.phase,
                first: lane.messages,
                count,
                next_stamp: lane.next_stamp,
                begun_at_ns: lane.begun_at_ns,
            };
            self.messages.prepare(offer, || {
                end.look();
                end.now_ns
            });
        }
        // Both are at most the size of the buffer.
        ((count * self.size - lane.begun) as usize, lane.begun as usize)
    }

    #[inline]
    fn has_sent(&mut self, wire: usize, bytes: u64, so_far: &mut Counts) {
        let lane = &mut self.lanes[wire];
        let gone = lane.begun + bytes;
        so_far.bytes_sent += bytes;
        if gone == self.size {
            // Nearly always one complete message.
            so_far.messages_sent += 1;
            (lane.messages, lane.begun, lane.begun_at_ns) = (lane.messages + 1, 0, None);
        } else {
            self.has_sent_several(wire, gone, so_far);
        }
        let lane = &mut self.lanes[wire];
        while lane.next_stamp < lane.messages + u64::from(lane.begun > 0) {
            lane.next_stamp += self.messages.stamp_every;
        }
    }

    /// Several messages, or a part of one.
    fn has_sent_several(&mut self, wire: usize, gone: u64, so_far: &mut Counts) {
        let lane = &mut self.lanes[wire];
        let whole = gone / self.size;
        so_far.messages_sent += whole;
        lane.messages += whole;
        let begun_before = lane.begun_at_ns.filter(|_| whole == 0);
        lane.begun = gone % self.size;
        let carries_time = lane.begun > 0 && lane.messages.is_multiple_of(self.messages.stamp_every);
        lane.begun_at_ns = begun_before.or(carries_time.then_some(self.messages.stamped_ns));
    }
}
