//! What observers cost: each case against the same case with the observer `none`, paired by block like comparisons.

use hairpin_model::flow::Observer;
use hairpin_model::{Case, CaseSummary, Load, ObserverCost};

use crate::compare::{as_ratio, by_block, difference_by_block, logarithms_by_block, over_points};

pub(crate) fn fill(cases: &mut [CaseSummary], alpha: f64) {
    let costs: Vec<Option<ObserverCost>> = cases.iter().map(|case| cost(case, cases, alpha)).collect();
    for (case, cost) in cases.iter_mut().zip(costs) {
        if let Some(one_way) = &mut case.primary_mut().one_way {
            one_way.observer = cost.into_iter().collect();
        }
    }
}

fn cost(case: &CaseSummary, cases: &[CaseSummary], alpha: f64) -> Option<ObserverCost> {
    let baseline = without(&case.case).filter(|baseline| *baseline != case.case && case.valid)?;
    let baseline = cases.iter().find(|other| other.case == baseline && other.valid)?;
    let rates = |of: &'_ CaseSummary| {
        let points = of.round_points.iter().filter(|point| point.rate_per_s > 0.0);
        points.map(|point| (point.block, point.rate_per_s)).collect::<Vec<_>>()
    };
    let times = |of| by_block(rates(of).into_iter().map(|(block, per_s)| (block, 1e9 / per_s)));
    let logarithms = |of| logarithms_by_block(rates(of).into_iter());
    let over = over_points(case, alpha);
    let (ratio, _) = difference_by_block(&logarithms(baseline), &logarithms(case), over)?;
    let (difference, _) = difference_by_block(&times(baseline), &times(case), over)?;
    Some(ObserverCost {
        observer: case.case.primary().load.observer(),
        rate_against_none: as_ratio(ratio.figure(alpha)),
        time_per_message_against_none: difference.figure(alpha),
    })
}

/// Returns the same case with the observer `none`; `None` if its load has no observer.
fn without(case: &Case) -> Option<Case> {
    let mut case = case.without_replicate();
    match &mut case.primary_mut().load {
        Load::Messages { observer, .. } => *observer = Observer::None,
        _ => return None,
    }
    Some(case)
}
