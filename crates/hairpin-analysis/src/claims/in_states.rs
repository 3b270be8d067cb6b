//! `states`: traced exchanges spend at least a share of their time in these states.

use hairpin_model::exchange_state::{Actor, ExchangeState, TimeInState};
use hairpin_model::judged_claim::Verdict;
use hairpin_model::round::Purpose;
use hairpin_model::trace::End;
use hairpin_model::{Figure, Judgement, Reason, Selector};

use super::figures::{Bounded, Evidence, with_figure};
use super::place::{error, locate, verdict};
use super::selection::select;
use crate::statistics::interval::{Estimate, Over};
use crate::valid_rounds::evidence_round;

/// Judges the share over traced rounds. A union that contains one of the states may be in it: it counts against a
/// refutation, and not for a confirmation.
pub(super) fn judge(
    case: &Selector,
    states: &[ExchangeState],
    at: Option<End>,
    at_least: f64,
    evidence: Evidence<'_>,
) -> Result<Judgement, Box<Judgement>> {
    let run = evidence.run;
    let case = select(run, case)?;
    let rounds = run.rounds.iter().filter(|round| round.case_id == case.id);
    let traced = rounds.filter_map(|round| evidence_round(round, Purpose::Traced)?.traced.as_ref());
    let traced: Vec<&[TimeInState]> =
        traced.map(|figures| &figures.states[..]).filter(|all| !all.is_empty()).collect();
    let alpha = run.plan.alpha * evidence.alpha_share;
    let over = |of: &dyn Fn(&TimeInState) -> bool| {
        let share = |times: &&[TimeInState]| times.iter().filter(|time| of(time)).map(|time| time.share).sum();
        Estimate::of(&traced.iter().map(share).collect::<Vec<f64>>(), Over { alpha, ..Over::evidence(0.0) })
    };
    let is_there = |time: &TimeInState| at.is_none_or(|at| time.who.end() == Some(at));
    let is_named = |time: &TimeInState| states.contains(&time.state) && is_there(time);
    let may_be_there = |time: &TimeInState| is_there(time) || time.who == Actor::Unknown;
    let has_named = |time: &TimeInState| time.state.members().iter().any(|one| states.contains(one));
    let is_possible = |time: &TimeInState| is_named(time) || (has_named(time) && may_be_there(time));
    let (Some(named), Some(possible)) = (over(&is_named), over(&is_possible)) else {
        return Err(error(Verdict::NotTested, Reason::NotTraced { case: case.label.clone() }));
    };
    let within = |share: f64| share.clamp(0.0, 1.0);
    let bounds = named.bounds(alpha).zip(possible.bounds(alpha));
    let own = bounds.map(|(named, _)| (within(named.0), within(named.1)));
    let place = locate(bounds.map(|(named, possible)| (within(named.0), within(possible.1))), [at_least, 1.0]);
    let figure = named.figure(alpha);
    let figure = Figure { low: figure.low.map(within), high: figure.high.map(within), ..figure };
    let reason = Reason::InStates {
        case: case.label.clone(),
        states: states.to_vec(),
        at,
        place,
        rounds: traced.len() as u64,
        possible: possible.value,
        at_least,
    };
    let measured = Bounded { figure, bounds: own, rounds: traced.len() as u64 };
    let judged = with_figure(measured, "share", verdict(place), reason);
    Ok(Judgement { margin: Some([Some(at_least), None]), ..judged })
}
