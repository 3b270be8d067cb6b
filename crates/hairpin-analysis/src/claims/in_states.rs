//! `states`: traced exchanges spend at least a share of their time in these states.

use hairpin_model::exchange_state::{Actor, ExchangeState, TimeInState};
use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::Bound;
use hairpin_model::round::Purpose;
use hairpin_model::trace::End;
use hairpin_model::{Figure, FigureName, Judgement, Published, Reason, Selector};

use super::bound::compared;
use super::figures::{Bounded, Evidence, Measured};
use super::place::error;
use super::selection::select;
use crate::statistics::interval::{Estimate, Over};
use crate::valid_rounds::evidence_round;

/// Judges the share over traced rounds. A union that contains one of the states may be in it: it counts against a
/// refutation, and not for a confirmation.
pub(super) fn judge(
    case: &Selector,
    (states, at): (&[ExchangeState], Option<End>),
    at_least: f64,
    published: &Published,
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
    let has_named = |time: &TimeInState| time.state.members().iter().any(|one| states.contains(one));
    let may_be = |time: &TimeInState| has_named(time) && (is_there(time) || time.who == Actor::Unknown);
    let (Some(named), Some(possible)) = (over(&is_named), over(&|time| is_named(time) || may_be(time))) else {
        return Err(error(Verdict::NotTested, Reason::NotTraced { case: case.label.clone() }));
    };
    let within = |share: f64| share.clamp(0.0, 1.0);
    let bounds = named.bounds(alpha).zip(possible.bounds(alpha)).map(|(low, high)| (within(low.0), within(high.1)));
    let figure = named.figure(alpha);
    let figure = Figure { low: figure.low.map(within), high: figure.high.map(within), ..figure };
    let (unit, name, case) = ("share".to_owned(), FigureName::TimeInStates, case.label.clone());
    let measured =
        Measured { figure: Bounded { figure, bounds, rounds: traced.len() as u64 }, unit, name, case, against: None };
    Ok(compared(measured, Bound::AtLeast { number: at_least }, published))
}
