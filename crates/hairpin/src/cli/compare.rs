//! `hairpin compare BASELINE CANDIDATE`: two saved runs, case by case, with budgets.

use std::path::PathBuf;

use clap::ArgMatches;
use hairpin_analysis::compare::budget::Kept;
use hairpin_analysis::compare::runs::{CaseComparison, Compared};
use hairpin_analysis::compare::unlike::Kind;
use hairpin_analysis::{Budget, BudgetOutcome, RunComparison, compare_runs, unlike};
use hairpin_model::finding::Finding;
use hairpin_model::printable;
use hairpin_model::run::Run;
use hairpin_report::comparison::{
    BudgetResult, Caution, ComparisonReport, ComparisonRow, DifferentLinks, InvalidCase, Unlike,
};
use hairpin_report::{json, terminal};

use super::exit::{Exit, Stopped};
use super::output;
use crate::saved;

/// Compares two runs and checks the budgets.
///
/// # Errors
/// A run cannot be read, a budget cannot be understood, or the runs are unlike and that was not allowed.
pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let path = |name: &str| matches.get_one::<PathBuf>(name).expect("it is required");
    let texts = matches.get_many::<String>("budget").unwrap_or_default();
    let budgets: Vec<Budget> = texts.map(|text| text.parse()).collect::<Result<_, _>>().map_err(Stopped::usage)?;
    let (_, baseline) = saved::open(path("BASELINE")).map_err(Stopped::usage)?;
    let (_, candidate) = saved::open(path("CANDIDATE")).map_err(Stopped::usage)?;
    let differences = unlike(&baseline, &candidate);
    let unlike: Vec<Unlike> = differences
        .iter()
        .filter(|difference| difference.kind != Kind::Case)
        .map(|difference| Unlike {
            what: format!("{}: {}", difference.kind, difference.what),
            baseline: difference.baseline.clone(),
            candidate: difference.candidate.clone(),
        })
        .collect();
    let compared = compare_runs(&baseline, &candidate, baseline.seed);
    // Before what `--allow-unlike` would allow: it gives them no case in common.
    if compared.cases.is_empty() {
        return Err(Stopped::usage("the two runs have no case in common (hint: run the same command for both)"));
    }
    if !unlike.is_empty() && !matches.get_flag("allow-unlike") {
        return Err(Stopped::usage(refusal(&unlike)));
    }
    let outcomes: Vec<BudgetOutcome> = budgets.iter().flat_map(|budget| budget.check(&compared)).collect();
    let names = [path("BASELINE"), path("CANDIDATE")].map(|path| path.display().to_string());
    let cautions =
        [(&names[0], &baseline), (&names[1], &candidate)].into_iter().flat_map(|(name, run)| cautions(name, run));
    let cautions = cautions.collect();
    let report = ComparisonReport { cautions, ..report(names, &compared, unlike, &outcomes) };
    if matches.get_flag("json") {
        output::json(&format!("{}\n", json::render_comparison(&report)));
    } else {
        output::text(&terminal::render_comparison(&report, &output::look()));
    }
    let broken = report.budgets.iter().any(|budget| budget.kept == Some(false));
    Ok(if broken { Exit::CheckFailed } else { Exit::Fine })
}

fn refusal(unlike: &[Unlike]) -> String {
    let lines = unlike.iter().map(|one| {
        let [what, baseline, candidate] =
            [&one.what, &one.baseline, &one.candidate].map(|text| printable::line(text));
        format!("\n  {what}: {baseline} against {candidate}")
    });
    let lines: String = lines.collect();
    format!("the two runs are not alike:{lines}\n(hint: --allow-unlike compares them all the same)")
}

/// Findings about all of a run, which no comparison with another run removes.
const ABOUT_THE_RUN: &[&str] = &["noisy-machine"];

fn cautions(name: &str, run: &Run) -> Vec<Caution> {
    let about = run.findings.iter().filter(|finding| ABOUT_THE_RUN.contains(&finding.code.as_str()));
    let caution = |finding: &Finding| Caution {
        run: name.to_owned(),
        code: finding.code.clone(),
        summary: finding.summary.clone(),
    };
    about.map(caution).collect()
}

/// A budget and its outcome. Figures that may not be used, or that are gone, must not keep it.
fn budget(outcome: &BudgetOutcome) -> BudgetResult {
    let kept = match outcome.kept {
        _ if !(outcome.baseline_usable && outcome.candidate_usable) => Some(false),
        Kept::Exceeded => Some(false),
        Kept::Within => Some(true),
        Kept::CannotTell => None,
    };
    BudgetResult {
        case: outcome.label.clone(),
        figure: outcome.budget.figure.to_string(),
        allowed_share: outcome.budget.share,
        ratio: outcome.ratio,
        kept,
        baseline_usable: outcome.baseline_usable,
        candidate_usable: outcome.candidate_usable,
    }
}

fn invalid(compared: &RunComparison) -> Vec<InvalidCase> {
    let invalid = compared.cases.iter().filter(|case| !case.is_valid());
    let told = |case: &CaseComparison| InvalidCase {
        case: case.label.clone(),
        baseline: case.baseline_why_invalid.clone(),
        candidate: case.candidate_why_invalid.clone(),
    };
    invalid.map(told).collect()
}

fn report(
    [baseline, candidate]: [String; 2],
    compared: &RunComparison,
    unlike: Vec<Unlike>,
    outcomes: &[BudgetOutcome],
) -> ComparisonReport {
    let mut rows = Vec::new();
    for case in &compared.cases {
        for figure in &case.figures {
            let (Some(one), Some(other), Some(ratio)) = (figure.baseline, figure.candidate, figure.ratio) else {
                continue;
            };
            rows.push(ComparisonRow {
                case: case.label.clone(),
                figure: figure.figure.to_string(),
                unit: if figure.figure == Compared::Rate { "per_s" } else { "ns" }.to_owned(),
                baseline: one,
                candidate: other,
                ratio,
                verdict: figure.verdict,
                valid: case.is_valid(),
            });
        }
    }
    let only =
        |labels: &[String], run: &str| labels.iter().map(|label| (label.clone(), run.to_owned())).collect::<Vec<_>>();
    ComparisonReport {
        only_in: [only(&compared.only_in_baseline, &baseline), only(&compared.only_in_candidate, &candidate)]
            .concat(),
        baseline,
        candidate,
        links: compared
            .links
            .clone()
            .map(|links| DifferentLinks { baseline: links.baseline, candidate: links.candidate }),
        invalid: invalid(compared),
        rows,
        unlike,
        cautions: Vec::new(),
        budgets: outcomes.iter().map(budget).collect(),
    }
}
