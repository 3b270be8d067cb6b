//! Counts losses of one-way loads by cause, and tests whether a change removes them.

use hairpin_model::finding_keys::check::LOWER_RATE;
use hairpin_model::flow::Pacing;
use hairpin_model::{
    Arrivals, Case, CaseSummary, CounterExperiment, Evidence, Figure, Key, Ledger, Load, Measured, Proved, Run,
    finding_keys as keys,
};

use super::{evidence_of, judge_by_block, paired};

/// The messages that a case lost to certain causes.
#[derive(Clone, Copy, Debug)]
pub(in crate::findings) struct Lost {
    pub(in crate::findings) count: u64,
    pub(in crate::findings) sent: u64,
    causes: &'static [&'static str],
}

/// Counts the messages that a one-way load lost to these causes; `None` if it lost none.
pub(in crate::findings) fn losses_by(case: &CaseSummary, causes: &'static [&'static str]) -> Option<Lost> {
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
    pub(in crate::findings) fn share(&self) -> f64 {
        (self.count as f64 / self.sent.max(1) as f64).min(1.0)
    }

    /// Returns the numbers of messages sent and lost as evidence; `key` names the lost messages.
    pub(in crate::findings) fn evidence(&self, key: Key, case: &CaseSummary) -> Vec<Evidence> {
        vec![
            evidence_of(case, keys::SENT, self.sent as f64),
            evidence_of(case, key, self.count as f64),
            evidence_of(case, keys::SHARE_OF_SENT, self.share()),
        ]
    }

    /// Judges by the share lost in each round whether a change removed the loss; `None` without the changed case.
    pub(in crate::findings) fn judge_change(
        &self,
        run: &Run,
        case: &CaseSummary,
        experiment: &CounterExperiment,
    ) -> Option<Proved> {
        let of = |measured: &Measured| Some(share(&measured.primary().ledger, self.causes));
        let proved = judge_by_block(run, case, experiment, self.share(), of)?;
        Some(Proved { unit: "share".to_owned(), ..proved })
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

/// Returns the median rate of arriving messages, per second.
pub(in crate::findings) fn arrived_per_s(case: &CaseSummary) -> Option<Figure> {
    case.one_way()?.received_per_s
}

/// Returns the counter-experiment that offers a share of the rate that arrived, paired with the original case.
pub(in crate::findings) fn with_lower_rate(case: &CaseSummary, share: f64) -> Option<CounterExperiment> {
    let changed = offered_at(&case.case, share * arrived_per_s(case)?.value)?;
    let mut experiment = paired(LOWER_RATE, [case.case.clone(), changed]);
    // A command cannot mix loads with and without an offered rate.
    experiment.repeat.cases.retain(|case| case.primary().load.rate_per_s().is_some());
    Some(experiment)
}
