//! The client's result, and how answers that arrive after the loop are added to it.

use hairpin_model::samples::Fate;
use hairpin_model::{ExchangeCounts, Failure, PeriodicCounts};
use hairpin_transports::{Wire, WireError};

use super::failures::{broken, garbage};
use super::late_replies::{LateReplies, Unanswered};
use super::tally::Tally;
use crate::clock::Clock;
use crate::recorder::{Recorder, Stamps};

/// Maximum number of farewell datagrams to skip while receiving late answers.
const FAREWELLS: u32 = 8;

#[derive(Debug)]
pub struct ClientResult {
    pub recorder: Recorder,
    pub tally: Tally,
    /// When the first message was sent, in ns of the engine's clock.
    pub origin_ns: u64,
    /// Time from the first measured message to the end of the last one, in ns.
    pub duration_ns: u64,
    /// Whether the user ended the round early.
    pub interrupted: bool,
    /// Counts of the measured exchanges; `None` unless the load consists of exchanges.
    pub exchange_counts: Option<ExchangeCounts>,
    /// Counts of a control loop; `None` for other loads.
    pub periodic: Option<PeriodicCounts>,
    /// Tracks answers that may still arrive.
    pub late_replies: LateReplies,
}

impl ClientResult {
    /// Receives the late answers that have arrived, without waiting. The transport must keep message boundaries.
    /// Returns false if the server has closed its end and all answers were received.
    pub fn take_late_replies<C: Clock>(&mut self, clock: &C, wire: &mut dyn Wire) -> Result<bool, Failure> {
        let newest = self.late_replies.next.saturating_sub(1);
        let mut closed = 0;
        loop {
            match wire.try_receive(&mut self.late_replies.reply) {
                Ok(Some(len)) => self.late_reply(len, newest, clock.now_ns())?,
                Ok(None) => return Ok(true),
                // The farewell datagram may have overtaken an answer, and may arrive several times.
                Err(WireError::Closed) if closed < FAREWELLS => closed += 1,
                Err(WireError::Closed) => return Ok(false),
                Err(error) => return Err(broken("receive late answers after", newest, &error)),
            }
        }
    }

    fn late_reply(&mut self, len: usize, newest: u64, received_ns: u64) -> Result<(), Failure> {
        let LateReplies { message, reply, unanswered, in_time_ns, is_undamaged, .. } = &mut self.late_replies;
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
        // If the user ended the round early, an answer that arrives now can still be in time.
        let in_time = received_ns.saturating_sub(sent_ns) <= *in_time_ns;
        self.tally.answered(sequence, measured, in_time);
        let fate = if in_time { Fate::Received } else { Fate::Late };
        self.recorder.arrived_late(Stamps { sequence, due_ns, sent_ns, received_ns, fate }, measured);
        Ok(())
    }
}
