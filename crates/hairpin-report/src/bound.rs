//! How often the latency of each case exceeds the bound of the run.

use hairpin_model::quantities::{count, exact_duration, share};
use hairpin_model::{CaseSummary, Run};

pub(crate) const REMARK: &str = "share of all messages (control loops: of all cycles), with its interval";
pub(crate) const LEGEND: &str = "Latencies above a bound come in clusters, so the interval is computed from blocks of messages. The share \
                                 holds only while the machine has as much other work as during this run.";

/// Returns a title, and a line for each case with answers; `None` without such cases or a bound.
pub(crate) fn lines(run: &Run) -> Option<(String, Vec<String>)> {
    let line = |row: &CaseSummary| {
        let exceeds = row.primary().exceeds.filter(|_| row.case.replicate == 0)?;
        let [low, high] =
            [exceeds.probability.low, exceeds.probability.high].map(|end| share(end.unwrap_or(f64::NAN)));
        let (of_all, sure) = (share(exceeds.probability.value), count(exceeds.effective_samples.round() as u64));
        Some(format!("{}: {of_all} ({low} to {high}), as sure as from {sure} independent messages", row.label))
    };
    let title = format!("Above {}", exact_duration(run.plan.bound_ns()?));
    let lines: Vec<String> = run.cases.iter().filter_map(line).collect();
    (!lines.is_empty()).then_some((title, lines))
}
