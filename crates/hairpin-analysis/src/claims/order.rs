//! `order`: the cases are in the published order, smallest figure first.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::OrderStep;
use hairpin_model::{FigureName, Judgement, Published, Reason, Run, Selector, Value};

use super::figures::{ratio, with_figure};
use super::place::{no_figure, verdict_of_ratio};
use super::selection::select;
use super::units::RATIO_UNIT;

pub(super) fn judge(name: FigureName, cases: &[Selector], published: &Published, run: &Run) -> Judgement {
    let Value::Order(names) = &published.value else {
        return no_figure(Verdict::CannotRun, Reason::NotPublished { needed: "order".to_owned() });
    };
    let pairs = cases.windows(2).zip(names.windows(2));
    let steps: Vec<OrderStep> = pairs.map(|(cases, names)| step(name, [&cases[0], &cases[1]], names, run)).collect();
    let verdicts: Vec<Verdict> = steps.iter().map(|step| step.verdict).collect();
    let verdict = overall(&verdicts);
    let least_clear = steps.iter().filter_map(|step| step.ratio).min_by(|a, b| a.value.total_cmp(&b.value));
    let reason = Reason::Order { figure: name, steps };
    match least_clear {
        Some(figure) => with_figure(figure, RATIO_UNIT.to_owned(), verdict, reason),
        None => no_figure(verdict, reason),
    }
}

fn step(name: FigureName, cases: [&Selector; 2], names: &[String], run: &Run) -> OrderStep {
    let [first, second] = cases.map(|case| select(run, case).map(|case| (case, run)));
    let ratio = first.and_then(|first| ratio(name, first, second?));
    let verdict = match &ratio {
        Ok(ratio) => verdict_of_ratio(ratio),
        Err(absent) => absent.verdict.unwrap_or(Verdict::CannotRun),
    };
    let absent = ratio.as_ref().err().and_then(|absent| absent.reason.clone()).map(Box::new);
    OrderStep { names: [names[0].clone(), names[1].clone()], verdict, ratio: ratio.ok(), absent }
}

/// The worst verdict of the steps: does not hold, then not measured, then undecided. Without steps: not measured.
fn overall(verdicts: &[Verdict]) -> Verdict {
    let worst_first = [Verdict::DoesNotHold, Verdict::CannotRun, Verdict::CannotTell];
    let worst = worst_first.into_iter().find(|verdict| verdicts.contains(verdict));
    worst.unwrap_or(if verdicts.is_empty() { Verdict::CannotRun } else { Verdict::Holds })
}
