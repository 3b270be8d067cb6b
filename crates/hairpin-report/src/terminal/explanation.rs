//! An explanation as text: the answer first, then its evidence, on one screen.

use hairpin_model::quantities::{DASH, bytes, counted, duration, share};
use hairpin_model::{ExplainedCause, ExplainedConnection, Explanation, TimeInState};

use super::look::Look;
use super::page::{CODE, DIM, GOOD, LEAD, PLAIN, Page, WARN};
use super::time_sequence::draw_exchange;
use crate::exchange_states::placed;
use crate::explanation::saved;

/// Maximum number of causes after the first, of connections, and of states of a connection, without `--all`.
const MAX_CAUSES: usize = 4;
const MAX_CONNECTIONS: usize = 5;
const MAX_STATES: usize = 4;
const MIN_SHARE: f64 = 0.01;

/// Renders an explanation. `is_all` asks for all causes, connections and states.
pub fn render_explanation(explanation: &Explanation, is_all: bool, look: &Look) -> String {
    let mut page = Page::new(*look);
    let limit = |number: usize| if is_all { usize::MAX } else { number };
    match explanation.causes.split_first() {
        Some((first, others)) => {
            answer(&mut page, first);
            let others = others.iter().take(limit(MAX_CAUSES));
            page.section("Also", "", others.map(|cause| (PLAIN, format!("{}: {}", cause.code, told(cause)))));
            let of_first =
                explanation.connections.iter().find(|one| one.worst.is_some() && one.ends[1].contains(&first.place));
            if let Some(sequence) = of_first.and_then(|connection| connection.worst.as_ref()) {
                page.heading("The longest exchange of it", &duration(sequence.duration_ns as f64));
                draw_exchange(&mut page, sequence);
            }
        }
        None => page.paragraph(0, LEAD, &nothing(explanation)),
    }
    let shown = explanation.connections.iter().take(limit(MAX_CONNECTIONS));
    for (place, connection) in shown.enumerate() {
        if place == 0 {
            page.heading("Connections", "longest time first");
        }
        show(&mut page, connection, limit(MAX_STATES));
    }
    let left_out = explanation.connections.len().saturating_sub(limit(MAX_CONNECTIONS));
    if left_out > 0 {
        page.paragraph(2, DIM, &format!("{left_out} more: --all shows them"));
    }
    page.gap();
    for text in &explanation.seen {
        page.item("Seen      ", PLAIN, text);
    }
    for text in &explanation.not_seen {
        page.item("Not seen  ", DIM, text);
    }
    page.finish()
}

fn answer(page: &mut Page, cause: &ExplainedCause) {
    page.paragraph(0, LEAD, &format!("{}.", cause.text.sentence));
    page.item("Fix       ", GOOD, &format!("{}.", cause.text.fix));
    let of_time = cause.share.map(|part| format!("{} of the time of these exchanges", share(part)));
    let saves =
        cause.saved_if_fixed_ns.as_ref().map(|range| format!("an exchange with it would save {}", saved(range)));
    let evidence: Vec<String> = [of_time, saves].into_iter().flatten().collect();
    page.item("Cause     ", CODE, &format!("{}: {}", cause.code, evidence.join("; ")));
}

/// A sentence of a cause after the first, with its share.
fn told(cause: &ExplainedCause) -> String {
    let part = cause.share.map(|part| format!(" ({})", share(part))).unwrap_or_default();
    format!("{}{part}. Fix: {}.", cause.text.sentence, cause.text.fix)
}

fn nothing(explanation: &Explanation) -> String {
    if explanation.connections.is_empty() {
        return "No TCP connection was seen, so there is nothing to explain.".to_owned();
    }
    "No known cause takes a notable part of the time of the exchanges.".to_owned()
}

fn show(page: &mut Page, connection: &ExplainedConnection, max_states: usize) {
    let [client, server] = &connection.ends;
    let time = |ns: Option<u64>| ns.map_or_else(|| DASH.to_owned(), |ns| duration(ns as f64));
    let [sent, received] = connection.bytes.map(|count| bytes(count as f64));
    let number =
        if connection.connections > 1 { format!(" ({} connections)", connection.connections) } else { String::new() };
    let head = format!("{client} -> {server}{number}");
    page.item("  ", PLAIN, &head);
    let exchanges = format!(
        "{}, p50 {}, p99 {}; {sent} sent, {received} received; shortest round trip {}",
        counted(connection.exchanges, "exchange"),
        time(connection.p50_ns),
        time(connection.p99_ns),
        time(connection.min_round_trip_ns)
    );
    page.item("    ", DIM, &exchanges);
    let states = connection.states.iter().filter(|time| time.share >= MIN_SHARE).take(max_states);
    let part = |time: &TimeInState| {
        format!("{} {} ({})", placed(time.state, time.who), share(time.share), duration(time.ns))
    };
    let parts: Vec<String> = states.map(part).collect();
    if !parts.is_empty() {
        page.item("    time: ", PLAIN, &parts.join(", "));
    }
    for union in connection
        .unions
        .iter()
        .filter(|union| connection.states.iter().any(|time| time.state == union.name && time.share >= 0.1))
    {
        let of: Vec<&str> = union.of.iter().map(|state| state.word()).collect();
        let text = format!(
            "not separable here: {} is one of {}; to tell: {}",
            union.name,
            of.join(", "),
            union.separated_by.join(" or ")
        );
        page.item("    ", WARN, &text);
    }
}
