//! `share`: of the figure of one case, so much is gone in another.

use hairpin_model::claim::{FigureName, Published, Selector, Value};
use hairpin_model::judged_claim::Judgement;
use hairpin_model::run::Run;

use super::figures::{Measured, in_words, ratio};
use super::place::Place;
use super::selection::select;
use super::words;

/// The unit of shares.
const SHARE: &str = "share";

pub(super) fn judge(
    name: FigureName,
    [whole, rest]: [&Selector; 2],
    at_least: f64,
    published: &Published,
    run: &Run,
) -> Judgement {
    let found = select(run, whole).and_then(|whole| {
        let rest = select(run, rest)?;
        let left = ratio(name, whole, rest, run)?;
        let gone = left.falling(|left| 1.0 - left);
        let what = format!("The share of the {} of {} that is gone in {}", in_words(name), whole.label, rest.label);
        Ok(Measured { figure: gone, unit: SHARE.to_owned(), what })
    });
    let measured = match found {
        Ok(measured) => measured,
        Err(absent) => return absent,
    };
    let place = Place::of(&measured.figure, at_least, f64::INFINITY);
    let what = format!("{}, {},", measured.what, words::share(&measured.figure));
    let ratio = match published.value {
        Value::Number(number) if published.unit == SHARE => Some(measured.figure.value / number),
        _ => None,
    };
    measured.judged(place.verdict(), ratio, place.sentence(&what, &format!("at least {at_least}")))
}
