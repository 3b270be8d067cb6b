//! The table of the cases that a choice was made from.

use hairpin_model::quantities::{DASH, duration, factor, share};
use hairpin_model::{Choice, JudgedCase, Needs, Run};

use super::page::{DIM, LEAD, PLAIN, Page};
use super::tables::{GAP, link};
use crate::words::{short_name, unmet};

/// Shows the table; false if the run made no choice.
pub(super) fn table(page: &mut Page, run: &Run) -> bool {
    let Some((needs, choice)) = run.plan.needs.as_ref().zip(run.answer.choice.as_ref()) else { return false };
    link(page, run);
    page.heading("Cases", "best first; CPU: of both ends, per message");
    let title = [String::new(), choice.ranked_by.to_string(), "arrived".into(), "CPU".into(), "verdict".into()];
    let rows: Vec<[String; 5]> = choice.cases.iter().filter_map(|case| row(run, needs, choice, case)).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&title]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; 4] = std::array::from_fn(width);
    for (place, [name, figures @ .., verdict]) in [&title].into_iter().chain(&rows).enumerate() {
        let cells =
            figures.iter().zip(&widths[1..]).map(|(text, width)| format!("{text:>width$}", width = GAP + width));
        let name_width = widths[0];
        let style = match place {
            0 => DIM,
            1 if choice.transport.is_some() => LEAD,
            _ => PLAIN,
        };
        page.line(style, &format!("{name:name_width$}{}{:GAP$}{verdict}", cells.collect::<String>(), ""));
    }
    true
}

fn row(run: &Run, needs: &Needs, choice: &Choice, case: &JudgedCase) -> Option<[String; 5]> {
    let time = |ns: Option<f64>| ns.map_or_else(|| DASH.to_owned(), duration);
    let arrived = case.delivered_share.map_or_else(|| DASH.to_owned(), share);
    let name = short_name(run.case(&case.case)?);
    Some([name, time(case.latency_ns), arrived, time(case.cost.total_ns()), verdict(needs, choice, case)])
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
    let lowest = choice.best().iter().filter_map(|case| case.latency_ns).fold(f64::INFINITY, f64::min);
    case.latency_ns.map_or_else(String::new, |latency_ns| factor(latency_ns / lowest))
}
