//! A control loop: a cycle is released every period, polls all connections one after another, and must have the last
//! answer by its deadline.
//!
//! Release k is due k periods after the first, whenever the cycles before it ended. A row of samples is a cycle:
//! due at its release, sent when the loop was awake, received with the last answer. A cycle that is not answered
//! within the time-out ends there.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use hairpin_model::periodic::{Overrun, Periodic};
use hairpin_model::samples::Fate;
use hairpin_model::{Extent, Failure};
use hairpin_transports::{Wire, WireError};

use super::client::{Client, MAX_TIME_OUTS, is_done, recorder};
use super::client_result::ClientResult;
use super::failures::{broken, garbage, overdue, unanswered};
use super::late_replies::{LateReplies, Unanswered};
use super::marks::ClientMarks;
use super::message::{Message, patterned};
use super::periods::PeriodCounter;
use super::tally::Tally;
use crate::clock::Clock;
use crate::recorder::{Recorder, Stamps};
use crate::timers::ReleaseTimer;

/// Number of unanswered messages remembered. An answer to an older message counts as duplicated.
const MAX_REMEMBERED: usize = 256;
/// Longest wait by the loop's timer, in ns. A longer wait first sleeps, to look for the end of the run meanwhile.
const MAX_WAIT_NS: u64 = 1_000_000_000;
/// Length of these sleeps, in ns.
const SLICE_NS: u64 = 500_000_000;

/// The state of one control loop.
struct Periods<'a, C> {
    client: &'a Client<'a, C>,
    periodic: &'a Periodic,
    timer: ReleaseTimer,
    /// When release 0 is due.
    first_release_ns: u64,
    message: Message,
    reply: Vec<u8>,
    recorder: Recorder,
    tally: Tally,
    counter: PeriodCounter,
    /// The number of the next message.
    sequence: u64,
    measuring: bool,
    unanswered: VecDeque<Unanswered>,
    /// Consecutive time-outs since the last answer to any message.
    time_outs: u32,
}

/// Runs the warm-up and the round.
pub fn run<C: Clock>(
    client: &Client<'_, C>,
    wire: &mut dyn Wire,
    marks: &mut dyn ClientMarks,
    periodic: &Periodic,
) -> Result<ClientResult, Failure> {
    let timer = ReleaseTimer::new(periodic)?;
    let origin_ns = client.clock.now_ns();
    let mut this = Periods::new(client, periodic, timer, origin_ns);
    this.message.set_codes(wire.take_codes());
    let (mut release, mut end, mut begin_ns) = (0, u64::MAX, origin_ns);
    let mut ended_ns = origin_ns;
    let interrupted = loop {
        if !this.measuring
            && is_done(client.order.warm_up, release, ended_ns - origin_ns)
            && marks.may_measure(client.order.warm_up == Extent::Count(0))?
        {
            this.recorder.begin_measuring();
            this.measuring = true;
            release = this.next_release(release, client.clock.now_ns());
            end = release.saturating_add(this.periods(client.order.extent));
            begin_ns = this.due_ns(release);
        }
        if release >= end {
            break false;
        }
        if !this.wait_for(release) {
            break true;
        }
        let started_ns = client.clock.now_ns();
        if started_ns - origin_ns > client.order.deadline_ns {
            return Err(overdue(client.order, this.sequence));
        }
        ended_ns = this.cycle(wire, release, started_ns)?;
        let next = match periodic.overrun {
            Overrun::Skip => this.next_release(release + 1, ended_ns),
            Overrun::CatchUp => release + 1,
        };
        if this.measuring {
            this.counter.skipped(next.min(end) - release - 1);
        }
        release = next;
    };
    marks.end();
    let Periods { recorder, tally, counter, message, reply, unanswered, sequence, .. } = this;
    let duration_ns = ended_ns.saturating_sub(begin_ns);
    let late_replies =
        LateReplies::new(message, reply, unanswered, sequence, client.order.timeout_ns, client.is_undamaged());
    let periodic = Some(counter.finish());
    let exchange_counts = None;
    Ok(ClientResult { recorder, tally, origin_ns, duration_ns, interrupted, exchange_counts, periodic, late_replies })
}

impl<'a, C: Clock> Periods<'a, C> {
    fn new(client: &'a Client<'a, C>, periodic: &'a Periodic, timer: ReleaseTimer, now_ns: u64) -> Self {
        let load = &client.order.case.primary().load;
        let size = usize::try_from(load.size_bytes()).expect("sizes are at most 1 GiB");
        let reply_size = usize::try_from(load.reply_size_bytes()).expect("sizes are at most 1 GiB");
        Self {
            client,
            periodic,
            timer,
            first_release_ns: now_ns + periodic.period_ns,
            message: Message::new(size, reply_size),
            // One extra byte to detect messages that are too long, if the transport keeps boundaries.
            reply: patterned(reply_size + usize::from(client.boundaries)),
            recorder: recorder(client, true),
            tally: Tally::of(client),
            counter: PeriodCounter::new(),
            sequence: 0,
            measuring: false,
            unanswered: VecDeque::with_capacity(MAX_REMEMBERED),
            time_outs: 0,
        }
    }

    fn due_ns(&self, release: u64) -> u64 {
        self.first_release_ns.saturating_add(release.saturating_mul(self.periodic.period_ns))
    }

    /// The first release from `least` on that is not due before `now_ns`.
    fn next_release(&self, least: u64, now_ns: u64) -> u64 {
        least.max(now_ns.saturating_sub(self.first_release_ns).div_ceil(self.periodic.period_ns))
    }

    /// Number of periods in `extent`, at least one.
    fn periods(&self, extent: Extent) -> u64 {
        match extent {
            Extent::Count(count) => count,
            Extent::DurationNs(duration_ns) => duration_ns.div_ceil(self.periodic.period_ns).max(1),
        }
    }

    /// Waits for a release. Returns false if the user ends the run.
    fn wait_for(&self, release: u64) -> bool {
        let (due_ns, clock) = (self.due_ns(release), self.client.clock);
        while !self.client.stop.load(Ordering::Relaxed) {
            let now_ns = clock.now_ns();
            if due_ns <= now_ns.saturating_add(MAX_WAIT_NS) {
                clock.release_at(due_ns, &self.timer);
                return true;
            }
            clock.sleep_until(now_ns + SLICE_NS);
        }
        false
    }

    /// Runs the cycle of a release. Returns when it ended.
    fn cycle(&mut self, wire: &mut dyn Wire, release: u64, started_ns: u64) -> Result<u64, Failure> {
        let due_ns = self.due_ns(release);
        let (mut received_ns, mut fate) = (started_ns, Fate::Received);
        let mut sequence = release;
        if !(self.periodic.only_waits && self.measuring) {
            let mut sent_ns = started_ns;
            for _ in 0..self.client.order.case.primary().connections {
                sequence = self.sequence;
                (received_ns, fate) = self.exchange(wire, due_ns, sent_ns)?;
                if fate == Fate::Lost {
                    break;
                }
                sent_ns = received_ns;
            }
        }
        if self.measuring {
            let is_in_time =
                fate == Fate::Received && received_ns.saturating_sub(due_ns) <= self.periodic.deadline_ns;
            self.counter.ran(!is_in_time);
        }
        let ended_ns = if fate == Fate::Lost { self.client.clock.now_ns() } else { received_ns };
        self.recorder.record(Stamps { sequence, due_ns, sent_ns: started_ns, received_ns, fate });
        Ok(ended_ns)
    }

    /// Sends a message and waits for its answer. Returns when it arrived, 0 for a lost one.
    fn exchange(&mut self, wire: &mut dyn Wire, due_ns: u64, sent_ns: u64) -> Result<(u64, Fate), Failure> {
        let sequence = self.sequence;
        self.message.number(sequence);
        wire.send(self.message.request()).map_err(|error| broken("send", sequence, &error))?;
        self.sequence += 1;
        *(if self.measuring { &mut self.tally.sent } else { &mut self.tally.warm_up_sent }) += 1;
        loop {
            match self.receive_whole(wire) {
                Ok(len) => {
                    let received_ns = self.client.clock.now_ns();
                    if self.reply[..len] == *self.message.expected() {
                        let in_time = received_ns - sent_ns <= self.client.order.timeout_ns;
                        self.tally.answered(sequence, self.measuring, in_time);
                        self.time_outs = 0;
                        return Ok((received_ns, if in_time { Fate::Received } else { Fate::Late }));
                    }
                    self.late_reply(sequence, len, received_ns)?;
                }
                Err(WireError::TimedOut { .. }) if self.client.lossy => {
                    self.give_up(Unanswered { sequence, due_ns, sent_ns, measured: self.measuring })?;
                    return Ok((0, Fate::Lost));
                }
                Err(error) => return Err(broken("receive the answer to", sequence, &error)),
            }
        }
    }

    fn give_up(&mut self, message: Unanswered) -> Result<(), Failure> {
        if self.unanswered.len() == MAX_REMEMBERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(message);
        self.time_outs += 1;
        if self.time_outs < MAX_TIME_OUTS {
            return Ok(());
        }
        Err(unanswered(message.sequence, self.client.order.timeout_ns))
    }

    /// Handles an answer to an earlier message: late if that message timed out, else duplicated. Any other answer is
    /// garbage.
    fn late_reply(&mut self, sequence: u64, len: usize, received_ns: u64) -> Result<(), Failure> {
        let reply = &self.reply[..len];
        if let Some(difference) = self.message.difference(reply) {
            return garbage(sequence, &difference, self.client.is_undamaged());
        }
        let earlier = self.message.sequence_of(reply, sequence).filter(|number| *number < sequence);
        let Some(earlier) = earlier.filter(|_| self.client.lossy) else {
            return garbage(sequence, "it answers another message", self.client.is_undamaged());
        };
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

    /// Receives until the answer is complete. A transport with boundaries needs one call.
    fn receive_whole(&mut self, wire: &mut dyn Wire) -> Result<usize, WireError> {
        let mut len = wire.receive(&mut self.reply)?;
        while !self.client.boundaries && len < self.reply.len() {
            len += wire.receive(&mut self.reply[len..])?;
        }
        Ok(len)
    }
}
