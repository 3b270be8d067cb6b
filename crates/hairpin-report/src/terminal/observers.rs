//! The table of observers: a row each, and for each transport the change of the rate and of the time per message.

use hairpin_model::names::{distinct, grouped};
use hairpin_model::quantities::{DASH, change, duration};
use hairpin_model::{CaseSummary, ObserverCost, Run};

use super::page::{DIM, PLAIN, Page};
use super::tables::Block;

/// Width of the columns of one transport.
const TRANSPORT_WIDTH: usize = 31;
const NAME_WIDTH: usize = 22;

/// Shows the table. Returns whether the run has observers with a known cost.
pub(super) fn table(page: &mut Page, run: &Run) -> bool {
    let costs = run.cases.iter().filter_map(|row| Some((row, row.one_way()?.observer.first()?)));
    let costs: Vec<(&CaseSummary, &ObserverCost)> = costs.filter(|(row, _)| row.valid).collect();
    if costs.is_empty() {
        return false;
    }
    page.heading("Observers", "against the same program without one (none)");
    page.paragraph(
        0,
        DIM,
        "rate: change of messages/s, with its 95 % interval; each: change of the time per message",
    );
    let transport = |(row, _): &(&CaseSummary, &ObserverCost)| row.case.marked_transport();
    let all = distinct(costs.iter().map(transport));
    let at_once = (page.look.width.saturating_sub(NAME_WIDTH) / TRANSPORT_WIDTH).max(1);
    for some in all.chunks(at_once) {
        let titles = some.iter().flat_map(|transport| [transport.clone(), "95 %".to_owned(), "each".to_owned()]);
        let mut block = Block::new(titles);
        // What the cases differ in beside transport and observer.
        let ends = grouped(costs.iter().map(|cost| (circumstances(cost.0), cost)));
        for (words, costs) in ends {
            block.title(&words);
            for (observer, costs) in grouped(costs.into_iter().map(|cost| (cost.1.observer, cost))) {
                let of = |name: &String| costs.iter().find(|cost| transport(cost) == *name).map(|(_, cost)| **cost);
                let cells = some.iter().flat_map(|name| cells(of(name)));
                block.row(PLAIN, &[format!("  {observer}")], cells);
            }
        }
        block.show(page);
    }
    true
}

fn cells(cost: Option<ObserverCost>) -> [String; 3] {
    let Some(ObserverCost { rate_against_none: ratio, time_per_message_against_none: ns, .. }) = cost else {
        return [(); 3].map(|()| DASH.to_owned());
    };
    let percent = |ratio: f64| change(ratio).trim_end_matches(" %").to_owned();
    let interval = ratio.interval().map(|(low, high)| format!("{} .. {}", percent(low), percent(high)));
    [change(ratio.value), interval.unwrap_or_else(|| DASH.to_owned()), duration(ns.value)]
}

/// Returns what a case has beside its transport and its observer, in words.
fn circumstances(row: &CaseSummary) -> String {
    let observer = format!("observer {}", row.case.primary().load.observer());
    let mut words = row.case.without_replicate().details();
    words.retain(|word| *word != observer);
    format!("{}, {}", words.join(" "), row.case.ends.in_words())
}
