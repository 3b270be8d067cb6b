//! The answer to the question of a run: the headline, the faster case of each pair, and the best remedy against stalls.
//!
//! A winner is named only if a difference was found from every other case of the headline.

mod exchanges;
mod messages;
mod offered;
mod one_way;
mod ranking;
mod round_trips;
mod streams;
#[cfg(test)]
mod tests;
mod under_load;
mod words;

use hairpin_model::answer::Answer;
use hairpin_model::case::Waiting;
use hairpin_model::figure::Figure;
use hairpin_model::ladder::Kind;
use hairpin_model::quantities::{self, counted};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

/// The answer of `run`, whose cases, comparisons and findings are filled in.
#[must_use]
pub fn answer(run: &Run) -> Answer {
    let pairs = ranking::pairs(&run.comparisons);
    let found = match run.cases.as_slice() {
        [only] if only.one_way().is_none() && !only.case.is_under_load() => Some(words::headline(single(only))),
        _ => round_trips::answer(run, &pairs),
    };
    let found =
        found.map(|found| Answer { sentences: found.sentences.into_iter().chain(wake_up(run)).collect(), ..found });
    let found = found
        .or_else(|| exchanges::answer(run))
        .or_else(|| messages::answer(run, &pairs))
        .or_else(|| streams::answer(run, &pairs))
        .or_else(|| offered::answer(run, &pairs))
        .or_else(|| under_load::answer(run, &pairs))
        .unwrap_or_else(|| words::headline(nothing(run)));
    Answer { pairs, ..found }
}

fn single(row: &CaseSummary) -> String {
    if row.p50_ns().is_none() {
        return format!("{}: nothing was measured.", row.label);
    }
    let p99 = row.primary().latency_ns.p99.and_then(Figure::finite);
    let p99 = p99.map(|p99| format!(", p99 {}", quantities::duration(p99))).unwrap_or_default();
    let made = format!(
        "{} over {}",
        counted(row.primary().samples, Kind::of(&row.case).thing()),
        counted(row.rounds, "round")
    );
    let invalid = if row.valid { "" } else { " Do not use these figures: see below." };
    format!("{}: p50 {}{p99}, {made}.{invalid}", row.label, words::with_interval(row.primary().latency_ns.p50))
}

fn nothing(run: &Run) -> String {
    if let [only] = run.cases.as_slice() {
        return single(only);
    }
    match (run.cases.len(), run.failed_rounds()) {
        (0, _) => "Nothing was measured: no case could be run.".to_owned(),
        _ if run.cases.iter().any(|row| row.valid) => words::speaks_for_nothing(run),
        (_, 0) => "No case has usable figures.".to_owned(),
        (_, failed) => format!("No case has usable figures: {} failed.", counted(failed as u64, "round")),
    }
}

/// The code of the finding that the answer to round trips quotes.
const WAKE_UP: &str = "wake-up-dominated";

/// The finding on waking, if any; blocking cases first, as most programs block.
fn wake_up(run: &Run) -> Option<String> {
    let finding = run.findings.iter().find(|finding| finding.code == WAKE_UP && finding.share > 0.0)?;
    // An unconfirmed cause is no headline.
    if finding.proved.as_ref().is_some_and(|proved| proved.verdict != "confirmed") {
        return None;
    }
    let blocking = |id: &String| run.case(id).is_some_and(|row| row.case.ends.waiting == Waiting::Block);
    let trip = if finding.cases.iter().any(blocking) { "blocking round trip" } else { "round trip" };
    let share = quantities::share(finding.share);
    Some(format!("Waking the other CPU is up to {share} of a {trip} between two CPUs (finding {WAKE_UP})."))
}
