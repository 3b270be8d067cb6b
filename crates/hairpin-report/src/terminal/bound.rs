//! How often the latency of each case exceeds the bound of the run.

use hairpin_model::Run;
use hairpin_model::quantities::{count, exact_duration, share};

use super::page::{DIM, PLAIN, Page};

pub(super) fn lines(page: &mut Page, run: &Run) {
    let Some(bound_ns) = run.plan.bound_ns() else { return };
    page.heading(&format!("Above {}", exact_duration(bound_ns)), "share of all messages, with its interval");
    for row in run.cases.iter().filter(|row| row.case.replicate == 0) {
        let Some(exceeds) = row.primary().exceeds else { continue };
        let [low, high] =
            [exceeds.probability.low, exceeds.probability.high].map(|end| share(end.unwrap_or(f64::NAN)));
        let text = format!(
            "{}: {} ({low} to {high}), as sure as from {} independent messages",
            row.label,
            share(exceeds.probability.value),
            count(exceeds.effective_samples.round() as u64),
        );
        page.paragraph(2, PLAIN, &text);
    }
    let legend = "Messages that exceed a bound come in clusters, so the interval is by blocks of messages. It says nothing about a \
                  time in which the machine has other work.";
    page.paragraph(0, DIM, legend);
}
