//! Why bytes had not left the sender yet.

use std::ops::Range;

use hairpin_model::exchange_state::ExchangeState;

use super::Layers;
use super::tiling::Rank;
use crate::trace::direction::{Segment, other};
use crate::trace::reading::{MAX_EFFECT_DELAY_NS, MIN_WAIT_NS};

/// Of a full send buffer, at least this part is payload; the rest is the kernel's own data on it (`skb->truesize`).
const MIN_PAYLOAD_DIVISOR: u64 = 3;

impl Layers<'_> {
    /// Adds what is known of the time until the last byte of a direction left: calls, and why bytes were held. Bytes that
    /// were held while the program had not written the last one yet delayed nothing. `written_ns` is when it had.
    pub(super) fn sending(&mut self, place: usize, during: &Range<u64>, written_ns: Option<u64>) {
        let (way, (bytes, segments)) = (self.way(place), self.sent(place));
        let calls = way.direction.writes_with(bytes);
        for call in calls {
            let inside = call.began_ns..call.ended_ns.min(during.end);
            self.tiling.add(Rank::Within, inside, ExchangeState::SendCall, way.direction.from);
        }
        self.sampled(place, during);
        let mut blocked =
            calls.iter().filter(|call| call.ended_ns.saturating_sub(call.began_ns) >= MIN_WAIT_NS).peekable();
        let mut from_ns = during.start;
        for segment in segments {
            let gap = from_ns..segment.left_ns.min(during.end);
            from_ns = from_ns.max(segment.left_ns);
            if way.direction.writes.is_empty() {
                if way.max_unsent_bytes(&gap) != Some(0) {
                    self.held(place, segment, gap, false);
                }
                continue;
            }
            while blocked.next_if(|call| call.ended_ns <= gap.start).is_some() {}
            let call = blocked.peek().map(|call| call.began_ns..call.ended_ns);
            for known in [call, written_ns.map(|written_ns| written_ns..gap.end)].into_iter().flatten() {
                self.held(place, segment, known.start.max(gap.start)..known.end.min(gap.end), true);
            }
        }
    }

    /// Adds why the bytes of `segment` were held during the gap before it left. Unless calls show that the bytes were
    /// `written`, only a cause with evidence of its own is added.
    pub(super) fn held(&mut self, place: usize, segment: &Segment, gap: Range<u64>, written: bool) {
        let admitted_ns = self.admitted_ns(place, segment, gap.start);
        let closed = gap.start..admitted_ns.clamp(gap.start, gap.end.max(gap.start));
        self.window(place, Rank::Held, &closed);
        let gap = closed.end..gap.end;
        if gap.is_empty() {
            return;
        }
        let state = self.rule(place, segment, &gap, written);
        // Shorter gaps of a call are its work.
        if state != ExchangeState::Unexplained || (written && gap.end - gap.start >= MIN_WAIT_NS) {
            self.tiling.add(Rank::Held, gap.clone(), state, self.way(place).direction.from);
        }
        let awaits_ack = [ExchangeState::Nagle, ExchangeState::CongestionWindow].contains(&state);
        if awaits_ack || (written && state == ExchangeState::Unexplained) {
            self.awaited(place, segment, &gap);
        }
    }

    fn rule(&self, place: usize, segment: &Segment, gap: &Range<u64>, written: bool) -> ExchangeState {
        let (direction, reading) = (self.way(place).direction, self.states.reading);
        let sending = &reading.sending[place];
        if !written {
            let is_nagle = sending.nodelay != Some(true) && reading.left_with_the_ack(direction, segment, gap.start);
            return match is_nagle {
                true => ExchangeState::Nagle,
                false if reading.is_foreign && self.is_window_full(place, segment, gap) => {
                    ExchangeState::CongestionWindow
                }
                false => ExchangeState::Unexplained,
            };
        }
        let state = reading.cause(direction, sending, segment, gap.start);
        if state != ExchangeState::Unexplained {
            return state;
        }
        let (held_ns, size_bytes) = (gap.end - gap.start, segment.end_byte - segment.first_byte);
        let paced_ns = sending.pacing_bytes_per_s.map(|rate| size_bytes.saturating_mul(1_000_000_000) / rate.max(1));
        let acks = &direction.acks[..direction.acks.partition_point(|ack| ack.at_ns <= gap.start)];
        let in_flight = segment.first_byte.saturating_sub(acks.last().map_or(0, |ack| ack.end_byte));
        match sending.sndbuf_bytes {
            _ if paced_ns.is_some_and(|ns| held_ns >= ns / 2 && held_ns / 4 <= ns) => ExchangeState::Pacing,
            Some(bytes) if in_flight >= bytes / MIN_PAYLOAD_DIVISOR => ExchangeState::SendBuffer,
            _ => ExchangeState::Unexplained,
        }
    }

    /// Whether packets show that the congestion window was full, and samples, if any, that a segment of this size waited.
    fn is_window_full(&self, place: usize, segment: &Segment, gap: &Range<u64>) -> bool {
        let way = self.way(place);
        let size_bytes = segment.end_byte - segment.first_byte;
        self.states.reading.is_ack_clocked(way.direction, segment, gap)
            && way.max_unsent_bytes(gap).is_none_or(|bytes| bytes >= size_bytes)
    }

    /// Returns when the receiver's window admitted the segment; 0 if no window is known at `from_ns`.
    fn admitted_ns(&self, place: usize, segment: &Segment, from_ns: u64) -> u64 {
        let edges = &self.way(place).edges;
        let is_known = edges.first().is_some_and(|(at_ns, _)| *at_ns <= from_ns);
        let place = edges.partition_point(|(_, admitted)| *admitted < segment.end_byte);
        edges.get(place).filter(|_| is_known).map_or(0, |(at_ns, _)| *at_ns)
    }

    /// Adds a closed window: small if the receiver's program had read all that had arrived.
    pub(super) fn window(&mut self, place: usize, rank: Rank, closed: &Range<u64>) {
        let way = self.way(place);
        let at = other(way.direction.from);
        let whole = if way.unread.is_some() { ExchangeState::ReceiveWindow } else { ExchangeState::WindowOrReader };
        self.tiling.add(rank, closed.clone(), whole, at);
        for part in way.unread_within(closed) {
            // The last layer of a rank prevails.
            self.tiling.add(rank, part, ExchangeState::SlowReader, at);
        }
    }

    /// Adds what the acknowledgment waited for that released the segment: a receiver that delayed it, or lost data.
    fn awaited(&mut self, place: usize, segment: &Segment, gap: &Range<u64>) {
        let way = self.way(place);
        let at_once_ns = MAX_EFFECT_DELAY_NS.saturating_add(self.states.reading.trace.clock_error_ns);
        let released_ns = segment.left_ns.saturating_sub(way.direction.release_ns);
        let arrived = Some(released_ns.saturating_sub(at_once_ns))..=Some(released_ns.saturating_add(at_once_ns));
        let first = way.delayed.partition_point(|ack| ack.ack_arrived_ns < *arrived.start());
        for ack in way.delayed[first..].iter().take_while(|ack| arrived.contains(&ack.ack_arrived_ns)) {
            let kept = ack.from_ns.max(gap.start)..ack.until_ns.min(gap.end);
            self.tiling.add(Rank::Awaited, kept, ExchangeState::DelayedAck, other(way.direction.from));
        }
        let first = way.retransmissions.partition_point(|one| one.during.end <= gap.start);
        let lost = way.retransmissions[first..].iter().take_while(|one| one.during.end < gap.end);
        for one in lost.filter(|one| one.bytes.start < segment.first_byte) {
            let waited = one.during.start.max(gap.start)..one.during.end;
            self.tiling.add(Rank::Awaited, waited, one.state, way.direction.from);
        }
    }
}
