//! Statements shared by several kinds of answers.

use hairpin_model::{Answer, Case, CaseSummary, Finding, Run, Statement};

pub(super) fn answer_from(statements: Vec<Statement>) -> Option<Answer> {
    (!statements.is_empty()).then(|| Answer::from(statements))
}

pub(super) fn single(row: &CaseSummary) -> Statement {
    Statement::Single { case: row.id.clone() }
}

pub(super) fn ids<'r>(rows: impl IntoIterator<Item = &'r CaseSummary>) -> Vec<String> {
    rows.into_iter().map(|row| row.id.clone()).collect()
}

pub(super) fn not_ranked(run: &Run) -> Statement {
    let some = |what: fn(&Case) -> bool| run.cases.iter().any(|row| row.valid && what(&row.case));
    Statement::NotRanked {
        open_loop: some(|case| case.primary().load.rate_per_s().is_some()),
        injected_fault: some(|case| case.injected_fault.is_some()),
    }
}

/// Quotes the first finding about one of these cases for which `suits` is true.
pub(super) fn quote_finding<'r>(
    run: &Run,
    rows: impl IntoIterator<Item = &'r CaseSummary>,
    suits: impl Fn(&Finding) -> bool,
) -> Option<Statement> {
    let ids = ids(rows);
    run.findings.iter().filter(|finding| suits(finding)).find_map(|finding| {
        let case = finding.cases.iter().find(|id| ids.contains(id))?.clone();
        Some(Statement::Finding { code: finding.code.clone(), case })
    })
}

/// Whether the cause was confirmed or not checked; an answer does not quote a cause that its check left undecided.
pub(super) fn is_credible(finding: &Finding) -> bool {
    finding.proved.as_ref().is_none_or(|proved| proved.verdict == "confirmed")
}
