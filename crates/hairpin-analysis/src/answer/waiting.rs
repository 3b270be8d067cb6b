//! Answers how to wait: up to which rate the ends should sleep, and from which rate spinning is worth its CPUs.

use std::collections::BTreeSet;

use hairpin_model::answer::CPU_SECONDS_PER_SECOND_SAVED;
use hairpin_model::summary::Verdict;
use hairpin_model::{Answer, CaseSummary, Load, Pair, Run, Statement, Waiting};

use super::round_trips;

/// CPUs that the two ends keep busy while they spin.
const SPINNING_CPUS: f64 = 2.0;
/// The ways to wait beside those that other experiments have, of which at least one makes waiting the subject of a run.
const OWN: &[Waiting] = Waiting::ALL.split_at(Waiting::BASIC.len()).1;

/// Returns the answer; `None` unless the run compares ways to wait.
pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    run.cases.iter().find(|row| OWN.contains(&row.case.ends.waiting))?;
    let rows: Vec<&CaseSummary> = run.cases.iter().filter(|row| is_compared(row)).collect();
    let connections: BTreeSet<u32> = rows.iter().map(|row| row.case.primary().connections).collect();
    let of_each = connections.into_iter().filter_map(|connections| {
        let rows: Vec<&CaseSummary> =
            rows.iter().copied().filter(|row| row.case.primary().connections == connections).collect();
        how_to_wait(run, &rows)
    });
    let statements: Vec<Statement> = of_each.collect();
    let others = round_trips::answer(run, pairs);
    if statements.is_empty() {
        return others;
    }
    let others = others.map(|answer| answer.statements).unwrap_or_default();
    Some(statements.into_iter().chain(others).collect::<Vec<_>>().into())
}

fn is_compared(row: &CaseSummary) -> bool {
    let is_round_trip = matches!(row.case.primary().load, Load::PingPong { .. }) && !row.case.is_under_load();
    is_round_trip && row.can_be_ranked() && row.case.ends.placement.has_own_cpus() && row.case.replicate == 0
}

/// Compares the simplest of the fastest cases whose ends sleep with the one that differs from it only in spinning.
fn how_to_wait(run: &Run, rows: &[&CaseSummary]) -> Option<Statement> {
    let sleeping = || rows.iter().filter(|row| !row.case.ends.waiting.spins());
    let p50 = |row: &CaseSummary| row.p50_ns().unwrap_or(f64::INFINITY);
    let fastest = sleeping().min_by(|one, other| p50(one).total_cmp(&p50(other)))?;
    let as_fast = sleeping().filter(|row| row.id == fastest.id || !intervals_are_apart(fastest, row));
    let sleeping = as_fast.min_by_key(|row| row.case.ends.waiting)?;
    let alike = sleeping.case.clone().with(|case| case.ends.waiting = Waiting::Spin);
    let spinning = rows.iter().find(|row| row.case == alike)?;
    let (slept_ns, spun_ns) = (sleeping.p50_ns()?, spinning.p50_ns()?);
    let verdict = run.comparisons.iter().find_map(|comparison| {
        let ids = [&comparison.baseline, &comparison.candidate];
        let is_meant = ids.contains(&&sleeping.id) && ids.contains(&&spinning.id);
        is_meant.then_some(comparison.verdict)
    });
    let is_faster = match verdict {
        Some(verdict) => verdict != Verdict::CannotTell && spun_ns < slept_ns,
        None => intervals_are_apart(spinning, sleeping),
    };
    let cpu_s: f64 = sleeping.ends.iter().filter_map(|end| Some(end.cpu_seconds_per_message?.value)).sum();
    let up_to_per_s = is_faster.then(|| break_even_per_s((slept_ns - spun_ns) / 1e9, cpu_s, slept_ns / 1e9));
    Some(Statement::HowToWait { sleeping: sleeping.id.clone(), spinning: spinning.id.clone(), up_to_per_s })
}

/// The rate from which spinning takes at most [`CPU_SECONDS_PER_SECOND_SAVED`]: at rate r it takes
/// `2 CPUs - r * cpu_s` and saves `r * saved_s`. At most the highest rate of a closed loop whose ends sleep.
fn break_even_per_s(saved_s: f64, cpu_s: f64, slept_s: f64) -> f64 {
    let break_even = SPINNING_CPUS / (CPU_SECONDS_PER_SECOND_SAVED * saved_s + cpu_s);
    break_even.min(1.0 / slept_s)
}

/// Whether the p50 of the first case is below that of the other by their intervals.
fn intervals_are_apart(faster: &CaseSummary, slower: &CaseSummary) -> bool {
    let interval = |row: &CaseSummary| row.primary().latency_ns.p50?.interval();
    interval(faster).zip(interval(slower)).is_some_and(|((_, high), (low, _))| high < low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_is_worth_its_cpus_from_the_break_even_rate() {
        // 62 us saved for 2 CPUs without the 20 us that sleeping takes: 2 / (620 + 20) us.
        assert_eq!(break_even_per_s(62e-6, 20e-6, 70e-6).round(), 3125.0);
        // Sleeping ends of one connection reach no more than 1 / 10 us.
        assert_eq!(break_even_per_s(0.1e-6, 5e-6, 10e-6).round(), 100_000.0);
    }
}
