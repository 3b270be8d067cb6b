//! Judges claims: compares published values with measurements. Rules of one kind share a file.
//!
//! A claim holds or does not hold only if the whole 95 % interval agrees; otherwise the claim is undecided. Claims
//! without a measurement are `cannot-run`, with the reason. Measured figures come only from runs; a published value
//! never replaces a measured one.

mod bound;
mod fallback;
mod figures;
mod kept;
mod of_round;
mod order;
mod packets;
mod pattern;
mod place;
mod selection;
mod table;
mod units;
mod widens;

use std::collections::BTreeMap;

use hairpin_model::judged_claim::Verdict;
use hairpin_model::names::distinct;
use hairpin_model::reason::Bound;
use hairpin_model::{Claim, JudgedClaim, JudgedRow, Judgement, Measure, Reason, Row, Rule, Run, Test, TestMethod};

use figures::{Evidence, number};
use place::{error, no_figure};

pub use units::fits_unit;

/// The runs that test the claims of one text, by name; or the reason why a run is missing.
pub type Runs<'r> = BTreeMap<String, Result<&'r Run, String>>;

/// Returns the claim without measurement and verdict.
pub fn listed(claim: &Claim, source: &str) -> JudgedClaim {
    new_claim(claim, source, Judgement::default(), |_| Judgement::default())
}

pub fn judge(claim: &Claim, source: &str, runs: &Runs<'_>) -> JudgedClaim {
    let mut judged = new_claim(claim, source, Judgement::default(), |row| judge_row(row, runs));
    judged.judgement = table::overall(&judged.rows, claim.headline());
    judged
}

fn new_claim(claim: &Claim, source: &str, judgement: Judgement, of_row: impl Fn(&Row) -> Judgement) -> JudgedClaim {
    let row = |row: &Row| {
        let (test, missing, skipped) = match &row.means {
            TestMethod::Test(test) => (Some(test), None, None),
            TestMethod::Missing(part) => (None, Some(part.clone()), None),
            TestMethod::Skipped(why) => (None, None, Some(why.clone())),
        };
        JudgedRow {
            name: row.name.clone(),
            published: row.published.clone(),
            judgement: of_row(row),
            run: test.map(|test| format!("{source}-{}", test.run)),
            rule_because: test.map(|test| test.rule_because.clone()),
            missing,
            about: row.about,
            skipped,
            stand_in: test.and_then(|test| test.stand_in()),
            beside: row.beside.clone(),
        }
    };
    JudgedClaim {
        id: claim.id.clone(),
        text: claim.text.clone(),
        source: source.to_owned(),
        published: claim.published.clone(),
        about: claim.about,
        skipped: skipped(claim),
        coverage: claim.coverage(),
        judgement,
        stand_in: stand_ins(claim),
        rows: claim.rows.iter().map(row).collect(),
    }
}

/// Returns the reasons if all rows that count are skipped between two hosts.
fn skipped(claim: &Claim) -> Option<String> {
    let reasons: Option<Vec<&str>> = claim
        .counting()
        .map(|row| match &row.means {
            TestMethod::Skipped(why) => Some(why.as_str()),
            _ => None,
        })
        .collect();
    reasons.map(|reasons| distinct(reasons).join("; "))
}

/// Lists the stand-ins of all rows, without duplicates.
fn stand_ins(claim: &Claim) -> Option<String> {
    let once = distinct(claim.tests().filter_map(Test::stand_in));
    (!once.is_empty()).then(|| once.join("; "))
}

fn judge_row(row: &Row, runs: &Runs<'_>) -> Judgement {
    let test = match &row.means {
        TestMethod::Missing(part) => {
            return no_figure(Verdict::CannotRun, Reason::Missing { part: part.clone() });
        }
        TestMethod::Skipped(because) => {
            return no_figure(Verdict::CannotRun, Reason::Skipped { because: because.clone() });
        }
        TestMethod::Test(test) => test,
    };
    let find_run = |name: &str| match runs.get(name) {
        Some(Ok(run)) => Ok(*run),
        other => {
            let cause = other.and_then(|result| result.clone().err());
            Err(error(Verdict::CannotRun, Reason::NoRun { run: name.to_owned(), cause }))
        }
    };
    let other = test.rule.other_run().unwrap_or(&test.run);
    let evidence = find_run(&test.run).and_then(|run| Ok(Evidence { run, other: find_run(other)? }));
    evidence.map_or_else(|judgement| *judgement, |evidence| withdraw(apply(&test.rule, row, evidence), test))
}

fn apply(rule: &Rule, row: &Row, evidence: Evidence<'_>) -> Judgement {
    let published = &row.published;
    let run = evidence.run;
    let bounded = |of: &Measure, bound| bound::judge(of, bound, published, evidence);
    let at = |bound: &Option<f64>| bound.map_or_else(|| number(published), Ok);
    let judged = match rule {
        Rule::Within { of, factor } => {
            bounded(of, number(published).map(|number| Bound::Within { number, factor: *factor }))
        }
        Rule::Range { of, factor } => {
            bounded(of, bound::range(published).map(|[from, to]| Bound::Range { from, to, factor: *factor }))
        }
        Rule::AtLeast { of, bound } => bounded(of, at(bound).map(|number| Bound::AtLeast { number })),
        Rule::AtMost { of, bound } => bounded(of, at(bound).map(|number| Bound::AtMost { number })),
        Rule::Share { figure, whole, rest, at_least } => {
            bound::share(*figure, [whole, rest], *at_least, published, run)
        }
        Rule::Order { figure, cases } => Ok(order::judge(*figure, cases, published, run)),
        Rule::Kept { case, kept } => kept::judge(case, kept, run),
        Rule::Packets { case, events } => packets::judge(case, events, run),
        Rule::Pattern { case, writes } => pattern::judge(case, writes, run),
        Rule::Fallback { case, from, to } => fallback::judge(case, from, to, run),
        Rule::Widens { figure, low, full, .. } => widens::judge(*figure, low, full, evidence),
    };
    judged.unwrap_or_else(|judgement| *judgement)
}

/// Withdraws the verdict, but keeps the measurement, if the test cannot decide the claim.
fn withdraw(judgement: Judgement, test: &Test) -> Judgement {
    match (test.undecided(), &judgement.reason) {
        (Some(because), Some(measured)) if judgement.verdict != Some(Verdict::CannotRun) => {
            let reason = Reason::Undecided { because: because.to_owned(), measured: Box::new(measured.clone()) };
            Judgement { verdict: Some(Verdict::CannotTell), reason: Some(reason), ..judgement }
        }
        _ => judgement,
    }
}

#[cfg(test)]
mod tests;
