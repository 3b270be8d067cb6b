//! Reads traces of two hosts with independent clocks: the client's times, and durations at the server.
//!
//! The offset between the clocks is unbounded, so times of different hosts are never compared.

use hairpin_model::trace::CallKind;
use hairpin_model::{EndTrace, RoundTrace, fact, fact_names};

use super::direction::{Direction, calls_of_kind};

pub(super) fn client_only(trace: &RoundTrace) -> RoundTrace {
    RoundTrace { server: EndTrace::default(), ..trace.clone() }
}

/// Returns the shortest time from a segment of the client to an answer of the server's kernel, in ns: the minimum for
/// an acknowledgment that was not delayed. 0 if unknown.
pub(super) fn min_round_trip_ns(trace: &RoundTrace, out: &Direction<'_>) -> u64 {
    let mut syns = trace.packets.iter().filter(|packet| packet.syn).map(|packet| packet.at_ns);
    let handshake = syns.next().zip(syns.next()).map(|(asked_ns, answered_ns)| answered_ns.saturating_sub(asked_ns));
    let acknowledged =
        out.acks.iter().filter_map(|ack| ack.at_ns.checked_sub(out.first_segment(ack.end_byte)?.left_ns));
    let of_kernel = fact::number(&trace.client.after, fact_names::MIN_RTT_US).map(|us| (us * 1000.0) as u64);
    handshake.into_iter().chain(acknowledged).chain(of_kernel).min().unwrap_or(0)
}

/// Returns the time from the read that completed request `number` (from 0) to the first write of its answer, in ns.
pub(super) fn at_server_ns(trace: &RoundTrace, number: u64) -> Option<u64> {
    let request_end = trace.request_bytes.checked_mul(number.checked_add(1)?)?;
    let reply_begin = trace.reply_bytes.checked_mul(number)?;
    let [reads, writes] = [CallKind::Read, CallKind::Write].map(|kind| calls_of_kind(&trace.server, kind));
    let read = reads.iter().find(|call| call.end_byte >= request_end)?;
    let answer = writes.iter().find(|call| call.end_byte > reply_begin)?;
    answer.began_ns.checked_sub(read.ended_ns)
}
