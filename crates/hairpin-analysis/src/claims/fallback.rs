//! `fallback`: no datagram got through, and another transport was used instead.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{Judgement, Run, Selector};

use super::place::without;
use super::selection::select;

pub(super) fn judge(case: &Selector, from: &str, to: &str, run: &Run) -> Result<Judgement, Judgement> {
    let case = select(run, case)?;
    let fallback = case.case.path.across.as_ref().and_then(|across| across.fallback.as_ref());
    let Some(fallback) = fallback else {
        let why = format!(
            "{}: nothing fell back. That takes a path on which {from} does not come through, and --fallback {to}",
            case.label
        );
        return Err(without(Verdict::CannotTell, why));
    };
    let verdict = if fallback.from == from && fallback.to == to { Verdict::Holds } else { Verdict::DoesNotHold };
    let why =
        format!("{} went over {} in place of {}: {}.", case.label, fallback.to, fallback.from, fallback.evidence);
    Ok(without(verdict, why))
}
