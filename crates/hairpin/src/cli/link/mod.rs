//! `hairpin link`: lists profiles, shows one, and runs any program across one.

mod account;
mod far;
pub mod list;
mod request;
mod run;
mod show;
pub mod words;

use clap::ArgMatches;

use super::exit::{Exit, Stopped};

/// Lists, shows or runs.
///
/// # Errors
/// A profile is invalid; for `run` also: the link fails.
pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    match matches.subcommand() {
        Some(("show", matches)) => show::run(matches),
        Some(("run", matches)) => run::run(matches),
        Some((_, matches)) => Ok(list::run(matches)),
        None => Err(Stopped::usage("`hairpin link` needs a command (hint: list, show or run)")),
    }
}
