//! Messages wait in the send buffer of their own connection: the program writes faster than the path takes them, and each new
//! message is behind all earlier ones.

use std::collections::VecDeque;

use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;
use hairpin_model::{Cause, SocketSample};

use super::super::connection::Connection;
use super::super::peer::{Peer, quantile};
use super::super::rule::{Judged, Rule};

pub(super) const RULE: Rule =
    Rule { code: Cause::OwnSendQueue, judge, explains: &[Cause::LinkSaturated, Cause::CongestionWindow] };

/// Minimum wait of a message, in ns and in round trips.
const MIN_WAIT_NS: f64 = 30e6;
const MIN_WAIT_ROUND_TRIPS: f64 = 1.0;
const MIN_MESSAGES: usize = 20;
/// A program that writes all it has fills the buffer whenever a third of it is free (include/net/sock.h,
/// `sk_stream_is_writeable`), and its data does not get old. The messages of others are small beside what waits already.
const MAX_MESSAGE_SHARE: f64 = 0.2;
const MIN_WAITING_SHARE: f64 = 0.5;

/// A message: what a program wrote between two samples.
struct Written {
    at_ns: u64,
    bytes: f64,
    /// Bytes that were not sent when it was written.
    before: f64,
    waited_ns: f64,
}

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    let ends = [End::Client, End::Server];
    let all = peer.connections.iter().flat_map(|connection| ends.map(|end| (connection, end)));
    let judged = all.filter_map(|(connection, end)| judge_end(peer, connection, end));
    judged.max_by(|one, other| one.share.unwrap_or(0.0).total_cmp(&other.share.unwrap_or(0.0)))
}

fn judge_end<'p>(peer: &Peer, connection: &'p Connection, end: End) -> Option<Judged<'p>> {
    let samples = connection.samples(end);
    if is_window_closed(samples, connection.mss_bytes()) {
        return None;
    }
    let messages = written(samples);
    let round_trip_ns = connection.vantage.round_trip_ns().unwrap_or(0) as f64;
    let min_wait_ns = MIN_WAIT_NS.max(MIN_WAIT_ROUND_TRIPS * round_trip_ns);
    let waiting: Vec<&Written> = messages.iter().filter(|message| message.waited_ns >= min_wait_ns).collect();
    let of_queue = waiting.iter().map(|message| message.bytes / message.before.max(1.0)).collect();
    let is_small = quantile(of_queue, 0.5)? <= MAX_MESSAGE_SHARE;
    let is_usual = waiting.len() as f64 >= MIN_WAITING_SHARE * messages.len() as f64;
    if waiting.len() < MIN_MESSAGES || !is_usual || !is_small {
        return None;
    }
    let share = any_waits_ns(&waiting) / peer.elapsed_ns().max(1) as f64;
    let waits: Vec<f64> = waiting.iter().map(|message| message.waited_ns).collect();
    let sizes = waiting.iter().map(|message| message.bytes).collect();
    let queued = waiting.iter().map(|message| message.before).collect();
    Some(
        Judged::lasting(waits.clone(), share, connection.longest())
            .with_end(Some(end))
            .with(evidence::AFFECTED, Some(waiting.len() as f64))
            .with(evidence::EXCHANGES, Some(messages.len() as f64))
            .with(evidence::WAIT_NS, quantile(waits, 0.5))
            .with(evidence::MESSAGE_BYTES, quantile(sizes, 0.5))
            .with(evidence::QUEUED_BYTES, quantile(queued, 0.5)),
    )
}

/// Whether the receiver's window is what holds most of the unsent bytes: then its program reads slowly.
fn is_window_closed(samples: &[SocketSample], mss_bytes: u64) -> bool {
    let unsent = samples.iter().filter(|sample| sample.not_sent_bytes > 0);
    let is_closed =
        |sample: &&SocketSample| sample.send_window_bytes < sample.unacked_bytes.saturating_add(mss_bytes);
    let (closed, open): (Vec<&SocketSample>, Vec<&SocketSample>) = unsent.partition(is_closed);
    closed.len() > open.len()
}

/// Returns the time in which at least one message waits. They are in order of time.
fn any_waits_ns(messages: &[&Written]) -> f64 {
    let (mut sum_ns, mut until_ns) = (0.0, 0.0_f64);
    for message in messages {
        let (from_ns, ends_ns) = (message.at_ns as f64, message.at_ns as f64 + message.waited_ns);
        sum_ns += (ends_ns - from_ns.max(until_ns)).max(0.0);
        until_ns = until_ns.max(ends_ns);
    }
    sum_ns
}

fn written(samples: &[SocketSample]) -> Vec<Written> {
    let (mut all, mut open) = (Vec::new(), VecDeque::new());
    let mut last: Option<(u64, u64)> = None;
    for sample in samples {
        let sent = sample.acked_bytes.saturating_add(sample.unacked_bytes);
        let written = sent.saturating_add(sample.not_sent_bytes);
        if let Some((before, not_sent)) = last
            && written > before
        {
            open.push_back((written, sample.at_ns, (written - before) as f64, not_sent as f64));
        }
        while let Some((_, at_ns, bytes, before)) = open.pop_front_if(|(end_byte, ..)| *end_byte <= sent) {
            all.push(Written { at_ns, bytes, before, waited_ns: sample.at_ns.saturating_sub(at_ns) as f64 });
        }
        last = Some((written.max(last.map_or(0, |(before, _)| before)), sample.not_sent_bytes));
    }
    all
}
