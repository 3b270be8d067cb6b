//! `often`: in at least a share of the rounds, a figure reaches a bound.

use hairpin_model::judged_claim::Verdict;
use hairpin_model::rare_events::binomial_interval;
use hairpin_model::{Figure, FigureName, Judgement, Published, Reason, Selector};

use super::figures::{Bounded, Evidence, figure, with_figure};
use super::of_round::by_block;
use super::place::{error, locate, verdict};
use super::selection::select;
use super::units::scale;

pub(super) fn judge(
    name: FigureName,
    case: &Selector,
    [bound, share]: [f64; 2],
    published: &Published,
    evidence: Evidence<'_>,
) -> Result<Judgement, Box<Judgement>> {
    let run = evidence.run;
    let case = select(run, case)?;
    figure((case, run), name)?;
    let unit = published.unit.clone();
    let scale = scale(name, &unit)
        .ok_or_else(|| error(Verdict::NotTested, Reason::WrongUnit { figure: name, unit: unit.clone() }))?;
    let rounds = by_block(name, case, run);
    let reached = rounds.iter().filter(|(_, value)| value * scale >= bound).count() as u64;
    let rounds = rounds.len() as u64;
    let [low, high] = binomial_interval(reached as f64, rounds as f64, run.plan.alpha * evidence.alpha_share);
    let place = locate(Some((low, high)), [share, 1.0]);
    let reason = Reason::Often { figure: name, case: case.label.clone(), place, rounds, reached, bound, share };
    let figure = Figure::new(reached as f64 / rounds.max(1) as f64, low, high);
    let measured = Bounded { figure, bounds: figure.interval(), rounds };
    let judged = with_figure(measured, "share", verdict(place), reason);
    Ok(Judgement { margin: Some([Some(share), None]), ..judged })
}
