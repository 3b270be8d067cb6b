//! What an end counts of the load on a shared connection.

use hairpin_model::one_way::{Received, Sent, Streamed};
use hairpin_model::phases::SenderState;

use super::BulkOrder;
use crate::loads::driver::time_line::TimeLine;

/// The load of the end that sends it.
#[derive(Debug)]
pub(super) struct SentBulk {
    order: BulkOrder,
    began_ns: Option<u64>,
    /// It has written the frame that ends it.
    has_ended: bool,
    frames: [u64; 2],
    first_ns: Option<u64>,
    last_ns: u64,
}

impl SentBulk {
    pub(super) fn new(order: BulkOrder) -> Self {
        Self { order, began_ns: None, has_ended: false, frames: [0; 2], first_ns: None, last_ns: 0 }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.began_ns.get_or_insert(now_ns);
    }

    pub(super) fn began_ns(&self) -> Option<u64> {
        self.began_ns
    }

    /// What is to be written now: bulk data of the ramp (0) or measured (1); none before and after the load.
    pub(super) fn phase(&self, now_ns: u64) -> Option<usize> {
        let since_ns = now_ns.saturating_sub(self.began_ns?);
        let BulkOrder { ramp_ns, loaded_ns, .. } = self.order;
        (since_ns < ramp_ns.saturating_add(loaded_ns)).then_some(usize::from(since_ns >= ramp_ns))
    }

    /// Whether its time is over and its end is still to be told; true once.
    pub(super) fn is_over(&mut self, now_ns: u64) -> bool {
        let is_over = self.began_ns.is_some() && !self.has_ended && self.phase(now_ns).is_none();
        self.has_ended |= is_over;
        is_over
    }

    pub(super) fn count(&mut self, frames: [u64; 2], now_ns: u64) {
        self.frames[0] += frames[0];
        self.frames[1] += frames[1];
        if frames[1] > 0 {
            self.first_ns.get_or_insert(now_ns);
            self.last_ns = now_ns;
        }
    }

    pub(super) fn ended(self, states: Vec<SenderState>) -> Streamed {
        let [warm_up_sent, sent] = self.frames;
        let over_ns = self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns));
        let departures = Sent { messages: sent, over_ns, states, ..Sent::default() };
        Streamed { sent, warm_up_sent, departures: Some(departures), ..Streamed::default() }
    }
}

/// The load of the end that receives it.
#[derive(Debug, Default)]
pub(super) struct ReceivedBulk {
    bytes: [u64; 2],
    bytes_after_first: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    time_line: TimeLine,
    /// The sender has said that it has ended.
    pub(super) has_ended: bool,
}

impl ReceivedBulk {
    pub(super) fn came(&mut self, measured: bool, bytes: u64, now_ns: u64) {
        self.bytes[usize::from(measured)] += bytes;
        self.time_line.note(now_ns, bytes);
        if self.first_ns.is_some() {
            self.bytes_after_first += bytes;
        }
        if measured {
            self.first_ns.get_or_insert(now_ns);
            self.last_ns = now_ns;
        }
    }

    pub(super) fn ended(self, order: BulkOrder) -> Streamed {
        let writes = |bytes: u64| bytes / (order.write_size_bytes as u64).max(1);
        let first_ns = self.first_ns.unwrap_or(self.last_ns);
        let warm_up_ns = self.time_line.begin_ns().map_or(0, |begin_ns| first_ns.saturating_sub(begin_ns));
        let width_ns = self.time_line.width_ns();
        let arrivals = Received {
            bytes: self.bytes[1],
            bytes_after_first: self.bytes_after_first,
            over_ns: self.last_ns.saturating_sub(first_ns),
            reordered: 0,
            began_ns: self.time_line.begin_ns(),
            interval_ns: width_ns,
            warm_up_intervals: (warm_up_ns / width_ns).min(self.time_line.bytes().len() as u64),
            interval_bytes: self.time_line.bytes().to_vec(),
            connection_bytes: Vec::new(),
        };
        Streamed {
            received: writes(self.bytes[1]),
            warm_up_received: writes(self.bytes[0]),
            arrivals: Some(arrivals),
            ..Streamed::default()
        }
    }
}
