//! Figures that only control loops have.

use hairpin_model::rare_events::{clustering, event_share};
use hairpin_model::{EndReport, Figure, Flow, LatencyFigures, Measured, PeriodicCounts, PeriodicFigures};
use hdrhistogram::Histogram;

use crate::over_rounds::OverRounds;

/// Minimum samples of a case for a p99.99: ten samples above it.
const SAMPLES_FOR_P9999: u64 = 100_000;

/// Computes the figures of a control loop; `None` for other loads. Deadlines count in all `measured` rounds, whatever the state of
/// the machine.
pub(crate) fn figures(
    flow: &Flow,
    rounds: &OverRounds<'_>,
    measured: &[&Measured],
    [response_ns, release_jitter_ns]: [LatencyFigures; 2],
    histograms: [Option<&Histogram<u64>>; 2],
) -> Option<PeriodicFigures> {
    flow.load.periodic()?;
    let counts = || measured.iter().filter_map(|measured| measured.flow(&flow.id)?.periodic.as_ref());
    let sum = |of: fn(&PeriodicCounts) -> u64| counts().map(of).fold(0, u64::saturating_add);
    let by_blocks = clustering(counts().map(PeriodicCounts::blocks));
    let share = event_share(sum(|counts| counts.misses), sum(|counts| counts.periods), by_blocks, rounds.alpha());
    let p9999_ns =
        |all: &Histogram<u64>| (all.len() >= SAMPLES_FOR_P9999).then(|| all.value_at_quantile(0.9999) as f64);
    let [response_p9999_ns, release_jitter_p9999_ns] = histograms.map(|all| all.and_then(p9999_ns));
    Some(PeriodicFigures {
        release_jitter_ns,
        response_ns,
        response_p9999_ns,
        release_jitter_p9999_ns,
        periods: sum(|counts| counts.periods),
        misses: sum(|counts| counts.misses),
        skipped: sum(|counts| counts.skipped),
        longest_miss_run: counts().map(|counts| counts.longest_miss_run).max().unwrap_or(0),
        miss_share: (sum(|counts| counts.periods) > 0).then(|| Figure::new(share.value, share.low, share.high)),
        effective_periods: share.effective_trials,
        wake_ups_per_period: rounds.median(|measured| per_period(flow, measured, |client| client.voluntary_switches)),
    })
}

pub(crate) fn per_period(flow: &Flow, measured: &Measured, of: fn(&EndReport) -> u64) -> Option<f64> {
    let periods = measured.flow(&flow.id)?.periodic.as_ref()?.periods;
    (periods > 0).then(|| of(measured.client()) as f64 / periods as f64)
}
