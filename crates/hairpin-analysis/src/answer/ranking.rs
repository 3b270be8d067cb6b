//! Ranks cases: the faster of two cases, and the cases that may be as fast as the fastest.

use std::collections::BTreeMap;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{CaseSummary, Comparison, Figure, Pair, Run, Statement, ladder};

use super::statements::ids;
use crate::compare::cases::pointwise;

/// Returns the pairs of neighbours on each ladder, one for every figure that both cases have.
pub(super) fn pairs(comparisons: &[Comparison]) -> Vec<Pair> {
    let neighbours = comparisons.iter().filter(|comparison| comparison.role == Role::Neighbours);
    let of = |comparison: &Comparison| {
        let pair = |figure: ComparedBy, verdict: Verdict, ratio: Figure| Pair {
            figure,
            a: comparison.baseline.clone(),
            b: comparison.candidate.clone(),
            verdict,
            ratio,
        };
        let tails = comparison.tails.iter().map(|tail| pair(tail.figure, tail.verdict, tail.ratio));
        std::iter::once(pair(comparison.figure, comparison.verdict, comparison.ratio))
            .chain(tails)
            .collect::<Vec<_>>()
    };
    neighbours.flat_map(of).collect()
}

pub(super) fn best(run: &Run, best: &CaseSummary, rows: &[&CaseSummary], pairs: &[Pair]) -> Vec<Statement> {
    let by = ladder::compared_by(&[best]).first().copied();
    let figure = |row: &CaseSummary| row.compared(by?);
    let others = not_slower(best, rows, pairs, run.plan.alpha);
    let (near, far): (Vec<&CaseSummary>, Vec<&CaseSummary>) =
        others.iter().partition(|row| is_near(figure(best), figure(row)));
    let verdict = match figure(best).and_then(Figure::interval) {
        None if rows.len() > 1 => None,
        _ if others.is_empty() => Some(Verdict::Faster),
        _ => Some(Verdict::CannotTell),
    };
    let best = Statement::Best { cases: ids(std::iter::once(best).chain(near)), verdict };
    // Without an interval of the best, no case is separated from it.
    std::iter::once(best).chain(verdict.and_then(|_| not_separated(&far))).collect()
}

pub(super) fn not_separated(far: &[&CaseSummary]) -> Option<Statement> {
    (!far.is_empty()).then(|| Statement::NotSeparated { cases: ids(far.iter().copied()) })
}

/// Maximum ratio of two figures that are near each other.
const MAX_NEAR_RATIO: f64 = 1.1;

/// Whether a figure is near the best one: it has an interval, and its value differs by at most 10 %. A wide interval
/// alone does not make a case one of the fastest.
pub(super) fn is_near(best: Option<Figure>, other: Option<Figure>) -> bool {
    let other = other.filter(|other| other.interval().is_some());
    best.zip(other)
        .is_some_and(|(best, other)| best.value.max(other.value) <= MAX_NEAR_RATIO * best.value.min(other.value))
}

/// Returns the cases of `rows` for which no difference from `first` was found, by the judged figure. A case is slower
/// only if a direct comparison says so: a difference between two other cases of a ladder says nothing about `first`,
/// which may have a wide interval. `first` is called fastest only if every comparison shows a difference, so no
/// correction for multiple tests is needed. A case that the ladder does not separate from `first` is also not slower.
pub(super) fn not_slower<'r>(
    first: &CaseSummary,
    rows: &[&'r CaseSummary],
    pairs: &[Pair],
    alpha: f64,
) -> Vec<&'r CaseSummary> {
    let ranked = ranked_below(&first.id, pairs);
    let is_slower = |row: &CaseSummary| {
        ranked.get(row.id.as_str()) != Some(&false) && pointwise(first, row, alpha) == Verdict::Slower
    };
    rows.iter().copied().filter(|row| row.id != first.id && !is_slower(row)).collect()
}

/// Returns the cases after `first` on its ladder, with a flag: whether any step up to the case is a difference.
fn ranked_below<'p>(first: &'p str, pairs: &'p [Pair]) -> BTreeMap<&'p str, bool> {
    let tails = [ComparedBy::P90, ComparedBy::P99];
    let judged = pairs.iter().filter(|pair| !tails.contains(&pair.figure));
    let after: BTreeMap<&str, &Pair> = judged.map(|pair| (pair.a.as_str(), pair)).collect();
    let (mut at, mut slower, mut below) = (first, false, BTreeMap::new());
    while let Some(pair) = after.get(at) {
        slower |= pair.verdict == Verdict::Slower;
        // A damaged run can contain a cyclic ranking.
        if below.insert(pair.b.as_str(), slower).is_some() {
            break;
        }
        at = &pair.b;
    }
    below
}
