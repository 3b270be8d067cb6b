//! `kept`: the run contains the data that the text requires of a measurement.

use hairpin_model::claim::Kept;
use hairpin_model::judged_claim::Verdict;
use hairpin_model::{CaseSummary, Effective, Judgement, Moment, Reason, Run, Selector, fact, fact_names};

use super::place::no_figure;
use super::selection::select;
use crate::valid_rounds;

pub(super) fn judge(case: &Selector, kept: &[Kept], run: &Run) -> Result<Judgement, Box<Judgement>> {
    let case = select(run, case)?;
    let (held, absent): (Vec<Kept>, Vec<Kept>) = kept.iter().partition(|kind| has_data(**kind, case, run));
    let options = if held.contains(&Kept::Options) { requested(case) } else { Vec::new() };
    let verdict = if absent.is_empty() { Verdict::Confirmed } else { Verdict::Refuted };
    let timer_slack_ns = timer_slack_ns(case).filter(|_| held.contains(&Kept::TimerSlack));
    let case = case.label.clone();
    Ok(no_figure(verdict, Reason::Kept { case, reported: held, absent, options, timer_slack_ns }))
}

fn timer_slack_ns(case: &CaseSummary) -> Option<[u64; 2]> {
    let granted = fact::number(&case.client().facts, fact_names::TIMER_SLACK_NS)?;
    Some([case.case.ends.timer_slack_ns?, granted as u64])
}

fn requested(case: &CaseSummary) -> Vec<Effective> {
    case.client().effective_options.iter().filter(|option| option.asked.is_some()).cloned().collect()
}

fn has_data(kind: Kept, case: &CaseSummary, run: &Run) -> bool {
    match kind {
        Kept::Percentiles => {
            let latency = &case.primary().latency_ns;
            latency.p50.is_some() && latency.p99.is_some() && latency.mean.is_some()
        }
        Kept::Extremes => {
            case.primary().latency_ns.max.is_some()
                && case.primary().curve.first().is_some_and(|point| point.quantile == 0.0)
        }
        Kept::Curve => case.primary().curve.len() > 2,
        Kept::RateOverTime => case.primary().over_time.is_some(),
        Kept::CpuOverTime => case.primary().over_time.as_ref().is_some_and(|course| {
            let has = |cpu: fn(&Moment) -> Option<f64>| course.moments.iter().any(|moment| cpu(moment).is_some());
            has(|moment| moment.client_cpu) && has(|moment| moment.server_cpu)
        }),
        Kept::Options => !requested(case).is_empty(),
        Kept::TimerSlack => timer_slack_ns(case).is_some(),
        Kept::Samples => {
            let of_case = run.rounds.iter().filter(|round| round.case_id == case.id);
            let counted = valid_rounds::timed_rounds(of_case);
            !counted.is_empty()
                && counted.iter().all(|(_, round)| {
                    round.primary().samples_file.is_some()
                        && round.primary().samples_kept >= round.primary().figures.samples
                })
        }
    }
}
