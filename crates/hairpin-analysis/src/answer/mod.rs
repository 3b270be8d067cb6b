//! Answers the question of a run with statements: cases, results and verdicts, for which the report writes texts.
//! Also lists the faster case of each pair, the knees of sweeps, and the best remedy against stalls.
//!
//! A winner is named only if a difference from every other compared case was found.

mod at_rate;
mod choice;
mod exchanges;
mod messages;
mod observers;
mod offered;
mod one_way;
mod parity;
mod periods;
mod ranking;
mod round_trips;
mod statements;
mod streams;
#[cfg(test)]
mod tests;
mod under_load;
mod waiting;

use std::collections::BTreeMap;

use hairpin_model::round::Purpose;
use hairpin_model::{Answer, RoundLeftOut, Run, Statement};

use statements::{not_ranked, single};

/// Returns the answer of `run`, whose cases, comparisons and findings must be filled in.
pub fn answer(run: &Run) -> Answer {
    // A disturbance is a part of a budget.
    let with_budget = run.cases.iter().filter(|row| row.budget.is_some());
    let budgets: Vec<Statement> = with_budget.map(|row| Statement::Budget { case: row.id.clone() }).collect();
    if !budgets.is_empty() {
        return budgets.into_iter().chain(too_noisy(run)).collect::<Vec<_>>().into();
    }
    if let Some(too_noisy) = too_noisy(run) {
        return vec![too_noisy].into();
    }
    let pairs = ranking::pairs(&run.comparisons);
    let found = choice::answer(run)
        .or_else(|| waiting::answer(run, &pairs))
        .or_else(|| round_trips::answer(run, &pairs))
        .or_else(|| exchanges::answer(run))
        .or_else(|| observers::answer(run))
        .or_else(|| messages::answer(run, &pairs))
        .or_else(|| streams::answer(run, &pairs))
        .or_else(|| offered::answer(run, &pairs))
        .or_else(|| periods::answer(run))
        .or_else(|| under_load::answer(run, &pairs));
    let mut answer = Answer { pairs, ..found.unwrap_or_else(|| vec![nothing(run)].into()) };
    let after_headline = answer.statements.len().min(1);
    answer.statements.splice(after_headline..after_headline, parity::unequal(run));
    answer
}

/// More than half of the rounds are disturbed, and so were their repetitions.
fn too_noisy(run: &Run) -> Option<Statement> {
    let is_disturbed =
        |out: &&RoundLeftOut| out.why.is_disturbance() && !out.only_tail && out.purpose == Purpose::Timed;
    let left_out: Vec<&RoundLeftOut> =
        run.cases.iter().flat_map(|case| &case.omitted_rounds).filter(is_disturbed).collect();
    let first = left_out.iter().min_by_key(|out| out.round)?;
    let mut is_undisturbed: BTreeMap<(&str, u32), bool> = BTreeMap::new();
    for round in run.rounds.iter().filter(|round| round.measured().is_some()) {
        let counts = left_out.iter().all(|out| out.round != round.number);
        *is_undisturbed.entry((&round.case_id, round.order.block)).or_default() |= counts;
    }
    let disturbed = is_undisturbed.values().filter(|counts| !**counts).count() as u64;
    let (rounds, first) = (is_undisturbed.len() as u64, first.why.clone());
    (2 * disturbed > rounds).then_some(Statement::TooNoisy { disturbed, rounds, first })
}

fn nothing(run: &Run) -> Statement {
    match run.cases.as_slice() {
        [] => Statement::NothingMeasured,
        [only] => single(only),
        cases if cases.iter().any(|row| row.valid) => not_ranked(run),
        _ => Statement::NothingUsable,
    }
}
