//! `at-least` and `at-most`: the figure, or the ratio of two figures, is on one side of a bound.

use hairpin_model::reason::Bound;
use hairpin_model::{Figure, FigureName, Judgement, Measure, Published};

use super::evidence::Evidence;
use super::figures::{measure, number};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    AtLeast,
    AtMost,
}

pub(super) fn judge(
    side: Side,
    of: &Measure,
    bound: Option<f64>,
    published: &Published,
    evidence: Evidence<'_>,
) -> Result<Judgement, Box<Judgement>> {
    let bound = bound.map_or_else(|| number(published), Ok)?;
    let measured = measure(of, &published.unit, evidence)?;
    // The maximum over all rounds is exact; its interval only shows how the maxima of single rounds differ.
    let greatest = of.figure == FigureName::Max && of.against.is_none();
    let value = measured.figure.value;
    let judged = if greatest { Figure::new(value, value, value) } else { measured.figure };
    let published = number(published).ok().filter(|_| measured.unit == published.unit);
    let (bound, from, to) = match side {
        Side::AtLeast => (Bound::AtLeast { number: bound }, bound, f64::INFINITY),
        Side::AtMost => (Bound::AtMost { number: bound }, f64::NEG_INFINITY, bound),
    };
    Ok(measured.compared(&judged, [from, to], published.map(|number| value / number), bound))
}
