//! Answers how to wait: up to which rate the ends should sleep, and from which rate spinning is worth its CPUs.

use std::collections::BTreeSet;

use hairpin_model::answer::CPU_SECONDS_PER_SECOND_SAVED;
use hairpin_model::case::Scheduling;
use hairpin_model::summary::Verdict;
use hairpin_model::{Answer, CaseSummary, Load, Pair, Run, Statement, Waiting};

use super::round_trips;

/// CPUs that the two ends keep busy while they spin.
const SPINNING_CPUS: f64 = 2.0;
/// The ways to wait beside those that other experiments have, of which at least one makes waiting the subject of a run.
const OWN: &[Waiting] = Waiting::ALL.split_at(Waiting::BASIC.len()).1;

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

/// A busy-polling end cannot have a real-time policy, so ends with one are not compared with it.
fn is_compared(row: &CaseSummary) -> bool {
    if row.case.ends.scheduling != Scheduling::Other {
        return false;
    }
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

fn intervals_are_apart(faster: &CaseSummary, slower: &CaseSummary) -> bool {
    let interval = |row: &CaseSummary| row.primary().latency_ns.p50?.interval();
    interval(faster).zip(interval(slower)).is_some_and(|((_, high), (low, _))| high < low)
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;
    use hairpin_model::round::Measured;

    use super::*;
    use crate::fixture::{Fixture, apart};

    const ROUNDS: u64 = 12;
    /// A histogram holds this latency exactly.
    const SLEPT_NS: u64 = 70_015;
    const SPUN_NS: u64 = 8_191;

    fn tcp(waiting: Waiting) -> Case {
        apart(Case::ping_pong("tcp")).with(|case| case.ends.waiting = waiting)
    }

    fn with_connections(case: Case, connections: u32) -> Case {
        case.with(|case| case.primary_mut().connections = connections)
    }

    /// The statements on how to wait, after rounds of 100 messages with this latency and CPU time per message at each end. Each
    /// case also has one slower round, so that intervals have a width.
    fn answered(cases: &[(Case, u64, u64)]) -> Vec<Statement> {
        let mut fixture = Fixture::new();
        for (case, latency_ns, cpu_ns) in cases {
            let mut latencies = vec![*latency_ns; ROUNDS as usize];
            latencies[7] += latency_ns / 100;
            fixture.rounds_with(case, &latencies, |measured: &mut Measured| {
                measured.ends.iter_mut().for_each(|end| end.cpu_ns = 100 * cpu_ns);
            });
        }
        let mut statements = answer(&fixture.run(), &[]).map(|answer| answer.statements).unwrap_or_default();
        statements.retain(|statement| matches!(statement, Statement::HowToWait { .. }));
        statements
    }

    fn sleep(sleeping: &Case, up_to_per_s: Option<f64>) -> Statement {
        let spinning = sleeping.clone().with(|case| case.ends.waiting = Waiting::Spin);
        Statement::HowToWait { sleeping: sleeping.id(), spinning: spinning.id(), up_to_per_s }
    }

    /// The statement with a whole number of messages per second.
    fn rounded(mut statement: Statement) -> Statement {
        if let Statement::HowToWait { up_to_per_s: Some(up_to_per_s), .. } = &mut statement {
            *up_to_per_s = up_to_per_s.round();
        }
        statement
    }

    #[test]
    fn spinning_is_worth_its_cpus_from_the_break_even_rate() {
        // 62 us saved for 2 CPUs without the 20 us that sleeping takes: 2 / (620 + 20) us.
        assert_eq!(break_even_per_s(62e-6, 20e-6, 70e-6).round(), 3125.0);
        // Sleeping ends of one connection reach no more than 1 / 10 us.
        assert_eq!(break_even_per_s(0.1e-6, 5e-6, 10e-6).round(), 100_000.0);
    }

    #[test]
    fn sleep_at_low_rates_and_spin_at_high_ones() {
        let [block, epoll, spin] = [Waiting::Block, Waiting::Epoll, Waiting::Spin].map(tcp);
        let cases = |cpu_ns| {
            [(block.clone(), SLEPT_NS, cpu_ns), (epoll.clone(), 80_000, 10_000), (spin.clone(), SPUN_NS, 4_000)]
        };
        // 2 / (10 * 61.824 us + 2 * 10 us).
        assert_eq!(
            answered(&cases(10_000)).into_iter().map(rounded).collect::<Vec<_>>(),
            [sleep(&block, Some(3_134.0))]
        );
        // The CPU time of sleeping counts: 2 / (10 * 61.824 us + 2 * 60 us).
        assert_eq!(
            answered(&cases(60_000)).into_iter().map(rounded).collect::<Vec<_>>(),
            [sleep(&block, Some(2_709.0))]
        );
    }

    #[test]
    fn spinning_that_is_not_faster_has_no_rate() {
        let [block, epoll, spin] = [Waiting::Block, Waiting::Epoll, Waiting::Spin].map(tcp);
        for spun_ns in [SLEPT_NS, 2 * SLEPT_NS] {
            let cases =
                [(block.clone(), SLEPT_NS, 10_000), (epoll.clone(), 80_000, 10_000), (spin.clone(), spun_ns, 4_000)];
            assert_eq!(answered(&cases), [sleep(&block, None)]);
        }
    }

    #[test]
    fn the_simplest_of_equally_fast_ways_is_named_and_a_faster_one_if_it_is_shown() {
        let [block, epoll, uring, spin] = [Waiting::Block, Waiting::Epoll, Waiting::Uring, Waiting::Spin].map(tcp);
        let sleeping = |uring_ns| {
            let spin = (spin.clone(), SPUN_NS, 4_000);
            let cases = [
                (epoll.clone(), SLEPT_NS, 10_000),
                (uring.clone(), uring_ns, 10_000),
                (block.clone(), 80_000, 10_000),
                spin,
            ];
            answered(&cases).into_iter().map(rounded).collect::<Vec<_>>()
        };
        // The intervals reach from the fastest round to the slower one.
        assert_eq!(sleeping(SLEPT_NS - 200), [sleep(&epoll, Some(3_134.0))], "the intervals overlap");
        // 2 / (10 * 51.84 us + 2 * 10 us).
        assert_eq!(sleeping(60_031), [sleep(&uring, Some(3_715.0))]);
    }

    #[test]
    fn each_number_of_connections_has_its_answer() {
        let [block, epoll, spin] = [Waiting::Block, Waiting::Epoll, Waiting::Spin].map(tcp);
        let [many, many_spin] = [&epoll, &spin].map(|case| with_connections(case.clone(), 100));
        let one = [(block.clone(), SLEPT_NS, 10_000), (spin, SPUN_NS, 4_000)];
        let of_many = [(many.clone(), SLEPT_NS, 10_000), (many_spin, 131_071, 70_000)];
        let found = answered(&[one, of_many].concat());
        assert_eq!(
            found.into_iter().map(rounded).collect::<Vec<_>>(),
            [sleep(&block, Some(3_134.0)), sleep(&many, None)]
        );
    }

    #[test]
    fn real_time_ends_and_runs_of_basic_ways_are_not_compared() {
        let [block, epoll, spin] = [Waiting::Block, Waiting::Epoll, Waiting::Spin].map(tcp);
        let fifo = block.clone().with(|case| case.ends.scheduling = Scheduling::Fifo);
        let spun = (spin, SPUN_NS, 4_000);
        let cases = [(fifo, 30_015, 9_000), (block.clone(), SLEPT_NS, 10_000), (epoll, 80_000, 10_000), spun.clone()];
        assert_eq!(answered(&cases).into_iter().map(rounded).collect::<Vec<_>>(), [sleep(&block, Some(3_134.0))]);
        assert_eq!(answered(&[(block, SLEPT_NS, 10_000), spun]), []);
    }
}
