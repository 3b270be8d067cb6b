//! The client in an open loop: messages are sent when they are due, regardless of answers.
//!
//! Latency counts from the due time, so a stall shows in every message that it delayed (no coordinated omission).
//! Service time, counted from the actual send, and the lateness of the generator are recorded too.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hairpin_model::samples::Fate;
use hairpin_model::{Extent, Failure, RoundOrder, Waiting};
use hairpin_transports::{Wire, WireError};

use super::client::{Client, is_done, recorder};
use super::client_result::ClientResult;
use super::failures::{broken, garbage, overdue};
use super::late_replies::{LateReplies, Unanswered};
use super::marks::ClientMarks;
use super::message::{Message, patterned, sizes};
use super::tally::Tally;
use crate::clock::Clock;
use crate::pacing::Timetable;
use crate::recorder::{Recorder, Stamps};

/// Maximum messages in flight; a power of two.
const MAX_IN_FLIGHT: usize = 1 << 16;

/// Longest single wait in ns. Bounds the reaction time to Ctrl-C.
const MAX_WAIT_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    sequence: u64,
    due_ns: u64,
    sent_ns: u64,
    measured: bool,
    answered: bool,
}

/// The state of one open loop.
struct Paced<'a, C> {
    client: &'a Client<'a, C>,
    message: Message,
    reply: Vec<u8>,
    /// Bytes received of a partial answer, if the transport keeps no boundaries.
    partial: usize,
    recorder: Recorder,
    tally: Tally,
    timetable: Timetable,
    /// Indexed by sequence number modulo the length; holds the messages from `oldest` to `next`.
    flying: Vec<InFlight>,
    next: u64,
    oldest: u64,
    /// The last message that had to wait because too many were in flight.
    held_up: Option<u64>,
    last_progress_ns: u64,
}

/// Runs the warm-up and the round at `rate_per_s`.
pub fn run<C: Clock>(
    client: &Client<'_, C>,
    wire: &mut dyn Wire,
    marks: &mut dyn ClientMarks,
    rate_per_s: f64,
) -> Result<ClientResult, Failure> {
    let origin_ns = client.clock.now_ns();
    let mut this = Paced::new(client, Timetable::new(origin_ns, rate_per_s), origin_ns);
    this.message.set_codes(wire.take_codes());
    let (mut measuring, mut begin_ns, mut first) = (false, origin_ns, 0);
    let mut has_listened = true;
    let interrupted = loop {
        if client.stop.load(Ordering::Relaxed) {
            break true;
        }
        let due_ns = this.timetable.due_ns(this.next);
        if measuring && is_done(client.order.extent, this.next - first, due_ns - begin_ns) {
            break false;
        }
        let now_ns = this.client.clock.now_ns();
        if now_ns - origin_ns > client.order.deadline_ns {
            return Err(overdue(client.order, this.next));
        }
        if measuring && is_overdue(client.order, now_ns - begin_ns.min(now_ns)) {
            break false;
        }
        if now_ns >= due_ns && this.has_room() {
            // A client behind schedule receives answers first. Otherwise it would timestamp answers late, and
            // eventually each end would wait for the other end to read.
            if !has_listened && this.receive_available(wire)? {
                continue;
            }
            // The warm-up ends by the clock, even if the generator cannot keep up.
            if !measuring
                && is_done(client.order.warm_up, this.next, now_ns - origin_ns)
                && marks.may_measure(client.order.warm_up == Extent::Count(0))?
            {
                // The extent counts from the timetable, not from now, so a late generator does not get extra time.
                this.recorder.begin_measuring();
                (measuring, begin_ns, first) = (true, due_ns, this.next);
            }
            this.send(wire, due_ns, measuring)?;
            has_listened = false;
        } else {
            this.receive_until(wire, due_ns)?;
            has_listened = true;
        }
    };
    if !interrupted {
        this.drain(wire)?;
    }
    marks.end();
    let unanswered: Vec<Unanswered> = this.unanswered().collect();
    this.give_up_to(this.next);
    let duration_ns = this.last_progress_ns.saturating_sub(begin_ns);
    let Paced { recorder, tally, message, reply, next, .. } = this;
    let late_replies =
        LateReplies::new(message, reply, unanswered, next, client.order.timeout_ns, client.is_undamaged());
    let (exchange_counts, periodic) = (None, None);
    Ok(ClientResult { recorder, tally, origin_ns, duration_ns, interrupted, exchange_counts, periodic, late_replies })
}

/// Whether the ordered duration plus one time-out has elapsed. A client that cannot keep up then ends its round
/// without sending the remaining messages, and the round reports that it did not reach its rate.
fn is_overdue(order: &RoundOrder, elapsed_ns: u64) -> bool {
    matches!(order.extent, Extent::DurationNs(wanted) if elapsed_ns > wanted.saturating_add(order.timeout_ns))
}

impl<'a, C: Clock> Paced<'a, C> {
    fn new(client: &'a Client<'a, C>, timetable: Timetable, now_ns: u64) -> Self {
        let [size, reply_size] = sizes(&client.order.case);
        let message = Message::new(size, reply_size);
        // A sequence number of one byte distinguishes 256 messages, so half as many may be in flight.
        let most = if message.numbered_reply() == 1 { 128 } else { MAX_IN_FLIGHT / 2 };
        Self {
            client,
            message,
            reply: patterned(reply_size + usize::from(client.boundaries)),
            partial: 0,
            recorder: recorder(client, true),
            tally: Tally::of(client),
            timetable,
            flying: vec![InFlight::default(); most],
            next: 0,
            oldest: 0,
            held_up: None,
            last_progress_ns: now_ns,
        }
    }

    fn slot(&self, sequence: u64) -> usize {
        usize::try_from(sequence % self.flying.len() as u64).expect("a remainder of a usize")
    }

    /// Whether another message may be sent. Gives up the oldest unanswered message if it has timed out.
    fn has_room(&mut self) -> bool {
        if self.next - self.oldest < self.flying.len() as u64 {
            return true;
        }
        let waited_ns = self.client.clock.now_ns().saturating_sub(self.flying[self.slot(self.oldest)].sent_ns);
        if self.client.lossy && waited_ns > self.client.order.timeout_ns {
            self.give_up_to(self.oldest + 1);
            return true;
        }
        if self.held_up.replace(self.next) != Some(self.next) {
            self.tally.waited_for_answers += 1;
        }
        false
    }

    fn send(&mut self, wire: &mut dyn Wire, due_ns: u64, measured: bool) -> Result<(), Failure> {
        let sequence = self.next;
        self.message.number(sequence);
        let sent_ns = self.client.clock.now_ns();
        wire.send(self.message.request()).map_err(|error| broken("send", sequence, &error))?;
        let slot = self.slot(sequence);
        self.flying[slot] = InFlight { sequence, due_ns, sent_ns, measured, answered: false };
        self.next += 1;
        *(if measured { &mut self.tally.sent } else { &mut self.tally.warm_up_sent }) += 1;
        Ok(())
    }

    /// Receives an answer if one is available, else waits for one until `until_ns`.
    fn receive_until(&mut self, wire: &mut dyn Wire, until_ns: u64) -> Result<(), Failure> {
        let now_ns = self.client.clock.now_ns();
        if self.client.order.case.ends.waiting != Waiting::Spin {
            // If the due time has passed, too many messages are in flight, so the client waits for an answer.
            let wait_ns = if until_ns > now_ns { until_ns - now_ns } else { MAX_WAIT_NS };
            let at_most = Duration::from_nanos(wait_ns.min(MAX_WAIT_NS));
            if !wire.wait(at_most).map_err(|error| broken("wait for the answer to", self.oldest, &error))? {
                return self.check_silence();
            }
        }
        if self.receive_available(wire)? { Ok(()) } else { self.check_silence() }
    }

    /// Receives without waiting. Returns false if nothing arrived.
    fn receive_available(&mut self, wire: &mut dyn Wire) -> Result<bool, Failure> {
        match wire.try_receive(&mut self.reply[self.partial..]) {
            Ok(Some(len)) => self.on_bytes(len).map(|()| true),
            Ok(None) => Ok(false),
            Err(error) => Err(broken("receive the answer to", self.oldest, &error)),
        }
    }

    /// Fails on a reliable transport if no answer arrived within the time-out.
    fn check_silence(&self) -> Result<(), Failure> {
        if self.client.lossy || self.oldest == self.next {
            return Ok(());
        }
        let oldest = &self.flying[self.slot(self.oldest)];
        let since_ns = self.last_progress_ns.max(oldest.sent_ns);
        if self.client.clock.now_ns().saturating_sub(since_ns) <= self.client.order.timeout_ns {
            return Ok(());
        }
        let after = Duration::from_nanos(self.client.order.timeout_ns);
        Err(broken("receive the answer to", self.oldest, &WireError::TimedOut { operation: "receive", after }))
    }

    /// Timestamps a received answer once it is complete.
    fn on_bytes(&mut self, len: usize) -> Result<(), Failure> {
        let received_ns = self.client.clock.now_ns();
        self.last_progress_ns = received_ns;
        let len = self.partial + len;
        if !self.client.boundaries && len < self.reply.len() {
            self.partial = len;
            return Ok(());
        }
        self.partial = 0;
        let reply = &self.reply[..len];
        let newest = self.next.saturating_sub(1);
        if let Some(difference) = self.message.difference(reply) {
            return garbage(newest, &difference, self.client.is_undamaged());
        }
        let Some(sequence) = self.message.sequence_of(reply, newest) else {
            let difference = "it has the sequence number of a message that was never sent";
            return garbage(newest, difference, self.client.is_undamaged());
        };
        let slot = self.slot(sequence);
        let flying = self.flying[slot];
        if flying.sequence != sequence || flying.answered || sequence < self.oldest {
            self.tally.answered_again(sequence);
            return Ok(());
        }
        self.record_answer(flying, received_ns);
        self.flying[slot].answered = true;
        while self.oldest < self.next && self.flying[self.slot(self.oldest)].answered {
            self.oldest += 1;
        }
        Ok(())
    }

    fn record_answer(&mut self, flying: InFlight, received_ns: u64) {
        let InFlight { sequence, due_ns, sent_ns, measured, .. } = flying;
        let in_time = received_ns.saturating_sub(sent_ns) <= self.client.order.timeout_ns;
        self.tally.answered(sequence, measured, in_time);
        let fate = if in_time { Fate::Received } else { Fate::Late };
        self.recorder.record_as(Stamps { sequence, due_ns, sent_ns, received_ns, fate }, measured);
    }

    /// Waits for the answers still in flight, until one time-out after the last send.
    fn drain(&mut self, wire: &mut dyn Wire) -> Result<(), Failure> {
        let until_ns = self.client.clock.now_ns() + self.client.order.timeout_ns;
        while self.oldest < self.next && self.client.clock.now_ns() < until_ns {
            if self.client.stop.load(Ordering::Relaxed) {
                break;
            }
            self.receive_until(wire, until_ns)?;
        }
        Ok(())
    }

    fn unanswered(&self) -> impl Iterator<Item = Unanswered> + '_ {
        (self.oldest..self.next)
            .map(|sequence| self.flying[self.slot(sequence)])
            .filter(|flying| !flying.answered)
            .map(|InFlight { sequence, due_ns, sent_ns, measured, .. }| Unanswered {
                sequence,
                due_ns,
                sent_ns,
                measured,
            })
    }

    /// Records every unanswered message with a number below `end` as lost.
    fn give_up_to(&mut self, end: u64) {
        while self.oldest < end {
            let InFlight { sequence, due_ns, sent_ns, measured, answered } = self.flying[self.slot(self.oldest)];
            if !answered {
                self.recorder
                    .record_as(Stamps { sequence, due_ns, sent_ns, received_ns: 0, fate: Fate::Lost }, measured);
            }
            self.oldest += 1;
        }
    }
}
