//! Figures by name, in the unit of the published text, and their ratios.

use std::collections::BTreeMap;

use hairpin_model::flow::Direction;
use hairpin_model::judged_claim::Verdict;
use hairpin_model::{CaseSummary, Figure, FigureName, Judgement, Measure, Published, Reason, Run, Value};

use super::of_round::by_block;
use super::place::{error, no_figure};
use super::selection::select;
use super::units::{RATIO_UNIT, is_latency, scale};
use crate::compare::{as_ratio, difference_by_block, logarithms_by_block, over_points, step_share, widened};
use crate::statistics::interval::median_over;

/// The runs by which a rule is judged.
#[derive(Clone, Copy)]
pub(super) struct Evidence<'r> {
    pub(super) run: &'r Run,
    /// The run with the case of the denominator: the same run, unless the rule names another run.
    pub(super) other: &'r Run,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) figure: Figure,
    pub(super) unit: String,
    pub(super) name: FigureName,
    /// The label of the case; `against` is the label of the denominator's case.
    pub(super) case: String,
    pub(super) against: Option<String>,
}

/// Returns a judgement with a measured figure.
pub(super) fn with_figure(figure: Figure, unit: String, verdict: Verdict, reason: Reason) -> Judgement {
    Judgement { measured: Some(figure), measured_unit: Some(unit), ..no_figure(verdict, reason) }
}

/// Returns the published number, or the verdict if the published value is not a number.
pub(super) fn number(published: &Published) -> Result<f64, Box<Judgement>> {
    match published.value {
        Value::Number(number) => Ok(number),
        _ => Err(error(Verdict::CannotRun, Reason::NotPublished { needed: "number".to_owned() })),
    }
}

/// Returns the figure of the measure, in `unit`, or the verdict if the figure is absent.
pub(super) fn measure(of: &Measure, unit: &str, evidence: Evidence<'_>) -> Result<Measured, Box<Judgement>> {
    let Evidence { run, other } = evidence;
    let case = select(run, &of.case)?;
    let name = of.figure;
    if let Some(against) = &of.against {
        let baseline = select(other, against)?;
        return ratio_of(name, [(baseline, other), (case, run)]);
    }
    let unit = unit.to_owned();
    let scale = scale(name, &unit)
        .ok_or_else(|| error(Verdict::CannotRun, Reason::WrongUnit { figure: name, unit: unit.clone() }))?;
    let figure = figure((case, run), name)?.rising(|value| value * scale);
    Ok(Measured { figure, unit, name, case: case.label.clone(), against: None })
}

/// Returns figure of the second case / figure of the first case.
pub(super) fn ratio_of(name: FigureName, [baseline, case]: [RunRow<'_>; 2]) -> Result<Measured, Box<Judgement>> {
    let figure = ratio(name, baseline, case)?;
    let (case, against) = (case.0.label.clone(), Some(baseline.0.label.clone()));
    Ok(Measured { figure, unit: RATIO_UNIT.to_owned(), name, case, against })
}

pub(super) type RunRow<'r> = (&'r CaseSummary, &'r Run);

/// Returns `candidate` / `baseline` of a figure: the median of the ratios per block, as in comparisons. Cases of two
/// runs share no block, so the result is the ratio of their medians.
pub(super) fn ratio(name: FigureName, baseline: RunRow<'_>, candidate: RunRow<'_>) -> Result<Figure, Box<Judgement>> {
    // Without enough samples for a figure, the ratio is not computed either.
    let (one, other) = (figure(baseline, name)?, figure(candidate, name)?);
    let step = if is_latency(name) { step_share(one.value.min(other.value)) } else { 0.0 };
    let of_baseline = unpaired_blocks(logarithms(name, baseline), baseline.1, candidate.1);
    ratio_by_block(&of_baseline, &logarithms(name, candidate), step, baseline).ok_or_else(|| {
        let cases = vec![baseline.0.label.clone(), candidate.0.label.clone()];
        error(Verdict::CannotTell, Reason::Zero { figure: name, cases })
    })
}

/// Returns the ratio of `candidate` to `baseline`, both given as logarithms per block; `step` is the relative
/// resolution of the figures.
pub(super) fn ratio_by_block(
    baseline: &BTreeMap<u32, f64>,
    candidate: &BTreeMap<u32, f64>,
    step: f64,
    (case, run): RunRow<'_>,
) -> Option<Figure> {
    let over = over_points(case, run.plan.alpha);
    let (difference, _) = difference_by_block(baseline, candidate, over)?;
    Some(as_ratio(widened(difference.figure(over.alpha), step)))
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
            return error(Verdict::CannotTell, Reason::NeedsClocks { case: case.label.clone(), figure: name });
        }
        let samples = case.primary().samples;
        error(Verdict::CannotTell, Reason::TooFewSamples { case: case.label.clone(), figure: name, samples })
    })
}
