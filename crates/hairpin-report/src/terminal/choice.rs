//! The table of the cases that a choice was made from.

use hairpin_model::quantities::{DASH, duration, factor, share};
use hairpin_model::{Choice, JudgedCase, Needs, Run};

use super::page::{LEAD, PLAIN, Page};
use super::tables::{Block, link};
use crate::words::{short_name, unmet};

/// Shows the table; false if the run made no choice.
pub(super) fn table(page: &mut Page, run: &Run) -> bool {
    let Some((needs, choice)) = run.plan.needs.as_ref().zip(run.answer.choice.as_ref()) else { return false };
    link(page, run);
    page.heading("Cases", "best first; CPU: of both ends, per message");
    let titles = [choice.ranked_by.to_string(), "arrived".into(), "CPU".into(), "verdict".into()];
    let mut block = Block::new(titles.into_iter()).with_words_last();
    for case in &choice.cases {
        let Some(row) = run.case(&case.case) else { continue };
        let is_chosen = choice.chosen().is_some_and(|chosen| chosen.case == case.case);
        let style = if is_chosen { LEAD } else { PLAIN };
        block.row(style, &[short_name(row)], cells(needs, choice, case).into_iter());
    }
    block.show(page);
    true
}

fn cells(needs: &Needs, choice: &Choice, case: &JudgedCase) -> [String; 4] {
    let time = |ns: Option<f64>| ns.map_or_else(|| DASH.to_owned(), duration);
    let arrived = case.delivered_share.map_or_else(|| DASH.to_owned(), share);
    [time(case.latency_ns), arrived, time(case.cost.total_ns()), verdict(needs, choice, case)]
}

fn verdict(needs: &Needs, choice: &Choice, case: &JudgedCase) -> String {
    if !case.unmet.is_empty() {
        let unmet: Vec<String> = case.unmet.iter().map(|need| unmet(*need, needs, choice, case)).collect();
        return unmet.join(", ");
    }
    if choice.chosen().is_some_and(|chosen| chosen.case == case.case) {
        return "chosen".to_owned();
    }
    if choice.alike.contains(&case.case) {
        return "similar latency".to_owned();
    }
    if choice.not_separated.contains(&case.case) {
        return "not separated".to_owned();
    }
    let lowest = choice.best().iter().filter_map(|case| case.latency_ns).fold(f64::INFINITY, f64::min);
    case.latency_ns.map_or_else(String::new, |latency_ns| factor(latency_ns / lowest))
}
