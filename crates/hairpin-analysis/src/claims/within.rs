//! `within`: the figure is within a factor of the published number, above or below.

use hairpin_model::reason::Bound;
use hairpin_model::{Judgement, Measure, Published};

use super::evidence::Evidence;
use super::figures::{measure, number};

pub(super) fn judge(
    of: &Measure,
    factor: f64,
    published: &Published,
    evidence: Evidence<'_>,
) -> Result<Judgement, Box<Judgement>> {
    let number = number(published)?;
    let measured = measure(of, &published.unit, evidence)?;
    let (figure, bound) = (measured.figure, Bound::Within { number, factor });
    Ok(measured.compared(&figure, [number / factor, number * factor], Some(figure.value / number), bound))
}
