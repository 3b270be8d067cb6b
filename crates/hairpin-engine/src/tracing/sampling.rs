//! A wire that samples messages for the latency budget: the times of both calls at its end, and the kernel's stamps.
//!
//! One message in `every` is sampled; all others take the wire's ordinary calls. All times are CLOCK_REALTIME,
//! which the kernel's stamps use, so that no time is converted. What can wait is done outside the sampled
//! message: the server reads the stamps of an answer when the next message has arrived, and the waits for a CPU are read
//! before the first and after the second call. A call that took `SLOW_NS` is the exception: the waits are read between
//! the calls too, so that those of the send call are known apart from those of the receive call.

use std::time::Duration;

use hairpin_model::trace::{End, StampKind};
use hairpin_model::{EndPoints, Fact, RoundOrder, Sampled, fact_names, latency_budget::MAX_TRIPS};
use hairpin_transports::{RawStamp, Wire, WireError};

use super::wire::STAMP_START_NS;
use crate::realtime::Bracket;
use crate::usage::CpuWaits;
use hairpin_loops::clock::Clock;

/// Reads CLOCK_REALTIME, in ns; on the manual clock, that clock.
pub type Realtime<C> = fn(&C) -> u64;

/// Duration of a call, or time from an arrival to the return of the receive call, beside which reading the waits (about
/// 1 us) does not count, in ns.
const SLOW_NS: i64 = 20_000;
/// Largest step from one message number to the next; a larger one is damage.
const MAX_STEP: u64 = 1 << 16;

pub struct SamplingWire<'w, C> {
    wire: &'w mut dyn Wire,
    clock: C,
    realtime: Realtime<C>,
    end: End,
    every: u64,
    /// Bytes of a message that this end receives, and how many of its first bytes hold its number.
    size: usize,
    numbered: usize,
    /// Whether a receive returns a whole message.
    boundaries: bool,
    is_stamped: bool,
    waits: Option<CpuWaits>,
    before: Bracket,
    /// The number of the next message.
    next: u64,
    arrived_bytes: usize,
    /// The first bytes of the client's message.
    number: [u8; 8],
    current: Option<Current>,
    /// Set if the last sampled message lacks its stamps.
    is_pending: bool,
    raw: Vec<RawStamp>,
    /// The number that the kernel gives to the stamps of the last message sent: bytes, or stamped datagrams.
    stamp_number: u64,
    sampled: Vec<Sampled>,
    facts: Vec<Fact>,
}

/// The message being sampled, and the thread's waits for a CPU before its receive call and, if already read, after it.
#[derive(Clone, Copy)]
struct Current {
    sample: Sampled,
    before: Option<[i64; 2]>,
    after: Option<[i64; 2]>,
}

impl<'w, C: Clock> SamplingWire<'w, C> {
    pub fn begin(
        wire: &'w mut dyn Wire,
        (clock, realtime): (C, Realtime<C>),
        (end, boundaries): (End, bool),
        order: &RoundOrder,
    ) -> Self {
        let load = &order.case.primary().load;
        let [size, reply] =
            [load.size_bytes(), load.reply_size_bytes()].map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let refusal = match wire.kernel_stamps() {
            Some(stamps) => stamps.begin_for_messages().err().map(|error| error.to_string()),
            None => Some("the kernel does not stamp this transport".to_owned()),
        };
        let is_stamped = refusal.is_none();
        if is_stamped {
            clock.sleep_until(clock.now_ns() + STAMP_START_NS);
        }
        Self {
            before: Bracket::read_with(&clock, || realtime(&clock)),
            wire,
            clock,
            realtime,
            end,
            every: order.sample_every.unwrap_or(u64::MAX).max(1),
            size: if end == End::Client { reply } else { size },
            numbered: size.min(reply).min(8),
            boundaries,
            is_stamped,
            waits: CpuWaits::open().filter(|_| is_stamped),
            next: 0,
            arrived_bytes: 0,
            number: [0; 8],
            current: None,
            is_pending: false,
            raw: Vec::with_capacity(8),
            stamp_number: 0,
            sampled: Vec::with_capacity(MAX_TRIPS),
            facts: refusal.into_iter().map(|why| Fact::word(fact_names::KERNEL_STAMPS_REFUSED, why)).collect(),
        }
    }

    /// Returns the sampled messages, and facts about missing points.
    pub fn finish(mut self) -> Result<(Vec<Sampled>, Vec<Fact>), WireError> {
        self.take_stamps()?;
        let step = Bracket::read_with(&self.clock, || (self.realtime)(&self.clock)).step_since(&self.before);
        self.facts.extend(step.map(|step_ns| Fact::number(fact_names::REALTIME_STEP_NS, step_ns as f64)));
        Ok((self.sampled, self.facts))
    }

    fn now(&self) -> Option<i64> {
        Some((self.realtime)(&self.clock).cast_signed())
    }

    fn waits(&self) -> Option<[i64; 2]> {
        self.waits.as_ref().and_then(CpuWaits::read)
    }

    fn is_sampled(&self) -> bool {
        self.next.is_multiple_of(self.every) && self.sampled.len() < MAX_TRIPS
    }

    /// Adds the stamps of the last sampled message that was sent.
    fn take_stamps(&mut self) -> Result<(), WireError> {
        let is_pending = std::mem::take(&mut self.is_pending);
        let Some(stamps) = self.wire.kernel_stamps().filter(|_| is_pending) else { return Ok(()) };
        stamps.take(&mut self.raw)?;
        // Lower numbers are stamps of earlier messages. A datagram that was not sent may have been counted.
        let newest = self.raw.iter().map(|stamp| stamp.end_byte).max().unwrap_or(0);
        if let Some(Sampled { points, .. }) = self.sampled.last_mut().filter(|_| newest >= self.stamp_number) {
            let of = |kind| self.raw.iter().find(|stamp| stamp.end_byte == newest && stamp.kind == kind);
            let at = |kind| of(kind).map(|stamp| stamp.realtime_ns.cast_signed());
            (points.scheduled, points.driver) = (at(StampKind::Scheduled), at(StampKind::Driver));
        }
        self.raw.clear();
        Ok(())
    }

    fn send_plain(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.wire.send(message)?;
        self.stamp_number += if self.boundaries { 0 } else { message.len() as u64 };
        Ok(())
    }

    /// Returns the times before and after the call.
    fn send_sampled(&mut self, message: &[u8]) -> Result<[Option<i64>; 2], WireError> {
        let called = self.now();
        match self.wire.kernel_stamps().filter(|_| self.is_stamped) {
            Some(stamps) => stamps.send_stamped(message)?,
            None => self.wire.send(message)?,
        }
        let returned = self.now();
        self.stamp_number += if self.boundaries { 1 } else { message.len() as u64 };
        Ok([called, returned])
    }

    /// Completes the current sample. Its stamps are read later.
    fn complete(&mut self, Current { mut sample, before, after }: Current) {
        if let (Some([waited, switched]), Some(after)) = (before, after.or_else(|| self.waits())) {
            sample.points.waited = Some(after[0] - waited);
            sample.points.switched_in = Some(after[1] - switched);
        }
        self.sampled.push(sample);
        self.is_pending = self.is_stamped;
    }

    fn receive_sampled(&mut self, into: &mut [u8]) -> Result<(usize, Option<i64>), WireError> {
        let (bytes, arrived) = match self.wire.kernel_stamps().filter(|_| self.is_stamped) {
            Some(stamps) => stamps.receive(into)?,
            None => (self.wire.receive(into)?, None),
        };
        Ok((bytes, arrived.map(u64::cast_signed)))
    }

    fn receive_at_client(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let Some(mut current) = self.current else { return self.wire.receive(into) };
        let received = self.receive_sampled(into);
        // Without an answer in time there is no sample.
        let (bytes, arrived) = received.inspect_err(|_| self.current = None)?;
        current.sample.points.read = self.now();
        // A late answer to an earlier message has another number.
        if self.boundaries && into.get(..self.numbered) != Some(&self.number[..self.numbered]) {
            return Ok(bytes);
        }
        self.arrived_bytes += bytes;
        if self.boundaries || self.arrived_bytes >= self.size {
            current.sample.points.arrived = arrived;
            self.current = None;
            self.complete(current);
            self.take_stamps()?;
        }
        Ok(bytes)
    }

    fn receive_at_server(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        if !self.is_sampled() {
            let bytes = self.wire.receive(into)?;
            if self.has_whole(into, bytes) {
                self.take_stamps()?;
            }
            return Ok(bytes);
        }
        if self.arrived_bytes == 0 {
            let before = self.waits();
            let points = EndPoints { receive_called: self.now(), ..EndPoints::default() };
            self.current = Some(Current { sample: Sampled { sequence: self.next, points }, before, after: None });
        }
        let (bytes, arrived) = self.receive_sampled(into)?;
        let read = self.now();
        if self.has_whole(into, bytes) {
            // Datagrams may be lost: this may be another message.
            let came = self.next.wrapping_sub(1);
            self.current = self.current.filter(|current| current.sample.sequence == came);
            let after = if is_slow(arrived, read) { self.waits() } else { None };
            if let Some(current) = &mut self.current {
                (current.sample.points.arrived, current.sample.points.read) = (arrived, read);
                current.after = after;
            }
            self.take_stamps()?;
        }
        Ok(bytes)
    }

    /// Counts received bytes. Returns whether the message is complete; its number is then `next - 1`.
    fn has_whole(&mut self, into: &[u8], bytes: usize) -> bool {
        self.arrived_bytes += bytes;
        if !self.boundaries && self.arrived_bytes < self.size {
            return false;
        }
        self.arrived_bytes = 0;
        if let Some(number) = into.get(..self.numbered.min(bytes)).filter(|_| self.boundaries) {
            let number = number_near(self.next, number);
            self.next = if number.abs_diff(self.next) < MAX_STEP { number } else { self.next };
        }
        self.next += 1;
        true
    }
}

fn is_slow(from: Option<i64>, to: Option<i64>) -> bool {
    from.zip(to).is_some_and(|(from, to)| to - from >= SLOW_NS)
}

/// Returns the number nearest to `expected` whose lowest bytes are `low`.
pub(super) fn number_near(expected: u64, low: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..low.len()].copy_from_slice(low);
    let unused = 64 - 8 * low.len() as u32;
    let distance = u64::from_le_bytes(all).wrapping_sub(expected).checked_shl(unused).unwrap_or(0).cast_signed();
    expected.wrapping_add_signed(distance.checked_shr(unused).unwrap_or(0))
}

impl<C: Clock + Send> Wire for SamplingWire<'_, C> {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        if self.end == End::Server {
            let Some(mut current) = self.current.take() else { return self.send_plain(message) };
            let points = &mut current.sample.points;
            [points.send_called, points.send_returned] = self.send_sampled(message)?;
            self.complete(current);
            return Ok(());
        }
        let (sequence, is_sampled) = (self.next, self.is_sampled());
        self.next += 1;
        if !is_sampled {
            return self.send_plain(message);
        }
        self.arrived_bytes = 0;
        self.number[..self.numbered].copy_from_slice(&message[..self.numbered]);
        let mut before = self.waits();
        let [send_called, send_returned] = self.send_sampled(message)?;
        if is_slow(send_called, send_returned) {
            before = self.waits();
        }
        // The client calls receive as soon as its send call has returned.
        let points = EndPoints { send_called, send_returned, receive_called: send_returned, ..EndPoints::default() };
        self.current = Some(Current { sample: Sampled { sequence, points }, before, after: None });
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        if self.end == End::Client { self.receive_at_client(into) } else { self.receive_at_server(into) }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        self.wire.try_receive(into)
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        self.wire.wait(at_most)
    }

    fn effective(&self) -> Vec<Fact> {
        self.wire.effective()
    }

    fn system_calls(&self) -> Option<u64> {
        self.wire.system_calls()
    }
}
