//! `widens`: the ratio of the second case's figure to the first's is larger at full load than at low load.

use std::collections::BTreeMap;

use hairpin_model::judged_claim::Verdict;
use hairpin_model::{Figure, FigureName, Judgement, Reason, Run, Selector, reason};

use super::figures::{Evidence, RunRow, figure, logarithms, ratio, ratio_by_block, unpaired_blocks, with_figure};
use super::place::{direction, equal_range, error};
use super::selection::select;
use super::units::{RATIO_UNIT, is_latency};
use crate::compare::step_share;

pub(super) fn judge(
    name: FigureName,
    low: &[Selector; 2],
    full: &[Selector; 2],
    margin: f64,
    evidence: Evidence<'_>,
) -> Result<Judgement, Box<Judgement>> {
    let (low, full) = (CasesRatio::of(name, low, evidence.other)?, CasesRatio::of(name, full, evidence.run)?);
    let reason = Reason::Widens { figure: name, full: full.shown(), low: low.shown() };
    let of_low = unpaired_blocks(low.logarithms, evidence.other, evidence.run);
    let step = low.step.max(full.step);
    let wider = ratio_by_block(&of_low, &full.logarithms, step, low.second, evidence.alpha_share);
    let wider = wider.ok_or_else(|| error(Verdict::Undecided, Reason::Zero { figure: name, cases: Vec::new() }))?;
    let judged = with_figure(wider, RATIO_UNIT, direction(wider.bounds, margin), reason);
    Ok(Judgement { margin: Some(equal_range(margin).map(Some)), ..judged })
}

struct CasesRatio<'r> {
    first: RunRow<'r>,
    second: RunRow<'r>,
    ratio: Figure,
    /// The logarithm of the ratio in each block that has both cases.
    logarithms: BTreeMap<u32, f64>,
    /// The relative resolution of the ratio.
    step: f64,
}

impl<'r> CasesRatio<'r> {
    fn shown(&self) -> reason::CaseRatio {
        reason::CaseRatio { cases: [self.first, self.second].map(|(case, _)| case.label.clone()), ratio: self.ratio }
    }

    fn of(name: FigureName, [first, second]: &[Selector; 2], run: &'r Run) -> Result<Self, Box<Judgement>> {
        let (first, second) = ((select(run, first)?, run), (select(run, second)?, run));
        let ratio = ratio(name, &[[first, second]], 1.0)?.figure;
        let least = figure(first, name)?.value.min(figure(second, name)?.value);
        let of_first = logarithms(name, first);
        let both = logarithms(name, second)
            .into_iter()
            .filter_map(|(block, value)| Some((block, value - of_first.get(&block)?)));
        let step = if is_latency(name) { 2.0 * step_share(least) } else { 0.0 };
        Ok(Self { first, second, ratio, logarithms: both.collect(), step })
    }
}
