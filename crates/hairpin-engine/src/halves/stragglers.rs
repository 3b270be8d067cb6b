//! Answers that come after the loop has ended: to messages that it gave up, or a second time.

use std::collections::BTreeMap;

use hairpin_model::round::Failure;
use hairpin_model::samples::Fate;
use hairpin_transports::{Wire, WireError};

use super::message::Message;
use super::{Journey, broken, garbage};
use crate::clock::Clock;
use crate::recorder::Stamps;

/// So many farewells may stand before an answer.
const FAREWELLS: u32 = 8;

/// A message that was given up; its answer may still come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    pub(super) sequence: u64,
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) measured: bool,
}

/// What it takes to know such answers.
#[derive(Debug)]
pub struct Stragglers {
    message: Message,
    reply: Vec<u8>,
    unanswered: BTreeMap<u64, Unanswered>,
    /// One more than the number of the last message.
    next: u64,
    in_time_ns: u64,
    is_undamaged: bool,
}

impl Stragglers {
    /// After a loop whose next message would have been number `next`.
    pub(super) fn new(
        message: Message,
        reply: Vec<u8>,
        unanswered: impl IntoIterator<Item = Unanswered>,
        next: u64,
        in_time_ns: u64,
        is_undamaged: bool,
    ) -> Self {
        let unanswered = unanswered.into_iter().map(|message| (message.sequence, message)).collect();
        Self { message, reply, unanswered, next, in_time_ns, is_undamaged }
    }

    /// Whether every message has been answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// When the youngest of those without an answer was sent, on the engine's clock.
    #[must_use]
    pub fn last_sent_ns(&self) -> Option<u64> {
        self.unanswered.values().next_back().map(|message| message.sent_ns)
    }
}

impl Journey {
    /// Takes the answers that have come, without waiting, on a transport that keeps boundaries. False where the other
    /// end is gone: what it sent before has been taken then.
    ///
    /// # Errors
    /// The wire failed, or an answer was garbage.
    pub fn take_stragglers<C: Clock>(&mut self, clock: &C, wire: &mut dyn Wire) -> Result<bool, Failure> {
        let newest = self.stragglers.next.saturating_sub(1);
        let mut closed = 0;
        loop {
            match wire.try_receive(&mut self.stragglers.reply) {
                Ok(Some(len)) => self.straggler(len, newest, clock.now_ns())?,
                Ok(None) => return Ok(true),
                // The farewell may have overtaken an answer, and come several times.
                Err(WireError::Closed) if closed < FAREWELLS => closed += 1,
                Err(WireError::Closed) => return Ok(false),
                Err(error) => return Err(broken("receive a late answer, the last one being to", newest, &error)),
            }
        }
    }

    fn straggler(&mut self, len: usize, newest: u64, received_ns: u64) -> Result<(), Failure> {
        let Stragglers { message, reply, unanswered, in_time_ns, is_undamaged, .. } = &mut self.stragglers;
        let reply = &reply[..len];
        if let Some(difference) = message.difference(reply) {
            return garbage(newest, &difference, *is_undamaged);
        }
        let Some(sequence) = message.sequence_of(reply, newest) else {
            return garbage(newest, "it has the sequence number of a message that was never sent", *is_undamaged);
        };
        let Some(Unanswered { due_ns, sent_ns, measured, .. }) = unanswered.remove(&sequence) else {
            self.tally.answered_again(sequence);
            return Ok(());
        };
        // A round that the user ends gives up what could still have come in time.
        let in_time = received_ns.saturating_sub(sent_ns) <= *in_time_ns;
        self.tally.answered(measured, in_time);
        let fate = if in_time { Fate::Received } else { Fate::Late };
        self.recorder.arrived_late(Stamps { sequence, due_ns, sent_ns, received_ns, fate }, measured);
        Ok(())
    }
}
