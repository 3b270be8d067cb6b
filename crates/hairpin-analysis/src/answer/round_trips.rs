//! Answers runs of round trips: the fastest case and the reference transport; with several paths, the fastest on
//! each.

use hairpin_model::names::grouped;
use hairpin_model::{Answer, CaseSummary, CpuIdle, EndKind, Finding, Load, Pair, Placement, Run, Statement, Waiting};

use super::at_rate;
use super::ranking::{best, is_near, not_slower};
use super::statements::{answer_from, ids, is_credible, quote_finding, single};

/// The code of the finding that the answer quotes.
const WAKE_UP: &str = "wake-up-dominated";

pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    let mut found = match run.cases.as_slice() {
        [only] if only.one_way().is_none() && !only.case.is_under_load() => vec![single(only)],
        _ => ranked(run, pairs),
    };
    if !found.is_empty() {
        let explains = |finding: &Finding| finding.code == WAKE_UP && finding.share > 0.0 && is_credible(finding);
        // What waking costs belongs to the answer for programs that block.
        let blocks = |statement: &Statement| !matches!(statement, Statement::BestBlocking { .. });
        let at = found.iter().position(blocks).filter(|at| *at > 0).unwrap_or(found.len());
        found.splice(at..at, quote_finding(run, &run.cases, explains));
    }
    answer_from(found)
}

fn ranked(run: &Run, pairs: &[Pair]) -> Vec<Statement> {
    let is_ranked = |row: &&CaseSummary| {
        let closed_loop = matches!(row.case.primary().load, Load::PingPong { .. }) && !row.case.is_under_load();
        closed_loop && row.can_be_ranked() && row.p50_ns().is_some()
    };
    let rows: Vec<&CaseSummary> = run.cases.iter().filter(is_ranked).collect();
    let paths = grouped(rows.iter().map(|row| (&row.case.path.link, *row)));
    let closed_loop = match paths.len() {
        0 | 1 => best_and_reference(run, &rows, pairs),
        _ => vec![over_paths(run, paths.iter().map(|(_, rows)| rows.as_slice()), pairs)],
    };
    closed_loop.into_iter().chain(at_rate::round_trips(run)).collect()
}

fn fastest<'r>(rows: &[&'r CaseSummary]) -> Option<&'r CaseSummary> {
    let p50 = |row: &CaseSummary| row.p50_ns().unwrap_or(f64::INFINITY);
    rows.iter().copied().min_by(|a, b| p50(a).total_cmp(&p50(b)))
}

fn best_and_reference(run: &Run, all: &[&CaseSummary], pairs: &[Pair]) -> Vec<Statement> {
    let between_processes = |row: &&CaseSummary| row.case.ends.kind == EndKind::Processes && row.server().is_some();
    let of_processes: Vec<&CaseSummary> = all.iter().copied().filter(between_processes).collect();
    let rows = if of_processes.is_empty() { all } else { &of_processes };
    let Some(first) = fastest(rows) else { return Vec::new() };
    let ties = not_slower(first, rows, pairs, run.plan.alpha);
    let slower: Vec<&CaseSummary> =
        all.iter().copied().filter(|row| !ties.iter().any(|tie| tie.id == row.id)).collect();
    let of_all = best(run, first, rows, pairs).into_iter().chain(reference(run, first, &slower));
    best_blocking(run, first, rows, pairs).into_iter().chain(of_all).collect()
}

/// Answers for programs that block on two CPUs, unless the fastest case is one of them.
fn best_blocking(
    run: &Run,
    fastest_of_all: &CaseSummary,
    rows: &[&CaseSummary],
    pairs: &[Pair],
) -> Option<Statement> {
    let blocks = |row: &CaseSummary| {
        let ends = &row.case.ends;
        (ends.waiting, ends.placement, ends.cpu_idle) == (Waiting::Block, Placement::CrossCpu, CpuIdle::Deep)
    };
    let blocking: Vec<&CaseSummary> = rows.iter().copied().filter(|row| blocks(row)).collect();
    let first = fastest(&blocking).filter(|_| blocking.len() > 1 && !blocks(fastest_of_all))?;
    match best(run, first, &blocking, pairs).into_iter().next()? {
        Statement::Best { cases, verdict } => Some(Statement::BestBlocking { cases, verdict }),
        other => Some(other),
    }
}

/// Compares the reference transport with the fastest case: the reference case with the same waiting and placement if
/// measured, otherwise the fastest reference case.
fn reference(run: &Run, first: &CaseSummary, slower: &[&CaseSummary]) -> Option<Statement> {
    let is_reference =
        |row: &&CaseSummary| run.cards.get(&row.case.primary().transport).is_some_and(|card| card.is_reference);
    let reference: Vec<&CaseSummary> = slower.iter().copied().filter(is_reference).collect();
    let conditions = |row: &CaseSummary| (row.case.ends.waiting, row.case.ends.placement);
    let alike: Vec<&CaseSummary> =
        reference.iter().copied().filter(|row| conditions(row) == conditions(first)).collect();
    let found = fastest(&alike).or_else(|| fastest(&reference)).filter(|found| found.id != first.id)?;
    let one = first.p50_ns().filter(|ns| *ns > 0.0)?;
    Some(Statement::Reference {
        case: found.id.clone(),
        ratio: found.p50_ns()? / one,
        same_conditions: !alike.is_empty(),
    })
}

fn over_paths<'r>(run: &Run, paths: impl Iterator<Item = &'r [&'r CaseSummary]>, pairs: &[Pair]) -> Statement {
    let of_path = |rows: &[&CaseSummary]| {
        let first = fastest(rows)?;
        let p50 = |row: &CaseSummary| row.primary().latency_ns.p50;
        let not_slower = not_slower(first, rows, pairs, run.plan.alpha).into_iter();
        let alike = not_slower.filter(|row| is_near(p50(first), p50(row)));
        Some(ids(std::iter::once(first).chain(alike)))
    };
    Statement::BestOverPaths { paths: paths.filter_map(of_path).collect() }
}
