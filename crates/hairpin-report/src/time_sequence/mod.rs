//! Prepares the time sequence of a traced exchange for drawing on the terminal and on the page.

pub(crate) mod lines;
pub(crate) mod words;

use hairpin_model::names::{self};
use hairpin_model::{Case, CaseSummary, Remedy, Run, TimeSequence, UnknownName, Wait};

pub const ALL: &str = "all";
/// Selects one traced case: a case with default options, if any; among these, the case with the longest wait.
pub const MOST_TELLING: &str = "most-telling";

/// Returns the traced cases with their sequences, in descending order of: default options, longest wait, duration.
pub(crate) fn traced(run: &Run) -> Vec<(&CaseSummary, &TimeSequence)> {
    let drawn = |row| {
        let row: &CaseSummary = row;
        let sequence = row.trace.as_ref()?.sequence.as_ref()?;
        (!sequence.events.is_empty()).then_some((row, sequence))
    };
    let mut traced: Vec<(&CaseSummary, &TimeSequence)> = run.cases.iter().filter_map(drawn).collect();
    let longest = |sequence: &TimeSequence| sequence.waits.iter().map(waited_ns).max().unwrap_or(0);
    let untreated =
        |row: &CaseSummary| row.case.primary().load.exchange().is_some_and(|one| one.remedy == Remedy::Default);
    traced
        .sort_by_key(|(row, sequence)| std::cmp::Reverse((untreated(row), longest(sequence), sequence.duration_ns)));
    traced
}

pub(crate) fn waited_ns(wait: &Wait) -> i64 {
    wait.until_ns.saturating_sub(wait.from_ns)
}

/// Checks that `which` is [`ALL`], [`MOST_TELLING`], a remedy or a label of these cases. The flag of a case tells
/// whether it is traced. Works with planned cases too.
///
/// # Errors
/// If `which` is unknown. The hint lists only traced cases, because other cases have no time sequence.
pub fn check<'c>(which: &str, cases: impl IntoIterator<Item = (&'c Case, bool)>) -> Result<(), UnknownName> {
    let mut known: [Vec<String>; 2] = [[ALL, MOST_TELLING].map(str::to_owned).to_vec(), Vec::new()];
    for (case, is_traced) in cases {
        for (known, word) in known.iter_mut().zip(words_of(case)) {
            if word.as_deref() == Some(which) {
                return Ok(());
            }
            known.extend(word.filter(|word| is_traced && !known.contains(word)));
        }
    }
    let known = known.concat();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    names::find("case of the ladder", which, &known).map(drop)
}

fn words_of(case: &Case) -> [Option<String>; 2] {
    [case.primary().load.exchange().map(|exchange| exchange.remedy.to_string()), Some(case.label())]
}

/// Returns the cases that `which` names (see [`check`]). A remedy or label may name cases that were not traced.
pub fn chosen<'r>(run: &'r Run, which: &str) -> Result<Vec<&'r CaseSummary>, UnknownName> {
    let mut traced = traced(run).into_iter().map(|(row, _)| row);
    check(which, run.cases.iter().map(|row| (&row.case, traced.clone().any(|traced| traced.id == row.id))))?;
    let names = |row: &&CaseSummary| words_of(&row.case).iter().flatten().any(|word| word == which);
    Ok(match which {
        MOST_TELLING => traced.next().into_iter().collect(),
        ALL => traced.collect(),
        _ => run.cases.iter().filter(names).collect(),
    })
}
