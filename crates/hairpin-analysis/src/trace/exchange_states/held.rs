//! Why bytes had not left the sender yet.

use std::ops::Range;

use hairpin_model::Call;
use hairpin_model::exchange_state::ExchangeState;

use super::tiling::{Layer, Rank};
use super::{States, Way};
use crate::trace::direction::{Segment, other};
use crate::trace::exchange::Extent;
use crate::trace::reading::{MAX_EFFECT_DELAY_NS, MIN_WAIT_NS};

/// Of a full send buffer, at least this part is payload; the rest is the kernel's own data on it (`skb->truesize`).
const MIN_PAYLOAD_DIVISOR: u64 = 3;

impl States<'_> {
    /// Adds what is known of the time until the last byte of a direction left: calls, and why bytes were held. Bytes that
    /// were held while the program had not written the last one yet delayed nothing. `written_ns` is when it had.
    pub(super) fn sending(
        &self,
        layers: &mut Vec<Layer>,
        place: usize,
        extent: &Extent,
        during: Range<u64>,
        written_ns: Option<u64>,
    ) {
        let way = &self.ways[place];
        let calls = way.direction.writes_with(extent.bytes(way.direction.from));
        for call in calls {
            way.layer(layers, Rank::Within, call.began_ns, call.ended_ns.min(during.end), ExchangeState::SendCall);
        }
        self.sampled(layers, place, during.start..during.end);
        let is_blocked = |call: &&Call| call.ended_ns.saturating_sub(call.began_ns) >= MIN_WAIT_NS;
        let mut blocked = calls.iter().copied().filter(is_blocked).peekable();
        let mut from_ns = during.start;
        for segment in way.segments(extent) {
            let gap = from_ns..segment.left_ns.min(during.end);
            from_ns = from_ns.max(segment.left_ns);
            if way.direction.writes.is_empty() {
                let is_unsent = way.is_unsent(&gap);
                if is_unsent != Some(false) {
                    self.held(layers, place, segment, gap, false);
                }
                continue;
            }
            while blocked.next_if(|call| call.ended_ns <= gap.start).is_some() {}
            if let Some(call) = blocked.peek() {
                self.held(layers, place, segment, call.began_ns.max(gap.start)..call.ended_ns.min(gap.end), true);
            }
            if let Some(written_ns) = written_ns {
                self.held(layers, place, segment, written_ns.max(gap.start)..gap.end, true);
            }
        }
    }

    /// Adds why the bytes of `segment` were held during the gap before it left. Unless calls show that the bytes were
    /// `written`, only a cause with evidence of its own is added.
    pub(super) fn held(
        &self,
        layers: &mut Vec<Layer>,
        place: usize,
        segment: &Segment,
        gap: Range<u64>,
        written: bool,
    ) {
        let way = &self.ways[place];
        let closed = gap.start..way.admitted_ns(segment, gap.start).clamp(gap.start, gap.end.max(gap.start));
        if !closed.is_empty() {
            way.window(layers, &closed);
        }
        let gap = closed.end..gap.end;
        if gap.is_empty() {
            return;
        }
        let state = self.rule(place, segment, &gap, written);
        // Shorter gaps of a call are its work.
        if state != ExchangeState::Unexplained || (written && gap.end - gap.start >= MIN_WAIT_NS) {
            way.layer(layers, Rank::Held, gap.start, gap.end, state);
        }
        if state == ExchangeState::Nagle || (written && state == ExchangeState::Unexplained) {
            way.awaited(layers, segment, &gap, self.reading.trace.clock_error_ns);
        }
    }

    fn rule(&self, place: usize, segment: &Segment, gap: &Range<u64>, written: bool) -> ExchangeState {
        let (way, sending) = (&self.ways[place], &self.reading.sending[place]);
        let released = || self.reading.left_with_the_ack(way.direction, segment, gap.start);
        if !written {
            let is_nagle = sending.nodelay != Some(true) && released();
            return if is_nagle { ExchangeState::Nagle } else { ExchangeState::Unexplained };
        }
        let state = self.reading.cause(way.direction, sending, segment, gap.start);
        let (held_ns, size_bytes) = (gap.end - gap.start, segment.end_byte - segment.first_byte);
        let paced_ns = sending.pacing_bytes_per_s.map(|rate| size_bytes.saturating_mul(1_000_000_000) / rate.max(1));
        let in_flight = segment.first_byte.saturating_sub(way.acked_byte(gap.start));
        match state {
            ExchangeState::Unexplained if paced_ns.is_some_and(|ns| held_ns >= ns / 2 && held_ns / 4 <= ns) => {
                ExchangeState::Pacing
            }
            ExchangeState::Unexplained
                if sending.sndbuf_bytes.is_some_and(|bytes| in_flight >= bytes / MIN_PAYLOAD_DIVISOR) =>
            {
                ExchangeState::SendBuffer
            }
            state => state,
        }
    }
}

impl Way<'_> {
    /// Returns when the receiver's window admitted the segment; 0 if no window is known at `from_ns`.
    fn admitted_ns(&self, segment: &Segment, from_ns: u64) -> u64 {
        if self.edges.first().is_none_or(|(at_ns, _)| *at_ns > from_ns) {
            return 0;
        }
        let place = self.edges.partition_point(|(_, admitted)| *admitted < segment.end_byte);
        self.edges.get(place).map_or(0, |(at_ns, _)| *at_ns)
    }

    /// Adds a closed window: small if the receiver's program had read all that had arrived.
    fn window(&self, layers: &mut Vec<Layer>, closed: &Range<u64>) {
        let at = other(self.direction.from);
        let mut layer = |(from_ns, until_ns), rank, state| layers.push(Layer { from_ns, until_ns, rank, state, at });
        let whole = (closed.start, closed.end);
        let Some(unread) = &self.unread else {
            return layer(whole, Rank::Held, ExchangeState::WindowOrReader);
        };
        layer(whole, Rank::Held, ExchangeState::ReceiveWindow);
        for part in unread.within(closed.start, closed.end) {
            layer(part, Rank::Awaited, ExchangeState::SlowReader);
        }
    }

    /// Adds what the acknowledgment waited for that released the segment: a receiver that delayed it, or lost data.
    fn awaited(&self, layers: &mut Vec<Layer>, segment: &Segment, gap: &Range<u64>, clock_error_ns: u64) {
        let at_once_ns = MAX_EFFECT_DELAY_NS.saturating_add(clock_error_ns);
        let released_ns = segment.left_ns.saturating_sub(self.direction.release_ns);
        let (earliest, latest) = (released_ns.saturating_sub(at_once_ns), released_ns.saturating_add(at_once_ns));
        let first = self.delayed.partition_point(|ack| ack.ack_arrived_ns < Some(earliest));
        let delayed = self.delayed[first..].iter().take_while(|ack| ack.ack_arrived_ns <= Some(latest));
        for ack in delayed {
            let (from_ns, until_ns) = (ack.from_ns.max(gap.start), ack.until_ns.min(gap.end));
            let (state, at) = (ExchangeState::DelayedAck, other(self.direction.from));
            layers.push(Layer { from_ns, until_ns, rank: Rank::Awaited, state, at });
        }
        let first = self.retransmissions.partition_point(|one| one.left_ns <= gap.start);
        let lost = self.retransmissions[first..].iter().take_while(|one| one.left_ns < gap.end);
        for one in lost.filter(|one| one.bytes.start < segment.first_byte) {
            self.layer(layers, Rank::Awaited, one.lost_ns.max(gap.start), one.left_ns, one.state);
        }
    }

    fn acked_byte(&self, at_ns: u64) -> u64 {
        let acks = &self.direction.acks;
        acks[..acks.partition_point(|ack| ack.at_ns <= at_ns)].last().map_or(0, |ack| ack.end_byte)
    }
}
