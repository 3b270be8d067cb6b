//! `within`, `range`, `at-least`, `at-most` and `share`: a figure, or the ratio of two figures, is within bounds.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::Bound;
use hairpin_model::{Figure, FigureName, Judgement, Measure, Published, Reason, Run, Selector, Value};

use super::figures::{Evidence, Measured, measure, number, ratio_of, with_figure};
use super::place::{error, locate, verdict};
use super::selection::select;

/// Judges the figure of the measure.
pub(super) fn judge(
    of: &Measure,
    bound: Result<Bound, Box<Judgement>>,
    published: &Published,
    evidence: Evidence<'_>,
) -> Result<Judgement, Box<Judgement>> {
    let bound = bound?;
    Ok(compared(measure(of, &published.unit, evidence)?, bound, published))
}

/// Returns the published range, or the verdict if the published value is not a range.
pub(super) fn range(published: &Published) -> Result<[f64; 2], Box<Judgement>> {
    match published.value {
        Value::Range(range) => Ok(range),
        _ => Err(error(Verdict::CannotRun, Reason::NotPublished { needed: "range".to_owned() })),
    }
}

/// Judges whether the second case's figure is lower than the first case's by at least a given share.
pub(super) fn share(
    name: FigureName,
    [whole, rest]: [&Selector; 2],
    at_least: f64,
    published: &Published,
    run: &Run,
) -> Result<Judgement, Box<Judgement>> {
    let (whole, rest) = (select(run, whole)?, select(run, rest)?);
    let left = ratio_of(name, [(whole, run), (rest, run)])?;
    let saved = Measured { figure: left.figure.falling(|left| 1.0 - left), unit: "share".to_owned(), ..left };
    Ok(compared(saved, Bound::SavesAtLeast { share: at_least }, published))
}

/// Compares the measured interval with the bound. The ratio is measured / published; for a range, the ratio to the end
/// that the value exceeds, or 1 inside the range.
fn compared(measured: Measured, bound: Bound, published: &Published) -> Judgement {
    let Measured { figure, unit, name, case, against } = measured;
    let value = figure.value;
    let to_published = number(published).ok().filter(|_| unit == published.unit).map(|number| value / number);
    let (bounds, ratio) = match bound {
        Bound::Within { number, factor } => ([number / factor, number * factor], Some(value / number)),
        Bound::Range { from, to, factor } => {
            let ratio = if value < from { value / from } else { (value / to).max(1.0) };
            ([from / factor, to * factor], Some(ratio))
        }
        Bound::AtLeast { number } | Bound::SavesAtLeast { share: number } => ([number, f64::INFINITY], to_published),
        Bound::AtMost { number } => ([f64::NEG_INFINITY, number], to_published),
    };
    // The maximum over all rounds is exact; its interval only shows how the maxima of single rounds differ.
    let is_exact =
        name == FigureName::Max && against.is_none() && matches!(bound, Bound::AtLeast { .. } | Bound::AtMost { .. });
    let judged = if is_exact { Figure::new(value, value, value) } else { figure };
    let place = locate(&judged, bounds);
    let reason = Reason::Compared { figure: name, case, against, place, bound };
    Judgement { ratio: ratio.filter(|ratio| ratio.is_finite()), ..with_figure(figure, unit, verdict(place), reason) }
}
