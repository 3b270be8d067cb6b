//! What is said of cases of exchanges: the answer, the speed-up, the first exchanges, and the evidence beside them.

use std::cmp::Ordering;

use hairpin_model::exchange::Remedy;
use hairpin_model::figure::Figure;
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Verdict};
use hairpin_model::trace::Capture;

use crate::ladder::{self, Group, Kind};
use crate::quantities::{self, Micro};
use crate::wording::{self, Answer};

/// Why the first exchanges have a table of their own.
pub(crate) const WHY_FIRST: &str = "A connection's first exchanges are not like its later ones (Linux acknowledges at \
                                    once at first, and caches are cold), so they are shown apart from the steady state.";

/// An exchange differs from the steady state where its interval excludes the p50 and it is so many times as long or
/// as short.
const DIFFERS: f64 = 1.5;

/// `bytes_per_ms` against that of the same case with remedy `none`.
pub(crate) fn speed_up(row: &CaseSummary) -> Option<Figure> {
    row.exchanges.as_ref()?.speed_up_against_none.filter(|figure| figure.value.is_finite())
}

/// The first exchanges of a connection, in ns; empty where the case has none.
pub(crate) fn early_ns(row: &CaseSummary) -> Vec<f64> {
    let early = |figures: &hairpin_model::summary::ExchangeFigures| {
        figures.early_exchanges_ns.iter().map(|figure| figure.value).collect()
    };
    row.exchanges.as_ref().map(early).unwrap_or_default()
}

/// Whether one of the first exchanges is unlike the steady state.
pub(crate) fn first_differ(row: &CaseSummary) -> bool {
    let Some((figures, p50)) = row.exchanges.as_ref().zip(ladder::p50_ns(row)) else { return false };
    let differs = |figure: &Figure| {
        let ratio = figure.value / p50;
        figure.excludes(p50) && !(1.0 / DIFFERS..=DIFFERS).contains(&ratio)
    };
    figures.early_exchanges_ns.iter().any(differs)
}

fn remedy(row: &CaseSummary) -> Option<Remedy> {
    row.case.exchange.as_ref().map(|exchange| exchange.remedy)
}

/// A case that the answer may name: valid, measured, nothing planted, no second of a pair.
fn speaks(row: &CaseSummary) -> bool {
    row.valid && ladder::p50_ns(row).is_some() && row.case.plant.is_none() && row.case.twin == 0
}

/// The answer for a run of exchanges: what they take with nothing done, and which remedy is fastest. Of several groups
/// it speaks of the first in which remedies were compared with `none`; null where no case speaks.
pub(crate) fn answer(run: &Run, micro: Micro) -> Option<Answer> {
    let mut groups: Vec<Group<'_>> =
        ladder::groups(run).into_iter().filter(|group| group.kind == Kind::Exchanges).collect();
    for group in &mut groups {
        group.rows.retain(|row| speaks(row));
    }
    groups.retain(|group| !group.rows.is_empty());
    let compared = |group: &&Group<'_>| group.rows.iter().any(|row| speed_up(row).is_some());
    let group = groups.iter().find(compared).or(groups.first())?;
    let none = group.rows.iter().copied().find(|row| remedy(row) == Some(Remedy::None));
    let fastest = fastest(run, group, none.is_some());
    let lead = lead(group, none, &fastest, micro);
    let more = [
        ties(&fastest),
        none.and_then(|none| worse(group, none, micro)),
        none.and_then(|none| elsewhere(&groups, none, micro)),
        none.and_then(|none| cause(run, none)),
    ];
    Some(Answer { lead, more: more.into_iter().flatten().collect() })
}

/// The fastest remedies: the first, and those that cannot be told apart from it. Where `none` was measured only those
/// whose speed-up against it excludes 1.
fn fastest<'r>(run: &Run, group: &Group<'r>, against_none: bool) -> Vec<&'r CaseSummary> {
    let proved = |row: &&CaseSummary| {
        !against_none || speed_up(row).is_some_and(|figure| figure.value > 1.0 && figure.excludes(1.0))
    };
    let mut rows = group.rows.iter().copied().filter(proved);
    let Some(first) = rows.next() else { return Vec::new() };
    std::iter::once(first).chain(rows.filter(|row| !told_apart(run, first, row))).collect()
}

/// By their comparison where the run has one, else by whether their intervals are apart.
fn told_apart(run: &Run, one: &CaseSummary, other: &CaseSummary) -> bool {
    let pair = [one.id.as_str(), other.id.as_str()];
    let of_both = |ids: [&str; 2]| ids == pair || ids == [pair[1], pair[0]];
    let found = run.comparisons.iter().find(|found| of_both([&found.baseline, &found.candidate]));
    match (found, ladder::interval(one.latency_ns.p50), ladder::interval(other.latency_ns.p50)) {
        (Some(found), _, _) => found.verdict != Verdict::CannotTell,
        (None, Some(one), Some(other)) => one.1 < other.0 || other.1 < one.0,
        (None, _, _) => false,
    }
}

fn lead(group: &Group<'_>, none: Option<&CaseSummary>, fastest: &[&CaseSummary], micro: Micro) -> String {
    let case = &group.rows[0].case;
    let request = case.exchange.as_ref().map(|exchange| ladder::request(case, exchange)).unwrap_or_default();
    let what = format!("exchange of {request} over {}", case.transport);
    let p50 = |row: &CaseSummary| wording::with_interval(row.latency_ns.p50, micro);
    match (none, fastest.first()) {
        (Some(none), Some(first)) => {
            let short = |row: &CaseSummary| quantities::duration(ladder::p50_ns(row).unwrap_or(f64::NAN), micro);
            let gain = speed_up(first).map(|figure| times(figure, micro)).unwrap_or_default();
            format!(
                "An {what} takes {} with nothing done against stalls and {} with {}: {gain}.",
                short(none),
                short(first),
                ladder::row_name(first)
            )
        }
        (Some(none), None) => {
            let others = group.rows.len() > 1;
            let unproved = if others { "; no remedy is proved to be faster" } else { "" };
            format!("An {what} takes {} with nothing done against stalls{unproved}.", p50(none))
        }
        (None, Some(first)) => {
            format!("The fastest remedy for an {what} is {} at p50 {}.", ladder::row_name(first), p50(first))
        }
        (None, None) => String::new(),
    }
}

/// The remedies that cannot be told apart from the fastest.
fn ties(fastest: &[&CaseSummary]) -> Option<String> {
    let (first, ties) = fastest.split_first()?;
    let names: Vec<String> = ties.iter().map(|row| ladder::row_name(row)).collect();
    (!names.is_empty())
        .then(|| format!("{} cannot be told apart from {}.", joined(&names, "and"), ladder::row_name(first)))
}

/// `839 times the bytes a millisecond (95 % interval 812-861)`.
fn times(figure: Figure, micro: Micro) -> String {
    let bounds = ladder::interval(Some(figure)).map_or_else(String::new, |(low, high)| {
        format!(" (95 % interval {})", quantities::number_bounds(figure.value, low, high, micro))
    });
    format!("{} the bytes a millisecond{bounds}", quantities::times(figure.value))
}

/// Remedies that are proved to be slower than nothing.
fn worse(group: &Group<'_>, none: &CaseSummary, micro: Micro) -> Option<String> {
    let slower = |row: &&&CaseSummary| {
        row.id != none.id && speed_up(row).is_some_and(|figure| figure.value < 1.0 && figure.excludes(1.0))
    };
    let said = |row: &&CaseSummary| {
        let p50 = quantities::duration(ladder::p50_ns(row).unwrap_or(f64::NAN), micro);
        format!("{} ({p50})", ladder::row_name(row))
    };
    let rows: Vec<String> = group.rows.iter().filter(slower).map(said).collect();
    let is = if rows.len() == 1 { "is" } else { "are" };
    (!rows.is_empty()).then(|| format!("{} {is} slower than nothing.", joined(&rows, "and")))
}

/// The same writes with nothing done over the other transports.
fn elsewhere(groups: &[Group<'_>], none: &CaseSummary, micro: Micro) -> Option<String> {
    let alike = |row: &&CaseSummary| {
        row.case.transport != none.case.transport
            && row.case.exchange == none.case.exchange
            && (row.case.waiting, row.case.placement) == (none.case.waiting, none.case.placement)
    };
    let said = |row: &CaseSummary| {
        let p50 = quantities::duration(ladder::p50_ns(row).unwrap_or(f64::NAN), micro);
        format!("{p50} over {}", row.case.transport)
    };
    let rows: Vec<String> = groups.iter().flat_map(|group| &group.rows).copied().filter(alike).map(said).collect();
    (!rows.is_empty()).then(|| format!("The same writes take {}.", joined(&rows, "and")))
}

/// The finding that explains most of it and that no counter-experiment refuted.
fn cause(run: &Run, none: &CaseSummary) -> Option<String> {
    let speaks_of_it = |finding: &&hairpin_model::finding::Finding| {
        finding.share > 0.0
            && finding.cases.contains(&none.id)
            && finding.proved.as_ref().is_none_or(|proved| proved.verdict == "confirmed")
    };
    let finding = run.findings.iter().find(speaks_of_it)?;
    Some(format!("Finding {} explains {} of it.", finding.code, quantities::share(finding.share)))
}

/// `a, b and c`.
fn joined(names: &[String], last: &str) -> String {
    match names {
        [rest @ .., end] if !rest.is_empty() => format!("{} {last} {end}", rest.join(", ")),
        _ => names.join(""),
    }
}

/// The greatest that tracing adds to an exchange of any case, of the cases that can tell; null where it was not
/// measured.
pub(crate) fn tracing_cost(run: &Run, micro: Micro) -> Option<String> {
    let costs = run.cases.iter().filter_map(|row| {
        let trace = row.trace.as_ref()?;
        Some((row, trace.cost_ns.filter(|cost| cost.value.is_finite())?, ladder::finite(trace.cost_ratio)?))
    });
    let (row, cost, ratio) = costs
        .max_by(|a, b| (a.1.excludes(0.0), a.2).partial_cmp(&(b.1.excludes(0.0), b.2)).unwrap_or(Ordering::Equal))?;
    let bounds = wording::range(cost, micro);
    let adds = if cost.excludes(0.0) {
        let (most, change) = (quantities::duration(cost.value, micro), quantities::change(ratio));
        format!("adds at most {most} to an exchange{bounds}: {change}, on {}", name(row))
    } else {
        format!("adds nothing to an exchange that can be told from its spread{bounds}, on {}", name(row))
    };
    Some(format!("{adds}; it was measured in rounds of its own, and no figure of traced rounds is in the tables"))
}

fn name(row: &CaseSummary) -> String {
    format!("{} {}", row.case.transport, ladder::row_name(row))
}

/// The most names or files that a line lists.
const LISTED: usize = 4;

/// The first few of a list, and how many more there are.
pub(crate) fn shortened(names: &[String], most: usize) -> String {
    match names.len().saturating_sub(most) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..most].join(", ")),
    }
}

/// What became of the captures: those saved with their files, those that were not by reason. True with those lost.
pub(crate) fn captures(run: &Run) -> Vec<(bool, String)> {
    let mut saved: Vec<String> = Vec::new();
    let mut skipped: Vec<(String, Vec<String>)> = Vec::new();
    let mut notes = Vec::new();
    for (row, trace) in run.cases.iter().filter_map(|row| row.trace.as_ref().map(|trace| (row, trace))) {
        let name = name(row);
        match &trace.capture {
            Capture::Saved { file, packets, dropped } => {
                if *dropped > 0 {
                    let lost = wording::counted(*dropped, "packet");
                    notes.push((true, format!("{name}: the ring had no room for {lost}, which {file} lacks")));
                }
                saved.push(format!("{file} ({name}, {})", wording::counted(*packets, "packet")));
            }
            Capture::Skipped { reason } => match skipped.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name),
                None => skipped.push((reason.clone(), vec![name])),
            },
        }
    }
    if !saved.is_empty() {
        notes.insert(0, (false, shortened(&saved, LISTED)));
    }
    notes.extend(
        skipped
            .into_iter()
            .map(|(reason, names)| (false, format!("none of {}: {reason}", shortened(&names, LISTED)))),
    );
    notes
}
