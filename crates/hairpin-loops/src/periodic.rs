//! A control loop: a cycle is released every period, polls all connections one after another, and must have the last
//! answer by its deadline.
//!
//! Release k is due k periods after the first, whenever the cycles before it ended. A row of samples is a cycle:
//! due at its release, sent when the loop was awake, received with the last answer. A cycle that is not answered
//! within the time-out ends there.

use std::sync::atomic::Ordering;

use hairpin_model::periodic::{Overrun, Periodic};
use hairpin_model::samples::Fate;
use hairpin_model::{Extent, Failure};
use hairpin_transports::{Wire, WireError};

use super::client::{Client, is_done, recorder};
use super::client_result::ClientResult;
use super::closed_loop::{ClosedLoop, Times};
use super::failures::{broken, overdue};
use super::marks::ClientMarks;
use super::periods::PeriodCounter;
use crate::clock::Clock;
use crate::recorder::Stamps;
use crate::timers::ReleaseTimer;

/// Longest wait by the loop's timer, in ns. A longer wait first sleeps, to look for the end of the run meanwhile.
const MAX_WAIT_NS: u64 = 1_000_000_000;
/// Length of these sleeps, in ns.
const SLICE_NS: u64 = 500_000_000;

/// The state of one control loop.
struct Periods<'a, C> {
    closed_loop: ClosedLoop<'a, C>,
    periodic: &'a Periodic,
    timer: ReleaseTimer,
    first_release_ns: u64,
    counter: PeriodCounter,
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
    let mut this = Periods {
        closed_loop: ClosedLoop::with_recorder(client, 0, recorder(client, true)),
        periodic,
        timer,
        first_release_ns: origin_ns + periodic.period_ns,
        counter: PeriodCounter::new(),
    };
    this.closed_loop.message.set_codes(wire.take_codes());
    let (mut release, mut end, mut begin_ns) = (0, u64::MAX, origin_ns);
    let mut ended_ns = origin_ns;
    let interrupted = loop {
        if !this.closed_loop.measuring
            && is_done(client.order.warm_up, release, ended_ns - origin_ns)
            && marks.may_measure(client.order.warm_up == Extent::Count(0))?
        {
            this.closed_loop.recorder.begin_measuring();
            this.closed_loop.measuring = true;
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
            return Err(overdue(client.order, this.closed_loop.sequence));
        }
        ended_ns = this.cycle(wire, release, started_ns)?;
        let next = match periodic.overrun {
            Overrun::Skip => this.next_release(release + 1, ended_ns),
            Overrun::CatchUp => release + 1,
        };
        if this.closed_loop.measuring {
            this.counter.skipped(next.min(end) - release - 1);
        }
        release = next;
    };
    marks.end();
    // A measurement that the user has ended may not have begun.
    let times = Times { origin_ns, begin_ns: begin_ns.min(ended_ns), now_ns: ended_ns };
    let periodic = Some(this.counter.finish());
    Ok(ClientResult { periodic, ..this.closed_loop.result(times, interrupted, None) })
}

impl<C: Clock> Periods<'_, C> {
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
        let (due_ns, clock) = (self.due_ns(release), self.closed_loop.client.clock);
        while !self.closed_loop.client.stop.load(Ordering::Relaxed) {
            let now_ns = clock.now_ns();
            if due_ns <= now_ns.saturating_add(MAX_WAIT_NS) {
                clock.release_at(due_ns, &self.timer);
                return true;
            }
            clock.sleep_until(now_ns + SLICE_NS);
        }
        false
    }

    fn cycle(&mut self, wire: &mut dyn Wire, release: u64, started_ns: u64) -> Result<u64, Failure> {
        let due_ns = self.due_ns(release);
        let (mut received_ns, mut fate) = (started_ns, Fate::Received);
        let mut sequence = release;
        if !(self.periodic.only_waits && self.closed_loop.measuring) {
            let mut sent_ns = started_ns;
            for _ in 0..self.closed_loop.client.order.case.primary().connections {
                sequence = self.closed_loop.sequence;
                (received_ns, fate) = self.exchange(wire, due_ns, sent_ns)?;
                if fate == Fate::Lost {
                    break;
                }
                sent_ns = received_ns;
            }
        }
        if self.closed_loop.measuring {
            let is_in_time =
                fate == Fate::Received && received_ns.saturating_sub(due_ns) <= self.periodic.deadline_ns;
            self.counter.ran(!is_in_time);
        }
        let ended_ns = if fate == Fate::Lost { self.closed_loop.client.clock.now_ns() } else { received_ns };
        self.closed_loop.recorder.record(Stamps { sequence, due_ns, sent_ns: started_ns, received_ns, fate });
        Ok(ended_ns)
    }

    /// Sends a message and waits for its answer. Returns when it arrived, 0 for a lost one.
    fn exchange(&mut self, wire: &mut dyn Wire, due_ns: u64, sent_ns: u64) -> Result<(u64, Fate), Failure> {
        let of = &mut self.closed_loop;
        let sequence = of.number();
        wire.send(of.message.request()).map_err(|error| broken("send", sequence, &error))?;
        of.count_sent();
        loop {
            match of.receive_whole(wire) {
                Ok(len) => {
                    let received_ns = of.client.clock.now_ns();
                    if of.reply[..len] == *of.message.expected() {
                        let in_time = received_ns - sent_ns <= of.client.order.timeout_ns;
                        of.tally.answered(sequence, of.measuring, in_time);
                        of.time_outs = 0;
                        return Ok((received_ns, if in_time { Fate::Received } else { Fate::Late }));
                    }
                    of.late_reply(sequence, len, received_ns)?;
                }
                Err(WireError::TimedOut { .. }) if of.client.lossy => {
                    of.give_up(sequence, due_ns, sent_ns)?;
                    return Ok((0, Fate::Lost));
                }
                Err(error) => return Err(broken("receive the answer to", sequence, &error)),
            }
        }
    }
}
