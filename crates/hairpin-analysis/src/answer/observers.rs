//! Answers what observers cost: two clock reads, the largest cost, and Hairpin's own recorder.

use hairpin_model::flow::Observer;
use hairpin_model::ladder::CaseKind;
use hairpin_model::names::{distinct, grouped};
use hairpin_model::{Answer, CaseSummary, ObserverCost, Run, Statement};

use super::one_way::{losses, usable};
use super::statements::{answer_from, ids};

pub(super) fn answer(run: &Run) -> Option<Answer> {
    let rows = usable(run, CaseKind::Messages);
    let observed = rows.iter().copied().filter_map(|row| Some((cost(row)?.observer, row)));
    let by_observer = grouped(observed);
    let ns = |row: &CaseSummary| cost(row).map_or(0.0, |cost| cost.time_per_message_against_none.value);
    let most = |rows: &[&CaseSummary]| rows.iter().map(|row| ns(row)).fold(f64::NEG_INFINITY, f64::max);
    let largest = by_observer.iter().max_by(|(_, one), (_, other)| most(one).total_cmp(&most(other)))?.0;
    let told = distinct([Observer::Clock, largest, Observer::Recorder]).into_iter();
    let costs = told.filter_map(|told| by_observer.iter().find(|(observer, _)| *observer == told));
    let costs = costs.map(|(_, rows)| Statement::ObserverCosts { cases: ids(rows.iter().copied()) });
    answer_from(costs.chain(losses(&rows)).collect())
}

fn cost(row: &CaseSummary) -> Option<&ObserverCost> {
    row.one_way()?.observer.first().filter(|cost| cost.observer != Observer::None)
}
