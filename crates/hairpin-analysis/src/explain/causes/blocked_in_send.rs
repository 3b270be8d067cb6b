//! The server waits for one client whose window is full, and serves no other meanwhile. Samples of its threads show the call in
//! which it waits.

use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;
use hairpin_model::{Cause, Fact, RangeNs};

use super::super::connection::Connection;
use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};

pub(super) const RULE: Rule = Rule {
    code: Cause::BlockedInSend,
    judge,
    explains: &[Cause::SlowReader, Cause::ServerStalled, Cause::ServerWork, Cause::ClientIdle, Cause::ReceiveWindow],
};

/// A window is full for longer than any round trip of a machine.
const MIN_FULL_NS: u64 = 50_000_000;
/// The server sends to others within this time after the window has opened.
const MAX_RESUME_NS: u64 = 20_000_000;
/// At least this share of the other connections must be silent meanwhile: two times, or once for long.
const MIN_SILENT_SHARE: f64 = 0.8;
const MIN_TIMES: usize = 2;
const MIN_LONG_NS: u64 = 500_000_000;
/// Maximum number of other connections that a full window is compared with.
const MAX_COMPARED: usize = 1_000;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    if peer.connections.len() < 2 {
        return None;
    }
    let found = |slow: &Connection| {
        let silent = full(slow).into_iter().filter(|time| are_silent(peer, slow, *time, true));
        // The window may open and fill several times until the server's call ends.
        let silent: Vec<(u64, u64)> =
            silent.map(|(from_ns, until_ns)| (silent_since_ns(peer, slow, from_ns), until_ns)).collect();
        let calls = slow.observed.blocked_sends[1].iter().map(|call| (call.start, call.end));
        let calls = calls.filter(|(from_ns, until_ns)| until_ns - from_ns >= MIN_LONG_NS);
        let calls: Vec<(u64, u64)> = calls.filter(|time| are_silent(peer, slow, *time, false)).collect();
        let silent = if calls.is_empty() { silent } else { calls };
        let is_long = silent.iter().any(|(from_ns, until_ns)| until_ns - from_ns >= MIN_LONG_NS);
        (silent.len() >= MIN_TIMES || is_long).then_some(silent)
    };
    let (slow, times) = peer
        .connections
        .iter()
        .filter_map(|one| Some((one, found(one)?)))
        .max_by_key(|(_, times)| times.iter().map(|(from_ns, until_ns)| until_ns - from_ns).sum::<u64>())?;
    let mut lasted: Vec<f64> = times.iter().map(|(from_ns, until_ns)| (until_ns - from_ns) as f64).collect();
    lasted.sort_by(f64::total_cmp);
    let judged = Judged {
        share: None,
        saved: Some(RangeNs { low: *lasted.first()?, high: *lasted.last()? }),
        evidence: vec![Fact::word(evidence::CLIENT, slow.observed.client.to_string())],
        worst: slow.longest(),
    };
    Some(
        judged
            .with(evidence::AFFECTED, Some(times.len() as f64))
            .with(evidence::CONNECTIONS, Some(peer.connections.len() as f64))
            .with(evidence::WAIT_NS, super::super::peer::quantile(lasted, 0.5)),
    )
}

/// The times in which the server waited for room in the window of a client: what it sent next did not fit before.
fn full(connection: &Connection) -> Vec<(u64, u64)> {
    let (mut times, mut edge, mut edge_before) = (Vec::new(), None, None);
    let mut last_ns = 0;
    for packet in connection.packets().iter().filter(|packet| !packet.syn) {
        if packet.from == End::Client {
            let admitted = packet.ack_byte.zip(packet.window_bytes).map(|(ack, window)| ack.saturating_add(window));
            edge = edge.max(admitted);
        } else if packet.end_byte > packet.first_byte {
            let waited = packet.at_ns.saturating_sub(last_ns) >= MIN_FULL_NS;
            if waited && edge_before.is_some_and(|edge| packet.end_byte > edge) {
                times.push((last_ns, packet.at_ns));
            }
            (last_ns, edge_before) = (packet.at_ns, edge);
        }
    }
    times
}

/// Returns when the server last sent something to another client before this time.
fn silent_since_ns(peer: &Peer, slow: &Connection, ns: u64) -> u64 {
    let others = peer.connections.iter().filter(|one| !std::ptr::eq(*one, slow)).take(MAX_COMPARED);
    let last = |other: &Connection| {
        let before = &other.packets()[..other.packets().partition_point(|packet| packet.at_ns <= ns)];
        let mut sent = before.iter().rev().filter(|one| one.from == End::Server && one.end_byte > one.first_byte);
        sent.next().map(|packet| packet.at_ns)
    };
    others.filter_map(last).max().unwrap_or(ns).min(ns)
}

/// Whether the server sent nothing to its other clients in this time, but did before, and soon after if it must have `resumed`.
fn are_silent(peer: &Peer, slow: &Connection, (from_ns, until_ns): (u64, u64), resumed: bool) -> bool {
    let others = peer.connections.iter().filter(|one| !std::ptr::eq(*one, slow)).take(MAX_COMPARED);
    let sends = |connection: &Connection, from_ns: u64, until_ns: u64| {
        connection.sent_within(End::Server, from_ns, until_ns).next().is_some()
    };
    let length_ns = until_ns - from_ns;
    let (mut active, mut silent) = (0, 0);
    for other in others {
        let before = sends(other, from_ns.saturating_sub(length_ns), from_ns);
        let after = sends(other, until_ns, until_ns.saturating_add(MAX_RESUME_NS));
        if before || after {
            active += 1;
            // The send buffer takes some data after the window has filled, and until then the others are served.
            let resumes = after || !resumed;
            silent += usize::from(resumes && !sends(other, until_ns - length_ns / 2, until_ns - 1));
        }
    }
    active > 0 && f64::from(u32::try_from(silent).unwrap_or(u32::MAX)) >= MIN_SILENT_SHARE * f64::from(active)
}
