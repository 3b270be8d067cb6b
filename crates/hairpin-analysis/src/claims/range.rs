//! `range`: the figure is in the published range.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::Bound;
use hairpin_model::{Judgement, Measure, Published, Reason, Value};

use super::evidence::Evidence;
use super::figures::measure;
use super::place::error;

pub(super) fn judge(
    of: &Measure,
    factor: f64,
    published: &Published,
    evidence: Evidence<'_>,
) -> Result<Judgement, Box<Judgement>> {
    let Value::Range([from, to]) = published.value else {
        return Err(error(Verdict::CannotRun, Reason::NotPublished { needed: "range".to_owned() }));
    };
    let measured = measure(of, &published.unit, evidence)?;
    let (figure, bound) = (measured.figure, Bound::Range { from, to, factor });
    let ratio = ratio_to_nearer_bound(figure.value, from, to);
    Ok(measured.compared(&figure, [from / factor, to * factor], Some(ratio), bound))
}

/// Returns the ratio to the bound that the value exceeds; 1 inside the range.
fn ratio_to_nearer_bound(value: f64, from: f64, to: f64) -> f64 {
    if value < from {
        value / from
    } else if value > to {
        value / to
    } else {
        1.0
    }
}
