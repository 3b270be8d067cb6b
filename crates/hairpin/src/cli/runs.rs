//! `hairpin runs`: lists the saved runs of a folder with date, question and answer.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use hairpin_model::run::State;
use hairpin_model::{ClaimsReport, ListedClaims, ListedRun, Runs, printable, quantities};
use hairpin_report::terminal::{Look, render_item};
use hairpin_store::{Listing, SavedRun, StoreError};

use super::exit::{Exit, Stopped};
use super::output;
use crate::claims_folder::saved_results;
use crate::session::RUNS;

pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let mut listing = listing(matches)?;
    let claims: Vec<ListedClaims> =
        saved_results(listing.path()).0.into_iter().filter_map(|(folder, report)| listed(&folder, &report)).collect();
    listing.skipped.retain(|entry| claims.iter().all(|tested| tested.folder != entry.name));
    if matches.get_flag("json") {
        output::json(&as_json(&listing, claims));
        return Ok(Exit::Fine);
    }
    output::text(&table(&listing.runs));
    for tested in &claims {
        let count = quantities::counted(tested.claims, "claim");
        output::text(&format!(
            "{:<16}  {count}  {}\n",
            minute(tested.started_unix_s),
            printable::line(&tested.folder)
        ));
    }
    let all = listing.runs.iter().map(|run| run.bytes).fold(0, u64::saturating_add);
    let count = quantities::counted(listing.runs.len() as u64, "run");
    output::note(&format!("{count}, {}{}", size(all), skipped(&listing)));
    Ok(Exit::Fine)
}

/// Reads the folder given by the user, or else the default folder of runs.
pub(super) fn listing(matches: &ArgMatches) -> Result<Listing, Stopped> {
    let path = matches.get_one::<PathBuf>("FOLDER");
    Listing::read(path.map_or(RUNS.as_ref(), PathBuf::as_path)).map_err(|error| match &error {
        StoreError::File { source, .. } if path.is_none() && source.kind() == ErrorKind::NotFound => Stopped::usage(
            format!("{error} (hint: give the folder that contains the run folders: hairpin runs FOLDER)"),
        ),
        _ => Stopped::usage(error),
    })
}

/// Prints for each run a line with date, experiment, size and folder, then its question and its answer.
pub(super) fn table(runs: &[SavedRun]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let width = output::look().width;
    let widest = runs.iter().map(|run| run.head.plan.experiment.chars().count()).max().unwrap_or(0);
    let experiment = widest.clamp("experiment".len(), 24);
    let mut text = format!("{:<16}  {:<experiment$}  {:>8}  folder\n", "started (UTC)", "experiment", "size");
    for run in runs {
        let when = minute(run.head.started_unix_s);
        let what = shortened(&run.head.plan.experiment, experiment);
        text += &format!("{when:<16}  {what:<experiment$}  {:>8}  {}\n", size(run.bytes), printable::line(&run.name));
        for said in [&run.head.plan.question, &answer(run)] {
            text += &render_item("  ", said, &Look { width, colour: false });
        }
    }
    text
}

pub(super) fn minute(unix_s: u64) -> String {
    let time = quantities::utc(unix_s);
    time[..time.len() - ":17 UTC".len()].to_owned()
}

/// The run's answer, preceded by its state unless it is complete.
fn answer(run: &SavedRun) -> String {
    match state(run) {
        "complete" => run.head.answer.headline.clone(),
        state => format!("({state}) {}", run.head.answer.headline),
    }
}

/// State of the run. A run that is still `running` without a writer was killed, or its end was not saved.
fn state(run: &SavedRun) -> &'static str {
    match run.head.state {
        _ if run.is_being_written => "running",
        State::Running => "unfinished",
        State::Complete => "complete",
        State::Interrupted => "interrupted",
    }
}

pub(super) fn size(bytes: u64) -> String {
    quantities::bytes(bytes as f64)
}

/// The text on one line, shortened to at most `width` characters, if possible between words.
fn shortened(text: &str, width: usize) -> String {
    const SIGN: &str = "...";
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= width {
        return text;
    }
    let fits: String = text.chars().take(width.saturating_sub(SIGN.len())).collect();
    let words = fits.rsplit_once(' ').map_or(fits.as_str(), |(words, _)| words);
    format!("{words}{SIGN}")
}

fn skipped(listing: &Listing) -> String {
    match listing.skipped.len() {
        0 => String::new(),
        1 => "; skipped 1 entry that is not a run or is damaged (--json has the reason)".to_owned(),
        count => format!("; skipped {count} entries that are not runs or are damaged (--json has the reasons)"),
    }
}

fn listed(folder: &Path, report: &ClaimsReport) -> Option<ListedClaims> {
    let folder = folder.file_name()?.to_string_lossy().into_owned();
    Some(ListedClaims { folder, started_unix_s: report.started_unix_s, claims: report.claims.len() as u64 })
}

fn as_json(listing: &Listing, claims: Vec<ListedClaims>) -> Runs {
    let run = |run: &SavedRun| ListedRun {
        folder: run.name.clone(),
        started_unix_s: run.head.started_unix_s,
        experiment: run.head.plan.experiment.clone(),
        question: run.head.plan.question.clone(),
        headline: run.head.answer.headline.clone(),
        state: state(run),
        size_bytes: run.bytes,
    };
    Runs {
        folder: listing.path().display().to_string(),
        runs: listing.runs.iter().map(run).collect(),
        claims,
        skipped: listing.skipped.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_text_is_shortened_at_the_end_of_a_word() {
        assert_eq!(shortened("one two\nthree", 13), "one two three");
        assert_eq!(shortened("one two three", 12), "one two...");
        assert_eq!(shortened("onetwothree", 8), "onetw...");
    }
}
