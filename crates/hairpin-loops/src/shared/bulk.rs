//! The load at one end of a shared connection: when the load runs, and the same counts as for other one-way loads.

use hairpin_model::Streamed;
use hairpin_transports::Wire;

use super::BulkOrder;
use crate::driver::states::SenderStates;
use crate::driver::time_line::TimeLine;
use crate::driver::times::TimesOfMessages;
use crate::driver::{Counts, Outcome, StreamEnd, Transfer};

/// The load at its sender or its receiver.
pub(super) struct Bulk {
    order: BulkOrder,
    pub(super) sends: bool,
    pub(super) began_ns: Option<u64>,
    /// Whether the end frame of the load was queued or received.
    pub(super) has_ended: bool,
    total: Transfer,
    time_line: TimeLine,
    states: SenderStates,
}

impl Bulk {
    pub(super) fn new(order: BulkOrder, sends: bool) -> Self {
        let (total, time_line, states) = (Transfer::default(), TimeLine::default(), SenderStates::new(0, false));
        Self { order, sends, began_ns: None, has_ended: false, total, time_line, states }
    }

    /// Begins the load. Returns true only the first time.
    pub(super) fn begin(&mut self, now_ns: u64) -> bool {
        let begins = self.began_ns.is_none();
        if begins {
            self.began_ns = Some(now_ns);
            self.states = SenderStates::new(now_ns, self.sends);
        }
        begins
    }

    /// Which bulk data to write now: that of the ramp (0) or of the measurement (1). `None` before and after the
    /// load, and at the load's receiver.
    pub(super) fn phase(&self, now_ns: u64) -> Option<usize> {
        let since_ns = now_ns.saturating_sub(self.began_ns.filter(|_| self.sends)?);
        let BulkOrder { ramp_ns, loaded_ns, .. } = self.order;
        (since_ns < ramp_ns.saturating_add(loaded_ns)).then_some(usize::from(since_ns >= ramp_ns))
    }

    /// Whether the load's time is over, so that the end frame must be queued. Returns true only once.
    pub(super) fn ends(&mut self, now_ns: u64) -> bool {
        let ends = self.sends && self.began_ns.is_some() && !self.has_ended && self.phase(now_ns).is_none();
        self.has_ended |= ends;
        ends
    }

    /// Counts the written frames of the ramp (0) and of the measurement (1).
    pub(super) fn wrote(&mut self, frames: [u64; 2], now_ns: u64) {
        for (phase, frames) in frames.into_iter().enumerate() {
            let bytes_sent = frames.saturating_mul(self.order.write_size_bytes as u64);
            self.count(phase == 1, Counts { messages_sent: frames, bytes_sent, ..Counts::default() }, now_ns);
        }
    }

    pub(super) fn on_bytes(&mut self, is_measured: bool, bytes: u64, now_ns: u64) {
        self.count(is_measured, Counts { bytes_received: bytes, ..Counts::default() }, now_ns);
    }

    /// Bytes received and bytes sent so far.
    pub(super) fn moved_bytes(&self) -> (u64, u64) {
        let all = self.total.all();
        (all.bytes_received, all.bytes_sent)
    }

    fn count(&mut self, is_measured: bool, counts: Counts, now_ns: u64) {
        let bytes = counts.bytes_sent + counts.bytes_received;
        if bytes > 0 {
            self.total.count(is_measured, counts);
            if is_measured {
                self.total.moved(now_ns, bytes);
            }
            self.time_line.note(now_ns, bytes);
        }
    }

    /// Reads the sender's state if a reading is due.
    pub(super) fn look(&mut self, now_ns: u64, wire: &mut dyn Wire) {
        self.states.look(now_ns, wire);
    }

    pub(super) fn ended(self) -> Streamed {
        let Self { order, sends, mut total, time_line, states, .. } = self;
        for counts in [&mut total.warm_up, &mut total.measured] {
            counts.messages_received = counts.bytes_received / (order.write_size_bytes as u64).max(1);
        }
        let outcome = Outcome {
            wires: Vec::new(),
            total,
            time_line,
            times: TimesOfMessages::new(0),
            pacing: None,
            waits: 0,
            observed: None,
            states: states.ended(),
            ended: StreamEnd::Complete,
        };
        outcome.streamed(sends)
    }
}
