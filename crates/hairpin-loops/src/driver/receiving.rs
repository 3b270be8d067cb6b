//! The end that receives: it reads every wire that is ready until all sent data has arrived.

use hairpin_model::flow::Observer;
use hairpin_transports::{Batch, Interest, Wire, WireError};

use super::end::{End, room_for};
use super::gaps::Gaps;
use super::messages::{NEVER, nonce_of, stamp_every};
use super::observing::{Instrument, Observe, Unobserved};
use super::phase::{HEADER_BYTES, Phase, STAMP_BYTES, read, read_stamp, warm_up_bytes};
use super::times::TimesOfMessages;
use super::window::{Arrival, Window};
use super::{Counts, DriverError, Marks, Outcome, Receiving, StreamEnd, Totals};
use crate::clock::{Clock, RealClock};

/// The state of a wire between two receives.
struct WireState {
    phase: Phase,
    /// For a byte stream: bytes received in this phase.
    bytes: u64,
    /// For a byte stream: offset of the next timestamp within the phase.
    next_stamp: u64,
    /// The part of the next timestamp received so far.
    stamp: [u8; STAMP_BYTES],
    /// For numbered messages: the windows of the warm-up and of the measurement.
    windows: Option<[Window; 2]>,
    is_open: bool,
}

struct Run<'a, C, O> {
    order: &'a Receiving<'a, C>,
    observer: &'a mut O,
    end: End<'a, C>,
    lanes: Vec<WireState>,
    open: usize,
    /// See [`stamp_every`]; [`NEVER`] if no message carries a timestamp.
    stamp_every: u64,
    gaps: Option<Gaps>,
    sent: Option<Totals>,
    has_begun: bool,
    /// Time of the last arrival, or when the amount sent became known, in ns of the clock.
    last_news_ns: u64,
    /// The first wire that was closed.
    closed: Option<usize>,
}

/// Receives on all wires. Not generic, so that it is compiled in this crate, with its optimisation.
pub fn receive(
    order: &Receiving<'_, RealClock>,
    wires: &mut [Box<dyn Wire>],
    marks: &mut dyn Marks,
) -> Result<Outcome, DriverError> {
    run(order, wires, marks)
}

pub(super) fn run<C: Clock>(
    order: &Receiving<'_, C>,
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
    order: &Receiving<'_, C>,
    observer: &mut O,
    wires: &mut [Box<dyn Wire>],
    marks: &mut dyn Marks,
) -> Result<Outcome, DriverError> {
    let least = if order.boundaries { HEADER_BYTES } else { 1 };
    if order.write_size_bytes < least {
        return Err(DriverError::TooShort { bytes: order.write_size_bytes, least });
    }
    let mut end = End::new((order.clock, order.stop), order.within_ns, order.waiting, Interest::Read, wires)?;
    end.times = TimesOfMessages::new(order.keep_times);
    let last_news_ns = end.now_ns;
    let lane = || WireState {
        phase: Phase::WarmUp,
        bytes: 0,
        next_stamp: 0,
        stamp: [0; STAMP_BYTES],
        windows: order.boundaries.then(Default::default),
        is_open: true,
    };
    // One extra byte, to detect messages that are too long.
    let (slots, size) = if order.boundaries {
        (order.batch, (order.write_size_bytes + 1).max(Batch::MIN_MESSAGE_SLOT_BYTES))
    } else {
        (1, order.read_size_bytes)
    };
    let every = stamp_every(order.write_size_bytes, order.boundaries, order.observer);
    let mut run = Run {
        order,
        observer,
        end,
        lanes: wires.iter().map(|_| lane()).collect(),
        open: wires.len(),
        stamp_every: every.unwrap_or(NEVER),
        gaps: order.gaps_of_ns.map(Gaps::new),
        sent: None,
        has_begun: false,
        last_news_ns,
        closed: None,
    };
    let mut batch = Batch::new(slots, size);
    let mut ready = room_for(wires);
    let ended = loop {
        if let Some(ended) = run.is_over(marks) {
            break ended;
        }
        if let Some(ended) = run.end.wait(&mut ready, u64::MAX, marks)? {
            break ended;
        }
        let turns = ready.iter().try_for_each(|one| run.turn(one.token, &mut *wires[one.token], &mut batch, marks));
        if let Err(error) = turns {
            break StreamEnd::Failed(error);
        }
    };
    let pacing = run.gaps.take().map(Gaps::error);
    Ok(Outcome { pacing, ..run.end.outcome(ended) })
}

impl<C: Clock, O: Observe> Run<'_, C, O> {
    /// Returns the reason to end if everything has arrived or nothing more will arrive.
    fn is_over(&mut self, marks: &mut dyn Marks) -> Option<StreamEnd> {
        if self.sent.is_none() {
            self.sent = marks.sent();
            if self.sent.is_some() {
                self.last_news_ns = self.end.now_ns;
            }
        }
        // A stream whose warm-up bytes have arrived is timed from the end of the sender's warm-up, because buffered
        // warm-up bytes share the path with measured bytes. Other loads are timed from the first measured arrival.
        let has_come = self.end.total.warm_up.bytes_received > 0;
        if !self.has_begun && has_come && self.order.observer != Observer::Recorder && marks.measures() {
            self.begin(marks);
            self.end.begin();
        }
        let came = self.end.total.all();
        let all = |sent: Totals| came.messages_received >= sent.messages && came.bytes_received >= sent.bytes;
        if self.sent.is_some_and(all) {
            return Some(StreamEnd::Complete);
        }
        let is_quiet = self.end.now_ns.saturating_sub(self.last_news_ns) >= self.order.quiet_ns;
        let is_known = self.sent.is_some();
        match self.closed {
            // The other end may close its wires before the amount sent is known.
            Some(wire) if self.open == 0 && is_known || is_quiet && (is_known || self.open == 0) => {
                let closed = DriverError::Wire { wire, source: WireError::Closed };
                Some(if self.order.reliable || !is_known { StreamEnd::Failed(closed) } else { StreamEnd::Quiet })
            }
            _ => (is_quiet && is_known && !self.order.reliable).then_some(StreamEnd::Quiet),
        }
    }

    /// Receives until the wire is empty or other wires must be served.
    fn turn(
        &mut self,
        wire: usize,
        opened: &mut dyn Wire,
        batch: &mut Batch,
        marks: &mut dyn Marks,
    ) -> Result<(), DriverError> {
        // A wire may be listed as ready twice, and its first turn may have closed it.
        if !self.lanes[wire].is_open {
            return Ok(());
        }
        let (mut came, mut is_empty) = (false, false);
        for _ in 0..self.end.calls_per_turn {
            let answer =
                if self.end.blocks { opened.receive_batch_waiting(batch) } else { opened.receive_batch(batch) };
            match answer {
                Ok(0) => {
                    is_empty = true;
                    break;
                }
                Ok(_) => {
                    came = true;
                    batch.pieces().try_for_each(|piece| self.take(wire, piece, marks))?;
                }
                Err(WireError::Closed) => {
                    self.end.end_turn(true);
                    self.lanes[wire].is_open = false;
                    self.open -= 1;
                    self.closed.get_or_insert(wire);
                    self.last_news_ns = self.end.now_ns;
                    return self.end.close_wire(wire, opened);
                }
                Err(source) => return Err(DriverError::Wire { wire, source }),
            }
        }
        if came {
            if self.sent.is_some() {
                marks.came_late();
            }
            self.end.end_turn(is_empty);
            self.last_news_ns = self.end.now_ns;
        }
        Ok(())
    }

    fn take(&mut self, wire: usize, piece: &[u8], marks: &mut dyn Marks) -> Result<(), DriverError> {
        if self.order.boundaries {
            self.take_message(wire, piece, marks);
            return Ok(());
        }
        let lane = &self.lanes[wire];
        let warm_up = warm_up_bytes(piece, lane.phase).ok_or(DriverError::Unreadable { wire })?;
        if warm_up > 0 {
            self.take_bytes(wire, &piece[..warm_up])?;
        }
        if warm_up < piece.len() {
            self.begin(marks);
            let lane = &mut self.lanes[wire];
            if lane.phase == Phase::WarmUp {
                (lane.phase, lane.bytes, lane.next_stamp) = (Phase::Measured, 0, 0);
            }
            if self.stamp_every != NEVER {
                self.take_stamps(wire, &piece[warm_up..]);
            }
            self.take_bytes(wire, &piece[warm_up..])?;
        }
        Ok(())
    }

    /// Records the timestamps in measured bytes of a stream, before the bytes are counted.
    #[inline]
    fn take_stamps(&mut self, wire: usize, piece: &[u8]) {
        let lane = &mut self.lanes[wire];
        let end = lane.bytes + piece.len() as u64;
        if lane.next_stamp < end {
            self.end.read_clock();
        }
        while lane.next_stamp < end {
            // `have` bytes of the timestamp were already received, and the others begin at `from` in the piece. Both
            // numbers fit a usize, since they are below a length.
            let have = lane.bytes.saturating_sub(lane.next_stamp) as usize;
            let from = lane.next_stamp.saturating_sub(lane.bytes) as usize;
            let more = (STAMP_BYTES - have).min(piece.len() - from);
            lane.stamp[have..have + more].copy_from_slice(&piece[from..from + more]);
            if have + more < STAMP_BYTES {
                return;
            }
            let sequence = lane.next_stamp / self.order.write_size_bytes as u64;
            let due_ns = read_stamp(lane.stamp);
            if due_ns > 0 {
                self.end.times.note(wire, sequence, due_ns, self.end.now_ns);
            }
            lane.next_stamp += self.stamp_every * self.order.write_size_bytes as u64;
        }
    }

    /// Counts bytes of one phase. Checks the last byte, to detect other data, unless it may be part of a timestamp.
    fn take_bytes(&mut self, wire: usize, piece: &[u8]) -> Result<(), DriverError> {
        let lane = &mut self.lanes[wire];
        let size = self.order.write_size_bytes as u64;
        let whole_before = lane.bytes / size;
        lane.bytes += piece.len() as u64;
        let bytes = piece.len();
        let may_be_time = (lane.bytes - 1) % self.stamp_every.saturating_mul(size) < STAMP_BYTES as u64;
        if piece.last().is_some_and(|last| *last > 1) && !may_be_time {
            return Err(DriverError::Unreadable { wire });
        }
        let messages_received = lane.bytes / size - whole_before;
        if O::EACH {
            (0..messages_received).for_each(|_| {
                let begun_ns = self.observer.begin();
                self.observer.end(begun_ns);
            });
        }
        let is_measured = lane.phase == Phase::Measured;
        if let Some(gaps) = self.gaps.as_mut().filter(|_| is_measured) {
            self.end.read_clock();
            (0..messages_received).for_each(|_| gaps.note(self.end.now_ns, gaps.nominal_ns));
        }
        let counts = Counts { messages_received, bytes_received: bytes as u64, ..Counts::default() };
        self.end.count(wire, is_measured, counts);
        Ok(())
    }

    fn take_message(&mut self, wire: usize, message: &[u8], marks: &mut dyn Marks) {
        let header = read(message).filter(|_| message.len() == self.order.write_size_bytes);
        let Some((phase, sequence, due_ns)) = header else {
            return self.end.count(wire, true, Counts { unreadable: 1, ..Counts::default() });
        };
        let begun_ns = self.observer.begin();
        self.end.on_nonce(nonce_of(message));
        let one = Counts { messages_received: 1, bytes_received: message.len() as u64, ..Counts::default() };
        let is_measured = phase == Phase::Measured;
        if is_measured {
            self.begin(marks);
        }
        let windows = self.lanes[wire].windows.as_mut();
        let arrival = windows.map_or(Arrival::InOrder, |windows| windows[phase as usize].note(sequence));
        let counts = match arrival {
            Arrival::InOrder => one,
            Arrival::Reordered => Counts { reordered: 1, ..one },
            Arrival::Duplicate => Counts { duplicated: 1, ..Counts::default() },
            Arrival::TooOld => Counts { too_old: 1, ..Counts::default() },
        };
        // `stamp_every` is a power of two; a division would be slow.
        let is_recorded = sequence & (self.stamp_every - 1) == 0;
        if is_measured && is_recorded && counts.messages_received > 0 && due_ns > 0 {
            self.end.read_clock();
            self.end.times.note(wire, sequence, due_ns, self.end.now_ns);
        }
        if O::EACH && counts.messages_received > 0 {
            self.observer.end(begun_ns);
        }
        self.end.count(wire, is_measured, counts);
    }

    fn begin(&mut self, marks: &mut dyn Marks) {
        if !self.has_begun {
            self.has_begun = true;
            marks.begin();
        }
    }
}
