//! Determines why written bytes were held.

use std::ops::Range;

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::trace::End;

use super::direction::{Direction, Segment};
use super::reading::{MAX_EFFECT_DELAY_NS, MIN_WAIT_NS, Reading};
use super::sending::{Corked, Sending};

/// Linux releases corked data after about 200 ms (tcp(7), `TCP_CORK`). The timer counts in ticks and is at least the
/// retransmission time-out, which on a long path is up to three round trips (RFC 6298).
const CORK_TIMER_NS: std::ops::RangeInclusive<u64> = 150_000_000..=400_000_000;
const ROUND_TRIPS: u64 = 3;

impl Reading<'_> {
    /// Returns why the bytes of `segment` were held; the first of these bytes was written at `from_ns`.
    pub(super) fn cause(
        &self,
        direction: &Direction<'_>,
        sending: &Sending,
        segment: &Segment,
        from_ns: u64,
    ) -> ExchangeState {
        let mut from_ns = from_ns;
        if let Some(corked) = sending.corked_at(from_ns) {
            if self.is_cork_release(corked, segment, from_ns) {
                return ExchangeState::Cork;
            }
            // After the cork was released, the bytes waited for another reason.
            match corked.release.filter(|release| release.ended_ns < segment.left_ns) {
                Some(release) => from_ns = release.ended_ns,
                None => return ExchangeState::Unexplained,
            }
        }
        match sending.nodelay {
            Some(false) if self.left_with_the_ack(direction, segment, from_ns) => ExchangeState::Nagle,
            Some(true) if self.autocorked.is_some_and(|grown| grown > 0) => ExchangeState::Autocork,
            _ => ExchangeState::Unexplained,
        }
    }

    /// Whether the cork explains the wait: the bytes left when it was released or when its timer expired.
    fn is_cork_release(&self, corked: &Corked, segment: &Segment, from_ns: u64) -> bool {
        let error_ns = self.trace.clock_error_ns;
        let released = corked.release.is_some_and(|release| {
            let at_once_ns = MAX_EFFECT_DELAY_NS.saturating_add(error_ns);
            segment.left_ns >= release.began_ns.saturating_sub(error_ns)
                && segment.left_ns <= release.ended_ns.saturating_add(at_once_ns)
        });
        let [out, back] = &self.directions;
        let round_trip_ns = out.travel_ns.saturating_add(back.travel_ns);
        let longest_ns = CORK_TIMER_NS.end().saturating_add(ROUND_TRIPS.saturating_mul(round_trip_ns));
        let timer_expired = (*CORK_TIMER_NS.start()..=longest_ns).contains(&segment.left_ns.saturating_sub(from_ns));
        released || timer_expired
    }

    /// Whether Nagle's algorithm explains the wait: at the write, earlier bytes were unacknowledged, and these bytes
    /// left when all earlier bytes were acknowledged (RFC 896), or when the last earlier small segment was. That
    /// segment is enough, because Linux holds a small segment only while an earlier small segment is unacknowledged
    /// (`tcp_minshall_check`, net/ipv4/tcp_output.c). It never holds a full segment.
    pub(super) fn left_with_the_ack(&self, direction: &Direction<'_>, segment: &Segment, from_ns: u64) -> bool {
        let mss_bytes = self.sending[usize::from(direction.from == End::Server)].mss_bytes;
        let is_full = mss_bytes.is_some_and(|mss| (segment.end_byte - segment.first_byte) as f64 >= mss);
        if segment.first_byte == 0 || is_full {
            return false;
        }
        let ends = [Some(segment.first_byte), direction.last_small_before(segment.first_byte)];
        let mut acks = ends.into_iter().flatten().filter_map(|end_byte| direction.acknowledged(end_byte));
        // With the full `MAX_EFFECT_DELAY_NS`, every shorter hold would seem to end with an acknowledgment.
        let held_ns = segment.left_ns.saturating_sub(from_ns);
        let is_short = self.is_open_loop || held_ns < MIN_WAIT_NS;
        let at_once_ns = if is_short { MAX_EFFECT_DELAY_NS.min(held_ns / 4) } else { MAX_EFFECT_DELAY_NS };
        let at_once_ns = at_once_ns.saturating_add(self.trace.clock_error_ns);
        let released_ns = segment.left_ns.saturating_sub(direction.release_ns);
        acks.any(|ack| ack.at_ns > from_ns && released_ns.abs_diff(ack.at_ns) <= at_once_ns)
    }

    /// Whether a full segment left when an acknowledgment arrived, with data in flight since before the gap: the congestion
    /// window, or a queue of the sender that is at its limit, admitted it.
    pub(super) fn is_ack_clocked(&self, direction: &Direction<'_>, segment: &Segment, gap: &Range<u64>) -> bool {
        let before = direction.acks.partition_point(|ack| ack.at_ns <= gap.start);
        let acked = direction.acks[..before].last().map_or(0, |ack| ack.end_byte);
        let after = direction.acks.partition_point(|ack| ack.at_ns <= segment.left_ns);
        let Some(ack) = direction.acks[before..after].last().filter(|_| acked < segment.first_byte) else {
            return false;
        };
        let at_once_ns = MAX_EFFECT_DELAY_NS.min((gap.end - gap.start) / 4).saturating_add(self.trace.clock_error_ns);
        segment.left_ns.saturating_sub(direction.release_ns).abs_diff(ack.at_ns) <= at_once_ns
    }
}
