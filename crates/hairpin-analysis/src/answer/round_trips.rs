//! The answer to round trips: the fastest, compared with the reference transport; with several paths the fastest over
//! each.

use hairpin_model::answer::{Answer, Pair};
use hairpin_model::case::EndKind;
use hairpin_model::flow::Load;
use hairpin_model::names::{grouped, joined, shortened};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;
use hairpin_model::{path, quantities};

use super::ranking::as_fast;
use super::words;

/// The answer; `None` if no case is usable.
pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    let spoken: Vec<&CaseSummary> = run.cases.iter().filter(|row| speaks_for_the_machine(row)).collect();
    over_each_path(run, &spoken, pairs).or_else(|| of_all(run, &spoken, pairs))
}

/// A case that the answer may name: valid, measured, closed loop, without injected fault, no replicate.
fn speaks_for_the_machine(row: &CaseSummary) -> bool {
    let case = &row.case;
    let plain =
        matches!(case.primary().load, Load::PingPong { .. }) && case.injected_fault.is_none() && case.replicate == 0;
    plain && !case.is_under_load() && row.valid && row.p50_ns().is_some()
}

fn fastest<'r>(rows: &[&'r CaseSummary]) -> Option<&'r CaseSummary> {
    let p50 = |row: &CaseSummary| row.p50_ns().unwrap_or(f64::INFINITY);
    rows.iter().copied().min_by(|a, b| p50(a).total_cmp(&p50(b)))
}

/// The answer on all cases between two processes, or else on all cases.
fn of_all(run: &Run, spoken: &[&CaseSummary], pairs: &[Pair]) -> Option<Answer> {
    let between_processes = |row: &&CaseSummary| row.case.ends.kind == EndKind::Processes && row.server().is_some();
    let of_processes: Vec<&CaseSummary> = spoken.iter().copied().filter(between_processes).collect();
    let (rows, between) =
        if of_processes.is_empty() { (spoken, "") } else { (&of_processes[..], " between two processes") };
    let first = fastest(rows)?;
    // A server on another host is always another process.
    let between = if first.case.host().is_some() { "" } else { between };
    let as_fast = as_fast(first, rows, pairs, run.plan.alpha);
    let path = path::over_in_short(&first.case, &run.cases).unwrap_or_else(|| "here".to_owned());
    let names: Vec<String> = std::iter::once(first).chain(as_fast.iter().copied()).map(placed).collect();
    let has_interval = first.primary().latency_ns.p50.is_some_and(|p50| p50.low.is_some());
    let headline = match names.as_slice() {
        [only] => format!("Fastest round trip{between} {path}: {only}."),
        [lowest, ..] if !has_interval => {
            format!("Lowest p50{between} {path}: {lowest}. It has no interval, so no winner is named.")
        }
        several => format!("Fastest round trips{between} {path}, no difference found: {}.", shortened(several, 2)),
    };
    let slower: Vec<&CaseSummary> =
        spoken.iter().copied().filter(|row| !as_fast.iter().any(|tie| tie.id == row.id)).collect();
    Some(Answer {
        headline,
        sentences: beside_reference(run, first, &slower).into_iter().collect(),
        ..Answer::default()
    })
}

/// `shm (spin, cross-cpu) at p50 142 ns (95 % interval 140-145)`.
fn placed(row: &CaseSummary) -> String {
    format!("{} at p50 {}", words::name(row), words::with_interval(row.primary().latency_ns.p50))
}

/// Ratios below this are printed in percent: small differences must not read as 1.00x.
const FACTOR: f64 = 1.1;

/// The reference transport, compared with the fastest case: with the same waiting and placement if measured, or else
/// its fastest case.
fn beside_reference(run: &Run, first: &CaseSummary, slower: &[&CaseSummary]) -> Option<String> {
    let is_reference =
        |row: &&CaseSummary| run.cards.get(&row.case.primary().transport).is_some_and(|card| card.is_reference);
    let reference: Vec<&CaseSummary> = slower.iter().copied().filter(is_reference).collect();
    let conditions = |row: &CaseSummary| (row.case.ends.waiting, row.case.ends.placement);
    let alike: Vec<&CaseSummary> =
        reference.iter().copied().filter(|row| conditions(row) == conditions(first)).collect();
    let (found, how) = match fastest(&alike) {
        Some(row) => (row, "under the same conditions".to_owned()),
        None => fastest(&reference).map(|row| (row, format!("({})", row.case.ends.in_words())))?,
    };
    let (one, other) = (first.p50_ns()?, found.p50_ns()?);
    if found.id == first.id || one <= 0.0 {
        return None;
    }
    let ratio = other / one;
    let more = if ratio < FACTOR { quantities::change(ratio) } else { quantities::factor(ratio) };
    Some(format!("{} {how}: {} ({more}).", found.case.marked_transport(), quantities::duration(other)))
}

/// The fastest over each path; `None` if the run has fewer than two paths.
fn over_each_path(run: &Run, spoken: &[&CaseSummary], pairs: &[Pair]) -> Option<Answer> {
    let paths = grouped(spoken.iter().map(|row| (&row.case.path.link, *row)));
    let fastest: Vec<(&CaseSummary, &[&CaseSummary])> =
        paths.iter().filter_map(|(_, rows)| Some((fastest(rows)?, rows.as_slice()))).collect();
    let (first, _) = fastest.first().filter(|_| fastest.len() > 1)?;
    let who = words::name(first);
    let one_for_all = fastest.iter().all(|(row, _)| words::name(row) == who);
    let said = |(row, rows): &(&CaseSummary, &[&CaseSummary])| {
        let over = path::over_in_short(&row.case, &run.cases).unwrap_or_else(|| "without a link".to_owned());
        let whose = if one_for_all { String::new() } else { whose(row, rows, pairs, run.plan.alpha) };
        format!("{} {over}{whose}", words::p50(row))
    };
    let times = joined(&fastest.iter().map(said).collect::<Vec<_>>());
    Some(words::headline(if one_for_all {
        format!("p50 of a round trip with {who}: {times}.")
    } else {
        format!("Fastest round trip, by p50: {times}.")
    }))
}

/// The fastest case over its path, after a blank; or the cases without a difference found.
fn whose(row: &CaseSummary, rows: &[&CaseSummary], pairs: &[Pair], alpha: f64) -> String {
    let mut names = vec![words::name(row)];
    names.extend(as_fast(row, rows, pairs, alpha).into_iter().map(words::name));
    match names.as_slice() {
        [one] => format!(" with {one}"),
        several => format!(" (no difference found between {})", shortened(several, 2)),
    }
}
