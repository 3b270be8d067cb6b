//! `hairpin compare BEFORE... --against AFTER...`: compares saved runs case by case, and checks budgets. `gate.rs` has
//! runs that are measured for the comparison.

use std::path::PathBuf;

use clap::ArgMatches;
use hairpin_analysis::compare::runs::CaseComparison;
use hairpin_analysis::{
    Budget, RunComparison, choices_that_differ, compare_runs, of_phase, side_in_own_namespaces, unlike,
};
use hairpin_model::names::distinct;
use hairpin_model::phases::Phase;
use hairpin_model::quantities::counted;
use hairpin_model::{
    BudgetResult, Caution, ComparisonReport, ComparisonRow, Decision, Finding, InvalidCase, Run, Unlike, printable,
};
use hairpin_report::{terminal, words};
use hairpin_store::Memory;

use super::exit::{Exit, Stopped};
use super::output;
use crate::saved;

pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let budgets = budgets_of(matches)?;
    let [before, after] = sides(matches)?;
    let phase: Option<Phase> = matches.get_one::<String>("phase").and_then(|word| word.parse().ok());
    let mut memory = Memory::default();
    let mut open = |paths: &[PathBuf]| -> Result<Vec<Run>, Stopped> {
        let one = |path: &PathBuf| Ok(saved::open_within(path, &mut memory).map_err(Stopped::usage)?.1);
        let runs: Vec<Run> = paths.iter().map(one).collect::<Result<_, Stopped>>()?;
        let in_phase = |run: &Run, phase| {
            let mut run = of_phase(run, phase);
            words::write_reasons(&mut run);
            run
        };
        Ok(match phase {
            Some(phase) => runs.iter().map(|run| in_phase(run, phase)).collect(),
            None => runs,
        })
    };
    let (baselines, candidates) = (open(&before)?, open(&after)?);
    refuse_twice(before.iter().zip(&baselines).chain(after.iter().zip(&candidates)))?;
    let [of_before, of_after] = [&baselines, &candidates].map(|runs| runs.iter().collect::<Vec<_>>());
    let unlike = differences(&of_before, &of_after);
    let compared = compare_runs(&of_before, &of_after);
    // Checked first, because `--allow-unlike` would not help.
    if compared.cases.is_empty() {
        return Err(Stopped::usage(nothing_in_common(&choices_that_differ(&of_before, &of_after))));
    }
    if !unlike.is_empty() && !matches.get_flag("allow-unlike") {
        return Err(Stopped::usage(refusal(&unlike)));
    }
    let budgets = Budget::check_all(&budgets, &compared);
    let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let (before, after) = (names(&before), names(&after));
    let cautions = before.iter().zip(&baselines).chain(after.iter().zip(&candidates));
    let cautions = cautions.flat_map(|(name, run)| cautions_of(name, run));
    let names = [before.join(", "), after.join(", ")];
    let own_namespaces = side_in_own_namespaces(&of_before, &of_after).map(|side| Caution {
        run: names[side].clone(),
        code: "network-namespace".to_owned(),
        summary: OWN_NAMESPACES.to_owned(),
    });
    let cautions = cautions.chain(own_namespaces).collect();
    let report = ComparisonReport { cautions, ..report(names, &compared, unlike, budgets) };
    finish(&report, matches, true)
}

pub(super) fn budgets_of(matches: &ArgMatches) -> Result<Vec<Budget>, Stopped> {
    let texts = matches.get_many::<String>("budget").unwrap_or_default();
    texts.map(|text| text.parse()).collect::<Result<_, _>>().map_err(Stopped::usage)
}

/// Prints the report, and returns its exit code. `is_complete`: all rounds were measured and saved.
pub(super) fn finish(report: &ComparisonReport, matches: &ArgMatches, is_complete: bool) -> Result<Exit, Stopped> {
    output::result(matches.get_flag("json"), report, |look| terminal::render_comparison(report, &look));
    if let Some(path) = matches.get_one::<PathBuf>("markdown") {
        std::fs::write(path, terminal::markdown_comparison(report)).map_err(|error| {
            let why = format!("cannot write {}: {error} (hint: choose another file with --markdown)", path.display());
            Stopped::with(Exit::RoundsFailed, why)
        })?;
    }
    let passes =
        report.budgets.is_empty() || matches.get_one::<String>("undecided").is_some_and(|word| word == "pass");
    Ok(match report.decision() {
        Decision::Broken => Exit::CheckFailed,
        Decision::Unusable => Exit::Unusable,
        _ if !is_complete => Exit::RoundsFailed,
        Decision::Undecided if !passes => Exit::Undecided,
        Decision::Undecided | Decision::Decided | Decision::Held => Exit::Fine,
    })
}

/// The folders before and after: two arguments, or the arguments before and after `--against`.
fn sides(matches: &ArgMatches) -> Result<[Vec<PathBuf>; 2], Stopped> {
    let paths = |name: &str| matches.get_many::<PathBuf>(name).unwrap_or_default().cloned().collect::<Vec<_>>();
    let (mut before, mut after) = (paths("RUN"), paths("against"));
    if after.is_empty() && before.len() == 2 {
        after = before.split_off(1);
    }
    if after.is_empty() {
        let given = counted(before.len() as u64, "run");
        return Err(Stopped::usage(format!(
            "{given} given: nothing to compare it with (hint: hairpin compare BEFORE AFTER, or hairpin compare \
             BEFORE... --against AFTER...)"
        )));
    }
    Ok([before, after])
}

/// Refuses a run that is given twice, also as a copy, because it would count as two runs that agree.
fn refuse_twice<'r>(runs: impl Iterator<Item = (&'r PathBuf, &'r Run)>) -> Result<(), Stopped> {
    let runs: Vec<_> = runs.collect();
    for (place, (path, run)) in runs.iter().enumerate() {
        if let Some((earlier, _)) = runs[..place].iter().find(|(_, earlier)| earlier == run) {
            let (earlier, path) = (earlier.display(), path.display());
            return Err(Stopped::usage(format!("{earlier} and {path} are the same run (hint: give each run once)")));
        }
    }
    Ok(())
}

/// Differences of all runs from the first baseline, without duplicates.
pub(super) fn differences(baselines: &[&Run], candidates: &[&Run]) -> Vec<Unlike> {
    let Some(first) = baselines.first() else { return Vec::new() };
    distinct(baselines.iter().skip(1).chain(candidates).flat_map(|other| unlike(first, other)))
}

/// Why the two sides have no case in common, and what can be compared.
pub(super) fn nothing_in_common(differ: &[Unlike]) -> String {
    let told = |one: &Unlike| {
        printable::line(&format!("{} ({} against {})", one.what, one.baseline, one.candidate)).into_owned()
    };
    let all = differ.iter().map(told).collect::<Vec<_>>().join(", ");
    let names = || differ.iter().map(|one| one.what.as_str()).collect::<Vec<_>>().join(", ");
    match differ {
        [] => "the runs have no case in common (hint: run the same command for all)".to_owned(),
        [_] => format!(
            "the runs have no case in common and differ in {all}, which has several values in a run (hint: compare \
            runs with one value each)"
        ),
        [_, _, _, _, ..] => format!(
            "the runs have no case in common: they differ in {} (hint: compare runs of the same experiment that differ in \
             one of these only)",
            names()
        ),
        _ => format!(
            "the runs have no case in common and differ in {all} (hint: compare runs that differ in one of these only)"
        ),
    }
}

fn refusal(unlike: &[Unlike]) -> String {
    let lines = unlike.iter().map(|one| {
        let [what, baseline, candidate] =
            [&one.what, &one.baseline, &one.candidate].map(|text| printable::line(text));
        format!("\n  {what}: {baseline} against {candidate}")
    });
    let lines: String = lines.collect();
    format!("the runs differ:{lines}\n(hint: --allow-unlike compares them anyway)")
}

const OWN_NAMESPACES: &str =
    "only one side ran in its own network namespace (--sysctl), so other kernel settings may differ";

/// Codes of the findings about a whole run that also affect its comparisons.
const ABOUT_THE_RUN: &[&str] = &["noisy-machine"];

pub(super) fn cautions_of(name: &str, run: &Run) -> Vec<Caution> {
    let about = run.findings.iter().filter(|finding| ABOUT_THE_RUN.contains(&finding.code.as_str()));
    let caution = |finding: &Finding| Caution {
        run: name.to_owned(),
        code: finding.code.clone(),
        summary: finding.summary.clone(),
    };
    distinct(about.map(caution))
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

pub(super) fn report(
    [baseline, candidate]: [String; 2],
    compared: &RunComparison,
    unlike: Vec<Unlike>,
    budgets: Vec<BudgetResult>,
) -> ComparisonReport {
    let mut rows = Vec::new();
    for case in &compared.cases {
        for figure in case.figures.iter().filter(|figure| figure.has_verdict) {
            let ratio = figure.ratio();
            let (Some(one), Some(other), Some(ratio)) = (figure.baseline, figure.candidate, ratio) else {
                continue;
            };
            rows.push(ComparisonRow {
                case: case.label.clone(),
                figure: figure.figure.to_string(),
                unit: figure.figure.unit().to_owned(),
                baseline: one,
                candidate: other,
                ratio,
                verdict: figure.verdict,
                smallest_detectable: figure.smallest_detectable,
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
        differs: compared.differs.clone(),
        invalid: invalid(compared),
        rows,
        unlike,
        budgets,
        ..ComparisonReport::default()
    }
}
