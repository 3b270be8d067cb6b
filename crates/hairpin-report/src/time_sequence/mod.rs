//! The time sequence of a traced exchange, made ready to be drawn: which case is shown, which lines it has, and what
//! they say. The terminal and the page draw the same lines in the same words.

pub(crate) mod lines;
pub(crate) mod words;

use hairpin_model::exchange::Remedy;
use hairpin_model::names::{self, UnknownName};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;
use hairpin_model::time_sequence::{TimeSequence, Wait};

/// The word that chooses every traced case.
pub const ALL: &str = "all";
/// The word that chooses the traced case that tells most: nothing done against stalls, else the longest wait.
pub const MOST_TELLING: &str = "most-telling";

/// The traced cases with what was drawn of them, the most telling first: those with nothing done against stalls, then
/// by the longest wait; those without waits by duration.
pub(crate) fn traced(run: &Run) -> Vec<(&CaseSummary, &TimeSequence)> {
    let drawn = |row| {
        let row: &CaseSummary = row;
        let sequence = row.trace.as_ref()?.sequence.as_ref()?;
        (!sequence.events.is_empty()).then_some((row, sequence))
    };
    let mut traced: Vec<(&CaseSummary, &TimeSequence)> = run.cases.iter().filter_map(drawn).collect();
    let longest = |sequence: &TimeSequence| sequence.waits.iter().map(waited_ns).max().unwrap_or(0);
    let untreated = |row: &CaseSummary| row.case.exchange.as_ref().is_some_and(|one| one.remedy == Remedy::None);
    traced
        .sort_by_key(|(row, sequence)| std::cmp::Reverse((untreated(row), longest(sequence), sequence.duration_ns)));
    traced
}

/// How long something waited, in ns.
pub(crate) fn waited_ns(wait: &Wait) -> i64 {
    wait.until_ns.saturating_sub(wait.from_ns)
}

/// The cases that `which` names: a remedy, the words of a case, [`ALL`] or [`MOST_TELLING`]. By remedy or words they may
/// be cases that were not traced.
///
/// # Errors
/// The name is none of these.
pub fn chosen<'r>(run: &'r Run, which: &str) -> Result<Vec<&'r CaseSummary>, UnknownName> {
    let traced = traced(run).into_iter().map(|(row, _)| row);
    match which {
        MOST_TELLING => return Ok(traced.take(1).collect()),
        ALL => return Ok(traced.collect()),
        _ => {}
    }
    let mut known: Vec<String> = [ALL, MOST_TELLING].map(str::to_owned).to_vec();
    let mut named = Vec::new();
    for row in &run.cases {
        let remedy = row.case.exchange.as_ref().map(|exchange| exchange.remedy.to_string());
        let words: Vec<String> = remedy.into_iter().chain([row.label.clone()]).collect();
        if words.iter().any(|word| word == which) {
            named.push(row);
        }
        known.extend(words.into_iter().filter(|word| !known.contains(word)).collect::<Vec<_>>());
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    names::find("case of the ladder", which, &known)?;
    Ok(named)
}
