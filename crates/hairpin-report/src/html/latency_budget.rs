//! The latency budgets on the page.

use minijinja::{Value, context};

use hairpin_model::{CaseSummary, LatencyBudget, Run};

use crate::charts::latency_budget;
use crate::latency_budget::{budgets, notes, rows, typical};
use crate::page_text::nbsp;

pub(super) fn of(run: &Run) -> Vec<Value> {
    budgets(run).into_iter().map(view).collect()
}

fn view((row, budget): (&CaseSummary, &LatencyBudget)) -> Value {
    let each = |texts: &[String]| texts.iter().map(|text| nbsp(text)).collect::<Value>();
    let line = |(name, cells): (String, Vec<String>)| context! { name, cells => each(&cells) };
    context! {
        label => &row.label,
        waterfall_html => latency_budget::waterfall(budget),
        bands_html => latency_budget::bands(budget),
        titles => budget.bands.iter().map(|band| band.band.word()).collect::<Value>(),
        rows => rows(budget).into_iter().map(line).collect::<Value>(),
        notes => each(&notes(budget)),
        typical => typical(budget).iter().map(|cells| each(cells)).collect::<Value>(),
    }
}
