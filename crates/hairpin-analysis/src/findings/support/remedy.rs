//! Counter-experiments that change nothing but the remedy.

use hairpin_model::exchange::Remedy;
use hairpin_model::finding::{CounterExperiment, Proved};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::{Change, change, counter_experiment, paired, proved, told};
use crate::exchanges::with_remedy;

/// Another remedy on a case, and what the run says of it where it compares the two.
pub(in crate::findings) struct OtherRemedy {
    pub(in crate::findings) experiment: CounterExperiment,
    pub(in crate::findings) change: Option<Change>,
    pub(in crate::findings) proved: Option<Proved>,
    /// What came of it, in a sentence; empty where it was not tried.
    pub(in crate::findings) told: String,
}

impl OtherRemedy {
    pub(in crate::findings) fn refuted(&self) -> bool {
        self.proved.as_ref().is_some_and(|proved| proved.verdict == "refuted")
    }
}

/// `case` with `remedy` in place of its own; null where it has no exchanges or has that remedy. `words` say what to expect, and `doing`
/// what is changed, for instance `switching Nagle's algorithm off`.
pub(in crate::findings) fn other_remedy(
    run: &Run,
    case: &CaseSummary,
    remedy: Remedy,
    words: &str,
    doing: &str,
) -> Option<OtherRemedy> {
    let exchange = case.case.exchange.as_ref().filter(|exchange| exchange.remedy != remedy)?;
    let sibling = with_remedy(&case.case, exchange, remedy);
    let values = [exchange.remedy, remedy].map(|remedy| remedy.to_string());
    let change = run.cases.iter().find(|other| other.case == sibling).and_then(|sibling| change(run, case, sibling));
    Some(OtherRemedy {
        experiment: paired(counter_experiment(words, &[&case.case], "remedy", &values), [case.case.clone(), sibling]),
        proved: change.as_ref().map(proved),
        told: change.as_ref().map_or_else(String::new, |change| told(&case.label, doing, change)),
        change,
    })
}
