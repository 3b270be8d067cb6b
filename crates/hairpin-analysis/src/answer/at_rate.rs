//! Ranks cases at one given rate by the p99 of the latency from the due time, among the cases that reached the rate.

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::names::grouped;
use hairpin_model::options::OptionName;
use hairpin_model::summary::Verdict;
use hairpin_model::{Case, CaseSummary, Figure, Invalid, Load, Run, Statement};

use super::ranking::is_near;
use super::statements::ids;
use crate::compare::cases::pointwise_by;

/// Cases within this factor of the lowest latency are alike, even if a difference was found.
const MAX_ALIKE: f64 = 1.05;

pub(super) fn round_trips(run: &Run) -> Vec<Statement> {
    let is_paced = |row: &&CaseSummary| {
        matches!(row.case.primary().load, Load::Paced { .. }) && !row.case.is_under_load() && row.case.replicate == 0
    };
    let rate = |row: &CaseSummary| row.case.primary().load.rate_per_s().unwrap_or(f64::NAN).to_bits();
    let rows = run.cases.iter().filter(is_paced).map(|row| ((rate(row), &row.case.path.link), row));
    grouped(rows).into_iter().flat_map(|(_, rows)| one_rate(run, &rows)).collect()
}

fn one_rate(run: &Run, rows: &[&CaseSummary]) -> Vec<Statement> {
    let usable: Vec<&CaseSummary> = rows.iter().copied().filter(|row| row.can_be_ranked()).collect();
    let figure = ranked_by(&usable);
    let best = best(figure, &usable, run.plan.alpha).map(|(first, alike)| {
        // A case without usable figures might be better.
        let all_judged = rows.iter().all(|row| row.valid || missed_rate(row));
        let verdict = match first.compared(figure).and_then(Figure::interval) {
            _ if !alike.is_empty() => Some(Verdict::CannotTell),
            None if usable.len() > 1 => None,
            _ if !all_judged => None,
            _ => Some(Verdict::Faster),
        };
        Statement::BestAtRate { cases: ids(std::iter::once(first).chain(alike)), figure, verdict }
    });
    let missed = ids(rows.iter().copied().filter(|row| missed_rate(row)));
    let missed = (!missed.is_empty()).then_some(Statement::RateMissed { cases: missed });
    best.into_iter().chain(need_nodelay(figure, &usable, run.plan.alpha)).chain(missed).collect()
}

/// The highest percentile that all these cases have: p99, p90 or p50.
pub(super) fn ranked_by(rows: &[&CaseSummary]) -> ComparedBy {
    let have = |figure: &ComparedBy| rows.iter().all(|row| row.compared(*figure).is_some());
    [ComparedBy::P99, ComparedBy::P90].into_iter().find(have).unwrap_or(ComparedBy::P50)
}

/// Returns the case with the lowest latency and the cases alike: within 5 % of it, or near it and not separated from it.
pub(super) fn best<'r>(
    figure: ComparedBy,
    rows: &[&'r CaseSummary],
    alpha: f64,
) -> Option<(&'r CaseSummary, Vec<&'r CaseSummary>)> {
    let mut sorted: Vec<(f64, &CaseSummary)> =
        rows.iter().filter_map(|row| Some((row.compared(figure)?.value, *row))).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (lowest, first) = *sorted.first()?;
    let is_near = |row: &CaseSummary| is_near(first.compared(figure), row.compared(figure));
    let is_alike = |(latency, row): &(f64, &CaseSummary)| {
        *latency <= MAX_ALIKE * lowest || (is_near(row) && pointwise_by(figure, first, row, alpha) != Verdict::Slower)
    };
    Some((first, sorted.into_iter().skip(1).filter(is_alike).map(|(_, row)| row).collect()))
}

/// Returns the case with the lowest latency and the cases within 5 % of it or, at any distance, not separated from it.
pub(super) fn not_separated<'r>(figure: ComparedBy, rows: &[&'r CaseSummary], alpha: f64) -> Vec<&'r CaseSummary> {
    let latency = |row: &CaseSummary| row.compared(figure).map_or(f64::INFINITY, |figure| figure.value);
    let first = rows.iter().copied().min_by(|a, b| latency(a).total_cmp(&latency(b)));
    let is_open = |first: &CaseSummary, row: &CaseSummary| {
        latency(row) <= MAX_ALIKE * latency(first) || pointwise_by(figure, first, row, alpha) != Verdict::Slower
    };
    rows.iter().copied().filter(|row| first.is_some_and(|first| is_open(first, row))).collect()
}

pub(super) fn missed_rate(row: &CaseSummary) -> bool {
    row.reasons.iter().any(|reason| matches!(reason, Invalid::Saturated { .. }))
}

/// Reports cases with `nodelay` that differ from the same case without it, one of each transport.
pub(super) fn need_nodelay(figure: ComparedBy, rows: &[&CaseSummary], alpha: f64) -> Vec<Statement> {
    let without = |case: &Case| {
        case.clone().with(|case| {
            case.primary_mut().options = case.primary().options.clone().without(OptionName::Nodelay);
        })
    };
    let of = |row: &&CaseSummary| {
        row.case.primary().options.get(OptionName::Nodelay)?;
        let default = rows.iter().find(|other| other.case != row.case && other.case == without(&row.case))?;
        let ratio = default.compared(figure)?.value / row.compared(figure)?.value;
        let is_slower = ratio > MAX_ALIKE && pointwise_by(figure, row, default, alpha) == Verdict::Slower;
        is_slower.then(|| Statement::NeedsNodelay { case: row.id.clone(), without: default.id.clone(), figure })
    };
    let found = rows.iter().filter_map(|row| Some((row.case.primary().transport.as_str(), of(row)?)));
    grouped(found).into_iter().filter_map(|(_, said)| said.into_iter().next()).collect()
}
