//! The position of a measured interval relative to the bounds of a rule, and the resulting verdict.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::Place;
use hairpin_model::{Figure, Judgement, Reason};

/// A verdict without a measured figure.
pub(super) fn without(verdict: Verdict, reason: Reason) -> Judgement {
    Judgement { verdict: Some(verdict), reason: Some(reason), ..Judgement::default() }
}

/// The same in place of a result.
pub(super) fn absent(verdict: Verdict, reason: Reason) -> Box<Judgement> {
    Box::new(without(verdict, reason))
}

/// A side without a bound is infinite. One round gives no interval.
pub(super) fn place(figure: &Figure, [from, to]: [f64; 2]) -> Place {
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

/// Whether a ratio is above 1.
pub(super) fn of_ratio(ratio: &Figure) -> Verdict {
    if ratio.excludes(1.0) { verdict(place(ratio, [1.0, f64::INFINITY])) } else { Verdict::CannotTell }
}
