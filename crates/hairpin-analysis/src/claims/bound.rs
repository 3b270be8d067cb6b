//! `within`, `range`, `at-least`, `at-most` and `share`: a figure, or the ratio of two figures, is within bounds.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::Bound;
use hairpin_model::{FigureName, Judgement, Measure, Pool, Published, Reason, Selector, Value};

use super::figures::{Evidence, Measured, measure, number, ratio_of, with_figure};
use super::place::{error, locate, verdict};

pub(super) fn judge(
    of: &Measure,
    bound: Result<Bound, Box<Judgement>>,
    published: &Published,
    evidence: Evidence<'_>,
) -> Result<Judgement, Box<Judgement>> {
    let bound = bound?;
    Ok(compared(measure(of, &published.unit, evidence)?, bound, published))
}

pub(super) fn range(published: &Published) -> Result<[f64; 2], Box<Judgement>> {
    match published.value {
        Value::Range(range) => Ok(range),
        _ => Err(error(Verdict::NotTested, Reason::NotPublished { needed: "range".to_owned() })),
    }
}

/// Returns the published number, or an end of the published range: 0 for the lower, 1 for the upper.
pub(super) fn end(published: &Published, end: usize) -> Result<f64, Box<Judgement>> {
    range(published).map(|range| range[end]).or_else(|_| number(published))
}

/// Judges whether the second case's figure is lower than the first case's by at least a given share.
pub(super) fn share(
    name: FigureName,
    [whole, rest]: [&Selector; 2],
    at_least: f64,
    published: &Published,
    evidence: Evidence<'_>,
) -> Result<Judgement, Box<Judgement>> {
    let [whole, rest] = [whole, rest].map(|selector| Pool(vec![selector.clone()]));
    let left = ratio_of(name, [(&whole, evidence.run), (&rest, evidence.run)], evidence.alpha_share)?;
    let saved = Measured { figure: left.figure.falling(|left| 1.0 - left), unit: "share".to_owned(), ..left };
    Ok(compared(saved, Bound::SavesAtLeast { share: at_least }, published))
}

/// Compares the measured interval with the bound. The ratio is measured / published; for a range, the ratio to the end
/// that the value exceeds, or 1 inside the range.
pub(super) fn compared(measured: Measured, bound: Bound, published: &Published) -> Judgement {
    let Measured { figure, unit, name, case, against } = measured;
    let value = figure.figure.value;
    let to_published = number(published).ok().filter(|_| unit == published.unit).map(|number| value / number);
    let ratio = match bound {
        Bound::Within { number, .. } => Some(value / number),
        Bound::Range { from, .. } if value < from => Some(value / from),
        Bound::Range { to, .. } => Some((value / to).max(1.0)),
        Bound::AtLeast { .. } | Bound::SavesAtLeast { .. } | Bound::AtMost { .. } => to_published,
    };
    let range = range_of(bound);
    let place = locate(figure.bounds, range);
    let reason = Reason::Compared { figure: name, case, against, place, bound };
    let margin = Some(range.map(|end| end.is_finite().then_some(end)));
    let judged = with_figure(figure, &unit, verdict(place), reason);
    Judgement { ratio: ratio.filter(|ratio| ratio.is_finite()), margin, ..judged }
}

pub(super) fn range_of(bound: Bound) -> [f64; 2] {
    match bound {
        Bound::Within { number, factor } => [number / factor, number * factor],
        Bound::Range { from, to, factor } => [from / factor, to * factor],
        Bound::AtLeast { number } | Bound::SavesAtLeast { share: number } => [number, f64::INFINITY],
        Bound::AtMost { number } => [f64::NEG_INFINITY, number],
    }
}
