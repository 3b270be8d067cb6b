//! The end that sends as fast as its wires accept.

use std::time::Duration;

use hairpin_model::Extent;
use hairpin_model::flow::Source;
use hairpin_transports::{Interest, Repeated, Wire, WireError};

use super::end::{End, room_for};
use super::messages::{Messages, Offer};
use super::observing::{Instrument, Observe, Unobserved};
use super::phase::Phase;
use super::states::SenderStates;
use super::{Counts, DriverError, Marks, Outcome, Sending, StreamEnd, UNGRANTED_BYTES};
use crate::clock::{Clock, RealClock};

/// The state of a wire between two sends.
#[derive(Clone, Copy)]
struct WireState {
    phase: Phase,
    /// Messages completely sent in this phase. This is a counter because a division costs a tenth of a small send.
    messages: u64,
    /// Bytes of the next message that were already sent.
    begun: u64,
    /// The timestamp of the next message, if that message carries a timestamp and was partly sent.
    begun_at_ns: Option<u64>,
    /// The number of the next timestamped message.
    next_stamp: u64,
    is_done: bool,
}

impl WireState {
    const fn of(phase: Phase) -> Self {
        Self { phase, messages: 0, begun: 0, begun_at_ns: None, next_stamp: 0, is_done: false }
    }
}

/// The state of all wires.
struct Run<'a, C, O> {
    order: &'a Sending<'a, C>,
    observer: &'a mut O,
    size: u64,
    end: End<'a, C>,
    lanes: Vec<WireState>,
    left: usize,
    messages: Messages,
    began_ns: u64,
    /// When the first wire began its measurement, in ns of the clock.
    measured_ns: Option<u64>,
}

/// Sends on all wires. Not generic, so that it is compiled in this crate, with its optimisation.
pub fn send(
    order: &Sending<'_, RealClock>,
    wires: &mut [Box<dyn Wire>],
    marks: &mut dyn Marks,
) -> Result<Outcome, DriverError> {
    run(order, wires, marks)
}

pub(super) fn run<C: Clock>(
    order: &Sending<'_, C>,
    wires: &mut [Box<dyn Wire>],
    marks: &mut dyn Marks,
) -> Result<Outcome, DriverError> {
    match Instrument::of(order.observer).map_err(DriverError::Observe)? {
        None => run_with(order, &mut Unobserved, wires, marks),
        Some(mut instrument) => {
            let outcome = run_with(order, &mut instrument, wires, marks)?;
            Ok(Outcome { observed: instrument.recorded(), ..outcome })
        }
    }
}

fn run_with<C: Clock, O: Observe>(
    order: &Sending<'_, C>,
    observer: &mut O,
    wires: &mut [Box<dyn Wire>],
    marks: &mut dyn Marks,
) -> Result<Outcome, DriverError> {
    let messages = Messages::new(order.write_size_bytes, order.batch, order.boundaries, order.observer)?;
    let mut messages = if order.unchanging { messages.unchanging() } else { messages };
    messages.take_codes(wires);
    let mut end = End::new((order.clock, order.stop), order.within_ns, order.waiting, Interest::Write, wires)?;
    end.states = SenderStates::new(end.now_ns, order.keep_states);
    end.nonce = marks.nonce();
    let began_ns = end.now_ns;
    let mut run = Run {
        order,
        observer,
        size: order.write_size_bytes as u64,
        end,
        lanes: vec![WireState::of(Phase::WarmUp); wires.len()],
        left: wires.len(),
        messages,
        began_ns,
        measured_ns: None,
    };
    let mut ready = room_for(wires);
    let mut is_granted = false;
    if order.source == Source::File {
        wires.iter_mut().enumerate().try_for_each(|(wire, opened)| run.load_file(wire, &mut **opened))?;
    }
    let ended = loop {
        if run.left == 0 {
            break StreamEnd::Complete;
        }
        if let Some(ended) = run.end.wait(&mut ready, run.next_change_ns(), marks)? {
            break ended;
        }
        if !is_granted {
            is_granted = marks.is_granted();
            if !is_granted && run.end.total.all().bytes_sent >= UNGRANTED_BYTES {
                std::thread::sleep(GRANT_INTERVAL);
                continue;
            }
        }
        run.messages.set_nonce(run.end.nonce);
        run.end.states.look(run.end.now_ns, &mut *wires[0]);
        let turns = ready.iter().try_for_each(|one| run.turn(one.token, &mut *wires[one.token], marks));
        // A wire without room in its send buffer gets no turn, but may have nothing left to send.
        let turns = turns.and_then(|()| if run.is_time_over() { run.retire(wires, marks) } else { Ok(()) });
        if let Err(error) = turns {
            break StreamEnd::Failed(error);
        }
    };
    if order.unchanging && !wait_for_completion(wires) {
        // The kernel may still read these bytes, so they are leaked.
        Box::leak(Box::new(run.messages));
    }
    Ok(run.end.outcome(ended))
}

/// Interval between checks whether the first bytes have arrived.
const GRANT_INTERVAL: Duration = Duration::from_micros(200);
/// Maximum number of checks, 1 ms apart, whether all sends have completed.
const MAX_COMPLETION_CHECKS: u32 = 2000;

/// Waits until the kernel no longer reads the sent bytes. Returns false if that takes too long.
fn wait_for_completion(wires: &mut [Box<dyn Wire>]) -> bool {
    (0..MAX_COMPLETION_CHECKS).any(|_| {
        let in_flight: Result<u64, WireError> = wires.iter_mut().map(|wire| wire.sends_in_flight()).sum();
        let landed = matches!(in_flight, Ok(0));
        if !landed {
            std::thread::sleep(Duration::from_millis(1));
        }
        landed
    })
}

impl<C: Clock, O: Observe> Run<'_, C, O> {
    /// When the current phase ends, in ns; `u64::MAX` if its extent is a number of messages.
    fn phase_ends_ns(&self) -> u64 {
        let phase = self.measured_ns.map_or((self.began_ns, self.order.warm_up), |at_ns| (at_ns, self.order.amount));
        match phase {
            (began_ns, Extent::DurationNs(duration_ns)) => began_ns.saturating_add(duration_ns),
            (_, Extent::Count(_)) => u64::MAX,
        }
    }

    /// Limit of a wait for room, in ns: the end of the phase; none if only the rest of a message must be sent.
    fn next_change_ns(&self) -> u64 {
        let ends_ns = self.phase_ends_ns();
        if ends_ns > self.end.now_ns { ends_ns } else { u64::MAX }
    }

    fn is_time_over(&self) -> bool {
        self.measured_ns.is_some() && self.end.now_ns >= self.phase_ends_ns()
    }

    /// Ends the wires that have sent everything.
    fn retire(&mut self, wires: &mut [Box<dyn Wire>], marks: &mut dyn Marks) -> Result<(), DriverError> {
        for (wire, opened) in wires.iter_mut().enumerate() {
            if !self.lanes[wire].is_done && !self.has_more(wire, &mut **opened, marks)? {
                self.finish(wire, &**opened)?;
            }
        }
        Ok(())
    }

    /// Sends until the wire has no room or other wires must be served.
    fn turn(&mut self, wire: usize, opened: &mut dyn Wire, marks: &mut dyn Marks) -> Result<(), DriverError> {
        let mut so_far = Counts::default();
        let mut calls = self.end.calls_per_turn;
        while calls > 0 && !self.lanes[wire].is_done {
            // A wire changes its phase only between two messages, and each phase has its own counts.
            if self.lanes[wire].begun == 0 && self.is_over(self.lanes[wire]) {
                self.count_sent(wire, &mut so_far);
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
        self.count_sent(wire, &mut so_far);
        Ok(())
    }

    /// Number of upcoming calls that send identical bytes of a stream: whole batches without a timestamp.
    fn calls_alike(&self, wire: usize) -> usize {
        let lane = &self.lanes[wire];
        if self.order.source != Source::Buffer || lane.begun > 0 || !self.messages.are_filled(lane.phase) {
            return 0;
        }
        let left = match (lane.phase, self.order.warm_up, self.order.amount) {
            (Phase::WarmUp, Extent::Count(count), _) | (Phase::Measured, _, Extent::Count(count)) => {
                count - lane.messages
            }
            _ => u64::MAX,
        };
        let batches = left.min(lane.next_stamp - lane.messages) / self.messages.room();
        usize::try_from(batches).unwrap_or(usize::MAX)
    }

    /// Makes `calls` identical calls, without checks between them, which would cost a tenth of a small send. Returns
    /// whether there may be room for another call.
    fn send_alike(
        &mut self,
        wire: usize,
        opened: &mut dyn Wire,
        calls: usize,
        so_far: &mut Counts,
    ) -> Result<bool, DriverError> {
        // The cast is safe: the number of messages per buffer fits a usize.
        let offered = self.order.write_size_bytes * self.messages.room() as usize;
        let mut begun_ns = 0;
        let done = if O::EACH {
            self.send_observed(opened, offered, calls as u64, &mut begun_ns)
        } else {
            opened.send_repeatedly(self.messages.bytes(0, offered), calls as u64, self.end.blocks)
        };
        let Repeated { whole, rest } = done.map_err(|source| DriverError::Wire { wire, source })?;
        let messages = whole * self.messages.room();
        self.lanes[wire].messages += messages;
        so_far.messages_sent += messages;
        so_far.bytes_sent += messages * self.size;
        if rest > 0 {
            self.on_sent(wire, rest as u64, begun_ns, so_far);
        }
        so_far.full += u64::from(rest == 0 && whole < calls as u64);
        Ok(whole == calls as u64)
    }

    /// Like [`Wire::send_repeatedly`], with the observer at each message. Sets when the last call began.
    #[inline]
    fn send_observed(
        &mut self,
        opened: &mut dyn Wire,
        offered: usize,
        calls: u64,
        begun_ns: &mut u64,
    ) -> Result<Repeated, WireError> {
        let (bytes, room, blocks) = (self.messages.bytes(0, offered), self.messages.room(), self.end.blocks);
        Repeated::send(offered, calls, || {
            *begun_ns = self.observer.begin();
            let sent =
                if blocks { opened.send_batch_waiting(bytes, offered) } else { opened.send_batch(bytes, offered) }?;
            if sent == offered {
                (0..room).for_each(|_| self.observer.end(*begun_ns));
            }
            Ok(sent)
        })
    }

    /// Counts what was sent since the last clock read, at the current time.
    #[inline]
    fn count_sent(&mut self, wire: usize, so_far: &mut Counts) {
        if *so_far != Counts::default() {
            self.end.read_clock();
            self.end.count(wire, self.lanes[wire].phase == Phase::Measured, std::mem::take(so_far));
            self.end.count_pending();
        }
    }

    /// Makes one call. Returns whether there may be room for another call.
    #[inline]
    fn send(&mut self, wire: usize, opened: &mut dyn Wire, so_far: &mut Counts) -> Result<bool, DriverError> {
        let (offered, begun) = self.offer(wire);
        let (blocks, size) = (self.end.blocks, self.order.write_size_bytes);
        let begun_ns = self.observer.begin();
        let answer = match self.order.source {
            Source::File => opened.send_file(begun, size, blocks),
            Source::Buffer if blocks => opened.send_batch_waiting(self.messages.bytes(begun, offered), size),
            Source::Buffer => opened.send_batch(self.messages.bytes(begun, offered), size),
        };
        self.messages.unstamp();
        let sent = match answer {
            Ok(sent) => sent,
            // The kernel dropped the first message. Refused messages count as sent.
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
        self.on_sent(wire, sent as u64, begun_ns, so_far);
        Ok(sent == offered)
    }

    fn finish(&mut self, wire: usize, opened: &dyn Wire) -> Result<(), DriverError> {
        self.lanes[wire].is_done = true;
        self.left -= 1;
        self.end.close_wire(wire, opened)
    }

    /// Whether the wire has more to send. Between two messages, changes the phase if the current one is over.
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
                self.end.read_clock();
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
            Extent::Count(count) => lane.messages >= count,
            Extent::DurationNs(duration_ns) => self.end.now_ns.saturating_sub(began_ns) >= duration_ns,
        }
    }

    /// Prepares the next messages of a wire. Returns the number of bytes to send, and how many bytes of the first
    /// message were already sent.
    #[inline]
    fn offer(&mut self, wire: usize) -> (usize, usize) {
        let lane = self.lanes[wire];
        let left = match (lane.phase, self.order.warm_up, self.order.amount) {
            (Phase::WarmUp, Extent::Count(count), _) | (Phase::Measured, _, Extent::Count(count)) => {
                count - lane.messages
            }
            // When the time is over, only a partly sent message is completed.
            _ if lane.begun > 0 && self.is_over(lane) => 1,
            _ => u64::MAX,
        };
        // A call that sends from a file sends a single write.
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
                end.read_clock();
                end.now_ns
            });
        }
        // Both numbers are at most the size of the buffer.
        ((count * self.size - lane.begun) as usize, lane.begun as usize)
    }

    #[inline]
    fn on_sent(&mut self, wire: usize, bytes: u64, begun_ns: u64, so_far: &mut Counts) {
        let lane = &mut self.lanes[wire];
        let messages_before = lane.messages;
        let gone = lane.begun + bytes;
        so_far.bytes_sent += bytes;
        if gone == self.size {
            // The common case: exactly one message was completed.
            so_far.messages_sent += 1;
            (lane.messages, lane.begun, lane.begun_at_ns) = (lane.messages + 1, 0, None);
        } else {
            self.on_sent_several(wire, gone, so_far);
        }
        let lane = &mut self.lanes[wire];
        if O::EACH {
            (messages_before..lane.messages).for_each(|_| self.observer.end(begun_ns));
        }
        while lane.next_stamp < lane.messages + u64::from(lane.begun > 0) {
            lane.next_stamp += self.messages.stamp_every;
        }
    }

    fn on_sent_several(&mut self, wire: usize, gone: u64, so_far: &mut Counts) {
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
