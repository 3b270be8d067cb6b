//! `order`: the cases are in the published order, smallest figure first.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::OrderStep;
use hairpin_model::{FigureName, Judgement, Pool, Published, Reason, Value};

use super::axes::worst;
use super::figures::{Evidence, pairs, ratio};
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
    let with_ratio = steps.iter().filter_map(|step| Some((step.ratio?, step.outer_bounds)));
    let least_clear = with_ratio.min_by(|(a, _), (b, _)| a.value.total_cmp(&b.value));
    Judgement {
        measured: least_clear.map(|(ratio, _)| ratio),
        outer_bounds: least_clear.and_then(|(_, bounds)| bounds),
        measured_unit: least_clear.map(|_| RATIO_UNIT.to_owned()),
        margin: least_clear.map(|_| equal_range(margin).map(Some)),
        ..no_figure(verdict, Reason::Order { figure: name, steps, margin })
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
    let ratio = ratio.ok();
    OrderStep {
        names: [names[0].clone(), names[1].clone()],
        verdict,
        ratio: ratio.map(|ratio| ratio.figure),
        outer_bounds: ratio.and_then(|ratio| ratio.outer_bounds()),
        absent,
    }
}
