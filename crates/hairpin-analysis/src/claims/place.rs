//! Locates a measured interval relative to the bounds of a rule, and derives the verdict.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::Place;
use hairpin_model::{Figure, Judgement, Reason};

/// Returns a verdict without a measured figure.
pub(super) fn no_figure(verdict: Verdict, reason: Reason) -> Judgement {
    Judgement { verdict: Some(verdict), reason: Some(reason), ..Judgement::default() }
}

/// Returns a verdict without a measured figure, as the error of a `Result`.
pub(super) fn error(verdict: Verdict, reason: Reason) -> Box<Judgement> {
    Box::new(no_figure(verdict, reason))
}

/// Locates the interval. On a side without a bound, the bound is infinite. Unknown without an interval.
pub(super) fn locate(figure: &Figure, [from, to]: [f64; 2]) -> Place {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) if low >= from && high <= to => Place::Inside,
        (Some(_), Some(high)) if high < from => Place::Below,
        (Some(low), Some(_)) if low > to => Place::Above,
        (Some(low), Some(high)) if low.is_finite() && high.is_finite() => Place::Across,
        _ => Place::Unknown,
    }
}

pub(super) fn verdict(place: Place) -> Verdict {
    match place {
        Place::Inside => Verdict::Holds,
        Place::Below | Place::Above => Verdict::DoesNotHold,
        Place::Across | Place::Unknown => Verdict::CannotTell,
    }
}

/// Returns the verdict on whether a ratio is above 1.
pub(super) fn verdict_of_ratio(ratio: &Figure) -> Verdict {
    if ratio.excludes(1.0) { verdict(locate(ratio, [1.0, f64::INFINITY])) } else { Verdict::CannotTell }
}
