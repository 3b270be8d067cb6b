//! An explanation as text: the answer first, then its evidence, on one screen.

use hairpin_model::quantities::{duration, share};
use hairpin_model::{ExplainedConnection, Explanation, TimeInState};

use super::look::Look;
use super::page::{CODE, DIM, GOOD, LEAD, PLAIN, Page, WARN};
use super::time_sequence::draw_exchange;
use crate::exchange_states::placed;
use crate::explanation::{answer, cost, figures, head, told, unions};

/// Maximum number of causes after the first, of connections, and of states of a connection, without `--all`.
const MAX_CAUSES: usize = 4;
const MAX_CONNECTIONS: usize = 5;
const MAX_STATES: usize = 4;
const MIN_SHARE: f64 = 0.01;

/// Renders an explanation. `is_all` asks for all causes, connections and states.
pub fn render_explanation(explanation: &Explanation, is_all: bool, look: &Look) -> String {
    let mut page = Page::new(*look);
    let limit = |number: usize| if is_all { usize::MAX } else { number };
    match answer(explanation) {
        Ok((first, others)) => {
            page.paragraph(0, LEAD, &format!("{}.", first.text.sentence));
            page.item("Fix       ", GOOD, &format!("{}.", first.text.fix));
            page.item("Cause     ", CODE, &cost(first));
            let others = others.iter().take(limit(MAX_CAUSES));
            page.section("Also", "", others.map(|cause| (PLAIN, format!("{}: {}", cause.code, told(cause)))));
            let is_there = |end: &str| end == first.place || end.ends_with(&format!("({})", first.place));
            let of_first = explanation.connections.iter().find(|one| one.worst.is_some() && is_there(&one.ends[1]));
            if let Some(sequence) = of_first.and_then(|connection| connection.worst.as_ref()) {
                page.heading("Its longest exchange", &duration(sequence.duration_ns as f64));
                draw_exchange(&mut page, sequence);
            }
        }
        Err(nothing) => page.paragraph(0, LEAD, nothing),
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

fn show(page: &mut Page, connection: &ExplainedConnection, max_states: usize) {
    page.item("  ", PLAIN, &head(connection));
    page.item("    ", DIM, &figures(connection));
    let states = connection.states.iter().filter(|time| time.share >= MIN_SHARE).take(max_states);
    let part = |time: &TimeInState| {
        format!("{} {} ({})", placed(time.state, time.who), share(time.share), duration(time.ns))
    };
    let parts: Vec<String> = states.map(part).collect();
    if !parts.is_empty() {
        page.item("    time: ", PLAIN, &parts.join(", "));
    }
    for text in unions(connection) {
        page.item("    ", WARN, &text);
    }
}
