//! `order`: the cases are in the published order, smallest figure first.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::OrderStep;
use hairpin_model::{FigureName, Judgement, Pool, Published, Reason, Value};

use super::axes::worst;
use super::figures::{Evidence, pairs, ratio, with_figure};
use super::place::{direction, equal_range, no_figure};
use super::units::RATIO_UNIT;

pub(super) fn judge(
    name: FigureName,
    cases: &[Pool],
    margin: f64,
    published: &Published,
    evidence: Evidence<'_>,
) -> Judgement {
    let names = match &published.value {
        Value::Order(names) if names.len() == cases.len() => names,
        _ => {
            let needed = format!("order of {} names", cases.len());
            return no_figure(Verdict::NotTested, Reason::NotPublished { needed });
        }
    };
    let steps = cases.windows(2).zip(names.windows(2));
    let steps: Vec<OrderStep> =
        steps.map(|(cases, names)| step(name, [&cases[0], &cases[1]], names, margin, evidence)).collect();
    let is_partial = steps.iter().any(|step| step.verdict == Verdict::NotTested);
    let verdict = match worst(steps.iter().map(|step| step.verdict)) {
        Verdict::Confirmed | Verdict::Equal if is_partial => Verdict::Undecided,
        worst => worst,
    };
    let least_clear = steps.iter().filter_map(|step| step.ratio).min_by(|a, b| a.value.total_cmp(&b.value));
    let reason = Reason::Order { figure: name, steps, margin };
    match least_clear {
        Some(figure) => Judgement {
            margin: Some(equal_range(margin).map(Some)),
            ..with_figure(figure, RATIO_UNIT.to_owned(), verdict, reason)
        },
        None => no_figure(verdict, reason),
    }
}

fn step(name: FigureName, cases: [&Pool; 2], names: &[String], margin: f64, evidence: Evidence<'_>) -> OrderStep {
    let ratio =
        pairs(cases.map(|pool| (pool, evidence.run))).and_then(|pairs| ratio(name, &pairs, evidence.alpha_share));
    let verdict = match &ratio {
        Ok(ratio) => direction(ratio.bounds, margin),
        Err(absent) => absent.verdict.unwrap_or(Verdict::NotTested),
    };
    let absent = ratio.as_ref().err().and_then(|absent| absent.reason.clone()).map(Box::new);
    let ratio = ratio.ok().map(|ratio| ratio.figure);
    OrderStep { names: [names[0].clone(), names[1].clone()], verdict, ratio, absent }
}
