//! The claims that the user named, and their report before anything was measured.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;
use hairpin_analysis::claims::listed;
use hairpin_hosts::ticket::redacted;
use hairpin_model::run::State;
use hairpin_model::{ClaimsReport, PlannedRun, TestRun, Text};
use hairpin_report::terminal;

use crate::claims::{SelectedClaims, choose, read_file, texts};
use crate::cli::exit::Stopped;
use crate::cli::output;
use crate::session::now_unix_s;
use crate::tool;

/// The claims that the user named, of the built-in texts or of the user's file.
pub(super) fn chosen(matches: &ArgMatches) -> Result<Vec<SelectedClaims>, Stopped> {
    let asked: Vec<String> = matches.get_many("ID").unwrap_or_default().cloned().collect();
    let own: Option<Text> = match matches.get_one::<PathBuf>("file") {
        Some(file) => Some(read_file(file).map_err(Stopped::usage)?),
        None => None,
    };
    let all: Vec<&Text> = own.as_ref().map_or_else(|| texts().iter().collect(), |own| vec![own]);
    choose(&all, &asked).map_err(Stopped::usage)
}

pub(in crate::cli) fn show(report: &ClaimsReport, matches: &ArgMatches) {
    output::result(matches.get_flag("json"), report, |look| terminal::render_claims(report, &look));
}

pub(super) fn new_report(chosen: &[SelectedClaims], arguments: &[OsString]) -> ClaimsReport {
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let of_text = |of: &SelectedClaims| {
        let source = of.source();
        of.claims.iter().map(|claim| listed(claim, &source)).collect::<Vec<_>>()
    };
    ClaimsReport {
        tool: tool::this(),
        command_line: redacted(&words),
        started_unix_s: now_unix_s(),
        state: State::Complete,
        claims: chosen.iter().flat_map(of_text).collect(),
        ..ClaimsReport::default()
    }
}

pub(super) fn planned(chosen: &SelectedClaims, run: &str) -> TestRun {
    let PlannedRun { command, because } = chosen.text.runs[run].clone();
    let name = format!("{}-{run}", chosen.text.letter);
    TestRun { name, command, because, folder: None, problem: None, failed_rounds: 0, warnings: Vec::new() }
}
