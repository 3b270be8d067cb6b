//! `at-least` and `at-most`: the figure, or the ratio of two, on one side of a bound.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{Figure, FigureName, Judgement, Measure, Published, Value};

use super::evidence::Evidence;
use super::figures::measure;
use super::place::{Place, without};
use super::words;

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
) -> Result<Judgement, Judgement> {
    let number = match published.value {
        Value::Number(number) => Some(number),
        _ => None,
    };
    let Some(bound) = bound.or(number) else {
        return Err(without(Verdict::CannotRun, "neither the rule nor the text gives a number"));
    };
    let measured = measure(of, &published.unit, evidence)?;
    let (words, from, to) = match side {
        Side::AtLeast => ("at least", bound, f64::INFINITY),
        Side::AtMost => ("at most", f64::NEG_INFINITY, bound),
    };
    // The maximum over all rounds is exact; its interval only shows how the maxima of the rounds differ.
    let greatest = of.figure == FigureName::Max && of.against.is_none();
    let value = measured.figure.value;
    let judged = if greatest { Figure::new(value, value, value) } else { measured.figure };
    let place = Place::of(&judged, from, to);
    let what = format!("The {}, {},", measured.what, words::figure(&measured.figure, &measured.unit));
    let bounds = format!("{words} {}", words::exactly(bound, &measured.unit));
    let ratio = number.filter(|_| measured.unit == published.unit).map(|number| measured.figure.value / number);
    Ok(measured.judged(place.verdict(), ratio, place.sentence(&what, &bounds)))
}
