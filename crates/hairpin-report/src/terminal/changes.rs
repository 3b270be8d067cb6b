//! Two runs compared: what is unlike first, then the figures, then the budgets.

use hairpin_model::figure::Figure;
use hairpin_model::summary::Verdict;

use super::MICRO;
use super::page::{BAD, DIM, GOOD, LEAD, PLAIN, Page, WARN, clean};
use super::tables::Block;
use crate::comparison::{ComparisonReport, ComparisonRow};
use crate::quantities::{self, DASH};
use crate::wording;

pub(super) fn show(page: &mut Page, report: &ComparisonReport) {
    page.paragraph(0, LEAD, &answer(report));
    page.item("baseline   ", PLAIN, &report.baseline);
    page.item("candidate  ", PLAIN, &report.candidate);
    unlike(page, report);
    cautions(page, report);
    figures(page, report);
    budgets(page, report);
}

fn answer(report: &ComparisonReport) -> String {
    let of = |verdict| report.rows.iter().filter(|row| row.verdict == verdict).count();
    let (slower, faster, same) = (of(Verdict::Slower), of(Verdict::Faster), of(Verdict::CannotTell));
    let budgets = |kept: Option<bool>| report.budgets.iter().filter(|budget| budget.kept == kept).count() as u64;
    let (broken, untold) = (budgets(Some(false)), budgets(None));
    let compared = wording::counted(report.rows.len() as u64, "figure");
    let budget = match (report.budgets.len(), broken, untold) {
        (0, _, _) => String::new(),
        (_, 0, 0) => " Every budget was kept.".to_owned(),
        (_, 0, untold) => {
            format!(" No budget was broken; of {} it cannot be told.", wording::counted(untold, "budget"))
        }
        (_, broken, _) => format!(" {} NOT kept.", wording::counted(broken, "budget")),
    };
    if report.rows.is_empty() {
        return format!("The two runs have no figure in common.{budget}");
    }
    format!("{compared} compared: {slower} slower, {faster} faster, {same} cannot be told apart.{budget}")
}

fn unlike(page: &mut Page, report: &ComparisonReport) {
    if report.unlike.is_empty() && report.only_in.is_empty() {
        return;
    }
    page.heading("Unlike", "differences between the figures may come from these");
    for unlike in &report.unlike {
        page.item("  ", BAD, &format!("{}: {} against {}", unlike.what, unlike.baseline, unlike.candidate));
    }
    for (case, run) in &report.only_in {
        page.item("  ", DIM, &format!("{case}: only in {run}"));
    }
}

fn cautions(page: &mut Page, report: &ComparisonReport) {
    if report.cautions.is_empty() {
        return;
    }
    page.heading("Caution", "differences, and budgets that were not kept, may come from these");
    for caution in &report.cautions {
        page.item("  ", WARN, &format!("{}: {}: {}", caution.run, caution.code, caution.summary));
    }
}

fn figures(page: &mut Page, report: &ComparisonReport) {
    if report.rows.is_empty() {
        return;
    }
    page.heading("Figures", "medians over rounds; their change with its 95 % interval, unpaired");
    let mut block = Block::new(["baseline", "candidate", "change", "verdict"].map(str::to_owned).into_iter());
    let mut case = None;
    for row in &report.rows {
        if case.replace(&row.case) != Some(&row.case) {
            block.title(&row.case);
        }
        let style = match row.verdict {
            Verdict::Slower => BAD,
            Verdict::Faster => GOOD,
            Verdict::CannotTell => PLAIN,
        };
        block.row(style, &[format!("  {}", clean(&row.figure))], cells(row).into_iter());
    }
    block.show(page);
}

fn cells(row: &ComparisonRow) -> [String; 4] {
    let shown = |figure: Figure| quantities::in_unit(figure.value, &row.unit, MICRO);
    let verdict = match row.verdict {
        Verdict::CannotTell => "cannot tell".to_owned(),
        verdict => verdict.to_string(),
    };
    [shown(row.baseline), shown(row.candidate), change(row.ratio), verdict]
}

/// `+5.3 % (+4.1 .. +6.6)`.
fn change(ratio: Figure) -> String {
    let value = quantities::change(ratio.value);
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) if value != DASH => {
            let bound = |ratio: f64| quantities::change(ratio).trim_end_matches(" %").to_owned();
            format!("{value} ({} .. {})", bound(low), bound(high))
        }
        _ => value,
    }
}

fn budgets(page: &mut Page, report: &ComparisonReport) {
    if report.budgets.is_empty() {
        return;
    }
    page.heading("Budgets", "");
    for budget in &report.budgets {
        let (style, word) = match (budget.kept, budget.lost) {
            (_, true) => (BAD, "NOT kept: the candidate has no figure that may be used"),
            (Some(true), _) => (GOOD, "kept"),
            (Some(false), _) => (BAD, "NOT kept"),
            (None, _) => (PLAIN, "cannot tell"),
        };
        let allowed = quantities::change(1.0 + budget.allowed_share);
        let changed = budget.ratio.map_or_else(|| "no such figure in both runs".to_owned(), change);
        let text = format!("{} {}: {changed}, {allowed} allowed: {word}", budget.case, budget.figure);
        page.item("  ", style, &text);
    }
}
