//! The answer to messages at full rate: the highest rate, the gain of batches, the latency at that rate, and losses.

use hairpin_model::answer::{Answer, Pair};
use hairpin_model::compared_by::ComparedBy;
use hairpin_model::figure::Figure;
use hairpin_model::flow::Load;
use hairpin_model::ladder::{Kind, row_name};
use hairpin_model::names::distinct;
use hairpin_model::quantities::{message_rate, message_rate_bounds};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::one_way::{Gain, best, by_path, gain, loss, losses, paced, single, spoken, with_interval};
use super::words;

/// The answer; `None` if no such case is usable.
pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    if let [row] = run.cases.as_slice() {
        return (Kind::of(&row.case) == Kind::Messages && rate(row).is_some()).then(|| of_one(row));
    }
    let paths = by_path(&spoken(run, Kind::Messages));
    let mut headlines = Vec::new();
    let mut details = Vec::new();
    for rows in &paths {
        let mut rows: Vec<&CaseSummary> = rows.iter().copied().filter(|row| rate(row).is_some()).collect();
        rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
        let told = |row: &CaseSummary| (rate(row), in_words(row));
        headlines.extend(best("Highest message rate", &rows, (pairs, run.plan.alpha), paths.len() > 1, told));
        if let Some(first) = rows.first() {
            details.extend(batches(run, &rows));
            details.extend(latency(first, &rows));
        }
        details.extend(paced(run, &rows));
        details.extend(losses(&rows));
    }
    let mut headlines = headlines.into_iter();
    let headline = headlines.next()?;
    Some(Answer { headline, sentences: headlines.chain(details).collect(), ..Answer::default() })
}

fn of_one(row: &CaseSummary) -> Answer {
    let p50 = row.p50_ns().map(|_| format!(", one-way latency at p50 {}", words::p50(row))).unwrap_or_default();
    let headline = single(row, &format!("{}{p50}", in_words(row)));
    Answer { headline, sentences: loss(row).into_iter().collect(), ..Answer::default() }
}

fn rate(row: &CaseSummary) -> Option<Figure> {
    row.compared(ComparedBy::Rate)
}

fn value(row: &CaseSummary) -> f64 {
    rate(row).map_or(f64::NEG_INFINITY, |rate| rate.value)
}

fn in_words(row: &CaseSummary) -> String {
    with_interval(rate(row), message_rate, message_rate_bounds)
}

/// The case like `row` with that batch.
fn with_batch<'r>(row: &CaseSummary, messages: u64, rows: &[&'r CaseSummary]) -> Option<&'r CaseSummary> {
    let other = row.case.clone().with(|case| {
        if let Load::Messages { batch, .. } = &mut case.primary_mut().load {
            *batch = messages;
        }
    });
    rows.iter().copied().find(|row| row.case == other)
}

/// The gain of the largest batch over one message per call, for the fastest case of each transport: `With 64 messages a
/// call instead of one: tcp 24.1x (95 % interval 23.0-25.2), udp no difference found.`
fn batches(run: &Run, rows: &[&CaseSummary]) -> Option<String> {
    let batch = |row: &CaseSummary| row.case.primary().load.batch();
    let most = rows.iter().map(|row| batch(row)).max().filter(|most| *most > 1)?;
    let fastest = distinct(rows.iter().map(|row| row.case.primary().transport.as_str()));
    let gains = fastest.into_iter().filter_map(|transport| {
        let first = rows.iter().find(|row| row.case.primary().transport == transport)?;
        let (largest, one) = (with_batch(first, most, rows)?, with_batch(first, 1, rows)?);
        Some(match gain(run, one, largest)? {
            Gain::Times(times) => format!("{transport} {times}"),
            Gain::NoDifference => format!("{transport} no difference found"),
        })
    });
    let gains: Vec<String> = gains.collect();
    (!gains.is_empty()).then(|| format!("With {most} messages a call instead of one: {}.", gains.join(", ")))
}

/// The latency at the highest rate, next to that with one message per call.
fn latency(first: &CaseSummary, rows: &[&CaseSummary]) -> Option<String> {
    first.p50_ns()?;
    let one = with_batch(first, 1, rows).filter(|one| one.id != first.id && one.p50_ns().is_some());
    let beside = one.map(|one| format!(", and {} with one message a call", words::p50(one))).unwrap_or_default();
    Some(format!("One-way latency at p50: {} of {}{beside}.", words::p50(first), row_name(first)))
}
