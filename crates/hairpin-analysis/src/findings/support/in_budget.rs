//! Parts of a latency budget as evidence.

use hairpin_model::finding::Severity;
use hairpin_model::{Case, CaseSummary, Evidence, Finding, FindingCard, Measured, Run, finding_keys as keys};

use super::{Hits, evidence_of, judge_by_block, paired};

/// Parts of the sampled round trips of a case, together.
#[derive(Clone, Copy, Debug)]
pub(in crate::findings) struct InBudget {
    /// Share of the mean round trip, so that a rare long wait counts too.
    pub(in crate::findings) share: f64,
    mean_ns: f64,
    /// Share of the slowest 1 %.
    of_slowest: Option<f64>,
}

/// Returns the parts with these names; `None` without a budget, or if they are less than `min_share`.
pub(in crate::findings) fn in_budget(case: &CaseSummary, names: &[&str], min_share: f64) -> Option<InBudget> {
    let budget = case.budget.as_ref().filter(|_| case.case.replicate == 0)?;
    let share = names.iter().map(|name| budget.all.share_of(name)).sum();
    let has_slowest = !budget.slowest.parts.is_empty();
    let found = InBudget {
        share,
        mean_ns: share * budget.all.round_trip_ns?,
        of_slowest: has_slowest.then(|| names.iter().map(|name| budget.slowest.share_of(name)).sum()),
    };
    (share >= min_share).then_some(found)
}

impl InBudget {
    pub(in crate::findings) fn evidence(&self, case: &CaseSummary) -> Vec<Evidence> {
        let slowest = self.of_slowest.map(|share| evidence_of(case, keys::SHARE_OF_SLOWEST, share));
        let of_all = [(keys::SHARE_OF_SAMPLED, self.share), (keys::MEAN_OF_PART, self.mean_ns)];
        of_all.map(|(key, value)| evidence_of(case, key, value)).into_iter().chain(slowest).collect()
    }
}

/// Returns the finding on the cases with these parts. `look` returns for each case the minimum share, and the case with
/// the change of the check `kind`, which is expected to remove the parts and is judged by the mean latency.
pub(in crate::findings) fn from_budget(
    run: &Run,
    (card, kind): (&FindingCard, &str),
    names: &[&str],
    look: impl Fn(&Case) -> Option<(f64, Case)>,
) -> Option<Finding> {
    let hits = Hits::among(run, |case| {
        let (min_share, changed) = look(&case.case)?;
        let found = in_budget(case, names, min_share)?;
        Some((found.share, (found, changed)))
    });
    let first = hits.first()?;
    let (found, changed) = &first.data;
    let experiment = paired(kind, [first.case.case.clone(), changed.clone()]);
    let mean = |measured: &Measured| Some(measured.primary().figures.latency_ns.mean);
    Some(Finding {
        evidence: found.evidence(first.case),
        proved: judge_by_block(run, first.case, &experiment, found.mean_ns, mean),
        counter_experiment: Some(experiment),
        ..hits.finding(card, Severity::Warning)
    })
}
