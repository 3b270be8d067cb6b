//! `hairpin claims`: shows published claims with their latest verdicts, and tests which of them hold here.

pub(super) mod listing;
mod merged;
mod run;

use std::ffi::OsString;

use clap::ArgMatches;

use self::listing::{chosen, show};
use super::exit::{Exit, Stopped};
use crate::program::Program;

/// Shows the claims, tests them, or compares their verdicts with those of another machine.
///
/// # Errors
/// If a claim or a file is unknown, or a folder cannot be created. Nothing was measured then.
pub fn run(program: &Program, matches: &ArgMatches, arguments: &[OsString]) -> Result<Exit, Stopped> {
    match matches.subcommand() {
        Some(("run", matches)) => run::test(program, matches, arguments),
        Some(("compare", matches)) => merged::compare(matches, arguments),
        _ => {
            show(&merged::latest(&chosen(matches)?, arguments), matches);
            Ok(Exit::Fine)
        }
    }
}
