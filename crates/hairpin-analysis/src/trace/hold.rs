//! Why written bytes did not leave at once.

use hairpin_model::time_sequence::WaitCause;

use super::direction::{Direction, Segment};
use super::reading::{AT_ONCE_NS, Reading};
use super::sending::{Corked, Sending};

/// A corked socket lets go by itself after about 200 ms (tcp(7), `TCP_CORK`): the timer counts in ticks and is never
/// shorter than the retransmission timeout, which is three round trips and 200 ms at most while little varies (RFC 6298).
const CEILING_NS: std::ops::RangeInclusive<u64> = 150_000_000..=400_000_000;
const ROUND_TRIPS: u64 = 3;

impl Reading<'_> {
    /// Why the bytes of `segment`, the first of which was written at `from_ns`, left no sooner.
    pub(super) fn cause(
        &self,
        direction: &Direction<'_>,
        sending: &Sending,
        segment: &Segment,
        from_ns: u64,
    ) -> WaitCause {
        let mut from_ns = from_ns;
        if let Some(corked) = sending.corked_at(from_ns) {
            if self.is_let_go(corked, segment, from_ns) {
                return WaitCause::Cork;
            }
            // What was released before it left waited for something else after that.
            match corked.release.filter(|release| release.ended_ns < segment.left_ns) {
                Some(release) => from_ns = release.ended_ns,
                None => return WaitCause::Unexplained,
            }
        }
        match sending.nodelay {
            Some(false) if self.left_with_the_ack(direction, segment, from_ns) => WaitCause::Nagle,
            Some(true) if self.autocorked.is_some_and(|grown| grown > 0) => WaitCause::Autocork,
            _ => WaitCause::Unexplained,
        }
    }

    /// A cork explains the wait only where the bytes left when it was released, or at its ceiling.
    fn is_let_go(&self, corked: &Corked, segment: &Segment, from_ns: u64) -> bool {
        let error_ns = self.trace.clock_error_ns;
        let released = corked.release.is_some_and(|release| {
            let at_once_ns = AT_ONCE_NS.saturating_add(error_ns);
            segment.left_ns >= release.began_ns.saturating_sub(error_ns)
                && segment.left_ns <= release.ended_ns.saturating_add(at_once_ns)
        });
        let [out, back] = &self.directions;
        let round_trip_ns = out.travel_ns.saturating_add(back.travel_ns);
        let longest_ns = CEILING_NS.end().saturating_add(ROUND_TRIPS.saturating_mul(round_trip_ns));
        let by_itself = (*CEILING_NS.start()..=longest_ns).contains(&segment.left_ns.saturating_sub(from_ns));
        released || by_itself
    }

    /// Nagle's algorithm: something before these bytes was unacknowledged when they were written, and they left when the
    /// acknowledgment of all of it came (RFC 896), or that of the last small segment before them: Linux holds a small
    /// segment only while an earlier small one is unacknowledged (`tcp_minshall_check`, net/ipv4/tcp_output.c).
    fn left_with_the_ack(&self, direction: &Direction<'_>, segment: &Segment, from_ns: u64) -> bool {
        if segment.first_byte == 0 {
            return false;
        }
        let ends = [Some(segment.first_byte), direction.last_small_before(segment.first_byte)];
        let mut acks = ends.into_iter().flatten().filter_map(|end_byte| direction.acknowledged(end_byte));
        // What is held for less than that at once would always seem to leave with some acknowledgment.
        let held_ns = segment.left_ns.saturating_sub(from_ns);
        let at_once_ns = if self.of_messages { AT_ONCE_NS.min(held_ns / 4) } else { AT_ONCE_NS };
        let at_once_ns = at_once_ns.saturating_add(self.trace.clock_error_ns);
        acks.any(|ack| ack.at_ns > from_ns && segment.left_ns.abs_diff(ack.at_ns) <= at_once_ns)
    }
}
