//! `kept`: the run holds the data that the text requires of a measurement.

use hairpin_model::claim::Kept;
use hairpin_model::judged_claim::Verdict;
use hairpin_model::names::joined;
use hairpin_model::{CaseSummary, Effective, Judgement, Moment, Run, Selector};

use super::place::without;
use super::selection::select;
use crate::valid_rounds;

pub(super) fn judge(case: &Selector, kept: &[Kept], run: &Run) -> Result<Judgement, Judgement> {
    let case = select(run, case)?;
    let (held, absent): (Vec<Kept>, Vec<Kept>) = kept.iter().partition(|kind| holds(**kind, case, run));
    let told = |kinds: &[Kept]| joined(&kinds.iter().map(|kind| in_words(*kind)).collect::<Vec<_>>());
    let what = match (held.as_slice(), absent.as_slice()) {
        (held, []) => format!("reports {}", told(held)),
        ([], absent) => format!("does not report {}", told(absent)),
        (held, absent) => format!("reports {}, but not {}", told(held), told(absent)),
    };
    let verdict = if absent.is_empty() { Verdict::Holds } else { Verdict::DoesNotHold };
    let options = if held.contains(&Kept::Options) { asked_and_granted(case) } else { Vec::new() };
    let granted = if options.is_empty() { String::new() } else { format!(" At the client: {}.", joined(&options)) };
    Ok(without(
        verdict,
        format!("This tests that a figure is reported, not its value. The run of {} {what}.{granted}", case.label),
    ))
}

/// `sndbuf 4096 asked, 4608 granted`, for each option requested at the client.
fn asked_and_granted(case: &CaseSummary) -> Vec<String> {
    let told = |option: &Effective| {
        let asked = option.asked.as_ref()?;
        Some(format!("{} {asked} asked, {} granted", option.name, option.before))
    };
    case.client().effective_options.iter().filter_map(told).collect()
}

fn in_words(kind: Kept) -> &'static str {
    match kind {
        Kept::Percentiles => "a median, a p99 and a mean",
        Kept::Extremes => "the minimum and the maximum",
        Kept::Curve => "a percentile curve, drawn on its page",
        Kept::Samples => "every sample, as CSV",
        Kept::RateOverTime => "the goodput over time, drawn on its page",
        Kept::CpuOverTime => "the CPU use of both ends over time",
        Kept::Options => "the options of its sockets as asked and as granted",
    }
}

fn holds(kind: Kept, case: &CaseSummary, run: &Run) -> bool {
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
        Kept::Options => !asked_and_granted(case).is_empty(),
        Kept::Samples => {
            let of_case = run.rounds.iter().filter(|round| round.case_id == case.id);
            let counted = valid_rounds::timed(of_case);
            !counted.is_empty()
                && counted.iter().all(|(_, round)| {
                    round.primary().samples_file.is_some()
                        && round.primary().samples_kept >= round.primary().figures.samples
                })
        }
    }
}
