//! Figures by name, in the unit in which a text publishes them, and ratios of them.

use hairpin_model::claim::{FigureName, Measure};
use hairpin_model::figure::Figure;
use hairpin_model::judged_claim::{Judgement, Verdict};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, RoundPoint};

use super::selection::select;
use super::without;
use crate::compare::cases::ratio_of;
use crate::compare::step_share;

/// The unit of ratios: how many times.
pub(super) const TIMES: &str = "x";

/// A measured figure and its unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) figure: Figure,
    pub(super) unit: String,
    /// What was measured, in words: `p50 of tcp block together`.
    pub(super) what: String,
}

impl Measured {
    /// The judgement with this figure in it.
    pub(super) fn judged(&self, verdict: Verdict, ratio: Option<f64>, why: String) -> Judgement {
        Judgement {
            measured: Some(self.figure),
            measured_unit: Some(self.unit.clone()),
            ratio: ratio.filter(|ratio| ratio.is_finite()),
            verdict: Some(verdict),
            why,
        }
    }
}

/// What the measure asks for, in `unit`; or the verdict that its absence gives.
pub(super) fn measure(of: &Measure, unit: &str, run: &Run) -> Result<Measured, Judgement> {
    let case = select(run, &of.case)?;
    if let Some(against) = &of.against {
        let baseline = select(run, against)?;
        let figure = ratio(of.figure, baseline, case, run.seed)?;
        let what = format!("{} of {} against {}", of.figure, case.label, baseline.label);
        return Ok(Measured { figure, unit: TIMES.to_owned(), what });
    }
    let scale = scale(of.figure, unit).ok_or_else(|| {
        without(Verdict::CannotRun, format!("{} is published in {unit}, which it has not", of.figure))
    })?;
    let base = figure(case, of.figure)?;
    let figure = Figure {
        value: base.value * scale,
        low: base.low.map(|low| low * scale),
        high: base.high.map(|high| high * scale),
    };
    Ok(Measured { figure, unit: unit.to_owned(), what: format!("{} of {}", of.figure, case.label) })
}

/// `candidate` / `baseline` of a figure, by blocks of rounds where rounds have it, else from the two intervals: low
/// over high and high over low, which is wider than need be.
pub(super) fn ratio(
    name: FigureName,
    baseline: &CaseSummary,
    candidate: &CaseSummary,
    seed: u64,
) -> Result<Figure, Judgement> {
    let (one, other) = (figure(baseline, name)?, figure(candidate, name)?);
    if one.value <= 0.0 {
        return Err(without(Verdict::CannotTell, format!("{name} of {} is 0", baseline.label)));
    }
    let step = step_share(one.value.min(other.value));
    let by_block =
        |of: fn(&RoundPoint) -> f64, step: f64| ratio_of(baseline, candidate, of, step, seed).map(|(ratio, _)| ratio);
    let paired = match name {
        FigureName::P50 => by_block(|point| point.p50_ns, step),
        FigureName::P99 => by_block(|point| point.p99_ns, step),
        FigureName::Rate => by_block(|point| point.rate_per_s, 0.0),
        _ => None,
    };
    Ok(paired.unwrap_or_else(|| Figure {
        value: other.value / one.value,
        low: other.low.zip(one.high).map(|(low, high)| low / high),
        high: other.high.zip(one.low).filter(|(_, low)| *low > 0.0).map(|(high, low)| high / low),
    }))
}

/// A figure in its base unit: ns, 1/s, bytes/ms, a count, a share.
fn figure(case: &CaseSummary, name: FigureName) -> Result<Figure, Judgement> {
    let latency = &case.latency_ns;
    let of_exchanges = case.exchanges.as_ref();
    let found = match name {
        FigureName::P50 => latency.p50,
        FigureName::P99 => latency.p99,
        FigureName::P999 => latency.p999,
        FigureName::Max => latency.max,
        FigureName::Mean => latency.mean,
        FigureName::First => of_exchanges.map_or(case.first_message_ns, |figures| figures.first_exchange_ns),
        FigureName::Rate => case.rate_per_s,
        FigureName::BytesPerMs => of_exchanges.and_then(|figures| figures.bytes_per_ms),
        FigureName::Segments => of_exchanges.and_then(|figures| figures.segments_per_exchange),
        FigureName::BareAcks => of_exchanges.and_then(|figures| figures.bare_acks_per_exchange),
    };
    found.filter(|figure| figure.value.is_finite()).ok_or_else(|| {
        let samples = case.samples;
        without(Verdict::CannotTell, format!("{} has no {name}: {samples} samples do not suffice", case.label))
    })
}

/// What one base unit of the figure is in `unit`; `None` where it has no such unit.
fn scale(name: FigureName, unit: &str) -> Option<f64> {
    match name {
        FigureName::P50
        | FigureName::P99
        | FigureName::P999
        | FigureName::Max
        | FigureName::Mean
        | FigureName::First => [("ns", 1.0), ("us", 1e-3), ("ms", 1e-6), ("s", 1e-9)]
            .into_iter()
            .find(|(known, _)| *known == unit)
            .map(|(_, scale)| scale),
        FigureName::Rate => matches!(unit, "1/s" | "msg/s").then_some(1.0),
        FigureName::BytesPerMs => (unit == "bytes/ms").then_some(1.0),
        FigureName::Segments => (unit == "segments").then_some(1.0),
        FigureName::BareAcks => (unit == "ACKs").then_some(1.0),
    }
}

/// Whether what the measure asks for can be told in that unit.
#[must_use]
pub fn fits_unit(of: &Measure, unit: &str) -> bool {
    if of.against.is_some() { unit == TIMES } else { scale(of.figure, unit).is_some() }
}
