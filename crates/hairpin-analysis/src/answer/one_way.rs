//! Shared parts of the answers to one-way loads: the highest figure over each path, congestion control, and losses.

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::finding::Severity;
use hairpin_model::ladder::CaseKind;
use hairpin_model::names::grouped;
use hairpin_model::{Answer, CaseSummary, Finding, Pair, Run, Statement};

use super::ranking::best;
use super::statements::{answer_from, ids, quote_finding};

pub(super) fn usable(run: &Run, kind: CaseKind) -> Vec<&CaseSummary> {
    run.cases.iter().filter(|row| CaseKind::of(&row.case) == kind && row.can_be_ranked()).collect()
}

/// Answers runs at full speed: for each path the cases with the highest figure, then the `details` of all cases that
/// have the figure, highest first, and their losses. `None` if no case has the figure.
pub(super) fn highest(
    run: &Run,
    pairs: &[Pair],
    (kind, by): (CaseKind, ComparedBy),
    details: impl Fn(&[&CaseSummary]) -> Vec<Statement>,
) -> Option<Answer> {
    let value = |row: &CaseSummary| row.compared(by).map_or(f64::NEG_INFINITY, |figure| figure.value);
    let (mut headlines, mut rest) = (Vec::new(), Vec::new());
    // The sum of both directions is not compared with a single direction.
    let key = |row: &CaseSummary| (row.case.goes_both_ways(), row.case.path.link.clone());
    let mut paths = grouped(usable(run, kind).into_iter().map(|row| (key(row), row)));
    paths.sort_by_key(|((both_ways, _), _)| *both_ways);
    for (_, mut rows) in paths {
        rows.retain(|row| row.compared(by).is_some());
        rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
        headlines.extend(rows.first().into_iter().flat_map(|first| best(run, first, &rows, pairs)));
        rest.extend(details(&rows).into_iter().chain(report_pacing(run, &rows)).chain(losses(&rows)));
    }
    answer_from([headlines, rest].concat())
}

/// Code of the finding that the answer quotes when the finding is a note, because the first screen shows no notes.
const CONGESTION_CONTROL: &str = "congestion-control";

/// Quotes the note that some cases are paced and no difference from another congestion control was measured.
pub(super) fn report_pacing(run: &Run, rows: &[&CaseSummary]) -> Option<Statement> {
    let is_note = |finding: &Finding| finding.code == CONGESTION_CONTROL && finding.severity == Severity::Note;
    quote_finding(run, rows.iter().copied(), is_note)
}

pub(super) fn has_losses(row: &CaseSummary) -> bool {
    row.ledger().sent > row.ledger().received
}

pub(super) fn losses(rows: &[&CaseSummary]) -> Vec<Statement> {
    let lossy = rows.iter().copied().filter(|row| has_losses(row));
    grouped(lossy.map(|row| (row.case.primary().transport.as_str(), row)))
        .into_iter()
        .map(|(_, rows)| Statement::Lost { cases: ids(rows) })
        .collect()
}
