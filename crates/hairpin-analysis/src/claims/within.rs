//! `within`: the figure is within a factor of the published number, above or below.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{Judgement, Measure, Published, Value};

use super::evidence::Evidence;
use super::figures::measure;
use super::place::{Place, without};
use super::words;

pub(super) fn judge(
    of: &Measure,
    factor: f64,
    published: &Published,
    evidence: Evidence<'_>,
) -> Result<Judgement, Judgement> {
    let Value::Number(number) = published.value else {
        return Err(without(Verdict::CannotRun, "the published value is not a number"));
    };
    let measured = measure(of, &published.unit, evidence)?;
    let place = Place::of(&measured.figure, number / factor, number * factor);
    let what = format!("The {}, {},", measured.what, words::figure(&measured.figure, &measured.unit));
    let bounds = format!("within a factor of {factor} of {}", words::exactly(number, &published.unit));
    Ok(measured.judged(place.verdict(), Some(measured.figure.value / number), place.sentence(&what, &bounds)))
}
