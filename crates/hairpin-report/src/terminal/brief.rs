//! The first screen of a run: the answer, one table, the main cause, and the limits of trust.

use hairpin_model::finding::{About, Severity};
use hairpin_model::{CaseSummary, Finding, Remedy, Run, Skipped, quantities};

use super::one_way::{self, Extent};
use super::page::{BAD, DIM, GOOD, PLAIN, Page, WARN};
use super::{
    Look, above_bound, answer, below_the_ladder, calibrations, causes_and_run, choice, failure_lines, fallbacks,
    first_table, latency_budget, notes,
};
use crate::{exchange_states, findings, trust, wording};

/// Maximum lines of one kind. Further lines are only counted.
const MAX_LINES: usize = 2;

/// Renders a short report that fits one screen. The binary adds the paths of the run folder and of the page.
pub fn render_brief(run: &Run, look: &Look) -> String {
    let mut page = Page::new(*look);
    answer(&mut page, run);
    if let Some(failure) = wording::only_failure(run) {
        page.item("! ", BAD, &failure);
        return page.finish();
    }
    first_tables(&mut page, run, Extent::Brief);
    page.gap();
    fallbacks(&mut page, run);
    // The findings of a choice are mostly about cases that were not chosen.
    if run.answer.choice.is_none() {
        top_finding(&mut page, run);
    }
    show_limits(&mut page, run);
    page.finish()
}

/// Like [`render_brief`], but with all findings and notes.
pub fn render_more(run: &Run, look: &Look) -> String {
    let mut page = Page::new(*look);
    answer(&mut page, run);
    first_tables(&mut page, run, Extent::More);
    below_the_ladder(&mut page, run);
    causes_and_run(&mut page, run);
    page.finish()
}

/// Shows the table of the first screen: of a choice, of latency budgets, or of the cases by kind.
fn first_tables(page: &mut Page, run: &Run, extent: Extent) {
    if !choice::table(page, run) && !latency_budget::tables(page, run) {
        first_table::tables(page, run);
        above_bound(page, run);
        one_way::tables(page, run, extent);
    }
}

/// Shows the cause that explains most. For exchanges, prefers a cause found in a case with default options. Without a
/// cause, shows a warning about the run that the answer does not contain.
fn top_finding(page: &mut Page, run: &Run) {
    let speaks = |finding: &&Finding| finding.severity != Severity::Note;
    let [(_, causes), (_, of_run)] = findings::by_subject(run);
    let is_default = |row: &CaseSummary| {
        row.case.primary().load.exchange().is_some_and(|exchange| exchange.remedy == Remedy::Default)
    };
    let of_default = |finding: &&Finding| finding.cases.iter().filter_map(|id| run.case(id)).any(is_default);
    let causes: Vec<&Finding> = causes.into_iter().filter(speaks).collect();
    let of_run = of_run.into_iter().filter(speaks).filter(|finding| finding.code != wording::NOISY_CODE);
    let top = causes.iter().copied().find(of_default).or(causes.first().copied());
    let Some((label, top)) = top.map(|top| ("Cause: ", top)).or(of_run.map(|top| ("Run:   ", top)).next()) else {
        return;
    };
    page.item(label, if top.severity == Severity::Problem { BAD } else { PLAIN }, &cause(run, top));
    let first = top.cases.first().and_then(|id| run.case(id)).filter(|_| top.about != About::Run);
    if let Some(states) = first.and_then(exchange_states::line) {
        page.item("Time:  ", PLAIN, &states);
    }
    if !top.advice.is_empty() {
        page.item("Fix:   ", PLAIN, findings::first_sentence(&top.advice));
    }
    if let Some(proved) = &top.proved {
        let style = if proved.verdict == "confirmed" { GOOD } else { WARN };
        page.item("Check: ", style, &findings::proof(proved));
    }
}

fn cause(run: &Run, finding: &Finding) -> String {
    let is_cause = finding.about != About::Run && finding.share > 0.0;
    let share = if is_cause { format!(", {}", quantities::share(finding.share)) } else { String::new() };
    let is_invalid = finding.cases.first().and_then(|id| run.case(id)).is_some_and(|row| !row.valid);
    let hint = if is_invalid { "; its figures are invalid, so this is a hint only" } else { "" };
    format!("{} ({}{share}){hint}", findings::first_sentence(&finding.summary).trim_end_matches('.'), finding.code)
}

fn show_limits(page: &mut Page, run: &Run) {
    calibrations(page, run);
    let invalid = wording::invalid(run).into_iter().map(|(label, why)| format!("{label} {why}"));
    first_lines(page, "! ", BAD, invalid);
    first_lines(page, "! ", BAD, failure_lines(run));
    first_lines(page, "", WARN, trust::until_missed(run).into_iter().chain(trust::without_interval(run)));
    for (label, usual, lines) in notes(run) {
        let style = if usual == WARN { WARN } else { BAD };
        let lines = lines.into_iter().filter(|(is_bad, _)| *is_bad || usual == WARN);
        first_lines(page, label, style, lines.map(|(_, line)| line));
    }
    // Abandoned cases are already listed as failures.
    let has_failed = |skip: &&Skipped| {
        let mut rows = run.cases.iter().filter(|row| !row.failed_rounds.is_empty());
        rows.any(|row| skip.case.as_ref() == Some(&row.label))
    };
    let skipped = run.skipped.iter().filter(|skip| !has_failed(skip)).count();
    if skipped > 0 {
        let skipped = quantities::counted(skipped as u64, "case");
        page.paragraph(0, DIM, &format!("Skipped: {skipped} (--all says why)"));
    }
    trust::recorder(run).iter().for_each(|line| page.paragraph(0, DIM, line));
}

fn first_lines(page: &mut Page, label: &str, style: anstyle::Style, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    for line in lines.iter().take(MAX_LINES) {
        page.item(label, style, line);
    }
    if lines.len() > MAX_LINES {
        page.item(label, style, &format!("and {} more: --all shows them", lines.len() - MAX_LINES));
    }
}
