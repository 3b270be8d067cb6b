//! The headline: one short sentence. The full sentence of the same statement, with intervals, follows it.

use hairpin_model::knee::NotDelivered;
use hairpin_model::ladder::{CaseKind, row_name};
use hairpin_model::names::joined;
use hairpin_model::quantities::message_rate;
use hairpin_model::summary::Verdict;
use hairpin_model::{CaseSummary, Run, Statement};

use super::exchanges::{capitalised, exchange};
use super::figures::p50;
use super::{one_way, under_load};

/// Maximum length of a headline, in characters.
pub(super) const MAX_CHARS: usize = 100;

/// Returns the short sentence of a statement whose full sentence may be longer than [`MAX_CHARS`].
pub(super) fn headline(run: &Run, statement: &Statement) -> Option<String> {
    use Statement as Said;
    let row = |id: &String| run.case(id);
    let rows = |ids: &Vec<String>| ids.iter().filter_map(|id| run.case(id)).collect::<Vec<&CaseSummary>>();
    let text = match statement {
        Said::Best { cases, verdict } => best(None, &rows(cases), *verdict)?,
        Said::BestBlocking { cases, verdict } => {
            best(Some("Fastest for programs that block on two CPUs"), &rows(cases), *verdict)?
        }
        Said::BestOverPaths { paths } => {
            let first = rows(paths.first()?);
            format!("Fastest over the first of {} paths: {}.", paths.len(), valued(first.first()?))
        }
        Said::Single { case } => valid(row(case)?, &valued(row(case)?)),
        Said::Remedy { default, best } => {
            let (default, best) = (row(default)?, row(best)?);
            format!("{}: {}; {} with {}.", capitalised(&exchange(default)), p50(default), p50(best), row_name(best))
        }
        Said::NoRemedy { default, have_intervals } => {
            let unproved = if have_intervals.is_some() { "; no remedy is proved faster" } else { "" };
            format!("{}: {}{unproved}.", capitalised(&exchange(row(default)?)), p50(row(default)?))
        }
        Said::OnlyRemedy { case } => {
            format!("{}: {} with {}.", capitalised(&exchange(row(case)?)), p50(row(case)?), row_name(row(case)?))
        }
        Said::FastestRemedies { cases } => best(Some("Fastest remedy"), &rows(cases), tie(cases))?,
        Said::Knee { case } => knee(run, row(case)?)?,
        Said::Load { case, .. } => valid(row(case)?, &under_load::idle_and_loaded(run, row(case)?)),
        Said::Loads { cases, least, most } => loads(run, &rows(cases), &rows(least), &rows(most))?,
        _ => return None,
    };
    Some(limited(text))
}

fn limited(text: String) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some(_) => text.chars().take(MAX_CHARS - 3).chain("...".chars()).collect(),
        None => text,
    }
}

fn tie(cases: &[String]) -> Option<Verdict> {
    Some(if cases.len() == 1 { Verdict::Faster } else { Verdict::CannotTell })
}

fn valid(row: &CaseSummary, text: &str) -> String {
    if row.valid { format!("{text}.") } else { format!("Do not use: {text} (invalid).") }
}

/// Returns the figure by which cases of its kind are ranked.
fn value(row: &CaseSummary) -> Option<String> {
    match CaseKind::of(&row.case) {
        CaseKind::Messages => one_way::rate_in_short(row),
        CaseKind::Streams => one_way::goodput_in_short(row),
        CaseKind::RoundTrips | CaseKind::Exchanges | CaseKind::Offered | CaseKind::UnderLoad => {
            row.p50_ns().map(|_| p50(row))
        }
    }
}

fn valued(row: &CaseSummary) -> String {
    format!("{}, {}", row_name(row), value(row).unwrap_or_else(|| "nothing was measured".to_owned()))
}

/// Names the best case, with the cases near it if there is room.
fn best(what: Option<&str>, rows: &[&CaseSummary], verdict: Option<Verdict>) -> Option<String> {
    let first = *rows.first()?;
    let (kind, value) = (CaseKind::of(&first.case), value(first)?);
    let what = what.unwrap_or(match kind {
        CaseKind::Messages => "Highest message rate",
        CaseKind::Streams if first.case.goes_both_ways() => "Highest goodput both ways",
        CaseKind::Streams => "Highest goodput",
        CaseKind::Offered => "Lowest one-way latency",
        CaseKind::RoundTrips | CaseKind::Exchanges | CaseKind::UnderLoad => "Fastest here",
    });
    let tail = match verdict {
        Some(Verdict::Faster) => "",
        Some(_) if rows.len() == 1 => "; others are not separated in this run",
        Some(_) => ", not separated in this run",
        None => "; it has no interval, so no winner is named",
    };
    let ends = if what == "Fastest here" { format!(" ({})", first.case.ends.in_words()) } else { String::new() };
    let named = |count: usize| {
        let more = (rows.len() > count && verdict.is_some()).then(|| format!("{} more", rows.len() - count));
        let names = rows[..count].iter().map(|row| row_name(row)).chain(more);
        let ends = if rows.len() == 1 || verdict.is_none() { ends.as_str() } else { "" };
        format!("{what}: {}, {value}{ends}{tail}.", joined(&names.collect::<Vec<_>>()))
    };
    let fits = |text: &String| text.chars().count() <= MAX_CHARS;
    let several = (verdict.is_some() && rows.len() > 1).then(|| named(rows.len().min(3))).filter(fits);
    Some(several.unwrap_or_else(|| named(1)))
}

fn knee(run: &Run, row: &CaseSummary) -> Option<String> {
    let (knee, name) = (one_way::knee_of(run, row)?, &row.case.primary().transport);
    let why = match knee.why_not {
        Some(NotDelivered::Lost) => "messages are lost",
        Some(NotDelivered::SenderBehind) => "the sender falls behind",
        Some(NotDelivered::ReceiverBehind) => "the receiver falls behind",
        None => "all of it arrives",
    };
    Some(match (knee.delivered_per_s, knee.not_delivered_per_s) {
        (Some(delivered), Some(failed)) => {
            format!("{name} delivers {}; at {} {why}.", message_rate(delivered), message_rate(failed))
        }
        (Some(delivered), None) => format!("{name} delivers every rate measured, up to {}.", message_rate(delivered)),
        (None, failed) => format!("{name} does not deliver {}: {why}.", message_rate(failed?)),
    })
}

fn loads(run: &Run, rows: &[&CaseSummary], least: &[&CaseSummary], most: &[&CaseSummary]) -> Option<String> {
    let of = |row: &CaseSummary| under_load::load_and_loaded(run, row);
    Some(match (least.first(), most.last()) {
        (Some(least), Some(most)) => format!("Lowest latency under load: {}; highest: {}.", of(least), of(most)),
        _ => format!("{} loads, not separated in this run: {} and more.", rows.len(), of(rows.first()?)),
    })
}
