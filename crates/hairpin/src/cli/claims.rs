//! `hairpin claims`: lists published claims, and tests which of them hold here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use hairpin_analysis::claims::{Runs, judge, listed};
use hairpin_hosts::ticket::redacted;
use hairpin_model::finding::{About, Severity};
use hairpin_model::run::State;
use hairpin_model::{ClaimsReport, Document, Finding, PlannedRun, Run, TestRun, shell};
use hairpin_report::{html, terminal, words};
use hairpin_store::Folder;

use super::exit::{Exit, Stopped};
use super::measure::{Ends, session_of, shown};
use super::report::{PAGE, write_page};
use super::{command, output, two_hosts};
use crate::claims::{SelectedClaims, TESTED, between_hosts, choose};
use crate::program::Program;
use crate::session::{drawn_seed, new_folder, now_unix_s};
use crate::tool;

/// Lists the claims, or tests them.
///
/// # Errors
/// If a claim is unknown, or a folder cannot be created. Nothing was measured then.
pub fn run(program: &Program, matches: &ArgMatches, arguments: &[OsString]) -> Result<Exit, Stopped> {
    if let Some(("run", matches)) = matches.subcommand() {
        return test_claims(program, matches, arguments);
    }
    let asked: Vec<String> = matches.get_many("ID").unwrap_or_default().cloned().collect();
    let chosen = choose(&asked).map_err(Stopped::usage)?;
    let mut report = report(&chosen, arguments);
    report.claims = map_claims(&chosen, |chosen, claim| listed(claim, &chosen.text.letter));
    report.runs =
        chosen.iter().flat_map(|chosen| chosen.runs().into_iter().map(|run| planned(chosen, run))).collect();
    show(&report, matches);
    Ok(Exit::Fine)
}

/// Performs each needed run once, and judges the claims by the results.
fn test_claims(program: &Program, matches: &ArgMatches, arguments: &[OsString]) -> Result<Exit, Stopped> {
    let asked: Vec<String> = matches.get_many("ID").unwrap_or_default().cloned().collect();
    let mut chosen = choose(&asked).map_err(Stopped::usage)?;
    if two_hosts::is_asked(matches) {
        chosen = chosen.into_iter().map(SelectedClaims::between_hosts).collect();
    }
    let needed: usize = chosen.iter().map(|chosen| chosen.runs().len()).sum();
    if needed == 0 {
        return Err(Stopped::usage(nothing_to_test(&chosen)));
    }
    let ends = Ends::prepare(matches)?;
    if ends.cpus.is_some() && ends.server.is_none() {
        return Err(Stopped::usage("--cpu cannot set the CPUs of claims, which name placements (hint: omit --cpu)"));
    }
    let mut report = report(&chosen, arguments);
    report.to = ends.server.as_ref().map(|server| server.host().name);
    let named = matches.get_one::<PathBuf>("out").cloned();
    let folder = named.unwrap_or_else(|| new_folder("claims", report.started_unix_s));
    let files = create_folder(&folder)?;
    let seed = matches.get_one("seed").copied().unwrap_or_else(drawn_seed);
    let options = RunOptions {
        seed,
        rounds: matches.get_one("rounds").copied(),
        quiet: matches.get_flag("quiet"),
        to: report.to.is_some().then(|| server_arguments(matches)),
    };
    report.seed = Some(seed);
    let mut unsaved = Vec::new();
    for of_text in &chosen {
        let mut results: BTreeMap<String, Result<Run, String>> = BTreeMap::new();
        for name in of_text.runs() {
            let mut test_run = planned(of_text, name);
            let words = options.words(&test_run.command);
            test_run.command = shell::command(&words);
            if !options.quiet && !ends.is_stopped() {
                output::note(&format!("Run {} of {needed}: {}", report.runs.len() + 1, test_run.command));
            }
            let run = one_run(program, &mut test_run, words, &ends, &folder, &mut unsaved);
            record_run(&mut report, &run, test_run);
            results.insert(name.to_owned(), run);
        }
        let runs: Runs<'_> =
            results.iter().map(|(name, run)| (name.clone(), run.as_ref().map_err(Clone::clone))).collect();
        report.claims.extend(of_text.claims.iter().map(|claim| judge(claim, &of_text.text.letter, &runs)));
    }
    if ends.is_stopped() {
        report.state = State::Interrupted;
    }
    words::write_claims(&mut report);
    finish(&report, &files, &folder, matches, &mut unsaved);
    let failed = report.runs.iter().any(|run| run.failed_rounds > 0);
    Ok(match report.state {
        State::Interrupted => Exit::Interrupted,
        _ if failed || !unsaved.is_empty() => Exit::RoundsFailed,
        _ => Exit::Fine,
    })
}

/// Why none of these claims can be tested: missing parts, or reasons for skipping.
fn nothing_to_test(chosen: &[SelectedClaims]) -> String {
    let why = map_claims(chosen, |_, claim| {
        let parts: BTreeSet<&str> = claim.missing().into_iter().collect();
        let reasons: BTreeSet<&str> = claim.skipped().into_iter().collect();
        let joined = |set: BTreeSet<&str>| set.into_iter().collect::<Vec<_>>().join(", ");
        if parts.is_empty() {
            format!("{} is skipped: {}", claim.id, joined(reasons))
        } else {
            format!("{} needs {}", claim.id, joined(parts))
        }
    });
    let why = why.join("; ");
    format!("nothing can be tested, and nothing was run: {why} (hint: `hairpin claims` lists what can be tested)")
}

/// The arguments that select the server on another host, for each run.
fn server_arguments(matches: &ArgMatches) -> Vec<String> {
    let as_given = |name: &str| {
        let value = matches.get_raw(name)?.next()?;
        Some([format!("--{name}"), value.to_string_lossy().into_owned()])
    };
    let flags = ["to", "fallback", "bind", "cpu", "server-port"];
    let mut words: Vec<String> = flags.into_iter().filter_map(as_given).flatten().collect();
    words.extend(matches.get_one::<String>("copy-binary").map(|file| match file.as_str() {
        "" => "--copy-binary".to_owned(),
        file => format!("--copy-binary={file}"),
    }));
    redacted(&words)
}

/// The user's options for every run.
struct RunOptions {
    seed: u64,
    rounds: Option<u64>,
    quiet: bool,
    /// Arguments that select the server, if it is on another host.
    to: Option<Vec<String>>,
}

impl RunOptions {
    /// The arguments of a command with the chosen seed and rounds.
    fn words(&self, command: &str) -> Vec<String> {
        let mut words: Vec<String> = std::iter::once("hairpin".to_owned()).chain(shell::words(command)).collect();
        if let Some(rounds) = self.rounds {
            if let Some(flag) = words.iter().position(|word| word == "--rounds") {
                words.drain(flag..(flag + 2).min(words.len()));
            }
            words.extend(["--rounds".to_owned(), rounds.to_string()]);
        }
        words.extend(["--seed".to_owned(), self.seed.to_string()]);
        match &self.to {
            Some(to) => between_hosts(words).into_iter().chain(to.iter().cloned()).collect(),
            None => words,
        }
    }
}

/// Performs one run and saves it with its page. On failure returns the reason.
fn one_run(
    program: &Program,
    test_run: &mut TestRun,
    words: Vec<String>,
    ends: &Ends,
    parent: &Path,
    unsaved: &mut Vec<String>,
) -> Result<Run, String> {
    if ends.is_stopped() {
        return Err("the user ended the command before this run".to_owned());
    }
    let matches = command::command(program).try_get_matches_from(&words);
    let matches = matches.map_err(|error| first_line(&error.to_string()))?;
    let Some((experiment, matches)) = matches.subcommand() else {
        return Err("its command names no experiment".to_owned());
    };
    let session = session_of(program, experiment, matches).map_err(|stopped| stopped.to_string())?;
    let session = ends.joined(session).command_line(words).save_in(parent.join(&test_run.name));
    let (folder, run) = ends.run(session).map_err(|refused| refused.to_string())?;
    test_run.folder = Some(test_run.name.clone());
    unsaved.extend(write_page(&run, &folder).err());
    unsaved.extend(run.unsaved.iter().map(|failure| failure.cause.clone()));
    Ok(run)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn record_run(report: &mut ClaimsReport, run: &Result<Run, String>, mut test_run: TestRun) {
    match run {
        Ok(run) => {
            test_run.failed_rounds = run.failed_rounds() as u64;
            let warns = |finding: &&Finding| finding.about == About::Run && finding.severity != Severity::Note;
            test_run.warnings = run.findings.iter().filter(warns).map(|finding| finding.code.clone()).collect();
            report.duration_ns += run.duration_ns;
            report.environment.get_or_insert_with(|| run.environment().clone());
        }
        Err(why) => test_run.problem = Some(why.clone()),
    }
    report.runs.push(test_run);
}

/// Creates the folder. Refuses a folder that already has tested claims.
fn create_folder(folder: &Path) -> Result<Folder, Stopped> {
    let files = Folder::create(folder).map_err(|error| {
        Stopped::usage(format!("cannot create {}: {error} (hint: use another folder with --out)", shown(folder)))
    })?;
    if files.holds(TESTED) {
        let path = shown(folder);
        return Err(Stopped::usage(format!("{path} already holds tested claims (hint: use another folder)")));
    }
    Ok(files)
}

/// Saves and shows the report; continues after a failure.
fn finish(report: &ClaimsReport, files: &Folder, folder: &Path, matches: &ArgMatches, unsaved: &mut Vec<String>) {
    for (name, text) in [(TESTED, report.to_json()), (PAGE, html::render_claims(report))] {
        if let Err(error) = files.replace(name, text.as_bytes()) {
            let path = shown(&folder.join(name));
            unsaved.push(format!("cannot write {path}: {error} (hint: is the disk full?)"));
        }
    }
    show(report, matches);
    output::note(&format!("\nClaims folder  {}\nReport         {}", shown(folder), shown(&folder.join(PAGE))));
    for cause in unsaved {
        output::error(cause);
    }
}

fn show(report: &ClaimsReport, matches: &ArgMatches) {
    if matches.get_flag("json") {
        output::json(report);
    } else {
        output::text(&terminal::render_claims(report, &output::look()));
    }
}

fn report(chosen: &[SelectedClaims], arguments: &[OsString]) -> ClaimsReport {
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    ClaimsReport {
        tool: tool::this(),
        command_line: redacted(&words),
        started_unix_s: now_unix_s(),
        state: State::Complete,
        sources: chosen.iter().map(SelectedClaims::source).collect(),
        ..ClaimsReport::default()
    }
}

fn map_claims<T>(
    chosen: &[SelectedClaims],
    of: impl Fn(&SelectedClaims, &hairpin_model::claim::Claim) -> T,
) -> Vec<T> {
    chosen.iter().flat_map(|text| text.claims.iter().map(|claim| of(text, claim)).collect::<Vec<_>>()).collect()
}

fn planned(chosen: &SelectedClaims, run: &str) -> TestRun {
    let PlannedRun { command, because } = chosen.text.runs[run].clone();
    let name = format!("{}-{run}", chosen.text.letter);
    TestRun { name, command, because, folder: None, problem: None, failed_rounds: 0, warnings: Vec::new() }
}
