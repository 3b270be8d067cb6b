//! The server waits for one client whose window is full, and serves no other meanwhile.

use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;
use hairpin_model::{Cause, Fact, RangeNs};

use super::super::connection::Connection;
use super::super::peer::Peer;
use super::{Judged, Rule};

pub(super) const RULE: Rule = Rule {
    code: Cause::BlockedInSend,
    judge,
    explains: &[Cause::SlowReader, Cause::ServerStalled, Cause::ServerWork, Cause::ClientIdle, Cause::ReceiveWindow],
};

/// A window is full for longer than any round trip of a machine.
const MIN_FULL_NS: u64 = 50_000_000;
/// The server sends to others within this time after the window has opened.
const MAX_RESUME_NS: u64 = 20_000_000;
/// At least this share of the other connections, and two of the times, must be silent meanwhile.
const MIN_SILENT_SHARE: f64 = 0.8;
const MIN_TIMES: usize = 2;

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    if peer.connections.len() < 2 {
        return None;
    }
    let found = |slow: &Connection| {
        let silent: Vec<(u64, u64)> = full(slow).into_iter().filter(|time| are_silent(peer, slow, *time)).collect();
        (silent.len() >= MIN_TIMES).then_some(silent)
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
        worst: slow.exchanges.iter().max_by_key(|exchange| exchange.duration_ns()).map(|exchange| (slow, exchange)),
    };
    Some(
        judged
            .with(evidence::AFFECTED, Some(times.len() as f64))
            .with(evidence::CONNECTIONS, Some(peer.connections.len() as f64))
            .with(evidence::WAIT_NS, super::super::peer::quantile(lasted, 0.5)),
    )
}

/// The times in which the client of a connection had no window for a full segment.
fn full(connection: &Connection) -> Vec<(u64, u64)> {
    let (mut times, mut since_ns, mut sent) = (Vec::new(), None, false);
    for packet in connection.packets() {
        if packet.from == End::Server {
            sent |= packet.end_byte > packet.first_byte;
            continue;
        }
        let Some(window_bytes) = packet.window_bytes.filter(|_| sent && !packet.syn) else { continue };
        let is_full = window_bytes < connection.mss_bytes().min(1_460);
        match since_ns {
            None if is_full => since_ns = Some(packet.at_ns),
            Some(from_ns) if !is_full => {
                times.push((from_ns, packet.at_ns));
                since_ns = None;
            }
            _ => {}
        }
    }
    times.retain(|(from_ns, until_ns)| until_ns - from_ns >= MIN_FULL_NS);
    times
}

/// Whether the server sent nothing to its other clients in this time, but did before and soon after.
fn are_silent(peer: &Peer, slow: &Connection, (from_ns, until_ns): (u64, u64)) -> bool {
    let others = peer.connections.iter().filter(|one| !std::ptr::eq(*one, slow));
    let sends = |connection: &Connection, from_ns: u64, until_ns: u64| {
        connection.sent_within(End::Server, from_ns, until_ns).next().is_some()
    };
    let length_ns = until_ns - from_ns;
    let (mut active, mut silent) = (0, 0);
    for other in others {
        let before = sends(other, from_ns.saturating_sub(length_ns), from_ns);
        let after = sends(other, until_ns, until_ns + MAX_RESUME_NS);
        if before || after {
            active += 1;
            // What was on its way when the window filled is no service.
            silent += usize::from(after && !sends(other, from_ns + length_ns / 4, until_ns - 1));
        }
    }
    active > 0 && f64::from(u32::try_from(silent).unwrap_or(u32::MAX)) >= MIN_SILENT_SHARE * f64::from(active)
}
