//! The window of the receiver is full because its program does not read.

use hairpin_model::exchange_state::{ExchangeState, StateSpan};
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;
use hairpin_model::{Cause, Fact};

use super::super::connection::{Connection, Exchange};
use super::super::peer::Peer;
use super::super::rule::{Judged, MIN_SHARE, Rule};

pub(super) const RULE: Rule =
    Rule { code: Cause::SlowReader, judge, explains: &[Cause::ReceiveWindow, Cause::OwnSendQueue] };

/// A program that reads at once opens a full window after a round trip. One that takes longer by more than this, in ns, does
/// not read meanwhile.
const MAX_READ_NS: u64 = 5_000_000;

/// The first window of Linux (net/ipv4/tcp_output.c, `tcp_select_initial_window`).
const FIRST_WINDOW_BYTES: u64 = 65_535;

/// A reader that is a little slower than its sender always fills its window for some time.
const MIN_READER_SHARE: f64 = 0.35;

const WINDOWS: [ExchangeState; 3] =
    [ExchangeState::ReceiveWindow, ExchangeState::WindowOrReader, ExchangeState::SlowReader];

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    judge_windows(peer, true).filter(|judged| judged.share.is_some_and(|share| share >= MIN_READER_SHARE))
}

/// Whether the program did not read during this span. Samples tell; packets tell by the length of the span.
fn is_unread(span: &StateSpan, round_trip_ns: u64) -> bool {
    let longest_ns = round_trip_ns.saturating_mul(3) / 2 + MAX_READ_NS;
    match span.state {
        ExchangeState::SlowReader => true,
        ExchangeState::WindowOrReader => span.until_ns - span.from_ns > longest_ns,
        _ => false,
    }
}

/// Judges the time in which the receiver's window was full. `by_reader` asks for windows that its program kept full.
pub(super) fn judge_windows(peer: &Peer, by_reader: bool) -> Option<Judged<'_>> {
    let round_trip_ns = peer.round_trip_ns().unwrap_or(0);
    let spent_ns = |_: &Connection, exchange: &Exchange| {
        let spans = exchange.spans_in(&WINDOWS).filter(|span| is_unread(span, round_trip_ns) == by_reader);
        let spans = spans.filter(|span| span.state != ExchangeState::SlowReader || is_window_used(exchange, span));
        spans.map(|span| span.until_ns - span.from_ns).sum()
    };
    let mut judged = Judged::of(&peer.waits(spent_ns), MIN_SHARE)?;
    let (connection, exchange) = judged.worst?;
    // Who must act for a window is its receiver.
    let at = exchange.actor_in(&WINDOWS).and_then(|who| who.end()).unwrap_or(End::Client);
    let windows = connection.packets().iter().filter(|packet| packet.from == at && !packet.syn);
    let largest = windows.filter_map(|packet| packet.window_bytes).max();
    judged.evidence.push(Fact::word(evidence::END, at.word()));
    Some(
        judged
            .with(evidence::WINDOW_BYTES, largest.map(|bytes| bytes as f64))
            .with(evidence::ROUND_TRIP_NS, Some(round_trip_ns as f64)),
    )
}

/// Whether the exchange has more bytes for the reader than the window of a new connection: fewer bytes wait because the
/// program does something else, not because it reads slowly.
pub(super) fn is_window_used(exchange: &Exchange, span: &StateSpan) -> bool {
    let Some(at) = span.who.end() else { return false };
    let bytes = if at == End::Client { exchange.reply_bytes() } else { exchange.request_bytes() };
    bytes > FIRST_WINDOW_BYTES
}
