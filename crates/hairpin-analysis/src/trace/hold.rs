//! Why written bytes did not leave at once.

use hairpin_model::options::{Effective, OptionName};
use hairpin_model::time_sequence::WaitCause;
use hairpin_model::trace::{Call, CallKind};

use super::direction::{Direction, Segment};
use super::{AT_ONCE_NS, Reading};

/// A corked socket lets go by itself after about 200 ms (tcp(7), `TCP_CORK`): the timer counts in ticks and is never
/// shorter than the retransmission timeout, which is three round trips and 200 ms at most while little varies (RFC 6298).
const CEILING_NS: std::ops::RangeInclusive<u64> = 150_000_000..=400_000_000;
const ROUND_TRIPS: u64 = 3;

/// How an end sends: what was granted, and when it was corked.
pub(super) struct Sending {
    /// `TCP_NODELAY`; null where it is not known or was changed meanwhile.
    nodelay: Option<bool>,
    corked: Vec<Corked>,
}

struct Corked {
    from_ns: u64,
    /// The call that ended it.
    release: Option<Call>,
}

impl Sending {
    /// `more` is the size of requests whose every write but the last was sent with `MSG_MORE`, which corks until the
    /// next write without it.
    pub(super) fn new(calls: &[Call], options: &[Effective], more: Option<u64>) -> Self {
        let mut corked = Vec::new();
        let mut from_ns = (switch(options, OptionName::Cork) == Some(true)).then_some(0);
        for call in calls {
            let (begins, ends) = match call.kind {
                CallKind::Cork => (true, false),
                CallKind::Uncork => (false, true),
                CallKind::Write => more.map_or((false, false), |request_bytes| {
                    let last = request_bytes == 0 || call.end_byte.is_multiple_of(request_bytes);
                    (!last, last)
                }),
                CallKind::Read | CallKind::Quickack => (false, false),
            };
            if begins {
                from_ns = from_ns.or(Some(call.began_ns));
            } else if ends && let Some(from_ns) = from_ns.take() {
                corked.push(Corked { from_ns, release: Some(*call) });
            }
        }
        corked.extend(from_ns.map(|from_ns| Corked { from_ns, release: None }));
        Self { nodelay: switch(options, OptionName::Nodelay), corked }
    }

    fn corked_at(&self, at_ns: u64) -> Option<&Corked> {
        let held = |corked: &&Corked| corked.release.is_none_or(|release| release.ended_ns > at_ns);
        self.corked.iter().find(|corked| corked.from_ns <= at_ns && held(corked))
    }
}

/// Whether the switch was on for the whole round, or off; null where neither is known.
pub(crate) fn switch(options: &[Effective], name: OptionName) -> Option<bool> {
    let option = options.iter().find(|option| option.name == name).filter(|option| option.before == option.after)?;
    match option.before.as_str() {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

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

    /// Nagle's algorithm (RFC 896): something before these bytes was unacknowledged when they were written, and they
    /// left when the acknowledgement of all of it came.
    fn left_with_the_ack(&self, direction: &Direction<'_>, segment: &Segment, from_ns: u64) -> bool {
        let Some(ack) = direction.acknowledged(segment.first_byte).filter(|_| segment.first_byte > 0) else {
            return false;
        };
        // What is held for less than that at once would always seem to leave with some acknowledgement.
        let held_ns = segment.left_ns.saturating_sub(from_ns);
        let at_once_ns = if self.of_messages { AT_ONCE_NS.min(held_ns / 4) } else { AT_ONCE_NS };
        let at_once_ns = at_once_ns.saturating_add(self.trace.clock_error_ns);
        ack.at_ns > from_ns && segment.left_ns.abs_diff(ack.at_ns) <= at_once_ns
    }
}
