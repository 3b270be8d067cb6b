//! Comparison of two runs: first differences in the setup, then figures, then budgets.

use hairpin_model::Figure;
use hairpin_model::quantities::{self, DASH, counted};
use hairpin_model::summary::Verdict;

use super::page::{BAD, DIM, GOOD, LEAD, PLAIN, Page, WARN, clean};
use super::tables::Block;
use crate::trust;
use crate::wording::is_too_noisy;
use hairpin_model::compared_by::ComparedBy;
use hairpin_model::{BudgetResult, ComparisonReport, ComparisonRow, InvalidCase, Unlike};

/// Maximum detectable change that is shown. A larger value only means that there were too few rounds.
const MAX_DETECTABLE_RATIO: f64 = 4.0;

pub(super) fn show(page: &mut Page, report: &ComparisonReport) {
    if let Some(Unlike { what, baseline, candidate }) = &report.differs {
        page.paragraph(0, LEAD, &format!("The runs differ in: {what} ({baseline}, {candidate})."));
    }
    page.paragraph(0, LEAD, &answer(report));
    if let Some(caution) = invalid(report) {
        page.paragraph(0, BAD, &caution);
    }
    page.item("before  ", PLAIN, &report.baseline);
    page.item("after   ", PLAIN, &report.candidate);
    differences(page, report);
    cautions(page, report);
    figures(page, report);
    why_invalid(page, report);
    budgets(page, report);
}

fn answer(report: &ComparisonReport) -> String {
    let usable = || report.rows.iter().filter(|row| row.valid);
    let of = |verdict| usable().filter(|row| row.verdict == verdict).count();
    let (slower, faster) = (of(Verdict::Slower), of(Verdict::Faster));
    let noisy = usable().filter(|row| row.verdict == Verdict::CannotTell && is_too_noisy(&row.ratio)).count();
    let same = of(Verdict::CannotTell) - noisy;
    let unlike = match of(Verdict::Unlike) {
        0 => String::new(),
        unlike => format!(", {unlike} not comparable (the machine was in another state)"),
    };
    let budgets = |kept: Option<bool>| report.budgets.iter().filter(|budget| budget.kept == kept).count() as u64;
    let (broken, untold) = (budgets(Some(false)), budgets(None));
    let compared = counted(usable().count() as u64, "figure");
    let budget = match (report.budgets.len(), broken, untold) {
        (0, _, _) => String::new(),
        (_, 0, 0) => " All budgets were kept.".to_owned(),
        (_, 0, untold) => {
            format!(" No budget was broken; {} undecided.", counted(untold, "budget"))
        }
        (_, broken, _) => format!(" {} NOT kept.", counted(broken, "budget")),
    };
    if report.rows.is_empty() {
        return format!("The two runs have no figure in common.{budget}");
    }
    if usable().next().is_none() {
        return format!("The two runs have no usable figure in common.{budget}");
    }
    let finds_nothing = slower + faster == 0 && unlike.is_empty();
    if finds_nothing && usable().all(|row| row.ratio.low.is_none()) {
        return format!("{compared} compared: cannot tell without an interval.{budget}");
    }
    if finds_nothing {
        return match (same, noisy) {
            (_, 0) => format!("{compared} compared: no difference found.{budget}"),
            (0, _) => format!("{compared} compared: too noisy to tell.{budget}"),
            _ => format!("{compared} compared: no difference found in {same}, {noisy} too noisy to tell.{budget}"),
        };
    }
    let unlike = if noisy > 0 { format!(", {noisy} too noisy to tell{unlike}") } else { unlike };
    // `worse` and `better` fit both latencies and rates.
    let rates = usable().any(|row| row.figure.parse().is_ok_and(ComparedBy::more_is_better));
    let [worse, better] = if rates { ["worse", "better"] } else { ["slower", "faster"] };
    format!(
        "{compared} compared: {slower} {worse}, {faster} {better}, {same} without a difference found{unlike}.{budget}"
    )
}

fn invalid(report: &ComparisonReport) -> Option<String> {
    let any = |why: fn(&InvalidCase) -> &Vec<String>| report.invalid.iter().any(|case| !why(case).is_empty());
    let sides = sides(any(|case| &case.baseline), any(|case| &case.candidate))?;
    Some(match report.invalid.len() as u64 {
        1 => format!("1 case is invalid in {sides} (marked with !): do not use its figures."),
        many => format!("{many} cases are invalid in {sides} (marked with !): do not use their figures."),
    })
}

/// Names the affected runs; `None` if neither run is affected.
fn sides(baseline: bool, candidate: bool) -> Option<&'static str> {
    match (baseline, candidate) {
        (true, true) => Some("the baseline and the candidate"),
        (true, false) => Some("the baseline"),
        (false, true) => Some("the candidate"),
        (false, false) => None,
    }
}

fn why_invalid(page: &mut Page, report: &ComparisonReport) {
    if !report.invalid.is_empty() {
        page.gap();
    }
    for case in &report.invalid {
        for (side, why) in [("baseline", &case.baseline), ("candidate", &case.candidate)] {
            if !why.is_empty() {
                page.item("! ", BAD, &format!("{} is invalid in the {side}: {}", case.case, why.join("; ")));
            }
        }
    }
}

fn differences(page: &mut Page, report: &ComparisonReport) {
    let unlike = report.unlike.iter();
    let unlike = unlike.map(|one| (BAD, format!("{}: {} against {}", one.what, one.baseline, one.candidate)));
    let only_in = report.only_in.iter().map(|(case, run)| (DIM, format!("{case}: only in {run}")));
    page.section("Unlike", "these may cause differences between the figures", unlike.chain(only_in));
}

fn cautions(page: &mut Page, report: &ComparisonReport) {
    let told = report.cautions.iter().map(|one| (WARN, format!("{}: {}: {}", one.run, one.code, one.summary)));
    page.section("Caution", "these may cause differences and broken budgets", told);
}

fn figures(page: &mut Page, report: &ComparisonReport) {
    if report.rows.is_empty() {
        return;
    }
    page.heading(
        "Figures",
        "medians over rounds; change with the interval that decides: 95 % for all rows together; \
         detectable: the smallest change found with 90 % power",
    );
    let columns = ["before", "after", "change", "detectable", "verdict"];
    let mut block = Block::new(columns.map(str::to_owned).into_iter());
    let mut case = None;
    for row in &report.rows {
        if case.replace(&row.case) != Some(&row.case) {
            block.title(&row.case);
        }
        let style = match (row.valid, row.verdict) {
            (false, _) | (true, Verdict::Slower) => BAD,
            (true, Verdict::Faster) => GOOD,
            (true, Verdict::CannotTell | Verdict::Unlike) => PLAIN,
        };
        let mark = if row.valid { "  " } else { "! " };
        block.row(style, &[format!("{mark}{}", clean(&row.figure))], cells(row).into_iter());
    }
    block.show(page);
    for line in trust::no_interval_lines(|reason| {
        let without = report.rows.iter().filter(|row| row.ratio.why == Some(reason));
        without.map(|row| format!("{} {}", row.case, row.figure)).collect()
    }) {
        page.paragraph(0, WARN, &line);
    }
}

fn cells(row: &ComparisonRow) -> [String; 5] {
    let shown = |figure: Figure| quantities::in_unit(figure.value, &row.unit);
    let verdict = match row.verdict {
        _ if !row.valid => "invalid".to_owned(),
        Verdict::CannotTell if row.ratio.low.is_none() => "cannot tell".to_owned(),
        Verdict::CannotTell if is_too_noisy(&row.ratio) => "too noisy".to_owned(),
        Verdict::CannotTell => "no difference".to_owned(),
        Verdict::Unlike => "unlike states".to_owned(),
        verdict => verdict.in_words(row.figure.parse().unwrap_or(ComparedBy::P50)).to_owned(),
    };
    let smallest = row.smallest_detectable.filter(|share| *share <= MAX_DETECTABLE_RATIO);
    let smallest = smallest.map_or_else(|| DASH.to_owned(), |share| quantities::change(1.0 + share));
    [shown(row.baseline), shown(row.candidate), quantities::change_figure(row.ratio), smallest, verdict]
}

fn budgets(page: &mut Page, report: &ComparisonReport) {
    let what = "with the interval that decides: 95 % for all budgets together";
    page.section("Budgets", what, report.budgets.iter().map(budget_line));
    let looks = report.looks.iter().map(|look| format!("{:.0} s {}", look.after_s, look.verdict));
    if !report.looks.is_empty() {
        page.item("Looks after ", PLAIN, &looks.collect::<Vec<_>>().join(", "));
    }
}

fn budget_line(budget: &BudgetResult) -> (anstyle::Style, String) {
    let (style, word) = match (budget.kept, sides(!budget.baseline_usable, !budget.candidate_usable)) {
        (_, Some(sides)) => (BAD, format!("NOT kept: no usable figure in {sides}")),
        (Some(true), _) => (GOOD, "kept".to_owned()),
        (Some(false), _) => (BAD, "NOT kept".to_owned()),
        (None, _) => (PLAIN, "undecided".to_owned()),
    };
    let figure = budget.figure.parse().unwrap_or(ComparedBy::P50);
    let in_unit = |value: f64| quantities::in_unit(value, figure.unit());
    let value = budget.value.map(|value| match value.interval() {
        Some((low, high)) => format!("{} ({} .. {})", in_unit(value.value), in_unit(low), in_unit(high)),
        None => in_unit(value.value),
    });
    let measured = value.or_else(|| budget.ratio.map(quantities::change_figure));
    let measured = measured.unwrap_or_else(|| "no such figure in both runs".to_owned());
    let limit = match budget.limit {
        Some(limit) => format!("{} {}", if figure.more_is_better() { ">=" } else { "<=" }, in_unit(limit)),
        None => quantities::change(1.0 + budget.allowed_share.unwrap_or(0.0)),
    };
    (style, format!("{} {}: {measured}, {limit} allowed: {word}", budget.case, budget.figure))
}

/// Returns the comparison as Markdown for a pull request: the answer, the budgets and a table of figures.
pub fn markdown_comparison(report: &ComparisonReport) -> String {
    let differs = report.differs.iter().map(|one| format!(" {}: {}, {}.", one.what, one.baseline, one.candidate));
    let answer = format!("**Hairpin: {}.**{} {}\n\n", report.decision(), differs.collect::<String>(), answer(report));
    let budgets = report.budgets.iter().map(|budget| format!("- {}\n", clean(&budget_line(budget).1)));
    let head =
        "\n| case | figure | before | after | change | detectable | verdict |\n|---|---|--:|--:|--:|--:|---|\n";
    let rows = report.rows.iter().map(|row| {
        let cells = [&[row.case.clone(), row.figure.clone()][..], &cells(row)].concat();
        format!("| {} |\n", cells.iter().map(|cell| clean(cell).replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
    });
    [answer].into_iter().chain(budgets).chain([head.to_owned()]).chain(rows).collect()
}
