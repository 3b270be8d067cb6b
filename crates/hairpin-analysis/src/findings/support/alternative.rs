//! Cases that differ from a given case in one thing: the counter-experiment and, if already measured, its result.

use hairpin_model::finding_keys::check::{CODEL, NODELAY, WITHOUT_STAGE};
use hairpin_model::options::OptionName;
use hairpin_model::{Case, CaseSummary, CounterExperiment, Finding, Proved, Remedy, Run};

use super::{CONFIRMED, Change, change, judge_check, paired, with_option};
use crate::exchanges::with_remedy;
use crate::links::{line_with_codel, line_without};

/// A case with one change, and the result if the run compares it with the unchanged case.
pub(crate) struct Alternative {
    pub(crate) experiment: CounterExperiment,
    pub(crate) change: Option<Change>,
    pub(crate) proved: Option<Proved>,
}

impl Alternative {
    /// Returns the share of the cause: its share in the traces, `traced`, or the measured saving if larger. Traced
    /// rounds are few, so a stall that starts by chance may be rare in them.
    pub(crate) fn share(&self, traced: f64) -> f64 {
        let confirmed = self.proved.as_ref().is_some_and(|proved| proved.verdict == CONFIRMED);
        let saved = self.change.filter(|_| confirmed).map_or(0.0, |change| change.saved_share().value);
        traced.max(saved.clamp(0.0, 1.0))
    }

    fn new(run: &Run, case: &CaseSummary, sibling: Case, kind: &str) -> Self {
        let change = sibling_of(run, &sibling).and_then(|sibling| change(run, case, sibling));
        Self {
            experiment: paired(kind, [case.case.clone(), sibling]),
            proved: change.as_ref().map(|change| judge_check(kind, change)),
            change,
        }
    }
}

pub(crate) fn checked_by(other: Option<Alternative>, finding: Finding) -> Finding {
    let (experiment, proved) = other.map(|other| (other.experiment, other.proved)).unzip();
    Finding { counter_experiment: experiment, proved: proved.flatten(), ..finding }
}

/// Returns the case of the run that equals `sibling`, except for the name of the link.
pub(crate) fn sibling_of<'r>(run: &'r Run, sibling: &Case) -> Option<&'r CaseSummary> {
    let id = sibling.id();
    run.cases.iter().find(|other| other.id == id)
}

pub(crate) fn other_remedy(run: &Run, case: &CaseSummary, remedy: Remedy, kind: &str) -> Option<Alternative> {
    case.case.primary().load.exchange().filter(|exchange| exchange.remedy != remedy)?;
    Some(Alternative::new(run, case, with_remedy(&case.case, remedy), kind))
}

/// Returns `case` with `option` set to `value`; `None` if the option already has this value.
pub(crate) fn other_option(
    run: &Run,
    case: &CaseSummary,
    (option, value): (OptionName, &str),
    kind: &str,
) -> Option<Alternative> {
    let sibling = with_option(&case.case, option, value);
    (sibling != case.case).then(|| Alternative::new(run, case, sibling, kind))
}

/// Returns `case` without Nagle's algorithm: by remedy for exchanges, by option for messages.
pub(crate) fn without_nagle(run: &Run, case: &CaseSummary) -> Option<Alternative> {
    match case.case.primary().load.exchange() {
        Some(_) => other_remedy(run, case, Remedy::Nodelay, NODELAY),
        None => other_option(run, case, (OptionName::Nodelay, "on"), NODELAY),
    }
}

/// Returns `case` over its link without `stage`; `None` if the link has no removable stage of this name.
pub(crate) fn without_stage(run: &Run, case: &CaseSummary, stage: &str) -> Option<Alternative> {
    let line = line_without(case.path.relay.as_ref()?, stage)?;
    Some(Alternative::new(run, case, over_line(&case.case, line), WITHOUT_STAGE))
}

/// Returns the counter-experiment that adds CoDel to the queues of the link; `None` if every queue has CoDel.
pub(crate) fn with_codel(case: &CaseSummary) -> Option<CounterExperiment> {
    let line = line_with_codel(case.path.relay.as_ref()?)?;
    Some(paired(CODEL, [case.case.clone(), over_line(&case.case, line)]))
}

fn over_line(case: &Case, line: &str) -> Case {
    case.clone().with(|changed| {
        changed.path.link = line.to_owned();
        changed.path.name = None;
    })
}
