//! `share`: the second case reduces the first case's figure by at least a given share.

use hairpin_model::{FigureName, Judgement, Published, Run, Selector, Value};

use super::figures::{Measured, ratio};
use super::place::Place;
use super::selection::select;
use super::units::in_words;
use super::words;

const SHARE: &str = "share";

pub(super) fn judge(
    name: FigureName,
    [whole, rest]: [&Selector; 2],
    at_least: f64,
    published: &Published,
    run: &Run,
) -> Result<Judgement, Judgement> {
    let (whole, rest) = (select(run, whole)?, select(run, rest)?);
    let gone = ratio(name, (whole, run), (rest, run))?.falling(|left| 1.0 - left);
    let what = format!("The share of the {} of {} that {} saves", in_words(name), whole.label, rest.label);
    let measured = Measured { figure: gone, unit: SHARE.to_owned(), what };
    let place = Place::of(&measured.figure, at_least, f64::INFINITY);
    let what = format!("{}, {},", measured.what, words::share(&measured.figure));
    let ratio = match published.value {
        Value::Number(number) if published.unit == SHARE => Some(measured.figure.value / number),
        _ => None,
    };
    Ok(measured.judged(place.verdict(), ratio, place.sentence(&what, &format!("at least {at_least}"))))
}
