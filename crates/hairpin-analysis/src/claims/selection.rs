//! Selects the case of a claim in a run.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::run::State;
use hairpin_model::{CaseSummary, Judgement, Reason, Run, Selector};

use super::place::error;

pub(super) fn select<'r>(run: &'r Run, selector: &Selector) -> Result<&'r CaseSummary, Box<Judgement>> {
    let meant = run.cases.iter().filter(|case| case.case.replicate == 0 && selector.chooses(&case.case));
    match meant.collect::<Vec<_>>().as_slice() {
        [case] => usable(run, case),
        [] => Err(error(Verdict::NotTested, why_absent(run, selector))),
        several => {
            let cases = several.iter().map(|case| case.label.clone()).collect();
            Err(error(Verdict::NotTested, Reason::SeveralCases { cases }))
        }
    }
}

fn usable<'r>(run: &'r Run, case: &'r CaseSummary) -> Result<&'r CaseSummary, Box<Judgement>> {
    let label = case.label.clone();
    if case.rounds == 0 {
        let reason = match case.failed_rounds.first() {
            None if run.state == State::Interrupted => Reason::Ended { case: Some(label) },
            cause => Reason::NotMeasured { case: label, cause: cause.cloned() },
        };
        return Err(error(Verdict::NotTested, reason));
    }
    if !case.valid {
        let reasons = case.why_invalid.clone();
        return Err(error(Verdict::Undecided, Reason::Invalid { case: label, reasons }));
    }
    Ok(case)
}

pub(super) fn why_absent(run: &Run, selector: &Selector) -> Reason {
    let transport = selector.transport.as_deref().unwrap_or_default();
    let skipped = run.skipped.iter().find(|skipped| skipped.transport == transport);
    match skipped {
        Some(skipped) => Reason::NotMeasured {
            case: skipped.case.as_deref().unwrap_or(transport).to_owned(),
            cause: Some(skipped.reason.clone()),
        },
        None if run.state == State::Interrupted => Reason::Ended { case: None },
        None => Reason::NoCase,
    }
}
