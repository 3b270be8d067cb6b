//! `share`: the second case's figure is lower than the first case's by at least a given share.

use hairpin_model::reason::Bound;
use hairpin_model::{FigureName, Judgement, Published, Run, Selector};

use super::figures::{Measured, number, ratio_of};
use super::selection::select;

const SHARE: &str = "share";

pub(super) fn judge(
    name: FigureName,
    [whole, rest]: [&Selector; 2],
    at_least: f64,
    published: &Published,
    run: &Run,
) -> Result<Judgement, Box<Judgement>> {
    let (whole, rest) = (select(run, whole)?, select(run, rest)?);
    let left = ratio_of(name, [(whole, run), (rest, run)])?;
    let figure = left.figure.falling(|left| 1.0 - left);
    let measured = Measured { figure, unit: SHARE.to_owned(), ..left };
    let ratio = number(published).ok().filter(|_| published.unit == SHARE).map(|number| figure.value / number);
    Ok(measured.compared(&figure, [at_least, f64::INFINITY], ratio, Bound::SavesAtLeast { share: at_least }))
}
