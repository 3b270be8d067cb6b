//! Texts about exchanges: the first exchanges, the pauses, and the evidence.

use std::cmp::Ordering;

use hairpin_model::ladder::{self, CaseKind};
use hairpin_model::names::{distinct, grouped, joined, shortened};
use hairpin_model::{Capture, CaseSummary, Figure, Group, Run, path, quantities};

pub(crate) const WHY_FIRST: &str = "The first exchanges of a connection differ from later ones (Linux initially does \
                                    not delay ACKs, and caches are cold), so they are shown separately.";

/// An exchange differs from the steady state if its interval excludes the p50, and if the exchange is longer or
/// shorter than the p50 by at least this factor.
const MIN_RATIO: f64 = 1.5;

pub(crate) fn early(row: &CaseSummary) -> &[Figure] {
    row.primary().exchanges.as_ref().map_or(&[], |figures| figures.early_exchanges_ns.as_slice())
}

pub(crate) fn first_differ(row: &CaseSummary) -> bool {
    let Some(p50) = row.p50_ns() else { return false };
    let differs = |figure: &Figure| {
        let ratio = figure.value / p50;
        figure.excludes(p50) && !(1.0 / MIN_RATIO..=MIN_RATIO).contains(&ratio)
    };
    early(row).iter().any(differs)
}

/// Names the cases that the table of first exchanges omits, with the reason; `None` if there are none.
pub(crate) fn first_left_out(groups: &[&Group<'_>]) -> Option<String> {
    let of = |group: &Group<'_>| {
        let alike = group.rows.iter().filter(|row| !first_differ(row));
        let names: Vec<String> = alike.map(|row| ladder::row_name(row)).collect();
        (!names.is_empty()).then(|| format!("{} ({})", names.join(", "), group.name))
    };
    let groups = groups.iter().filter(|group| group.kind == CaseKind::Exchanges);
    let groups: Vec<String> = groups.filter_map(|group| of(group)).collect();
    (!groups.is_empty()).then(|| {
        format!(
            "Not shown, as their first exchanges are within {MIN_RATIO}x of the p50, or have intervals that include it: \
             {}.",
            groups.join("; ")
        )
    })
}

/// Names the remedies that merge writes and so omit some or all pauses of `--gap`; `None` if there are none.
pub(crate) fn gap_note(groups: &[&Group<'_>]) -> Option<String> {
    let named = |is_meant: fn(usize) -> bool| {
        let rows = groups.iter().flat_map(|group| &group.rows);
        let exchanges = rows.filter_map(|row| row.case.primary().load.exchange());
        let meant = exchanges.filter(|exchange| exchange.pauses_left().is_some_and(is_meant));
        distinct(meant.map(|exchange| exchange.remedy.to_string()))
    };
    let said = |names: Vec<String>, what: &str| {
        let have = if names.len() == 1 { "has" } else { "have" };
        (!names.is_empty()).then(|| format!("{} {have} {what}", joined(&names)))
    };
    let said: Vec<String> = [said(named(|left| left == 0), "none"), said(named(|left| left > 0), "fewer")]
        .into_iter()
        .flatten()
        .collect();
    (!said.is_empty()).then(|| {
        format!(
            "Pauses between writes (--gap): {}. If your program needs these pauses, add them to the times.",
            said.join(", ")
        )
    })
}

/// Returns the time that tracing adds to an exchange, for the case with the largest relative increase, if measured.
pub(crate) fn tracing_cost(run: &Run) -> Option<String> {
    let costs = run.cases.iter().filter_map(|row| {
        let trace = row.trace.as_ref()?;
        Some((row, trace.cost_ns.filter(|cost| cost.value.is_finite())?, trace.cost_ratio.and_then(Figure::finite)?))
    });
    let costs: Vec<(&CaseSummary, Figure, f64)> = costs.collect();
    let adds = |cost: &Figure| cost.value > 0.0 && cost.excludes(0.0);
    let can_tell = costs.iter().filter(|(_, cost, _)| adds(cost)).count();
    let (row, cost, ratio) =
        costs.iter().max_by(|a, b| (adds(&a.1), a.2).partial_cmp(&(adds(&b.1), b.2)).unwrap_or(Ordering::Equal))?;
    let (case, size) = (name(row), quantities::duration_figure(*cost));
    let said = if adds(cost) {
        let most = match (costs.len(), can_tell) {
            (1, _) => "",
            (all, some) if all == some => ", the largest relative increase of all cases",
            _ => ", the largest relative increase beyond round-to-round noise",
        };
        format!("adds {size} to an exchange, {}, on {case}{most}", quantities::change(*ratio))
    } else {
        format!("adds nothing beyond round-to-round noise (largest relative estimate: {size}, on {case})")
    };
    Some(format!("{said}; the tables exclude traced rounds"))
}

fn name(row: &CaseSummary) -> String {
    // The row name of an exchange has no transport.
    let transport = row.case.primary().load.exchange().map(|_| row.case.primary().transport.clone());
    let words = [transport, Some(ladder::row_name(row)), path::over(&row.case)];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

const MAX_LISTED: usize = 4;

/// Returns notes on captures: saved captures by file, skipped captures by reason. True marks lost data.
pub(crate) fn captures(run: &Run) -> Vec<(bool, String)> {
    let mut saved: Vec<String> = Vec::new();
    let mut skipped: Vec<(&String, String)> = Vec::new();
    let mut notes = Vec::new();
    for (row, trace) in run.cases.iter().filter_map(|row| row.trace.as_ref().map(|trace| (row, trace))) {
        let name = name(row);
        match &trace.capture {
            Capture::Saved { file, packets, .. } if file.is_empty() => {
                let captured = quantities::counted(*packets, "packet");
                notes.push((true, format!("{name}: {captured} captured and not saved: {}", why_unsaved(run))));
            }
            Capture::Saved { file, packets, dropped } => {
                if *dropped > 0 {
                    let lost = quantities::counted(*dropped, "packet");
                    notes.push((true, format!("{name}: the capture ring was full; {file} lacks {lost}")));
                }
                saved.push(format!("{file} ({name}, {})", quantities::counted(*packets, "packet")));
            }
            Capture::Skipped { reason } => skipped.push((reason, name)),
        }
    }
    if !saved.is_empty() {
        notes.insert(0, (false, shortened(&saved, MAX_LISTED)));
    }
    let told =
        |(reason, names): (&String, Vec<String>)| format!("not made for {}: {reason}", shortened(&names, MAX_LISTED));
    notes.extend(grouped(skipped).into_iter().map(|skipped| (false, told(skipped))));
    notes
}

fn why_unsaved(run: &Run) -> String {
    let causes: Vec<String> = run.unsaved.iter().map(|failure| failure.cause.clone()).collect();
    match causes.as_slice() {
        [] => "no cause was recorded".to_owned(),
        causes => shortened(causes, 1),
    }
}
