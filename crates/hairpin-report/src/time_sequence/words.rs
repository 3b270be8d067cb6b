//! The texts of a time sequence.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::time_sequence::{Event, EventKind, Source};
use hairpin_model::trace::End;
use hairpin_model::{Capture, CaseSummary, TimeSequence, Wait, quantities};

use super::lines::{Events, SequenceGap};
use super::waited_ns;
use crate::exchange_states;

/// Time after which the kernel sends corked data (tcp(7)).
const CORK_CEILING_NS: i64 = 200_000_000;

/// The unit and the number of decimals for all times of a sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) unit: quantities::TimeUnit,
    decimals: usize,
}

impl Clock {
    pub(crate) fn of(sequence: &TimeSequence) -> Self {
        let unit = quantities::time_unit(sequence.duration_ns as f64);
        let decimals = match unit.ns {
            size if size < 1e3 => 0,
            size if size < 1e6 => 1,
            size if size < 1e9 => 3,
            _ => 6,
        };
        Self { unit, decimals }
    }

    /// Adapts the unit for a page: `µs` instead of `us`.
    pub(crate) fn on_page(self) -> Self {
        let name = if self.unit.name == "us" { "µs" } else { self.unit.name };
        Self { unit: quantities::TimeUnit { name, ..self.unit }, ..self }
    }

    /// Formats a time as `43.961`.
    pub(crate) fn time(&self, ns: i64) -> String {
        let shown = format!("{:.*}", self.decimals, ns as f64 / self.unit.ns);
        if shown.trim_matches(['-', '0', '.']).is_empty() { shown.replace('-', "") } else { shown }
    }
}

fn duration(ns: i64) -> String {
    quantities::duration(ns as f64)
}

/// Describes events: `write 0..2`, `99 writes of 2 B, 2..200, until 0.082`, `ACK 2`.
pub(crate) fn events(events: &Events, clock: &Clock) -> String {
    let (first, last) = (events.first_byte, events.end_byte);
    let one = match events.kind {
        EventKind::Syn => "SYN".to_owned(),
        EventKind::SynAck => "SYN-ACK".to_owned(),
        EventKind::Fin => "FIN".to_owned(),
        EventKind::Reset => "RST".to_owned(),
        EventKind::Cork => "TCP_CORK on".to_owned(),
        EventKind::Uncork => "TCP_CORK off".to_owned(),
        EventKind::Quickack => "TCP_QUICKACK on".to_owned(),
        // Before the first write, an ACK acknowledges no bytes.
        EventKind::PureAck if events.at_ns < 0 => "ACK".to_owned(),
        EventKind::PureAck => pure_ack(last),
        EventKind::Segment => format!("segment {first}..{last}"),
        EventKind::Write => format!("write {first}..{last}"),
        EventKind::Read => format!("read {first}..{last}"),
    };
    if events.times == 1 {
        return one;
    }
    let (times, until) = (quantities::count(events.times as u64), clock.time(events.until_ns));
    let each = match events.each_bytes {
        Some(each) if each > 0 => format!(" of {each} B"),
        _ => String::new(),
    };
    let name = match events.kind {
        EventKind::Write => "writes",
        EventKind::Read => "reads",
        EventKind::Segment => "segments",
        EventKind::PureAck => return format!("{times} pure ACKs, the last ACK {last}, until {until}"),
        _ => return format!("{times} times {one}, until {until}"),
    };
    format!("{times} {name}{each}, {first}..{last}, until {until}")
}

/// Describes the cause and the length of a wait. The next arrow in the drawing shows what ended the wait.
pub(crate) fn wait(wait: &Wait, sequence: &TimeSequence) -> String {
    let waited = duration(waited_ns(wait));
    match wait.cause {
        ExchangeState::Nagle => {
            let awaited = releasing_ack(wait, sequence).map_or_else(
                || "for the ACK of earlier data".to_owned(),
                // Keep `ACK` and its number on one line.
                |last| format!("for {}", pure_ack(last).replace(' ', "\u{a0}")),
            );
            format!("held {waited} by Nagle's algorithm: waits {awaited}")
        }
        ExchangeState::Cork if waited_ns(wait) >= CORK_CEILING_NS => {
            format!("corked {waited}: the kernel sends after 200 ms")
        }
        ExchangeState::Cork => format!("corked {waited}"),
        ExchangeState::Autocork => {
            format!("held {waited} by autocorking: an earlier packet is in the device queue")
        }
        ExchangeState::DelayedAck => format!("ACK delayed {waited}"),
        ExchangeState::ServerProgram => format!("the program held the request {waited} after reading it"),
        ExchangeState::Unexplained => format!("held {waited}, cause unknown"),
        other => format!("{} {waited}", exchange_states::name(other)),
    }
}

/// Returns the number of the ACK that ended the wait. `None` if no ACK was recorded, or if a segment carried the ACK,
/// because the arrow of a segment does not show it.
fn releasing_ack(wait: &Wait, sequence: &TimeSequence) -> Option<i64> {
    let during = wait.from_ns.max(0)..=wait.until_ns;
    let carries = |event: &&Event| {
        matches!(event.kind, EventKind::PureAck | EventKind::Segment)
            && event.end != wait.end
            && during.contains(&event.at_ns)
    };
    let last = sequence.events.iter().filter(carries).max_by_key(|event| event.at_ns)?;
    (last.kind == EventKind::PureAck).then_some(last.end_byte)
}

fn pure_ack(last: i64) -> String {
    format!("ACK {last}")
}

/// Describes what a gap omits: `exchanges 1 to 11 are not drawn (482 ms)`.
pub(crate) fn left_out(gap: &SequenceGap) -> Option<String> {
    let took = duration(gap.until_ns.saturating_sub(gap.from_ns));
    match gap.before_exchange? {
        2 => Some(format!("exchange 1 is not drawn ({took})")),
        exchange => Some(format!("exchanges 1 to {} are not drawn ({took})", exchange - 1)),
    }
}

/// Returns `Exchange 12 of a traced connection, 44.0 ms: evidence, in no figure of the tables.`
pub(crate) fn about(sequence: &TimeSequence) -> String {
    format!(
        "Exchange {} of a traced connection, {}: evidence, in no figure of the tables.",
        quantities::count(sequence.exchange),
        duration(sequence.duration_ns)
    )
}

pub(crate) fn how_to_read(sequence: &TimeSequence, clock: &Clock) -> String {
    // Ignore the handshake, which is before the first write, because its byte numbers are not shown.
    let negative = |event: &Event| event.at_ns >= 0 && (event.first_byte < 0 || event.end_byte < 0);
    let earlier =
        if sequence.events.iter().any(negative) { " Bytes below 0 belong to earlier exchanges." } else { "" };
    format!(
        "Times in {} since its first write, not to scale; + marks the time between two lines. 0..2: bytes 0 and 1 \
         of that direction; ACK 2: all bytes before 2 have arrived.{earlier}",
        clock.unit.name
    )
}

/// Says whose clock the times are from if the ends were on two hosts.
const OF_CLIENT_ALONE: &str = " All times are from the client's clock: a packet of the server is shown when it arrived at \
                               the client. Times at the server are unknown, as the offset between the clocks of the two \
                               hosts is unknown.";

/// Describes the source of the events, the clock error, and the capture file or why there is none.
pub(crate) fn drawn_from(row: &CaseSummary, sequence: &TimeSequence) -> String {
    let error = duration(i64::try_from(sequence.clock_error_ns).unwrap_or(i64::MAX));
    let off = format!("; their times may be off by {error} against the calls.");
    let from = match (sequence.source, has_stamps(sequence)) {
        (Source::Capture, _) => format!("Drawn from the packets that were captured on the interface{off}"),
        (Source::KernelTimestamps, [true, true]) => {
            format!("Drawn from the kernel's time stamps of both ends{off}")
        }
        (Source::KernelTimestamps, [false, false]) => {
            "Drawn from the calls of both ends only: the kernel gave no time stamps, so segments and ACKs are \
             missing."
                .to_owned()
        }
        (Source::KernelTimestamps, [client, _]) => {
            let (with, without) = if client { (End::Client, End::Server) } else { (End::Server, End::Client) };
            format!(
                "Drawn from the kernel's time stamps of the {with} only, so segments of the {without} are missing{off}"
            )
        }
    };
    let clock = if sequence.of_client_alone { OF_CLIENT_ALONE } else { "" };
    format!("{from}{clock}{}", capture(row))
}

/// Whether the sequence has kernel time stamps of the client's data and of the server's data. A sender gets time
/// stamps of its own segments and of the ACKs for them.
fn has_stamps(sequence: &TimeSequence) -> [bool; 2] {
    [End::Client, End::Server].map(|sender| {
        sequence.events.iter().any(|event| match event.kind {
            EventKind::Segment => event.end == sender,
            EventKind::PureAck => event.end != sender,
            _ => false,
        })
    })
}

/// Names the capture file or why there is none, after a space; empty if the case has no trace.
fn capture(row: &CaseSummary) -> String {
    match row.trace.as_ref().map(|trace| &trace.capture) {
        Some(Capture::Saved { file, packets, .. }) if file.is_empty() => {
            format!(" Its capture of {} was not saved.", quantities::counted(*packets, "packet"))
        }
        Some(Capture::Saved { file, packets, dropped }) => {
            let lost =
                if *dropped > 0 { format!(", {} dropped", quantities::count(*dropped)) } else { String::new() };
            format!(" Capture: {file} ({}{lost}).", quantities::counted(*packets, "packet"))
        }
        Some(Capture::Skipped { reason }) => format!(" No capture: {}.", reason.trim_end_matches('.')),
        None => String::new(),
    }
}
