//! The position of a measured interval relative to the bounds of a rule, and the resulting verdict.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{Figure, Judgement};

/// A verdict without a measured figure.
pub(super) fn without(verdict: Verdict, why: impl Into<String>) -> Judgement {
    Judgement { verdict: Some(verdict), why: why.into(), ..Judgement::default() }
}

/// The position of an interval relative to the bounds of a rule; a side without a bound is infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Inside,
    Below,
    Above,
    Across,
    /// One round gives no interval.
    Unknown,
}

impl Place {
    pub(super) fn of(figure: &Figure, from: f64, to: f64) -> Self {
        match (figure.low, figure.high) {
            (Some(low), Some(high)) if low >= from && high <= to => Self::Inside,
            (Some(_), Some(high)) if high < from => Self::Below,
            (Some(low), Some(_)) if low > to => Self::Above,
            (Some(low), Some(high)) if low.is_finite() && high.is_finite() => Self::Across,
            _ => Self::Unknown,
        }
    }

    pub(super) fn verdict(self) -> Verdict {
        match self {
            Self::Inside => Verdict::Holds,
            Self::Below | Self::Above => Verdict::DoesNotHold,
            Self::Across | Self::Unknown => Verdict::CannotTell,
        }
    }

    /// `4.52 ms is within a factor of 2 of 5 ms.`, with the verb for the place.
    pub(super) fn sentence(self, what: &str, bounds: &str) -> String {
        match self {
            Self::Inside => format!("{what} is {bounds}."),
            Self::Below => format!("{what} is not {bounds}: it is less."),
            Self::Above => format!("{what} is not {bounds}: it is more."),
            Self::Across => format!("{what} is {bounds} in a part of its interval only."),
            Self::Unknown => format!("{what} has no interval: that needs five rounds that do not differ too much."),
        }
    }
}
