//! Formats case names and figures for the sentences of an answer.

use hairpin_model::names::shortened;
use hairpin_model::quantities::{DASH, bounds, duration, factor, number_bounds};
use hairpin_model::summary::Verdict;
use hairpin_model::{CaseSummary, Figure, ladder};

pub(super) const DO_NOT_USE: &str = " Do not use these figures: see below.";

pub(super) fn if_invalid(row: &CaseSummary) -> &'static str {
    if row.valid { "" } else { DO_NOT_USE }
}

pub(super) const NO_WINNER: &str = "It has no interval, so no winner is named.";

/// Returns `shm (busy-polling, two CPUs)`.
pub(super) fn name(row: &CaseSummary) -> String {
    format!("{} ({})", ladder::row_name(row), row.case.ends.in_words())
}

pub(super) fn p50(row: &CaseSummary) -> String {
    row.p50_ns().map_or_else(|| DASH.to_owned(), duration)
}

/// Returns `13.4 us (95 % interval 12.9-14.1)`.
pub(super) fn latency(figure: Option<Figure>) -> String {
    with_interval(figure, duration, bounds)
}

/// Returns `8.20x (95 % interval 8.01-8.40)`.
pub(super) fn times(ratio: Figure) -> String {
    with_interval(Some(ratio), factor, number_bounds)
}

pub(super) fn with_interval(
    figure: Option<Figure>,
    value: impl Fn(f64) -> String,
    bounds: impl Fn(f64, f64, f64) -> String,
) -> String {
    let Some(figure) = figure.filter(|figure| figure.value.is_finite()) else { return DASH.to_owned() };
    value(figure.value) + &interval(figure, bounds)
}

pub(super) fn interval(figure: Figure, bounds: impl Fn(f64, f64, f64) -> String) -> String {
    figure
        .interval()
        .map_or_else(String::new, |(low, high)| format!(" (95 % interval {})", bounds(figure.value, low, high)))
}

/// Names the best cases. The words are those for a single winner, for several cases, and for a case without a verdict.
pub(super) fn ranked(
    verdict: Option<Verdict>,
    [winner, alike, untold]: &[String; 3],
    names: &[String],
    most: usize,
) -> String {
    match verdict {
        Some(Verdict::Faster) => format!("{winner}: {}.", names[0]),
        Some(_) if names.len() == 1 => format!("{untold}: {}, not separated from others in this run.", names[0]),
        Some(_) => format!("{alike}, not separated in this run: {}.", shortened(names, most)),
        None => format!("{untold}: {}. {NO_WINNER}", names[0]),
    }
}
