//! Shared parts of the closed loops: warm-up and round, message numbers, and verification of answers.
//!
//! An answer is timestamped first and verified afterwards, so the latency excludes the verification.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use hairpin_model::samples::Fate;
use hairpin_model::{ExchangeCounts, Extent, Failure};
use hairpin_transports::{Segments, Wire, WireError};

use super::client::{Client, MAX_TIME_OUTS, is_done, recorder};
use super::client_result::ClientResult;
use super::failures::{broken, garbage, overdue, unanswered};
use super::late_replies::{LateReplies, Unanswered};
use super::marks::ClientMarks;
use super::message::{Message, patterned, sizes};
use super::tally::Tally;
use crate::clock::Clock;
use crate::recorder::{Recorder, Stamps};

/// The state of a closed loop between two turns.
pub(super) struct ClosedLoop<'a, C> {
    pub(super) client: &'a Client<'a, C>,
    pub(super) message: Message,
    pub(super) reply: Vec<u8>,
    pub(super) recorder: Recorder,
    pub(super) tally: Tally,
    /// The number of the next message.
    pub(super) sequence: u64,
    pub(super) measuring: bool,
    /// Answers that take longer than this are late, in ns.
    in_time_ns: u64,
    unanswered: VecDeque<Unanswered>,
    /// Consecutive time-outs since the last answer to any message.
    pub(super) time_outs: u32,
}

/// Number of unanswered messages remembered. An answer to an older message counts as duplicated.
const MAX_REMEMBERED: usize = 256;
/// Like [`MAX_REMEMBERED`], for a case that crosses a network, where many packets can be in flight.
const MAX_REMEMBERED_ON_LINK: usize = 1 << 16;

impl<'a, C: Clock> ClosedLoop<'a, C> {
    /// Creates a loop with the recorder of a closed loop. `pauses_ns` is the total time that the client pauses between
    /// the writes of a turn.
    pub(super) fn new(client: &'a Client<'a, C>, pauses_ns: u64) -> Self {
        Self::with_recorder(client, pauses_ns, recorder(client, false))
    }

    pub(super) fn with_recorder(client: &'a Client<'a, C>, pauses_ns: u64, recorder: Recorder) -> Self {
        let case = &client.order.case;
        let [size, reply_size] = sizes(case);
        Self {
            client,
            message: Message::new(size, reply_size),
            // One extra byte to detect messages that are too long, if the transport keeps boundaries.
            reply: patterned(reply_size + usize::from(client.boundaries)),
            recorder,
            tally: Tally::of(client),
            sequence: 0,
            measuring: false,
            in_time_ns: client.order.timeout_ns.saturating_add(pauses_ns),
            unanswered: VecDeque::with_capacity(if case.crosses_a_network() {
                MAX_REMEMBERED_ON_LINK
            } else {
                MAX_REMEMBERED
            }),
            time_outs: 0,
        }
    }

    /// Runs the warm-up and the round. `turn` receives the number of messages left in the phase, and returns the time
    /// when the turn ended.
    pub(super) fn run<W: Wire + ?Sized, T>(
        mut self,
        wire: &mut W,
        marks: &mut dyn ClientMarks,
        mut turn: T,
    ) -> Result<ClientResult, Failure>
    where
        T: FnMut(&mut Self, &mut W, u64) -> Result<u64, Failure>,
    {
        self.message.set_codes(wire.take_codes());
        let counts_exchanges = self.client.order.case.primary().load.exchange().is_some();
        let mut counted = Counted::default();
        let mut times = Times::from(self.client.clock.now_ns());
        let interrupted = loop {
            match self.next(&mut times, marks, || counted = Counted::read(wire, counts_exchanges))? {
                ControlFlow::Continue(left) => times.now_ns = turn(&mut self, wire, left)?,
                ControlFlow::Break(interrupted) => break interrupted,
            }
        };
        marks.end();
        let exchange_counts =
            counts_exchanges.then(|| Counted::read(wire, true).since(counted, self.recorder.measured()));
        Ok(self.result(times, interrupted, exchange_counts))
    }

    /// Begins the measurement if it is due. Returns the number of messages left in the phase, or at the end of the round
    /// whether the user ended it.
    #[inline(always)]
    pub(super) fn next(
        &mut self,
        times: &mut Times,
        marks: &mut dyn ClientMarks,
        begun: impl FnOnce(),
    ) -> Result<ControlFlow<bool, u64>, Failure> {
        let (client, order) = (self.client, self.client.order);
        if !self.measuring
            && is_done(order.warm_up, self.sequence, times.now_ns - times.origin_ns)
            && marks.may_measure(order.warm_up == Extent::Count(0))?
        {
            self.recorder.begin_measuring();
            self.measuring = true;
            begun();
            times.begin_ns = client.clock.now_ns();
            times.now_ns = times.begin_ns;
        }
        if self.measuring && is_done(order.extent, self.recorder.measured(), times.now_ns - times.begin_ns) {
            return Ok(ControlFlow::Break(false));
        }
        if client.stop.load(Ordering::Relaxed) {
            return Ok(ControlFlow::Break(true));
        }
        if times.now_ns - times.origin_ns > order.deadline_ns {
            return Err(overdue(order, self.sequence));
        }
        Ok(ControlFlow::Continue(match (self.measuring, order.warm_up, order.extent) {
            // Until the server measures, the warm-up continues one message at a time.
            (false, Extent::Count(wanted), _) => wanted.saturating_sub(self.sequence).max(1),
            (true, _, Extent::Count(wanted)) => wanted - self.recorder.measured(),
            _ => u64::MAX,
        }))
    }

    pub(super) fn result(
        self,
        times: Times,
        interrupted: bool,
        exchange_counts: Option<ExchangeCounts>,
    ) -> ClientResult {
        let Times { origin_ns, begin_ns, now_ns } = times;
        let Self { client, recorder, tally, message, reply, unanswered, sequence, in_time_ns, .. } = self;
        let duration_ns = now_ns - begin_ns;
        let late_replies = LateReplies::new(message, reply, unanswered, sequence, in_time_ns, client.is_undamaged());
        let periodic = None;
        ClientResult { recorder, tally, origin_ns, duration_ns, interrupted, exchange_counts, periodic, late_replies }
    }

    /// Writes the number of the next message into the message. Returns the number.
    #[inline]
    pub(super) fn number(&mut self) -> u64 {
        self.message.number(self.sequence);
        self.sequence
    }

    #[inline]
    pub(super) fn count_sent(&mut self) {
        self.sequence += 1;
        *(if self.measuring { &mut self.tally.sent } else { &mut self.tally.warm_up_sent }) += 1;
    }

    /// Receives the answer to the message in `self.message`. Returns the arrival time, or `None` if the answer timed
    /// out on a lossy transport.
    #[inline(always)]
    pub(super) fn take_answer<W: Wire + ?Sized>(
        &mut self,
        wire: &mut W,
        sequence: u64,
        sent_ns: u64,
    ) -> Result<Option<u64>, Failure> {
        loop {
            let received = self.receive_whole(wire);
            if let Some(end) = self.on_received(received, sequence, sent_ns)? {
                return Ok(end);
            }
        }
    }

    /// Handles the end of a receive: `None` to receive again, else the result of [`ClosedLoop::take_answer`].
    #[inline(always)]
    pub(super) fn on_received(
        &mut self,
        received: Result<usize, WireError>,
        sequence: u64,
        sent_ns: u64,
    ) -> Result<Option<Option<u64>>, Failure> {
        match received {
            Ok(len) => {
                let received_ns = self.client.clock.now_ns();
                if self.reply[..len] == *self.message.expected() {
                    self.record_answer(sequence, sent_ns, received_ns);
                    return Ok(Some(Some(received_ns)));
                }
                self.late_reply(sequence, len, received_ns)?;
                Ok(None)
            }
            Err(WireError::TimedOut { .. }) if self.client.lossy => {
                self.recorder.record(Stamps { sequence, due_ns: sent_ns, sent_ns, received_ns: 0, fate: Fate::Lost });
                self.give_up(sequence, sent_ns, sent_ns)?;
                Ok(Some(None))
            }
            Err(error) => Err(broken("receive the answer to", sequence, &error)),
        }
    }

    #[inline]
    fn record_answer(&mut self, sequence: u64, sent_ns: u64, received_ns: u64) {
        let in_time = received_ns - sent_ns <= self.in_time_ns;
        let fate = if in_time { Fate::Received } else { Fate::Late };
        self.time_outs = 0;
        self.tally.answered(sequence, self.measuring, in_time);
        self.recorder.record(Stamps { sequence, due_ns: sent_ns, sent_ns, received_ns, fate });
    }

    /// Handles an answer to an earlier message. The answer is late if that message timed out, and duplicated if that
    /// message was already answered. Any other answer is garbage.
    pub(super) fn late_reply(&mut self, sequence: u64, len: usize, received_ns: u64) -> Result<(), Failure> {
        let reply = &self.reply[..len];
        if let Some(difference) = self.message.difference(reply) {
            return garbage(sequence, &difference, self.client.is_undamaged());
        }
        let Some(earlier) = self.message.sequence_of(reply, sequence).filter(|number| *number < sequence) else {
            let difference = "it has the sequence number of another message";
            return garbage(sequence, difference, self.client.is_undamaged());
        };
        if !self.client.lossy {
            return garbage(sequence, "it answers an earlier message a second time", true);
        }
        self.time_outs = 0;
        let Some(place) = self.unanswered.iter().position(|message| message.sequence == earlier) else {
            self.tally.answered_again(earlier);
            return Ok(());
        };
        let Unanswered { due_ns, sent_ns, measured, .. } =
            self.unanswered.remove(place).expect("its place was just found");
        self.tally.answered(earlier, measured, false);
        let stamps = Stamps { sequence: earlier, due_ns, sent_ns, received_ns, fate: Fate::Late };
        self.recorder.arrived_late(stamps, measured);
        Ok(())
    }

    /// Gives up waiting for an answer, which may still arrive. Fails after too many time-outs.
    pub(super) fn give_up(&mut self, sequence: u64, due_ns: u64, sent_ns: u64) -> Result<(), Failure> {
        if self.unanswered.len() == self.unanswered.capacity() {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(Unanswered { sequence, due_ns, sent_ns, measured: self.measuring });
        self.time_outs += 1;
        if self.time_outs < MAX_TIME_OUTS {
            return Ok(());
        }
        Err(unanswered(sequence, self.client.order.timeout_ns))
    }

    /// Receives until the answer is complete. A transport with boundaries needs one call.
    #[inline(always)]
    pub(super) fn receive_whole<W: Wire + ?Sized>(&mut self, wire: &mut W) -> Result<usize, WireError> {
        let mut len = wire.receive(&mut self.reply)?;
        while !self.client.boundaries && len < self.reply.len() {
            len += wire.receive(&mut self.reply[len..])?;
        }
        Ok(len)
    }
}

/// When a loop and its measurement began, and when its last turn ended, in ns of the clock.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) origin_ns: u64,
    pub(super) begin_ns: u64,
    pub(super) now_ns: u64,
}

impl Times {
    pub(super) fn from(now_ns: u64) -> Self {
        Self { origin_ns: now_ns, begin_ns: now_ns, now_ns }
    }
}

/// Readings of a wire's counters.
#[derive(Clone, Copy, Default)]
struct Counted {
    segments: Option<Segments>,
    system_calls: u64,
}

impl Counted {
    fn read<W: Wire + ?Sized>(wire: &mut W, wanted: bool) -> Self {
        let system_calls = wire.system_calls().unwrap_or_default();
        let stream = wire.stream().filter(|_| wanted);
        stream.map_or_else(Self::default, |stream| Self { segments: stream.segments(), system_calls })
    }

    fn since(self, before: Self, exchanges: u64) -> ExchangeCounts {
        let part = |of: fn(Segments) -> u64| Some(of(self.segments?).saturating_sub(of(before.segments?)));
        ExchangeCounts {
            exchanges,
            segments: part(|segments| segments.with_payload),
            pure_acks: part(|segments| segments.bare),
            system_calls: self.system_calls.saturating_sub(before.system_calls),
        }
    }
}
