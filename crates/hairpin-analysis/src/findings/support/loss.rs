//! Counts losses of one-way loads by cause, and tests whether a change removes them.

use hairpin_model::finding::Severity;
use hairpin_model::finding_keys::check::LOWER_RATE;
use hairpin_model::flow::Pacing;
use hairpin_model::{
    Arrivals, Case, CaseSummary, CounterExperiment, Figure, Finding, FindingCard, Key, Ledger, Load, Measured,
    Proved, Run, finding_keys as keys,
};

use super::{evidence_of, judge_by_block, paired, with_share};

/// The messages that a case lost to certain causes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    count: u64,
    sent: u64,
    causes: &'static [&'static str],
}

/// Counts the messages that a one-way load lost to these causes; `None` if it lost none.
pub(crate) fn losses_by(case: &CaseSummary, causes: &'static [&'static str]) -> Option<Lost> {
    if case.case.replicate != 0 || !case.case.primary().load.is_one_way() {
        return None;
    }
    let ledger = case.ledger();
    let count = count(&ledger, causes);
    (count > 0).then_some(Lost { count, sent: ledger.sent, causes })
}

fn count(ledger: &Ledger, causes: &[&str]) -> u64 {
    causes.iter().filter_map(|cause| ledger.lost.get(*cause)).sum()
}

fn share(ledger: &Ledger, causes: &[&str]) -> f64 {
    (count(ledger, causes) as f64 / ledger.sent.max(1) as f64).min(1.0)
}

impl Lost {
    pub(crate) fn share(&self) -> f64 {
        (self.count as f64 / self.sent.max(1) as f64).min(1.0)
    }

    /// Returns a finding on the case: the numbers of messages sent and lost, the latter by its `key`, and the
    /// counter-experiment, which is judged by the share lost in each round.
    pub(crate) fn finding(
        &self,
        run: &Run,
        card: &FindingCard,
        (case, key): (&CaseSummary, Key),
        check: Option<CounterExperiment>,
    ) -> Finding {
        let of = |measured: &Measured| Some(share(&measured.primary().ledger, self.causes));
        let proved = check.as_ref().and_then(|check| judge_by_block(run, case, check, self.share(), of));
        Finding {
            evidence: vec![
                evidence_of(case, keys::SENT, self.sent as f64),
                evidence_of(case, key, self.count as f64),
                evidence_of(case, keys::SHARE_OF_SENT, self.share()),
            ],
            proved: proved.map(|proved| Proved { unit: "share".to_owned(), ..proved }),
            counter_experiment: check,
            ..with_share(card, Severity::Warning, self.share())
        }
    }
}

/// Returns the case with its messages offered at `per_s` messages per second; `None` if its rate is already lower.
fn offered_at(case: &Case, per_s: f64) -> Option<Case> {
    let per_s = per_s.floor().max(1.0);
    match case.primary().load {
        Load::Offered { offered_per_s, .. } => (per_s < offered_per_s).then(|| case.at_rate(per_s)),
        Load::Messages { .. } | Load::Stream { .. } => {
            let (size_bytes, arrivals, pacing) =
                (case.primary().load.size_bytes(), Arrivals::Fixed, Pacing::SleepSpin);
            let load = Load::Offered { offered_per_s: per_s, size_bytes, arrivals, pacing };
            Some(case.clone().with(|changed| changed.primary_mut().load = load))
        }
        Load::PingPong { .. } | Load::Paced { .. } | Load::Exchange { .. } | Load::Periodic { .. } => None,
    }
}

pub(crate) fn arrived_per_s(case: &CaseSummary) -> Option<Figure> {
    case.one_way()?.received_per_s
}

/// Returns the counter-experiment that offers a share of the rate that arrived, paired with the original case.
pub(crate) fn with_lower_rate(case: &CaseSummary, share: f64) -> Option<CounterExperiment> {
    let changed = offered_at(&case.case, share * arrived_per_s(case)?.value)?;
    let mut experiment = paired(LOWER_RATE, [case.case.clone(), changed]);
    // A command cannot mix loads with and without an offered rate.
    experiment.repeat.cases.retain(|case| case.primary().load.rate_per_s().is_some());
    Some(experiment)
}
