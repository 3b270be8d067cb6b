//! The time sequences of a page: a chart and a table of events for each traced case.

use minijinja::{Value, context};

use hairpin_model::{CaseSummary, Run, TimeSequence};

use crate::charts::{exchange_bar, time_sequence as chart};
use crate::page_text::nbsp;
use crate::time_sequence::words::{self, Clock};
use crate::time_sequence::{lines, traced};

/// Maximum events in a table, so that the page stays small. Later events are omitted.
const MAX_EVENTS: usize = 150;
/// Maximum cases drawn. Cases with shorter waits are omitted.
const MAX_CASES: usize = 24;

/// Returns the traced cases, sorted by [`traced`], and the number of omitted cases.
pub(super) fn of(run: &Run) -> (Vec<Value>, usize) {
    let traced = traced(run);
    let left_out = traced.len().saturating_sub(MAX_CASES);
    (traced.into_iter().take(MAX_CASES).map(|(row, sequence)| sequence_value(row, sequence)).collect(), left_out)
}

fn sequence_value(row: &CaseSummary, sequence: &TimeSequence) -> Value {
    let clock = Clock::of(sequence).on_page();
    let lines = lines::of(sequence);
    context! {
        label => row.label.clone(),
        about => nbsp(&words::about(sequence)),
        how_to_read => words::how_to_read(sequence, &clock),
        drawn_from => nbsp(&words::drawn_from(row, sequence)),
        bar_html => exchange_bar::chart(row, sequence),
        chart_html => chart::chart(&row.label, sequence),
        unit => clock.unit.name,
        events => events(sequence, &clock),
        events_left_out => sequence.events.len().saturating_sub(MAX_EVENTS),
        waits_left_out => lines.waits_left_out,
    }
}

fn events(sequence: &TimeSequence, clock: &Clock) -> Vec<[String; 4]> {
    let row = |event: &hairpin_model::time_sequence::Event| {
        let until = event.until_ns.map(|ns| clock.time(ns)).unwrap_or_default();
        let what = words::events(&lines::single(event), clock);
        [clock.time(event.at_ns), until, event.end.to_string(), what]
    };
    sequence.events.iter().take(MAX_EVENTS).map(row).collect()
}
