//! `widens`: the ratio of the second case's figure to the first's is larger at full load than at low load.

use std::collections::BTreeMap;

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{Figure, FigureName, Judgement, Run, Selector};

use super::evidence::Evidence;
use super::figures::{Measured, OfRun, apart, figure, logarithms, ratio, times};
use super::place::{Place, without};
use super::selection::select;
use super::units::{TIMES, in_words, is_latency};
use super::words;
use crate::compare::step_share;

pub(super) fn judge(
    name: FigureName,
    low: &[Selector; 2],
    full: &[Selector; 2],
    evidence: Evidence<'_>,
) -> Result<Judgement, Judgement> {
    let (low, full) = (Gap::of(name, low, evidence.other)?, Gap::of(name, full, evidence.run)?);
    let of_low = apart(low.logarithms, evidence.other, evidence.run);
    let wider = times(&of_low, &full.logarithms, low.step.max(full.step), low.second);
    let wider = wider.ok_or_else(|| without(Verdict::CannotTell, format!("the {} is 0", in_words(name))))?;
    let verdict =
        if wider.excludes(1.0) { Place::of(&wider, 1.0, f64::INFINITY).verdict() } else { Verdict::CannotTell };
    let gap = |gap: &Figure| words::figure(gap, TIMES);
    let labels = |[first, second]: [OfRun<'_>; 2]| format!("of {} against {}", second.0.label, first.0.label);
    let what = format!("{} {}", in_words(name), labels([full.first, full.second]));
    let why = format!(
        "The {what} is {}; that {} is {}. The first is {} the second.",
        gap(&full.ratio),
        labels([low.first, low.second]),
        gap(&low.ratio),
        gap(&wider)
    );
    Ok(Measured { figure: wider, unit: TIMES.to_owned(), what }.judged(verdict, None, why))
}

/// The ratio between two cases of a run.
struct Gap<'r> {
    first: OfRun<'r>,
    second: OfRun<'r>,
    ratio: Figure,
    /// The logarithm of the ratio in each block with both cases.
    logarithms: BTreeMap<u32, f64>,
    /// The relative resolution of the ratio.
    step: f64,
}

impl<'r> Gap<'r> {
    fn of(name: FigureName, [first, second]: &[Selector; 2], run: &'r Run) -> Result<Self, Judgement> {
        let (first, second) = ((select(run, first)?, run), (select(run, second)?, run));
        let ratio = ratio(name, first, second)?;
        let least = figure(first, name)?.value.min(figure(second, name)?.value);
        let of_first = logarithms(name, first);
        let both = logarithms(name, second)
            .into_iter()
            .filter_map(|(block, value)| Some((block, value - of_first.get(&block)?)));
        let step = if is_latency(name) { 2.0 * step_share(least) } else { 0.0 };
        Ok(Self { first, second, ratio, logarithms: both.collect(), step })
    }
}
