//! Sentences shared by the answers to round trips and to exchanges.

use hairpin_model::answer::Answer;
use hairpin_model::case::Case;
use hairpin_model::figure::Figure;
use hairpin_model::ladder;
use hairpin_model::quantities::{DASH, bounds, duration};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

/// An answer of one sentence.
pub(super) fn headline(headline: String) -> Answer {
    Answer { headline, ..Answer::default() }
}

/// `13.4 us (95 % interval 12.9-14.1)`.
pub(super) fn with_interval(figure: Option<Figure>) -> String {
    match (figure.and_then(Figure::finite), figure.and_then(Figure::interval)) {
        (Some(value), Some((low, high))) => {
            format!("{} (95 % interval {})", duration(value), bounds(value, low, high))
        }
        (Some(value), None) => duration(value),
        (None, _) => DASH.to_owned(),
    }
}

pub(super) fn p50(row: &CaseSummary) -> String {
    row.p50_ns().map_or_else(|| DASH.to_owned(), duration)
}

/// `shm (busy-polling, two CPUs)`.
pub(super) fn name(row: &CaseSummary) -> String {
    format!("{} ({})", ladder::row_name(row), row.case.ends.in_words())
}

/// The reason if no usable case can be ranked.
pub(super) fn speaks_for_nothing(run: &Run) -> String {
    let rests_on = |what: fn(&Case) -> bool| run.cases.iter().any(|row| row.valid && what(&row.case));
    let open = rests_on(|case| case.primary().load.rate_per_s().is_some());
    let injected = rests_on(|case| case.injected_fault.is_some());
    let why = match (open, injected) {
        (true, false) => "No overall answer: cases at a given rate (open loop) are not ranked",
        (false, true) => "No overall answer: cases with an injected fault are not ranked",
        (true, true) => {
            "No overall answer: cases at a given rate (open loop) or with an injected fault are not ranked"
        }
        (false, false) => "No overall answer: no case can be ranked",
    };
    format!("{why}.")
}
