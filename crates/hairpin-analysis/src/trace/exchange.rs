//! Derives the exchanges of a trace: their bytes, times and waits.

use std::ops::Range;

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::trace::End;
use hairpin_model::{TracedExchange, Wait};

use super::direction::{Ack, Direction, Segment, other};
use super::reading::{MIN_MESSAGE_WAIT_NS, MIN_WAIT_NS, Reading};

/// Minimum delay of a delayed acknowledgment, in ns. RFC 1122 (4.2.3.2) allows 500 ms; Linux waits 40 to 200 ms
/// (include/net/tcp.h, `TCP_DELACK_MIN` and `TCP_DELACK_MAX`).
const MIN_LATE_ACK_NS: u64 = 10_000_000;

/// The part of the connection that belongs to an exchange: its times, and its bytes in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) began_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) request: Range<u64>,
    pub(crate) reply: Range<u64>,
}

impl Extent {
    pub(crate) fn bytes(&self, from: End) -> &Range<u64> {
        match from {
            End::Client => &self.request,
            End::Server => &self.reply,
        }
    }

    pub(super) fn time(&self, at_ns: u64) -> i64 {
        signed(at_ns) - signed(self.began_ns)
    }

    /// Converts a byte position to one relative to the first byte that `from` sends in the exchange.
    pub(super) fn byte(&self, from: End, byte: u64) -> i64 {
        signed(byte) - signed(self.bytes(from).start)
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A wait, with times and byte positions relative to the whole connection.
#[derive(Clone, Debug)]
pub(super) struct ConnectionWait {
    pub(super) cause: ExchangeState,
    /// The end at which the bytes or the acknowledgment waited.
    end: End,
    /// The sender of `bytes`.
    pub(super) from: End,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    /// When a late acknowledgment arrived.
    pub(super) ack_arrived_ns: Option<u64>,
    bytes: Range<u64>,
}

impl Reading<'_> {
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        let trace = self.trace;
        let times = trace.exchange_began_ns.iter().zip(&trace.exchange_ended_ns);
        let bytes = |number: u64, each: u64| number.saturating_mul(each)..(number + 1).saturating_mul(each);
        (0_u64..).zip(times).map(move |(number, (began_ns, ended_ns))| Extent {
            began_ns: *began_ns,
            ended_ns: *ended_ns,
            request: bytes(number, trace.request_bytes),
            reply: bytes(number, trace.reply_bytes),
        })
    }

    pub(super) fn waits(&self) -> Vec<ConnectionWait> {
        let mut all = Vec::new();
        for ((direction, back), sending) in
            self.directions.iter().zip(self.directions.iter().rev()).zip(&self.sending)
        {
            for segment in &direction.first_sent {
                let written = segment.first_byte..segment.end_byte;
                let late = |ended_ns: u64| segment.left_ns > ended_ns.saturating_add(self.min_wait_ns());
                let mut held = direction.writes_with(&written).iter().filter(|call| late(call.ended_ns));
                let (Some(first), Some(last)) = (held.clone().next(), held.next_back()) else { continue };
                let cause = self.cause(direction, sending, segment, first.ended_ns);
                if cause == ExchangeState::Nagle && self.is_open_loop {
                    all.extend(releasing_ack(direction, segment, first.ended_ns, back.longest_travel_ns));
                }
                all.push(ConnectionWait {
                    cause,
                    end: direction.from,
                    from: direction.from,
                    from_ns: first.ended_ns,
                    until_ns: segment.left_ns,
                    ack_arrived_ns: None,
                    bytes: first.first_byte.max(segment.first_byte)..last.end_byte.min(segment.end_byte),
                });
            }
            all.extend(late_acks(direction, back.longest_travel_ns));
        }
        all.extend(self.extents().filter_map(|extent| self.server_program(&extent)));
        all
    }

    pub(super) fn min_wait_ns(&self) -> u64 {
        let least_ns = if self.is_open_loop { MIN_MESSAGE_WAIT_NS } else { MIN_WAIT_NS };
        least_ns.max(self.trace.clock_error_ns.saturating_mul(10))
    }

    fn server_program(&self, extent: &Extent) -> Option<ConnectionWait> {
        let [out, back] = &self.directions;
        let read = out.reads_with(&extent.request).iter().find(|call| call.end_byte >= extent.request.end)?;
        let answer = back.writes_with(&extent.reply).first()?;
        let waited = answer.began_ns.saturating_sub(read.ended_ns) >= MIN_WAIT_NS;
        waited.then(|| ConnectionWait {
            cause: ExchangeState::ServerProgram,
            end: End::Server,
            from: End::Client,
            from_ns: read.ended_ns,
            until_ns: answer.began_ns,
            ack_arrived_ns: None,
            bytes: extent.request.clone(),
        })
    }

    /// Returns the waits of an exchange, longest first. Held bytes count only in the exchange that wrote them, even if
    /// one segment carried bytes of several exchanges; a late acknowledgment counts in every exchange in progress.
    pub(super) fn waits_of(&self, extent: &Extent, waits: &[ConnectionWait]) -> Vec<Wait> {
        let mut all: Vec<Wait> = waits.iter().filter_map(|waited| self.wait_in_exchange(extent, waited)).collect();
        all.sort_by_key(|wait| std::cmp::Reverse(wait.until_ns - wait.from_ns));
        all
    }

    fn wait_in_exchange(&self, extent: &Extent, waited: &ConnectionWait) -> Option<Wait> {
        let own = extent.bytes(waited.from);
        let (mut from_ns, mut bytes) = (waited.from_ns, waited.bytes.clone());
        if waited.cause != ExchangeState::DelayedAck {
            bytes = bytes.start.max(own.start)..bytes.end.min(own.end);
            if bytes.is_empty() {
                return None;
            }
            if waited.end == waited.from {
                let [out, back] = &self.directions;
                let direction = if waited.from == End::Client { out } else { back };
                from_ns = direction.writes_with(&bytes).first()?.ended_ns;
            }
        }
        let least_ns = if waited.cause == ExchangeState::ServerProgram { MIN_WAIT_NS } else { self.min_wait_ns() };
        let during_ns = waited.until_ns.min(extent.ended_ns).saturating_sub(from_ns.max(extent.began_ns));
        (during_ns >= least_ns).then(|| Wait {
            cause: waited.cause,
            end: waited.end,
            from_ns: extent.time(from_ns),
            until_ns: extent.time(waited.until_ns),
            came_ns: waited.ack_arrived_ns.map(|at_ns| extent.time(at_ns)),
            first_byte: extent.byte(waited.from, bytes.start),
            end_byte: extent.byte(waited.from, bytes.end),
        })
    }

    pub(super) fn traced_exchange(&self, extent: &Extent, waits: &[ConnectionWait]) -> TracedExchange {
        let [out, _] = &self.directions;
        let acknowledged = out.acknowledged(extent.request.end).zip(out.first_segment(extent.request.end));
        TracedExchange {
            duration_ns: extent.ended_ns.saturating_sub(extent.began_ns),
            writes: out.writes_with(&extent.request).len() as u64,
            segments: out.segments_with(&extent.request).count() as u64,
            waits: self.waits_of(extent, waits),
            last_ack_ns: acknowledged.map(|(ack, segment)| ack.at_ns.saturating_sub(segment.left_ns)),
            at_server_ns: None,
        }
    }
}

fn late_acks(direction: &Direction<'_>, travel_ns: u64) -> Vec<ConnectionWait> {
    let late = |ack: &Ack| delay(direction, ack, travel_ns).filter(|waited| is_late(ack, waited));
    direction.acks.iter().filter_map(late).collect()
}

fn is_late(ack: &Ack, waited: &ConnectionWait) -> bool {
    ack.is_pure && waited.until_ns.saturating_sub(waited.from_ns) >= MIN_LATE_ACK_NS
}

/// Returns the acknowledgment that released the segment held since `from_ns`, if the receiver delayed it for at least
/// half of the hold. In an open loop, this acknowledgment leaves with the next message, long before the delayed-ACK
/// timer ends. [`late_acks`] returns the late pure acknowledgments.
fn releasing_ack(
    direction: &Direction<'_>,
    segment: &Segment,
    from_ns: u64,
    travel_ns: u64,
) -> Option<ConnectionWait> {
    let ack = direction.acknowledged(segment.first_byte)?;
    let waited = delay(direction, ack, travel_ns).filter(|waited| !is_late(ack, waited))?;
    let kept_ns = waited.until_ns.saturating_sub(waited.from_ns.max(from_ns));
    (2 * kept_ns >= segment.left_ns.saturating_sub(from_ns)).then_some(waited)
}

/// Returns the time from the arrival of the acknowledged data until the acknowledgment left. If the trace does not
/// show the departure, it is estimated as the arrival minus `travel_ns`, the longest travel time in that direction.
fn delay(direction: &Direction<'_>, ack: &Ack, travel_ns: u64) -> Option<ConnectionWait> {
    let first = direction.first_segment(ack.first_byte + 1)?;
    Some(ConnectionWait {
        cause: ExchangeState::DelayedAck,
        end: other(direction.from),
        from: direction.from,
        from_ns: direction.arrived_ns(first.end_byte)?,
        until_ns: ack.left_ns.unwrap_or_else(|| ack.at_ns.saturating_sub(travel_ns)),
        ack_arrived_ns: Some(ack.at_ns),
        bytes: ack.first_byte..ack.end_byte,
    })
}
