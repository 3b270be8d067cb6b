//! Figures about rare events, which have intervals of their own: the probability of exceeding a bound, and the shortest period
//! at which few enough deadlines are missed.

use std::collections::BTreeMap;

use hairpin_model::figure::NoInterval;
use hairpin_model::judged_claim::Verdict;
use hairpin_model::rare_events::{EventShare, binomial_interval, clustering, event_share};
use hairpin_model::{
    CaseSummary, Figure, FigureName, FoundPeriod, Judgement, PeriodicCounts, Reason, RoundRecord, Run, Selector,
};

use super::place::error;
use super::selection::why_absent;

/// A figure and the bounds by which it is judged.
pub(super) type WithBounds = (Figure, (f64, f64));

pub(super) fn exceeds(case: &CaseSummary, alpha: f64) -> Result<WithBounds, Box<Judgement>> {
    let exceeds = case.primary().exceeds.ok_or_else(|| {
        let (case, samples) = (case.label.clone(), case.primary().samples);
        error(Verdict::Undecided, Reason::TooFewSamples { case, figure: FigureName::Exceeds, samples })
    })?;
    let (figure, trials) = (exceeds.probability, exceeds.effective_samples);
    let [low, high] = binomial_interval(figure.value * trials, trials, alpha);
    Ok((figure, (low, high)))
}

pub(super) fn found_case<'r>(run: &'r Run, selector: &Selector) -> Result<&'r CaseSummary, Box<Judgement>> {
    let found = run.periodic.as_ref().and_then(|found| found.case.as_ref());
    let Some(case) = found.and_then(|id| run.cases.iter().find(|case| case.id == *id)) else {
        // A search that tried only one case says why it did not measure it.
        let case = run.cases.iter().find(|case| selector.chooses(&case.case));
        let case = case.ok_or_else(|| error(Verdict::NotTested, why_absent(run, selector)))?;
        let cause = case.failed_rounds.first().cloned().or_else(|| Some("the search found no period".to_owned()));
        return Err(error(Verdict::Undecided, Reason::NotMeasured { case: case.label.clone(), cause }));
    };
    if selector.chooses(&case.case) { Ok(case) } else { Err(error(Verdict::NotTested, Reason::NoCase)) }
}

/// Returns the period that the search found. Its interval begins at the longest period at which the share of missed deadlines
/// is above the limit, with a correction for all periods that were tried. It ends at the period, if the confirmation holds at
/// this alpha, and has no end otherwise.
pub(super) fn smallest_period(run: &Run, alpha: f64) -> Result<WithBounds, Box<Judgement>> {
    let found = run.periodic.as_ref().and_then(|found| Some((found, found.smallest_period_ns?)));
    let (found, period_ns) = found.ok_or_else(|| error(Verdict::NotTested, Reason::NoCase))?;
    let FoundPeriod { max_misses, confirmed, .. } = *found;
    let mut by_period: BTreeMap<u64, Vec<&RoundRecord>> = BTreeMap::new();
    for round in &run.rounds {
        if let Some(own) = round.order.case.primary().load.periodic() {
            by_period.entry(own.period_ns).or_default().push(round);
        }
    }
    let of_each = alpha / by_period.len() as f64;
    let fails = |rounds: &[&RoundRecord]| misses(rounds, of_each).low > max_misses;
    let mut failed =
        by_period.range(..=period_ns).filter(|(_, rounds)| fails(rounds)).map(|(period_ns, _)| *period_ns);
    let shortest_ns = run.plan.period_search.map_or(0, |search| search.shortest_ns);
    let low = failed.next_back().unwrap_or(shortest_ns) as f64;
    let last = run.rounds.iter().map(|round| round.order.block).max();
    let fresh: Vec<&RoundRecord> = run.rounds.iter().filter(|round| Some(round.order.block) == last).collect();
    let value = period_ns as f64;
    Ok(if confirmed && misses(&fresh, alpha).high < max_misses {
        (Figure::new(value, low, value), (low, value))
    } else {
        let figure = Figure { low: Some(low), ..Figure::without(value, NoInterval::NotConfirmed) };
        (figure, (low, f64::INFINITY))
    })
}

fn misses(rounds: &[&RoundRecord], alpha: f64) -> EventShare {
    let counts: Vec<&PeriodicCounts> =
        rounds.iter().filter_map(|round| round.measured()?.primary().periodic.as_ref()).collect();
    let sum = |of: fn(&PeriodicCounts) -> u64| counts.iter().map(|counts| of(counts)).fold(0, u64::saturating_add);
    let clusters = clustering(counts.iter().map(|counts| counts.blocks()));
    event_share(sum(|counts| counts.misses), sum(|counts| counts.periods), clusters, alpha)
}
