//! `fallback`: no datagram arrived, and another transport was used instead.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{Judgement, Reason, Run, Selector};

use super::place::{error, no_figure};
use super::selection::select;

pub(super) fn judge(case: &Selector, from: &str, to: &str, run: &Run) -> Result<Judgement, Box<Judgement>> {
    let case = select(run, case)?;
    let fallback = case.case.path.across.as_ref().and_then(|across| across.fallback.as_ref());
    let Some(fallback) = fallback else {
        let (from, to) = (from.to_owned(), to.to_owned());
        return Err(error(Verdict::Undecided, Reason::NoFallback { case: case.label.clone(), from, to }));
    };
    let verdict = if fallback.from == from && fallback.to == to { Verdict::Confirmed } else { Verdict::Refuted };
    Ok(no_figure(verdict, Reason::FellBack { case: case.label.clone(), fallback: fallback.clone() }))
}
