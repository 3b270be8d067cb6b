//! The answer to one-way loads: what goes through fastest, and what was lost.

use hairpin_model::answer::Answer;
use hairpin_model::figure::Figure;
use hairpin_model::ledger::in_words;
use hairpin_model::names::{grouped, joined};
use hairpin_model::path;
use hairpin_model::quantities::{self, byte_rate, byte_rate_bounds, counted, share};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::words;

/// So many cases are named between which no difference was found.
const MOST_NAMED: usize = 3;

/// The answer; null where no stream speaks.
pub(super) fn answer(run: &Run) -> Option<Answer> {
    let speaks = |row: &&CaseSummary| {
        row.valid && row.case.replicate == 0 && row.one_way().is_some() && row.goodput_bytes_per_s().is_some()
    };
    let rows = run.cases.iter().filter(speaks);
    let by_path = grouped(rows.map(|row| (&row.case.path.link, row)));
    let mut sentences = by_path.iter().map(|(_, rows)| highest(rows, by_path.len() > 1));
    let headline = sentences.next()?;
    let losses = by_path.iter().flat_map(|(_, rows)| rows).filter_map(|row| loss(row));
    Some(Answer { headline, sentences: sentences.chain(losses).collect(), ..Answer::default() })
}

/// One case alone: `tcp poll same-cpu up 65536 B: goodput 5.21 GB/s (95 % interval 5.10-5.32 GB/s), 12 rounds.`
pub(super) fn single(row: &CaseSummary) -> String {
    let invalid = if row.valid { "" } else { " Do not use these figures: see below." };
    format!("{}: goodput {}, {}.{invalid}", row.label, goodput(row), counted(row.rounds, "round"))
}

fn goodput(row: &CaseSummary) -> String {
    let figure = row.goodput();
    let value = byte_rate(row.goodput_bytes_per_s().unwrap_or(f64::NAN));
    match figure.and_then(Figure::interval) {
        Some((low, high)) => format!("{value} (95 % interval {})", byte_rate_bounds(low, high)),
        None => value,
    }
}

/// What goes through fastest over one path. A winner is named only where its interval is above that of every other.
fn highest(rows: &[&CaseSummary], says_the_path: bool) -> String {
    let place = |row: &CaseSummary| row.goodput_bytes_per_s().unwrap_or(f64::NEG_INFINITY);
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| place(b).total_cmp(&place(a)));
    let first = rows[0];
    let interval = |row: &CaseSummary| row.goodput().and_then(Figure::interval);
    let is_below = |row: &CaseSummary| interval(first).zip(interval(row)).is_some_and(|(first, row)| row.1 < first.0);
    let told = |row: &&CaseSummary| format!("{} at {}", words::name(row), goodput(row));
    let tied: Vec<String> = rows.iter().filter(|row| row.id == first.id || !is_below(row)).map(told).collect();
    if interval(first).is_none() && rows.len() > 1 {
        return format!("Highest goodput: {}. It has no interval, so no winner is named.", told(&first));
    }
    let over = path::over(&first.case).filter(|_| says_the_path || first.case.is_emulated());
    let over = over.map(|over| format!(" {over}")).unwrap_or_default();
    match tied.as_slice() {
        [only] => format!("Highest goodput{over}: {only}."),
        several => {
            let more = several.len().saturating_sub(MOST_NAMED);
            let named = several.iter().take(MOST_NAMED).cloned();
            let named: Vec<String> = named.chain((more > 0).then(|| format!("{more} more"))).collect();
            format!("Highest goodput{over}, no difference found: {}.", joined(&named))
        }
    }
}

/// What of a case was lost, and where.
fn loss(row: &CaseSummary) -> Option<String> {
    let ledger = &row.flow().ledger;
    let missing = ledger.sent.saturating_sub(ledger.received);
    if missing == 0 || ledger.sent == 0 {
        return None;
    }
    let causes: Vec<String> = ledger
        .lost
        .iter()
        .map(|(cause, lost)| format!("{} ({})", quantities::count(*lost), in_words(cause)))
        .collect();
    let unexplained = (ledger.unexplained != 0).then(|| format!("{} (unexplained)", ledger.unexplained));
    let causes: Vec<String> = causes.into_iter().chain(unexplained).collect();
    let of_sent = share(missing as f64 / ledger.sent as f64);
    Some(format!("{}: {of_sent} of {} lost: {}.", words::name(row), counted(ledger.sent, "message"), joined(&causes)))
}
