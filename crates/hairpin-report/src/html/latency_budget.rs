//! The latency budgets on the page.

use minijinja::{Value, context};

use hairpin_model::quantities::{DASH, count, duration};
use hairpin_model::{CaseSummary, LatencyBudget, Run};

use crate::charts::latency_budget;
use crate::latency_budget::{beside, budgets, cells, labels, notes, parts, typical};
use crate::page_text::nbsp;

pub(super) fn of(run: &Run) -> Vec<Value> {
    budgets(run).into_iter().map(view).collect()
}

fn view((row, budget): (&CaseSummary, &LatencyBudget)) -> Value {
    let of_path = labels(budget, parts).into_iter().map(|name| (cells(budget, &name, parts), name));
    let of_calls = labels(budget, beside).into_iter().map(|name| (cells(budget, &name, beside), format!("({name})")));
    let whole = budget.bands.iter().map(|band| band.round_trip_ns.map_or_else(|| DASH.to_owned(), duration));
    let samples = budget.bands.iter().map(|band| count(band.samples));
    let sums = [(whole.collect(), "round trip".to_owned()), (samples.collect(), "samples".to_owned())];
    let rows = of_path.chain(sums).chain(of_calls);
    let line = |(cells, name): (Vec<String>, String)| {
        context! { name, cells => cells.iter().map(|cell| nbsp(cell)).collect::<Value>() }
    };
    context! {
        label => &row.label,
        waterfall_html => latency_budget::waterfall(budget),
        bands_html => latency_budget::bands(budget),
        titles => budget.bands.iter().map(|band| band.band.word()).collect::<Value>(),
        rows => rows.map(line).collect::<Value>(),
        notes => notes(budget).iter().map(|note| nbsp(note)).collect::<Value>(),
        typical => typical(budget).into_iter().map(|cells| cells.map(|cell| nbsp(&cell))).collect::<Value>(),
    }
}
