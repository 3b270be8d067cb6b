//! `range`: the figure is in the published range.

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
    let Value::Range([from, to]) = published.value else {
        return Err(without(Verdict::CannotRun, "the published value is not a range"));
    };
    let measured = measure(of, &published.unit, evidence)?;
    let place = Place::of(&measured.figure, from / factor, to * factor);
    let what = format!("The {}, {},", measured.what, words::figure(&measured.figure, &measured.unit));
    let range = format!("between {from} and {}", words::exactly(to, &published.unit));
    let bounds = if factor > 1.0 { format!("within a factor of {factor} of the range {range}") } else { range };
    let ratio = against_nearer_end(measured.figure.value, from, to);
    Ok(measured.judged(place.verdict(), Some(ratio), place.sentence(&what, &bounds)))
}

/// Ratio to the bound that the value exceeds; 1 inside the range.
fn against_nearer_end(value: f64, from: f64, to: f64) -> f64 {
    if value < from {
        value / from
    } else if value > to {
        value / to
    } else {
        1.0
    }
}
