//! Why written bytes were held.

use hairpin_model::time_sequence::WaitCause;

use super::direction::{Direction, Segment};
use super::reading::{AT_ONCE_NS, Reading};
use super::sending::{Corked, Sending};

/// Linux releases corked data after about 200 ms (tcp(7), `TCP_CORK`): the timer counts in ticks and is never shorter
/// than the retransmission timeout, which is three round trips and at most 200 ms while RTTs vary little (RFC 6298).
const CEILING_NS: std::ops::RangeInclusive<u64> = 150_000_000..=400_000_000;
const ROUND_TRIPS: u64 = 3;

impl Reading<'_> {
    /// Why the bytes of `segment`, the first of which was written at `from_ns`, were held.
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
            // After the release of the cork the bytes waited for something else.
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

    /// A cork explains the wait only if the bytes left when it was released or when its timer expired.
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

    /// Nagle's algorithm: earlier bytes were unacknowledged at the write, and these bytes left when all of them were
    /// acknowledged (RFC 896), or the last small segment before them: Linux holds a small segment only while an earlier
    /// small one is unacknowledged (`tcp_minshall_check`, net/ipv4/tcp_output.c).
    fn left_with_the_ack(&self, direction: &Direction<'_>, segment: &Segment, from_ns: u64) -> bool {
        if segment.first_byte == 0 {
            return false;
        }
        let ends = [Some(segment.first_byte), direction.last_small_before(segment.first_byte)];
        let mut acks = ends.into_iter().flatten().filter_map(|end_byte| direction.acknowledged(end_byte));
        // A hold shorter than `AT_ONCE_NS` would always seem to end with some acknowledgment.
        let held_ns = segment.left_ns.saturating_sub(from_ns);
        let at_once_ns = if self.of_messages { AT_ONCE_NS.min(held_ns / 4) } else { AT_ONCE_NS };
        let at_once_ns = at_once_ns.saturating_add(self.trace.clock_error_ns);
        acks.any(|ack| ack.at_ns > from_ns && segment.left_ns.abs_diff(ack.at_ns) <= at_once_ns)
    }
}
