//! Figures by name, in the unit of the published text, and their ratios.

use std::collections::BTreeMap;

use hairpin_model::figure::NoInterval;
use hairpin_model::flow::Direction;
use hairpin_model::judged_claim::Verdict;
use hairpin_model::names::distinct;
use hairpin_model::reason::OuterBounds;
use hairpin_model::{CaseSummary, Figure, FigureName, Judgement, Measure, Pool, Published, Reason, Run, Value};

use super::of_round::by_block;
use super::place::{error, no_figure};
use super::rare;
use super::selection::select;
use super::units::{RATIO_UNIT, is_latency, scale};
use crate::compare::{as_ratio, difference_by_block, logarithms_by_block, over_points, step_share, widened};
use crate::statistics::interval::{Estimate, median_over};

/// The runs by which a rule is judged.
#[derive(Clone, Copy)]
pub(super) struct Evidence<'r> {
    pub(super) run: &'r Run,
    /// The run with the case of the denominator: the same run, unless the rule names another run.
    pub(super) other: &'r Run,
    /// What part of the run's alpha is left for this rule: 1 unless several rules are corrected for.
    pub(super) alpha_share: f64,
}

/// A figure, and the bounds by which it is judged: its interval, or without an interval the outer bounds of its rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounded {
    pub(super) figure: Figure,
    pub(super) bounds: Option<(f64, f64)>,
    pub(super) rounds: u64,
}

impl Bounded {
    pub(super) fn outer_bounds(&self) -> Option<OuterBounds> {
        let has_none = self.figure.interval().is_none() && self.figure.why != Some(NoInterval::SaysNothing);
        let (low, high) = self.bounds.filter(|(low, high)| has_none && low.is_finite() && high.is_finite())?;
        Some(OuterBounds { low, high, rounds: self.rounds })
    }

    fn rising(self, change: impl Fn(f64) -> f64) -> Self {
        let bounds = self.bounds.map(|(low, high)| (change(low), change(high)));
        Self { figure: self.figure.rising(change), bounds, ..self }
    }

    pub(super) fn falling(self, change: impl Fn(f64) -> f64) -> Self {
        let bounds = self.bounds.map(|(low, high)| (change(high), change(low)));
        Self { figure: self.figure.falling(change), bounds, ..self }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) figure: Bounded,
    pub(super) unit: String,
    pub(super) name: FigureName,
    /// The label of the case; `against` is the label of the denominator's case.
    pub(super) case: String,
    pub(super) against: Option<String>,
}

pub(super) fn with_figure(figure: Bounded, unit: &str, verdict: Verdict, reason: Reason) -> Judgement {
    Judgement {
        measured: Some(figure.figure),
        measured_unit: Some(unit.to_owned()),
        outer_bounds: figure.outer_bounds(),
        ..no_figure(verdict, reason)
    }
}

pub(super) fn number(published: &Published) -> Result<f64, Box<Judgement>> {
    match published.value {
        Value::Number(number) => Ok(number),
        _ => Err(error(Verdict::NotTested, Reason::NotPublished { needed: "number".to_owned() })),
    }
}

pub(super) fn measure(of: &Measure, unit: &str, evidence: Evidence<'_>) -> Result<Measured, Box<Judgement>> {
    let Evidence { run, other, alpha_share } = evidence;
    let name = of.figure;
    if let Some(against) = &of.against {
        return ratio_of(name, [(against, other), (&of.case, run)], alpha_share);
    }
    let case = match name {
        FigureName::SmallestPeriod => rare::found_case(run, &of.case.0[0])?,
        _ => select(run, &of.case.0[0])?,
    };
    let unit = unit.to_owned();
    let scale = scale(name, &unit)
        .ok_or_else(|| error(Verdict::NotTested, Reason::WrongUnit { figure: name, unit: unit.clone() }))?;
    let alpha = run.plan.alpha * alpha_share;
    let own = |(figure, bounds)| Bounded { figure, bounds: Some(bounds), rounds: run.rounds.len() as u64 };
    let figure = match name {
        FigureName::Exceeds => own(rare::exceeds(case, alpha)?),
        FigureName::SmallestPeriod => own(rare::smallest_period(run, alpha)?),
        _ => bounded((case, run), name, alpha_share)?,
    };
    let figure = figure.rising(|value| value * scale);
    Ok(Measured { figure, unit, name, case: case.label.clone(), against: None })
}

pub(super) fn ratio_of(
    name: FigureName,
    pools: [(&Pool, &Run); 2],
    alpha_share: f64,
) -> Result<Measured, Box<Judgement>> {
    let pairs = pairs(pools)?;
    let labels = |of: fn(&[RunRow<'_>; 2]) -> String| distinct(pairs.iter().map(of)).join(" and ");
    let (case, against) = (labels(|pair| pair[1].0.label.clone()), labels(|pair| pair[0].0.label.clone()));
    let figure = ratio(name, &pairs, alpha_share)?;
    Ok(Measured { figure, unit: RATIO_UNIT.to_owned(), name, case, against: Some(against) })
}

pub(super) type RunRow<'r> = (&'r CaseSummary, &'r Run);

pub(super) fn pairs<'r>(pools: [(&Pool, &'r Run); 2]) -> Result<Vec<[RunRow<'r>; 2]>, Box<Judgement>> {
    let [(first, first_run), (second, second_run)] = pools;
    let pair =
        |(first, second)| Ok([(select(first_run, first)?, first_run), (select(second_run, second)?, second_run)]);
    let all: Vec<Result<[RunRow<'r>; 2], Box<Judgement>>> = first.0.iter().zip(&second.0).map(pair).collect();
    if all.iter().all(Result::is_err) { all.into_iter().collect() } else { Ok(all.into_iter().flatten().collect()) }
}

/// Returns second / first of a figure over all pairs: the median of the ratios per block, as in comparisons. Cases of
/// two runs share no block, so the result is the ratio of their medians.
pub(super) fn ratio(
    name: FigureName,
    pairs: &[[RunRow<'_>; 2]],
    alpha_share: f64,
) -> Result<Bounded, Box<Judgement>> {
    let mut step = 0.0_f64;
    for pair in pairs {
        // Without enough samples for a figure, the ratio is not computed either.
        let [one, other] = [figure(pair[0], name)?, figure(pair[1], name)?];
        step = step.max(if is_latency(name) { step_share(one.value.min(other.value)) } else { 0.0 });
    }
    let of_first = |pair: &[RunRow<'_>; 2]| unpaired_blocks(logarithms(name, pair[0]), pair[0].1, pair[1].1);
    let first = mean_by_block(&pairs.iter().map(of_first).collect::<Vec<_>>());
    let second = mean_by_block(&pairs.iter().map(|pair| logarithms(name, pair[1])).collect::<Vec<_>>());
    ratio_by_block(&first, &second, step, pairs[0][0], alpha_share).ok_or_else(|| {
        let cases = pairs[0].map(|(case, _)| case.label.clone()).to_vec();
        error(Verdict::Undecided, Reason::Zero { figure: name, cases })
    })
}

fn mean_by_block(of: &[BTreeMap<u32, f64>]) -> BTreeMap<u32, f64> {
    let mean = |block: &u32| {
        let values: Option<Vec<f64>> = of.iter().map(|values| values.get(block).copied()).collect();
        values.map(|values| (*block, values.iter().sum::<f64>() / values.len() as f64))
    };
    of[0].keys().filter_map(mean).collect()
}

/// Returns the ratio of `candidate` to `baseline`, both given as logarithms per block; `step` is the relative
/// resolution of the figures.
pub(super) fn ratio_by_block(
    baseline: &BTreeMap<u32, f64>,
    candidate: &BTreeMap<u32, f64>,
    step: f64,
    (case, run): RunRow<'_>,
    alpha_share: f64,
) -> Option<Bounded> {
    let over = over_points(case, run.plan.alpha * alpha_share);
    let (difference, pairs) = difference_by_block(baseline, candidate, over)?;
    let rounds = if pairs > 0 { pairs } else { baseline.len().min(candidate.len()) as u64 };
    let bounds = difference.bounds(over.alpha).map(|(low, high)| ((low - step).exp(), (high + step).exp()));
    Some(Bounded { figure: as_ratio(widened(difference.figure(over.alpha), step)), bounds, rounds })
}

pub(super) fn logarithms(name: FigureName, (case, run): RunRow<'_>) -> BTreeMap<u32, f64> {
    logarithms_by_block(by_block(name, case, run).into_iter().filter(|(_, value)| *value > 0.0))
}

/// Returns the blocks of the run `of`, renumbered if `other` is another run, to prevent pairing.
pub(super) fn unpaired_blocks(blocks: BTreeMap<u32, f64>, of: &Run, other: &Run) -> BTreeMap<u32, f64> {
    if std::ptr::eq(of, other) {
        return blocks;
    }
    blocks.into_iter().map(|(block, value)| (u32::MAX - block, value)).collect()
}

fn bounded(row: RunRow<'_>, name: FigureName, alpha_share: f64) -> Result<Bounded, Box<Judgement>> {
    let figure = figure(row, name)?;
    let alpha = row.1.plan.alpha;
    let values: Vec<f64> = by_block(name, row.0, row.1).into_iter().map(|(_, value)| value).collect();
    let estimate = Estimate::of(&values, over_points(row.0, alpha));
    let bounds = match (figure.interval(), estimate) {
        (Some((low, high)), Some(estimate)) => {
            let half = estimate.half_width(alpha);
            let wider = if half > 0.0 { estimate.half_width(alpha * alpha_share) / half } else { 1.0 };
            Some((figure.value - (figure.value - low) * wider, figure.value + (high - figure.value) * wider))
        }
        (interval, estimate) => interval.or_else(|| estimate?.bounds(alpha * alpha_share)),
    };
    Ok(Bounded { figure, bounds, rounds: values.len() as u64 })
}

/// Returns a figure in its base unit: ns, 1/s, bytes/s, bytes/ms, a count or a share.
pub(super) fn figure((case, run): RunRow<'_>, name: FigureName) -> Result<Figure, Box<Judgement>> {
    let latency = &case.primary().latency_ns;
    let service = case.primary().service_ns.as_ref();
    let of_exchanges = case.primary().exchanges.as_ref();
    let over_rounds = || {
        let values: Vec<f64> = by_block(name, case, run).into_iter().map(|(_, value)| value).collect();
        median_over(&values, over_points(case, run.plan.alpha))
    };
    let found = match name {
        FigureName::P50 => latency.p50,
        FigureName::P99 => latency.p99,
        FigureName::P999 => latency.p999,
        FigureName::Max => latency.max,
        FigureName::Mean => latency.mean,
        FigureName::ReleaseJitterP50 => case.primary().periodic.as_ref().and_then(|own| own.release_jitter_ns.p50),
        FigureName::ServiceP50 => service.and_then(|service| service.p50),
        FigureName::ServiceMean => service.and_then(|service| service.mean),
        FigureName::First => {
            of_exchanges.map_or(case.primary().first_message_ns, |figures| figures.first_exchange_ns)
        }
        FigureName::Rate => case.primary().rate_per_s,
        FigureName::BytesPerMs => of_exchanges.and_then(|figures| figures.bytes_per_ms),
        FigureName::Segments => of_exchanges.and_then(|figures| figures.segments_per_exchange),
        FigureName::PureAcks => of_exchanges.and_then(|figures| figures.pure_acks_per_exchange),
        FigureName::LostShare | FigureName::ReceivedShare => over_rounds().map(|share| Figure {
            low: share.low.map(|low| low.max(0.0)),
            high: share.high.map(|high| high.min(1.0)),
            ..share
        }),
        _ => over_rounds(),
    };
    found.filter(|figure| figure.value.is_finite()).ok_or_else(|| {
        if case.case.path.across.is_some()
            && case.case.primary().direction != Direction::RoundTrip
            && is_latency(name)
        {
            return error(Verdict::Undecided, Reason::NeedsClocks { case: case.label.clone(), figure: name });
        }
        let samples = case.primary().samples;
        error(Verdict::Undecided, Reason::TooFewSamples { case: case.label.clone(), figure: name, samples })
    })
}
