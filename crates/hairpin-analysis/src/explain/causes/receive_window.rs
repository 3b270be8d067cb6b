//! The window of the receiver is full.

use hairpin_model::Cause;
use hairpin_model::exchange_state::{ExchangeState, StateSpan};
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;

use super::super::connection::{Connection, Exchange};
use super::super::peer::Peer;
use super::super::rule::{Judged, MIN_SHARE, Rule};

/// Its program does not read.
pub(super) const SLOW_READER: Rule =
    Rule { code: Cause::SlowReader, judge: judge_reader, explains: &[Cause::ReceiveWindow, Cause::OwnSendQueue] };

/// Its program reads, but its buffer is small.
pub(super) const RECEIVE_WINDOW: Rule =
    Rule { code: Cause::ReceiveWindow, judge: judge_buffer, explains: &[Cause::CongestionWindow] };

/// A program that reads at once opens a full window after a round trip. One that takes longer by more than this, in ns, does
/// not read meanwhile.
const MAX_READ_NS: u64 = 5_000_000;

/// The first window of Linux (net/ipv4/tcp_output.c, `tcp_select_initial_window`).
const FIRST_WINDOW_BYTES: u64 = 65_535;

/// A reader that is a little slower than its sender always fills its window for some time.
const MIN_READER_SHARE: f64 = 0.35;

/// A window that grows by this factor is no fixed buffer: Linux raises it while a program reads.
const GROWING: u64 = 2;
/// A window that grows limits only the beginning of a connection, so it is named from this share.
const MIN_SHARE_IF_GROWING: f64 = 0.5;

/// Shorter waits are named only on long paths, in ns.
const MIN_WAIT_NS: f64 = 5e6;

const WINDOWS: [ExchangeState; 3] =
    [ExchangeState::ReceiveWindow, ExchangeState::WindowOrReader, ExchangeState::SlowReader];

fn judge_reader(peer: &Peer) -> Option<Judged<'_>> {
    judge_windows(peer, true).filter(|judged| judged.share.is_some_and(|share| share >= MIN_READER_SHARE))
}

fn judge_buffer(peer: &Peer) -> Option<Judged<'_>> {
    let judged = judge_windows(peer, false)?;
    let is_enough = judged.share.is_some_and(|share| share >= MIN_SHARE_IF_GROWING);
    let grows = judged.worst.is_some_and(|(connection, _)| grows(connection));
    // On a short path a full window opens at once.
    let is_long = peer.is_path_long();
    let waits = judged.saved.is_some_and(|saved| saved.high >= MIN_WAIT_NS);
    ((is_enough || !grows) && (is_long || waits)).then_some(judged)
}

fn grows(connection: &Connection) -> bool {
    [End::Client, End::Server].into_iter().any(|from| {
        let of_end = connection.packets().iter().filter(|packet| packet.from == from && !packet.syn);
        let windows: Vec<u64> = of_end.filter_map(|packet| packet.window_bytes).collect();
        let largest = windows.iter().max().copied().unwrap_or(0);
        windows.first().is_some_and(|first| largest >= first.saturating_mul(GROWING))
    })
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
fn judge_windows(peer: &Peer, by_reader: bool) -> Option<Judged<'_>> {
    let round_trip_ns = peer.round_trip_ns().unwrap_or(0);
    let spent_ns = |_: &Connection, exchange: &Exchange| {
        let spans = exchange.spans_in(&WINDOWS).filter(|span| is_unread(span, round_trip_ns) == by_reader);
        let spans = spans.filter(|span| span.state != ExchangeState::SlowReader || is_window_used(exchange, span));
        spans.map(|span| span.until_ns - span.from_ns).sum()
    };
    let judged = Judged::of(&peer.waits(spent_ns), MIN_SHARE)?;
    let (connection, exchange) = judged.worst?;
    // Who must act for a window is its receiver.
    let at = exchange.actor_in(&WINDOWS).and_then(|who| who.end()).unwrap_or(End::Client);
    let windows = connection.packets().iter().filter(|packet| packet.from == at && !packet.syn);
    let largest = windows.filter_map(|packet| packet.window_bytes).max();
    Some(
        judged
            .with_end(Some(at))
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
