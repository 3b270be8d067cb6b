//! The answer to the question of a run, as statements: what was found, about which cases, with which verdict. The report
//! has the words. Also the faster case of each pair, the knees of sweeps, and the best remedy against stalls.
//!
//! A winner is named only if a difference was found from every other case that it is compared with.

mod exchanges;
mod messages;
mod offered;
mod one_way;
mod ranking;
mod round_trips;
mod streams;
#[cfg(test)]
mod tests;
mod under_load;

use hairpin_model::answer::{Answer, Statement};
use hairpin_model::case::Case;
use hairpin_model::finding::Finding;
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

/// The answer of `run`, whose cases, comparisons and findings are filled in.
#[must_use]
pub fn answer(run: &Run) -> Answer {
    let pairs = ranking::pairs(&run.comparisons);
    let found = round_trips::answer(run, &pairs)
        .or_else(|| exchanges::answer(run))
        .or_else(|| messages::answer(run, &pairs))
        .or_else(|| streams::answer(run, &pairs))
        .or_else(|| offered::answer(run, &pairs))
        .or_else(|| under_load::answer(run, &pairs));
    Answer { pairs, ..found.unwrap_or_else(|| vec![nothing(run)].into()) }
}

/// `None` without a statement.
fn of(statements: Vec<Statement>) -> Option<Answer> {
    (!statements.is_empty()).then(|| Answer::from(statements))
}

fn single(row: &CaseSummary) -> Statement {
    Statement::Single { case: row.id.clone() }
}

fn ids<'r>(rows: impl IntoIterator<Item = &'r CaseSummary>) -> Vec<String> {
    rows.into_iter().map(|row| row.id.clone()).collect()
}

fn nothing(run: &Run) -> Statement {
    match run.cases.as_slice() {
        [] => Statement::NothingMeasured,
        [only] => single(only),
        cases if cases.iter().any(|row| row.valid) => not_ranked(run),
        _ => Statement::NothingUsable,
    }
}

/// The reason if no usable case can be ranked.
fn not_ranked(run: &Run) -> Statement {
    let some = |what: fn(&Case) -> bool| run.cases.iter().any(|row| row.valid && what(&row.case));
    Statement::NotRanked {
        open_loop: some(|case| case.primary().load.rate_per_s().is_some()),
        injected_fault: some(|case| case.injected_fault.is_some()),
    }
}

/// The first finding that suits, about one of these cases.
fn quoted<'r>(
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

/// Whether no check contradicts a cause: an unconfirmed one is not part of an answer.
fn is_credible(finding: &Finding) -> bool {
    finding.proved.as_ref().is_none_or(|proved| proved.verdict == "confirmed")
}
