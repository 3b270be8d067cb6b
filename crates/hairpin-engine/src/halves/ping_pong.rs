//! The client half in a closed loop: a message, its answer, the next message.
//!
//! The clock is read twice a message: when the send call begins and when the answer is there. Verification happens
//! between the two messages, outside what is timed.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use hairpin_model::round::Failure;
use hairpin_model::samples::Fate;
use hairpin_transports::{Wire, WireError};

use super::message::{Message, patterned};
use super::tally::Tally;
use super::{Client, Journey, broken, garbage, is_done, recorder};
use crate::clock::Clock;
use crate::recorder::{Recorder, Stamps};

/// What one step did.
enum Step {
    /// The message was answered, at this time.
    Answered(u64),
    /// It was not, within the time-out.
    Unanswered,
}

/// One closed loop, between two messages.
struct PingPong<'a, C> {
    client: &'a Client<'a, C>,
    message: Message,
    reply: Vec<u8>,
    recorder: Recorder,
    tally: Tally,
    sequence: u64,
    measuring: bool,
    unanswered: VecDeque<Unanswered>,
}

/// A message that timed out; its answer may still come.
struct Unanswered {
    sequence: u64,
    sent_ns: u64,
    measured: bool,
}

/// How many unanswered messages are remembered; an answer to an older one counts as duplicated.
const REMEMBERED: usize = 256;

/// Runs the warm-up and the round.
///
/// # Errors
/// As [`super::run_client`].
pub fn run<C: Clock>(client: &Client<'_, C>, wire: &mut dyn Wire) -> Result<Journey, Failure> {
    let case = &client.order.case;
    let size = usize::try_from(case.size_bytes).expect("sizes are at most 1 GiB");
    let reply_size = usize::try_from(case.reply_size_bytes).expect("sizes are at most 1 GiB");
    let mut this = PingPong {
        client,
        message: Message::new(size, reply_size),
        // One byte more where a message could come too long, so that this shows.
        reply: patterned(reply_size + usize::from(client.boundaries)),
        recorder: recorder(client.order, false),
        tally: Tally::default(),
        sequence: 0,
        measuring: false,
        unanswered: VecDeque::with_capacity(REMEMBERED),
    };
    let origin_ns = client.clock.now_ns();
    let (mut begin_ns, mut now_ns) = (origin_ns, origin_ns);
    let interrupted = loop {
        if !this.measuring && is_done(client.order.warm_up, this.sequence, now_ns - origin_ns) {
            this.recorder.begin_measuring();
            this.measuring = true;
            begin_ns = client.clock.now_ns();
            now_ns = begin_ns;
        }
        if this.measuring && is_done(client.order.extent, this.recorder.measured(), now_ns - begin_ns) {
            break false;
        }
        if client.stop.load(Ordering::Relaxed) {
            break true;
        }
        now_ns = match this.step(wire)? {
            Step::Answered(at_ns) => at_ns,
            Step::Unanswered => client.clock.now_ns(),
        };
    };
    let PingPong { recorder, tally, .. } = this;
    Ok(Journey { recorder, tally, origin_ns, duration_ns: now_ns - begin_ns, interrupted })
}

impl<C: Clock> PingPong<'_, C> {
    /// Sends one message and takes its answer.
    fn step(&mut self, wire: &mut dyn Wire) -> Result<Step, Failure> {
        let sequence = self.sequence;
        self.message.number(sequence);
        self.sequence += 1;
        let sent_ns = self.client.clock.now_ns();
        wire.send(self.message.request()).map_err(|error| broken("send", sequence, &error))?;
        *(if self.measuring { &mut self.tally.sent } else { &mut self.tally.warm_up_sent }) += 1;
        loop {
            match self.receive_whole(wire) {
                Ok(len) => {
                    let received_ns = self.client.clock.now_ns();
                    if self.reply[..len] == *self.message.expected() {
                        self.answered(sequence, sent_ns, received_ns);
                        return Ok(Step::Answered(received_ns));
                    }
                    self.straggler(sequence, len, received_ns)?;
                }
                Err(WireError::TimedOut { .. }) if self.client.lossy => {
                    self.give_up(sequence, sent_ns);
                    return Ok(Step::Unanswered);
                }
                Err(error) => return Err(broken("receive the answer to", sequence, &error)),
            }
        }
    }

    #[inline]
    fn answered(&mut self, sequence: u64, sent_ns: u64, received_ns: u64) {
        let in_time = received_ns - sent_ns <= self.client.order.timeout_ns;
        let fate = if in_time { Fate::Received } else { Fate::Late };
        let count = match (self.measuring, in_time) {
            (true, true) => &mut self.tally.received,
            (true, false) => &mut self.tally.late,
            (false, true) => &mut self.tally.warm_up_received,
            (false, false) => &mut self.tally.warm_up_late,
        };
        *count += 1;
        self.recorder.record(Stamps { sequence, due_ns: sent_ns, sent_ns, received_ns, fate });
    }

    /// An answer to an earlier message, which timed out (late) or was answered already (duplicated); anything else
    /// is garbage.
    fn straggler(&mut self, sequence: u64, len: usize, received_ns: u64) -> Result<(), Failure> {
        let reply = &self.reply[..len];
        if let Some(difference) = self.message.difference(reply) {
            return Err(garbage(sequence, &difference));
        }
        let Some(earlier) = self.message.sequence_of(reply, sequence).filter(|number| *number < sequence) else {
            return Err(garbage(sequence, "it has the sequence number of another message"));
        };
        if !self.client.lossy {
            return Err(garbage(sequence, "it answers an earlier message a second time"));
        }
        let Some(place) = self.unanswered.iter().position(|message| message.sequence == earlier) else {
            self.tally.duplicated += 1;
            return Ok(());
        };
        let Unanswered { sent_ns, measured, .. } = self.unanswered.remove(place).expect("its place was just found");
        *(if measured { &mut self.tally.late } else { &mut self.tally.warm_up_late }) += 1;
        let stamps = Stamps { sequence: earlier, due_ns: sent_ns, sent_ns, received_ns, fate: Fate::Late };
        self.recorder.arrived_late(stamps, measured);
        Ok(())
    }

    /// Gives a message up; its answer may still come.
    fn give_up(&mut self, sequence: u64, sent_ns: u64) {
        if self.unanswered.len() == REMEMBERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(Unanswered { sequence, sent_ns, measured: self.measuring });
        self.recorder.record(Stamps { sequence, due_ns: sent_ns, sent_ns, received_ns: 0, fate: Fate::Lost });
    }

    /// Receives until the answer is whole: one call where the transport keeps boundaries.
    #[inline]
    fn receive_whole(&mut self, wire: &mut dyn Wire) -> Result<usize, WireError> {
        let mut len = wire.receive(&mut self.reply)?;
        while !self.client.boundaries && len < self.reply.len() {
            len += wire.receive(&mut self.reply[len..])?;
        }
        Ok(len)
    }
}
