//! Locates a measured interval relative to the bounds of a rule, and derives the verdict.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::Place;
use hairpin_model::{Judgement, Reason};

pub(super) fn no_figure(verdict: Verdict, reason: Reason) -> Judgement {
    Judgement { verdict: Some(verdict), reason: Some(reason), ..Judgement::default() }
}

pub(super) fn error(verdict: Verdict, reason: Reason) -> Box<Judgement> {
    Box::new(no_figure(verdict, reason))
}

/// Locates the bounds of a figure in a range. On a side without an end, the range is infinite.
pub(super) fn locate(bounds: Option<(f64, f64)>, [from, to]: [f64; 2]) -> Place {
    match bounds {
        Some((low, high)) if low >= from && high <= to => Place::Inside,
        Some((_, high)) if high < from => Place::Below,
        Some((low, _)) if low > to => Place::Above,
        Some((low, high)) if low.is_finite() && high.is_finite() => Place::Across,
        _ => Place::Unknown,
    }
}

pub(super) fn verdict(place: Place) -> Verdict {
    match place {
        Place::Inside => Verdict::Confirmed,
        Place::Below | Place::Above => Verdict::Refuted,
        Place::Across | Place::Unknown => Verdict::Undecided,
    }
}

pub(super) fn equal_range(margin: f64) -> [f64; 2] {
    [1.0 / (1.0 + margin), 1.0 + margin]
}

pub(super) fn direction(bounds: Option<(f64, f64)>, margin: f64) -> Verdict {
    match bounds {
        Some(_) if locate(bounds, equal_range(margin)) == Place::Inside => Verdict::Equal,
        Some((low, _)) if low > 1.0 => Verdict::Confirmed,
        Some((_, high)) if high < 1.0 => Verdict::Refuted,
        _ => Verdict::Undecided,
    }
}
