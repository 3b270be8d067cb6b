//! Parts of a latency budget as evidence.

use hairpin_model::finding::Severity;
use hairpin_model::{Band, Case, CaseSummary, Evidence, Finding, FindingCard, Run, finding_keys as keys};

use super::{evidence_of, judge_by_block, mean, paired, strongest, with_share};

/// Parts of the sampled round trips of a case, together.
pub(crate) struct InBudget {
    /// Share of the mean round trip, so that a rare long wait counts too.
    share: f64,
    mean_ns: f64,
    pub(crate) evidence: Vec<Evidence>,
}

/// Returns the parts with these names; `None` without a budget, or if they are less than `min_share`.
pub(crate) fn in_budget(case: &CaseSummary, names: &[&str], min_share: f64) -> Option<InBudget> {
    let budget = case.budget.as_ref().filter(|_| case.case.replicate == 0)?;
    let share_of = |band: &Band| names.iter().map(|name| band.share_of(name)).sum::<f64>();
    let share = share_of(&budget.all);
    let mean_ns = share * budget.all.round_trip_ns?;
    let mut evidence = vec![(keys::SHARE_OF_SAMPLED, share), (keys::MEAN_OF_PART, mean_ns)];
    if !budget.slowest.parts.is_empty() {
        evidence.push((keys::SHARE_OF_SLOWEST, share_of(&budget.slowest)));
    }
    let evidence = evidence.into_iter().map(|(key, value)| evidence_of(case, key, value)).collect();
    (share >= min_share).then_some(InBudget { share, mean_ns, evidence })
}

/// Returns the finding, if any, on the cases with these parts. `look` returns for each case the minimum share, and the case with
/// the change of the check `kind`, which is expected to remove the parts and is judged by the mean latency.
pub(crate) fn from_budget(
    run: &Run,
    (card, kind): (&FindingCard, &str),
    names: &[&str],
    look: impl Fn(&Case) -> Option<(f64, Case)>,
) -> Vec<Finding> {
    strongest(run, |case| {
        let (min_share, changed) = look(&case.case)?;
        let found = in_budget(case, names, min_share)?;
        let check = paired(kind, [case.case.clone(), changed]);
        Some(Finding {
            evidence: found.evidence,
            proved: judge_by_block(run, case, &check, found.mean_ns, mean),
            counter_experiment: Some(check),
            ..with_share(card, Severity::Warning, found.share)
        })
    })
}
