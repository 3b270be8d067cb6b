//! Judges claims: compares published values with measurements. Rules of one kind share a file.
//!
//! A row is confirmed or refuted only if the whole 95 % interval agrees; otherwise it is undecided. Rows without a
//! measurement are `not-tested`, with the reason. Measured figures come only from runs; a published value never replaces
//! a measured one.

mod axes;
mod bound;
mod fallback;
mod figures;
mod in_states;
mod kept;
mod of_round;
mod often;
mod order;
mod packets;
mod pattern;
mod place;
mod rare;
mod selection;
mod units;
mod widens;

use std::collections::BTreeMap;

use hairpin_model::finding::{About, Severity};
use hairpin_model::judged_claim::{Axes, ClaimText, Headline, Verdict};
use hairpin_model::names::distinct;
use hairpin_model::options::OptionName;
use hairpin_model::reason::Bound;
use hairpin_model::{
    CaseSummary, Claim, Finding, JudgedClaim, JudgedRow, Judgement, Published, Reason, Row, Rule, Run, Source, Test,
    TestMethod,
};

use crate::findings::congestion_control;
use figures::{Evidence, number};
use place::{error, no_figure};

pub use units::fits_unit;

/// The runs that test the claims of one text, by name; or the reason why a run is missing.
pub type Runs<'r> = BTreeMap<String, Result<&'r Run, String>>;

/// Returns the claim without measurement and verdict.
pub fn listed(claim: &Claim, source: &Source) -> JudgedClaim {
    let mut listed = new_claim(claim, source, |_| Judgement::default());
    listed.headline = axes::has_no_experiment(&listed.rows).then_some(Headline::NotYet);
    listed
}

/// Judges a claim with a part of the runs' alpha; the rest is spent on other looks at other runs of the claim.
pub fn judge(claim: &Claim, source: &Source, runs: &Runs<'_>, alpha_share: f64) -> JudgedClaim {
    let mut judged = new_claim(claim, source, |row| judge_row(row, runs, alpha_share));
    judged.age_s = Some(0);
    let used = used_cases(claim, runs);
    judged.warnings = warnings_about(&used);
    judged.congestion_controls = distinct(used.iter().flat_map(|(_, case)| congestion_controls(case)));
    count_missing_runs(&mut judged.rows);
    correct_for_several(claim, runs, &mut judged.rows, alpha_share);
    axes::decide(&mut judged);
    judged
}

fn used_cases<'r>(claim: &Claim, runs: &Runs<'r>) -> Vec<(&'r Run, &'r CaseSummary)> {
    let selectors = claim.tests().flat_map(|test| test.rule.selectors().into_iter().map(move |of| (test, of)));
    let of_selector = selectors.filter_map(|(test, (run, selector))| {
        let run = *runs.get(run.unwrap_or(&test.run))?.as_ref().ok()?;
        Some(run.cases.iter().filter(move |case| selector.chooses(&case.case)).map(move |case| (run, case)))
    });
    of_selector.flatten().collect()
}

/// Whether the finding warns of a disturbed run, or of a congestion control that shapes the figures.
pub fn is_warning(finding: &Finding) -> bool {
    let is_about_run = finding.about == About::Run || finding.code == congestion_control::CARD.code;
    is_about_run && finding.severity != Severity::Note
}

fn warnings_about(used: &[(&Run, &CaseSummary)]) -> Vec<String> {
    let is_about = |finding: &Finding, case: &CaseSummary| {
        is_warning(finding) && (finding.cases.is_empty() || finding.cases.contains(&case.id))
    };
    let all = used.iter().flat_map(|(run, case)| run.findings.iter().map(move |finding| (finding, case)));
    distinct(all.filter(|(finding, case)| is_about(finding, case)).map(|(finding, _)| finding.code.clone()))
}

fn congestion_controls(case: &CaseSummary) -> Vec<String> {
    let has_stream = case.case.flows.iter().any(|flow| flow.load.is_one_way());
    let granted = case.ends.iter().filter(|_| has_stream).flat_map(|end| &end.effective_options);
    granted.filter(|option| option.name == OptionName::Congestion).map(|option| option.before.clone()).collect()
}

fn new_claim(claim: &Claim, source: &Source, of_row: impl Fn(&Row) -> Judgement) -> JudgedClaim {
    JudgedClaim {
        id: claim.id.clone(),
        kind: claim.kind,
        statement: claim.text.clone(),
        source: Source { quote: claim.quote.clone(), ..source.clone() },
        published: claim.published.clone(),
        about: claim.about,
        headline: None,
        only_if: None,
        text: ClaimText { why: claim.why.clone(), so_what: claim.so_what.clone(), ..ClaimText::default() },
        axes: Axes { direction: Verdict::NotClaimed, size: Verdict::NotClaimed, cause: Verdict::NotClaimed },
        rows: claim.rows.iter().map(|row| new_row(row, source, of_row(row))).collect(),
        text_errors: claim.text_errors.clone(),
        warnings: Vec::new(),
        congestion_controls: Vec::new(),
        decides: None,
        age_s: None,
    }
}

fn new_row(row: &Row, source: &Source, judgement: Judgement) -> JudgedRow {
    let (test, missing, skipped) = match &row.means {
        TestMethod::Test(test) => (Some(test), None, None),
        TestMethod::Missing(part) => (None, Some(part.clone()), None),
        TestMethod::Skipped(why) => (None, None, Some(why.clone())),
    };
    let run = test.map(|test| format!("{}-{}", source.letter, test.run));
    let has_run = judgement.verdict.is_some() && !matches!(judgement.reason, Some(Reason::NoRun { .. }));
    JudgedRow {
        name: row.name.clone(),
        axis: row.axis,
        published: row.published.clone(),
        case: judgement.reason.as_ref().and_then(Reason::case),
        evidence: run.as_ref().filter(|_| has_run).map(|run| format!("{run}/report.html")),
        judgement,
        given_back: test.is_some_and(|test| test.given_back().is_some()),
        other_hardware: row.other_hardware,
        shown: row.shown().map(str::to_owned),
        knob: row.knob.clone(),
        run,
        rule_because: test.map(|test| test.rule_because.clone()),
        rule_changed: test.map(|test| test.changed.on.clone()),
        missing,
        about: row.about,
        skipped,
        stand_in: test.and_then(|test| test.stand_in()),
    }
}

/// Makes rows undecided whose run failed or was ended, if other rows of the claim were tested: unlike a named skip, such a
/// row might still be refuted here.
fn count_missing_runs(rows: &mut [JudgedRow]) {
    let is_missing =
        |row: &JudgedRow| matches!(row.judgement.reason, Some(Reason::NoRun { .. } | Reason::Ended { .. }));
    let is_tested = |row: &JudgedRow| row.decides() && row.judgement.verdict != Some(Verdict::NotTested);
    if rows.iter().any(is_tested) {
        for row in rows.iter_mut().filter(|row| row.decides() && is_missing(row)) {
            row.judgement.verdict = Some(Verdict::Undecided);
        }
    }
}

/// Withdraws refutations that do not stand the correction for several rows. A claim is contradicted if one of its rows
/// is refuted, so the more rows, the more often by chance (Holm, Scandinavian Journal of Statistics 6, 1979). It holds
/// only if all rows are confirmed, which needs no correction. An order is refuted if one of its steps is, so its part of
/// alpha is divided among its steps.
fn correct_for_several(claim: &Claim, runs: &Runs<'_>, rows: &mut [JudgedRow], alpha_share: f64) {
    let has = |row: &JudgedRow, verdict| row.judgement.verdict == Some(verdict);
    let deciding: Vec<usize> =
        (0..rows.len()).filter(|row| rows[*row].decides() && !has(&rows[*row], Verdict::NotTested)).collect();
    let mut refuted: Vec<usize> = deciding.iter().copied().filter(|row| has(&rows[*row], Verdict::Refuted)).collect();
    let comparisons: Vec<usize> = rows.iter().map(comparisons).collect();
    let mut hypotheses = deciding.len();
    while !refuted.is_empty() {
        let share = |row: usize| alpha_share / (hypotheses * comparisons[row]) as f64;
        let stands = |row: &usize| judge_row(&claim.rows[*row], runs, share(*row)).verdict == Some(Verdict::Refuted);
        let (stand, fall): (Vec<usize>, Vec<usize>) = refuted.iter().partition(|row| stands(row));
        hypotheses -= stand.len();
        refuted = fall;
        if stand.is_empty() {
            for row in refuted.drain(..) {
                let judgement = &mut rows[row].judgement;
                judgement.verdict = Some(Verdict::Undecided);
                let measured = judgement.reason.take().map(Box::new);
                let all = deciding.iter().map(|row| comparisons[*row] as u64).sum();
                judgement.reason = measured.map(|measured| Reason::OneOfSeveral { measured, comparisons: all });
            }
        }
    }
}

fn comparisons(row: &JudgedRow) -> usize {
    match &row.judgement.reason {
        Some(Reason::Order { steps, .. }) => steps.len().max(1),
        _ => 1,
    }
}

/// Judges a row with a part of the run's alpha. A row that decides nothing is shown.
fn judge_row(row: &Row, runs: &Runs<'_>, alpha_share: f64) -> Judgement {
    let test = match &row.means {
        TestMethod::Missing(part) => {
            return no_figure(Verdict::NotTested, Reason::Missing { part: part.clone() });
        }
        TestMethod::Skipped(because) => {
            return no_figure(Verdict::NotTested, Reason::Skipped { because: because.clone() });
        }
        TestMethod::Test(test) => test,
    };
    let judged = judge_test(test, row, runs, alpha_share);
    let verdict =
        if row.shown().is_some() && judged.measured.is_some() { Some(Verdict::Shown) } else { judged.verdict };
    Judgement { verdict, ..judged }
}

fn judge_test(test: &Test, row: &Row, runs: &Runs<'_>, alpha_share: f64) -> Judgement {
    let find_run = |name: &str| match runs.get(name) {
        Some(Ok(run)) => Ok(*run),
        other => {
            let cause = other.and_then(|result| result.clone().err());
            Err(error(Verdict::NotTested, Reason::NoRun { run: name.to_owned(), cause }))
        }
    };
    let other = test.rule.other_run().unwrap_or(&test.run);
    let evidence = find_run(&test.run).and_then(|run| Ok(Evidence { run, other: find_run(other)?, alpha_share }));
    evidence.map_or_else(|judgement| *judgement, |evidence| apply(&test.rule, row, evidence))
}

fn apply(rule: &Rule, row: &Row, evidence: Evidence<'_>) -> Judgement {
    let published = &row.published;
    let run = evidence.run;
    if let (Some(of), Some(bound)) = (rule.measure(), bound_of(rule, published)) {
        return bound::judge(of, bound, published, evidence).unwrap_or_else(|judgement| *judgement);
    }
    let judged = match rule {
        Rule::Share { figure, whole, rest, at_least } => {
            bound::share(*figure, [whole, rest], *at_least, published, evidence)
        }
        Rule::Order { figure, cases, margin } => Ok(order::judge(*figure, cases, *margin, published, evidence)),
        Rule::Often { figure, case, reaches, share } => {
            often::judge(*figure, case, [*reaches, *share], published, evidence)
        }
        Rule::States { case, states, at, at_least } => {
            in_states::judge(case, (states, *at), *at_least, published, evidence)
        }
        Rule::Kept { case, kept } => kept::judge(case, kept, run),
        Rule::Packets { case, events } => packets::judge(case, events, run),
        Rule::Pattern { case, writes } => pattern::judge(case, writes, run),
        Rule::Fallback { case, from, to } => fallback::judge(case, from, to, run),
        Rule::Widens { figure, low, full, margin, .. } => widens::judge(*figure, low, full, *margin, evidence),
        Rule::Within { .. } | Rule::Range { .. } | Rule::AtLeast { .. } | Rule::AtMost { .. } => {
            return no_figure(Verdict::NotTested, Reason::NoCase);
        }
    };
    judged.unwrap_or_else(|judgement| *judgement)
}

/// The bound of a rule about one figure, or why it has none. `None` for rules of other kinds.
fn bound_of(rule: &Rule, published: &Published) -> Option<Result<Bound, Box<Judgement>>> {
    let at = |bound: &Option<f64>, end| bound.map_or_else(|| bound::end(published, end), Ok);
    Some(match rule {
        Rule::Within { factor, .. } => number(published).map(|number| Bound::Within { number, factor: *factor }),
        Rule::Range { factor, .. } => {
            bound::range(published).map(|[from, to]| Bound::Range { from, to, factor: *factor })
        }
        Rule::AtLeast { bound, .. } => at(bound, 0).map(|number| Bound::AtLeast { number }),
        Rule::AtMost { bound, .. } => at(bound, 1).map(|number| Bound::AtMost { number }),
        Rule::Share { at_least, .. } => Ok(Bound::SavesAtLeast { share: *at_least }),
        Rule::States { at_least, .. } => Ok(Bound::AtLeast { number: *at_least }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
