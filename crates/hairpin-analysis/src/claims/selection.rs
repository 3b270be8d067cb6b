//! Selects the case of a claim in a run.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::run::State;
use hairpin_model::{CaseSummary, Judgement, Run, Selector};

use super::place::without;

/// The one case that matches the selector and has usable figures; or the verdict if there is none.
pub(super) fn select<'r>(run: &'r Run, selector: &Selector) -> Result<&'r CaseSummary, Judgement> {
    let meant = run.cases.iter().filter(|case| case.case.replicate == 0 && selector.chooses(&case.case));
    match meant.collect::<Vec<_>>().as_slice() {
        [case] => usable(run, case),
        [] => Err(without(Verdict::CannotRun, why_absent(run, selector))),
        several => {
            let labels: Vec<&str> = several.iter().map(|case| case.label.as_str()).collect();
            Err(without(Verdict::CannotRun, format!("several cases match: {}", labels.join("; "))))
        }
    }
}

fn usable<'r>(run: &'r Run, case: &'r CaseSummary) -> Result<&'r CaseSummary, Judgement> {
    if case.rounds == 0 {
        let why = case.failed_rounds.first().cloned();
        let why = why.unwrap_or_else(|| ended(run).unwrap_or_else(|| "none of its rounds was measured".to_owned()));
        return Err(without(Verdict::CannotRun, format!("{}: {why}", case.label)));
    }
    if !case.valid {
        let why = case.why_invalid.join("; ");
        return Err(without(Verdict::CannotTell, format!("{} is invalid: {why}", case.label)));
    }
    Ok(case)
}

fn why_absent(run: &Run, selector: &Selector) -> String {
    let transport = selector.transport.as_deref().unwrap_or_default();
    let skipped = run.skipped.iter().find(|skipped| skipped.transport == transport);
    match skipped {
        Some(skipped) => format!("{}: {}", skipped.case.as_deref().unwrap_or(transport), skipped.reason),
        None => ended(run).unwrap_or_else(|| "the run has no such case".to_owned()),
    }
}

fn ended(run: &Run) -> Option<String> {
    (run.state == State::Interrupted).then(|| "the run was ended before this case".to_owned())
}
