//! Sentences about searches for the shortest period of a control loop.

use hairpin_model::Run;
use hairpin_model::periodic::SearchEnd;
use hairpin_model::quantities::{count, duration, exact_duration, exact_share, share};

/// Returns `Shortest period: 3.19 ms; on fresh data 16 of 4 005 deadlines missed, below 0.96 % (limit 1 %).`
pub(super) fn shortest(run: &Run) -> Option<String> {
    let found = run.periodic.as_ref()?;
    let search = run.plan.period_search?;
    let limit = exact_share(found.max_misses);
    let period = duration(found.smallest_period_ns.unwrap_or(0) as f64);
    let misses = found.misses.unwrap_or_default();
    let missed = count((misses.value * found.periods as f64).round() as u64);
    let periods = count(found.periods);
    let high = share(misses.high.unwrap_or(1.0));
    Some(match found.end {
        SearchEnd::Confirmed => format!(
            "Shortest period: {period}; on fresh data {missed} of {periods} deadlines missed, below {high} (limit {limit})."
        ),
        SearchEnd::NotConfirmed => format!(
            "No period was confirmed: at {period}, {missed} of {periods} deadlines missed on fresh data, up to {high} \
             (limit {limit})."
        ),
        SearchEnd::TooFewPeriods => format!(
            "Not confirmed: {period} seems to hold, but the {periods} periods of {} show at best less than {high} \
             missed (limit {limit}; hint: a longer --over).",
            exact_duration(search.max_confirmation_ns)
        ),
        SearchEnd::NoneHolds => format!(
            "No period up to {} holds: more than {limit} of the deadlines are missed.",
            exact_duration(search.longest_ns)
        ),
        SearchEnd::Incomplete => "The search ended before a period was confirmed.".to_owned(),
    })
}
