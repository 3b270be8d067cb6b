//! `hairpin report RUN`: shows a saved run again, in any output format.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use hairpin_model::{Outcome, Run};
use hairpin_report::csv_table::{self, SamplesTable};
use hairpin_report::words::write_claims;
use hairpin_report::{html, terminal, time_sequence};
use hairpin_store::{Folder, Listing, RunFolder, StoreError, write_named};

use super::claims::listing;
use super::exit::{Exit, Stopped};
use super::output;
use crate::claims::TESTED;
use crate::claims_folder::{locate_evidence, read_result};
use crate::saved;
use crate::session::RUNS;

pub const PAGE: &str = "report.html";

pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let path = &matches.get_one::<PathBuf>("RUN").cloned().map_or_else(latest_run, Ok)?;
    let (folder, run) = match saved::open(path) {
        Err(StoreError::NoRun { .. }) if path.join(TESTED).is_file() => return tested_claims(path, matches),
        opened => opened.map_err(Stopped::usage)?,
    };
    if let Some(which) = matches.get_one::<String>("ladder") {
        time_sequence::chosen(&run, which).map_err(Stopped::usage)?;
    }
    show(&folder, &run, matches)?;
    write_report(&html::render(&run), matches, folder.files())
}

fn tested_claims(folder: &Path, matches: &ArgMatches) -> Result<Exit, Stopped> {
    if let Some(flag) = ["csv", "ladder"].into_iter().find(|flag| matches.contains_id(flag)) {
        let why = format!(
            "{} contains claims, which have no --{flag} (hint: each folder in it is a run)",
            folder.display()
        );
        return Err(Stopped::usage(why));
    }
    let mut report = read_result(folder).map_err(Stopped::usage)?;
    write_claims(&mut report);
    let files =
        Folder::open(folder).map_err(|error| Stopped::usage(format!("cannot open {}: {error}", folder.display())))?;
    let page = html::render_claims(&report);
    if !matches.get_flag("json") {
        report.claims.iter_mut().for_each(|claim| locate_evidence(claim, folder));
    }
    listing::show(&report, matches);
    write_report(&page, matches, &files)
}

/// Writes the page to the path that the user gave, else into the folder. Everything else was printed.
///
/// # Errors
/// If it cannot be written. A wrong path is bad usage.
pub(super) fn write_report(page: &str, matches: &ArgMatches, folder: &Folder) -> Result<Exit, Stopped> {
    let named = matches.get_one::<PathBuf>("html");
    let written = named.map_or_else(|| write_page(page, folder), |path| write_named_page(page, path));
    if let Err(why) = written {
        let is_slip = named.is_some_and(|path| missing_folder(path).is_some());
        return Err(Stopped::with(if is_slip { Exit::Usage } else { Exit::RoundsFailed }, why));
    }
    let page = named.cloned().unwrap_or_else(|| folder.path().join(PAGE));
    output::note(&format!("\nReport      {}", page.display()));
    Ok(Exit::Fine)
}

fn latest_run() -> Result<PathBuf, Stopped> {
    let newest = Listing::read(RUNS.as_ref()).ok().and_then(|listing| Some(listing.runs.first()?.name.clone()));
    let name = newest
        .ok_or_else(|| Stopped::usage(format!("no run in {RUNS} (hint: give the run folder: hairpin report RUN)")))?;
    Ok(Path::new(RUNS).join(name))
}

/// Prints the run in the requested format: a table with or without the ladder, JSON or CSV.
pub fn show(folder: &RunFolder, run: &Run, matches: &ArgMatches) -> Result<(), Stopped> {
    match matches.get_one::<String>("csv").map(String::as_str) {
        _ if matches.get_flag("json") => output::json(run),
        Some("samples") => samples(folder, run)?,
        Some(_) => output::text(&csv_table::summary(run)),
        None => {
            let look = output::look();
            let render = match (matches.get_flag("all"), matches.get_flag("verbose")) {
                (true, _) => terminal::render,
                (_, true) => terminal::render_more,
                _ => terminal::render_brief,
            };
            output::text(&render(run, &look));
            if let Some(which) = matches.get_one::<String>("ladder") {
                let drawn = terminal::render_time_sequences(run, which, &look).map_err(Stopped::usage)?;
                output::text(&format!("\n{drawn}"));
            }
        }
    }
    Ok(())
}

/// Prints every raw sample, with one round in memory at a time. Stops if the reader, such as `head`, closes the pipe.
fn samples(folder: &RunFolder, run: &Run) -> Result<(), Stopped> {
    let has_samples = |outcome: &Outcome| matches!(outcome, Outcome::Measured(round) if round.flows.iter().any(|flow| flow.samples_kept > 0));
    if !run.rounds.iter().any(|record| has_samples(&record.outcome)) {
        output::note("the run has no raw samples: it has only one-way loads, or --no-samples was given");
    }
    let mut samples_of = folder.rows();
    let flows = run.rounds.iter().flat_map(|record| record.order.case.flows.iter().map(move |flow| (record, flow)));
    let mut unread = None;
    let write = || {
        let mut writer = SamplesTable::new(BufWriter::new(std::io::stdout().lock()))?;
        for (record, flow) in flows {
            match samples_of(record, flow) {
                Ok(samples) => writer.flow(record, flow, &samples)?,
                Err(error) => {
                    unread = Some(Stopped::usage(error));
                    return Ok(());
                }
            }
        }
        writer.finish()?.flush()
    };
    if let Err(error) = write() {
        output::lost(&error);
    }
    unread.map_or(Ok(()), Err)
}

pub fn write_page(page: &str, folder: &Folder) -> Result<(), String> {
    folder.replace(PAGE, page.as_bytes()).map_err(|error| {
        let path = folder.path().join(PAGE);
        format!(
            "cannot write {}: {error} (hint: `hairpin report RUN --html FILE` writes it elsewhere)",
            path.display()
        )
    })
}

fn write_named_page(page: &str, path: &Path) -> Result<(), String> {
    write_named(path, page.as_bytes()).map_err(|error| {
        let hint = match missing_folder(path) {
            Some(folder) => format!("does the folder {} exist?", folder.display()),
            None if error.kind() == std::io::ErrorKind::FileTooLarge => {
                "raise the file size limit (ulimit -f)".to_owned()
            }
            None => "choose another file with --html".to_owned(),
        };
        format!("cannot write {}: {error} (hint: {hint})", path.display())
    })
}

/// The folder of a file, if it does not exist.
fn missing_folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
}
